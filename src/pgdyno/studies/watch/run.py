"""Watch a server's statements and settings, reading after reading, until the time is over or somebody ends it."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from statistics import median
from typing import Protocol

import numpy as np

from pgdyno.errors import ConnectError, EnvironmentUnsuitable
from pgdyno.model.results.watch import WatchEvent, WatchEventKind
from pgdyno.probes.settings_seen import SettingsSeen, changed
from pgdyno.probes.statements import SessionCounts, StatementKey
from pgdyno.stats.regressions import LEARN, Regressions
from pgdyno.stats.statement_deltas import StatementDeltas, StatementSnapshot, VoidCause, deltas
from pgdyno.studies.live.checking import require_others
from pgdyno.studies.live.reference import LATE_S
from pgdyno.studies.watch.telling import Told
from pgdyno.units import percent_text

MOST_NEW = 0.05
"""More of the time in statements that were not there before: a deployment."""
NEW_FOR = 10
"""Readings for which a statement counts as one that was not there before."""
ENOUGH = 11
"""Readings after which it is known whose load it is."""
MOST_GONE = 2000
"""So many statements that are gone are kept beside twice those that are there."""
MOST_ACTIVE = 1440
"""A day of minutes."""
KEEP_S = 900.0
"""So often the study is kept without an event."""
AGAIN_S = 3600.0
"""The same change of a setting is not told again so soon: a study that compares two values makes it every minute."""
REFUSED_S = 900.0
"""A server that refuses to be read for longer will not read any more: a full one or a timeout passes sooner."""


class WatchReads(Protocol):
    """What a watch needs of `probes.statements.StatementReader`."""

    keys: list[StatementKey]

    def release(self, numbers: Iterable[int]) -> None:
        """Give the numbers of statements that are gone to others."""

    def statements(self) -> StatementSnapshot:
        """Read the counters of all statements of others."""

    def reopen(self) -> None:
        """Open the session again where it was lost."""

    def sessions(self, since: float) -> SessionCounts:
        """Count the sessions of others."""


@dataclass(slots=True)
class WatchSeen:
    """What was seen so far."""

    period_s: float
    began: float
    at: float
    told: Told
    regressions: Regressions = field(default_factory=Regressions)
    readings: int = 0
    void: Counter[str] = field(default_factory=Counter)
    own_ms: float = 0.0
    all_ms: float = 0.0
    first_seen: dict[int, int] = field(default_factory=dict)
    deployed: int = -NEW_FOR
    changes: dict[str, float] = field(default_factory=dict)
    """When each change of a setting was told, of late."""
    first: SettingsSeen | None = None
    """The settings as they were read first."""
    active: deque[int] = field(default_factory=lambda: deque(maxlen=MOST_ACTIVE))
    """Sessions at work at each of the latest readings."""

    @property
    def at_work(self) -> float | None:
        """Return how many sessions are at work half of the time, None before anything was seen."""
        return float(median(self.active)) if self.active else None

    @property
    def own_share(self) -> float:
        """Return our own role's part of the statements' time."""
        return self.own_ms / self.all_ms if self.all_ms > 0 else 0.0


def watch(
    reader: WatchReads,
    settings: Callable[[], SettingsSeen | None],
    told: Told,
    *,
    seconds: float | None,
    period_s: float,
    announce: Callable[[WatchEvent], None],
    keep: Callable[[WatchSeen], None],
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> WatchSeen:
    """Read the server every `period_s` seconds for `seconds` (None: until KeyboardInterrupt) and return what it did.

    `reader` reads statements and sessions, `settings` all settings (None where the server does not answer); `told`
    takes the events. `announce` hears each event at once; `keep` is called after events, and every quarter of an hour.
    `clock` is a monotonic one, and `sleep` waits, both in seconds. A server that is away is waited for, and one that
    refuses to be read for REFUSED_S. Raises EnvironmentUnsuitable after that, and where our role is the load's; what
    was seen is kept before.
    """
    before, known = reader.statements(), settings()
    seen = WatchSeen(period_s, before.at, before.at, told)
    began = previous = kept = clock()
    try:
        while seconds is None or previous + period_s <= began + seconds + period_s / 2:
            sleep(max(0.0, previous + period_s - clock()))
            after = _read(reader, seen, announce, sleep)
            with suppress(EnvironmentUnsuitable):
                seen.active.append(reader.sessions(0.0).active)
            now, count = clock(), told.told
            known = _settings(known, settings(), seen, after.at)
            late = abs(now - previous - period_s) > LATE_S or abs(after.at - before.at - (now - previous)) > LATE_S
            found = deltas(before, after)
            _take(seen, VoidCause.LATE if late and isinstance(found, StatementDeltas) else found, after.at)
            before, previous, seen.at = after, now, after.at
            _forget_gone(reader, seen, after)
            for event in told.since(count):
                announce(event)
            if told.told > count or now - kept >= KEEP_S:
                keep(seen)
                kept = now
    except KeyboardInterrupt:
        pass  # the usual end of a watch that has none
    except EnvironmentUnsuitable:
        keep(seen)
        raise
    return seen


def _forget_gone(reader: WatchReads, seen: WatchSeen, after: StatementSnapshot) -> None:
    """Free what is kept of statements that are gone: a load that makes new ones all day would fill the memory."""
    if len(reader.keys) <= MOST_GONE + 2 * after.ids.size:
        return
    gone = seen.regressions.idle(len(reader.keys), after.ids)
    reader.release(gone)
    seen.regressions.drop(gone)
    for number in gone:
        seen.first_seen.pop(number, None)


def _read(
    reader: WatchReads, seen: WatchSeen, announce: Callable[[WatchEvent], None], sleep: Callable[[float], None]
) -> StatementSnapshot:
    is_away, refused_s, pause_s = False, 0.0, min(seen.period_s, 5.0)
    while True:
        try:
            reader.reopen()
            return reader.statements()
        except EnvironmentUnsuitable as error:
            is_lost = isinstance(error, ConnectError)
            if not is_lost and refused_s >= REFUSED_S:
                raise
            if not is_away:
                what = "is away" if is_lost else "refuses to be read"
                text = f"the server {what}: {error.message}"
                announce(seen.told.note(WatchEventKind.AWAY, seen.at + seen.period_s, text))
            is_away, refused_s = True, 0.0 if is_lost else refused_s + pause_s
            sleep(pause_s)


def _settings(known: SettingsSeen | None, now: SettingsSeen | None, seen: WatchSeen, at: float) -> SettingsSeen | None:
    if seen.first is None:
        seen.first = now
    if known is not None and now is not None:
        seen.changes = {text: then for text, then in seen.changes.items() if at - then < AGAIN_S}
        for text in changed(known, now, seen.first):
            if text not in seen.changes:
                seen.changes[text] = at
                seen.told.note(WatchEventKind.SETTING, at, text)
    return known if now is None else now


def _take(seen: WatchSeen, found: StatementDeltas | VoidCause, at: float) -> None:
    seen.readings += 1
    if isinstance(found, VoidCause):
        seen.void[found.value] += 1
        if found is VoidCause.RESTARTED:
            seen.regressions.forget()
            seen.told.note(
                WatchEventKind.RESTARTED,
                at,
                "the server was restarted: times after it are not compared with those before",
            )
        else:
            seen.regressions.hold()
        if found in (VoidCause.RESET, VoidCause.FELL):
            seen.told.note(WatchEventKind.RESET, at, found.value)
        return
    seen.own_ms += found.own_ms
    seen.all_ms += found.own_ms + float(found.time_ms.sum())
    if seen.readings == ENOUGH:
        require_others(seen.own_share)
    for step in seen.regressions.add(found):
        seen.told.step(step, seen.regressions.period, at)
    _note_new(seen, found, at)


def _note_new(seen: WatchSeen, found: StatementDeltas, at: float) -> None:
    """Say of statements that were not there before when they take a part of the time that matters."""
    period = seen.regressions.period
    for number in found.ids.tolist():
        seen.first_seen.setdefault(number, period)
    first = np.array([seen.first_seen[number] for number in found.ids.tolist()])
    is_new = (first > max(LEARN, seen.deployed)) & (first > period - NEW_FOR)
    share = float(found.time_ms[is_new].sum()) / max(float(found.time_ms.sum()), 1e-300)
    if share > MOST_NEW and period >= seen.deployed + NEW_FOR:
        count = int(is_new.sum())
        subject = "a statement that was" if count == 1 else f"{count} statements that were"
        verb = "takes" if count == 1 else "take"
        text = f"{subject} not there before {verb} {percent_text(share)} of the time"
        seen.told.note(WatchEventKind.DEPLOYED, at, text)
        seen.deployed = period
