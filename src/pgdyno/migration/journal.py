"""What a rehearsal has done so far, on disk before the next step: a line an event, read again when it is resumed.

Times count while a process works on it: what passes between a kill and the resume is in `paused_s` alone.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from pgdyno.model.results.migrate import ItemEnd, ItemTiming, MigrationPhase
from pgdyno.outside.files import open_file

TICK_S = 5.0
"""How much of the time before a kill may be missing."""
_NAME = "rehearsal.jsonl"


@dataclass(slots=True)
class JournalState:
    """What the events come to. `phases` have a begin, and an end where they are over; `items` by phase and key."""

    attempts: int = 0
    last_s: float = 0.0
    last_at: float = 0.0
    paused_s: float = 0.0
    began: dict[MigrationPhase, float] = field(default_factory=dict)
    ended: dict[MigrationPhase, float] = field(default_factory=dict)
    failed: dict[MigrationPhase, str] = field(default_factory=dict)
    items: dict[tuple[MigrationPhase, str], ItemTiming] = field(default_factory=dict)
    notes: dict[str, object] = field(default_factory=dict)

    def take(self, event: Mapping[str, object]) -> None:
        """Take up one event."""
        what, at = event["what"], float(str(event["t"]))
        self.last_s, self.last_at = max(self.last_s, at), float(str(event["at"]))
        if what == "attempt":
            self.attempts += 1
            self.paused_s += float(str(event["paused"]))
            for phase in self.failed:
                del self.ended[phase]
            self.failed.clear()
            return
        if what == "note":
            self.notes[str(event["name"])] = event["value"]
            return
        if what == "tick":
            return
        phase = MigrationPhase(str(event["phase"]))
        if what == "phase began":
            self.began.setdefault(phase, at)
        elif what == "phase ended":
            self.ended[phase] = at
        elif what == "phase failed":
            self.ended[phase], self.failed[phase] = at, str(event["reason"])
        else:
            self._take_item(phase, str(what), at, event)

    def _take_item(self, phase: MigrationPhase, what: str, at: float, event: Mapping[str, object]) -> None:
        key = (phase, str(event["item"]))
        if what == "began":
            self.items[key] = ItemTiming(
                phase=phase, item=key[1], kind=str(event["kind"]), end=ItemEnd.NOT_RUN, began_s=at,
                attempt=self.attempts,
            )  # fmt: skip
            return
        known = self.items.get(key)
        if known is None:
            return
        size, rows = event.get("bytes"), event.get("rows")
        known = replace(
            known,
            bytes=known.bytes if size is None else int(str(size)),
            rows=known.rows if rows is None else int(str(rows)),
        )
        if what == "ended":
            known = replace(known, end=ItemEnd.DONE, ended_s=at)
        elif what == "failed":
            known = replace(known, end=ItemEnd.FAILED, ended_s=at, reason=str(event["reason"]))
        self.items[key] = known

    def is_over(self, phase: MigrationPhase) -> bool:
        """Tell whether a phase is done and need not be run again."""
        return phase in self.ended and phase not in self.failed


class RehearsalJournal:
    """Writes the events of one rehearsal, from any thread. Each is durable when the call returns."""

    def __init__(
        self,
        folder: Path,
        *,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._path, self._clock, self._lock = folder / _NAME, clock, threading.Lock()
        self.state = read_journal(folder)
        self._now = now
        self._from, self._base = clock(), self.state.last_s
        self._file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        if _ends_within_a_line(self._path):
            os.write(self._file, b"\n")  # what a kill cut off must not swallow our first event
        paused = max(0.0, now() - self.state.last_at) if self.state.attempts else 0.0
        self._write({"what": "attempt", "paused": paused})
        self._ticked = clock()

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)

    @property
    def elapsed_s(self) -> float:
        """Return how long the rehearsal has been worked on."""
        return self._base + self._clock() - self._from

    def tick(self) -> None:
        """Note that it is still worked on, now and then."""
        if self._clock() - self._ticked >= TICK_S:
            self._ticked = self._clock()
            self._write({"what": "tick"})

    def note(self, name: str, value: object) -> None:
        """Keep a value that a resumed rehearsal needs."""
        self._write({"what": "note", "name": name, "value": value})

    def phase(self, phase: MigrationPhase, what: str, reason: str = "") -> None:
        """Note that a phase `began`, `ended` or `failed`."""
        self._write({"what": f"phase {what}", "phase": phase.value, "reason": reason})

    def item(self, phase: MigrationPhase, key: str, what: str, **more: object) -> None:
        """Note that an item `began`, `ended`, `failed` or was `sized`."""
        self._write({"what": what, "phase": phase.value, "item": key, **more})

    def _write(self, event: dict[str, object]) -> None:
        with self._lock:
            whole = {**event, "t": self.elapsed_s, "at": self._now()}
            os.write(self._file, json.dumps(whole).encode() + b"\n")
            os.fdatasync(self._file)
            self.state.take(whole)


def _ends_within_a_line(path: Path) -> bool:
    with open_file(path, follow=False) as file:
        if file.seek(0, os.SEEK_END) == 0:
            return False
        file.seek(-1, os.SEEK_END)
        return file.read(1) != b"\n"


def read_journal(folder: Path) -> JournalState:
    """Return the state of a rehearsal's folder; of a line that a kill cut off nothing is taken."""
    state = JournalState()
    try:
        with open_file(folder / _NAME, follow=False) as file:
            text = file.read().decode(errors="replace")
    except FileNotFoundError:
        return state
    for line in text.splitlines():
        try:
            event = json.loads(line)
        except ValueError:
            continue
        state.take(event)
    return state
