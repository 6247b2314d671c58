"""Kills of many kinds at random instants of a real tune, and the comparison of everything afterwards."""

from __future__ import annotations

import os
import random
import statistics
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass
from pathlib import Path

import psycopg
from kinds import KINDS, Victims, When, drawn
from launch import LEAK, OwnServer, start_tuner
from state import State, connect, end_watchdogs, postmaster_of, running_with, state_of, told_of
from steered import PHASES, phase_of, steered_tune

from pgdyno.model.study import StudyState
from pgdyno.store.catalogue import Store
from pgdyno.undo.bundle import UndoBundle, bundle_directories

SANDBOX = "torture"
LONGEST_S = 8.0
"""Two trials or so. A resumed tune goes on where the last one was killed, so that all phases come up."""
LEFT_ALONE_S = 40.0
SHARE_LEFT_ALONE = 0.15
"""How many go on for longer first, so that a slow machine gets through the phases too."""
PATIENCE_S = 180.0
LEAVING_S = 20.0
SHARE_IN_SESSION = 0.9
"""The rest may fall before the session, where there is nothing to restore."""


@dataclass(frozen=True)
class Kill:
    """One kill: what was killed, in which phase of the tune, what the server was doing, and what came of it.

    `restored_s` counts from the last blow; None when nobody brought the server back. `restarted` says that the server
    is another process than before.
    """

    kind: str
    phase: str
    doing: str
    restored_s: float | None
    restarted: bool
    lost: tuple[str, ...]

    @property
    def whole(self) -> bool:
        """Return True when nothing was different afterwards."""
        return self.restored_s is not None and not self.lost

    def __str__(self) -> str:
        took = "never restored" if self.restored_s is None else f"restored in {self.restored_s:.1f} s"
        restarted = ", restarted" if self.restarted else ""
        lost = f"; LOST {'; '.join(self.lost)}" if self.lost else ""
        return f"{self.kind} in {self.phase} ({self.doing}): {took}{restarted}{lost}"


class Kills:
    """A sandbox that stays up, and one tune after another on it. `lane` tells several at once apart."""

    def __init__(
        self,
        folder: Path,
        draw: random.Random,
        *,
        linux: bool,
        settle_s: float = 0.0,
        first: str = PHASES[0],
        only: Sequence[str] = (),
        lane: int = 0,
    ) -> None:
        self._linux = linux
        self._first = PHASES.index(first)
        self._settle_s = settle_s
        self._only, self._lane = only, lane
        self.done: list[Kill] = []
        self._folder, self._draw = folder, draw
        self._environment = {**os.environ, "PGDYNO_HOME": str(folder)}
        self._cli("sandbox", "start", SANDBOX)
        self._data = next(folder.glob(f"cache/sandboxes/{SANDBOX}/server/data"))
        self._server = OwnServer(self._data, self._data.parent / "server.log")
        self._server.restart()
        self._before = self._state()
        self._study: str | None = None

    def close(self) -> None:
        """Remove the sandbox, and let nobody watch over it."""
        end_watchdogs(self._undo_root)
        self._cli("sandbox", "remove", SANDBOX)

    def once(self, kind: str | None = None) -> Kill:
        """Go on with the tune, or begin another one, kill, wait for the watchdog, and compare."""
        kind = kind or drawn(self._draw, self._only)
        longest_s = LEFT_ALONE_S if self._draw.random() < SHARE_LEFT_ALONE else LONGEST_S
        after_s = self._draw.uniform(0.3, longest_s)
        known, was = set(bundle_directories(self._undo_root)), postmaster_of(self._data)
        said = self._log.stat().st_size if self._log.exists() else 0
        tuner = self._start()
        begun = self._draw.random() < SHARE_IN_SESSION or KINDS[kind].when is When.FIRST
        if begun:
            _wait_while(tuner, lambda: not set(bundle_directories(self._undo_root)) - known, PATIENCE_S)
        self._await_first(tuner)
        if KINDS[kind].when is When.ANY:
            _wait_while(tuner, lambda: True, after_s)
        # A tuner that had no session when it was chosen may have begun one before it died.
        victims = Victims(tuner, self._data, lambda: self._bundle(known), self._draw)
        open_before = (bundle := victims.bundle) is not None and not bundle.is_closed()
        doing = self._doing(bundle)
        leaked = told_of(LEAK.encode(), self._data)
        if tuner.poll() is None:
            KINDS[kind].act(victims)
        last_blow = victims.struck or time.monotonic()
        restored = self._await_restored(tuner, lambda: victims.bundle, must_be_up=open_before)
        restored_s = time.monotonic() - last_blow if restored else None
        leaked += told_of(LEAK.encode(), self._data)
        restarted = postmaster_of(self._data) not in (was, None)
        lost = (*victims.notes, *sorted(set(leaked)), *self._lost(), *self._left_running(), *self._defects(said))
        kill = Kill(kind, self._phase(), doing, restored_s, restarted, lost)
        self._begin_again(tuner, kill)
        self.done.append(kill)
        return kill

    @property
    def _log(self) -> Path:
        return self._folder / "tune.log"

    def _defects(self, since: int) -> list[str]:
        """Return what the tuner said that no user may ever see."""
        lines = self._log.read_bytes()[since:].decode(errors="replace").splitlines()
        return [f"defect: {line[:200]}" for line in lines if "Traceback" in line or "defect" in line]

    @property
    def _undo_root(self) -> Path:
        return self._folder / "state" / "undo"

    def _start(self) -> subprocess.Popen[bytes]:
        words = ["tune", "--resume", self._study, "--json"] if self._study else self._new()
        with self._log.open("ab") as log, (self._folder / "tune.json").open("wb") as out:
            return start_tuner(words, self._environment, cpu=self._lane, stdout=out, stderr=log)

    def _new(self) -> list[str]:
        return steered_tune(self._folder, SANDBOX, linux=self._linux, seed=len(self.done))

    def _await_first(self, tuner: subprocess.Popen[bytes]) -> None:
        """Leave a tune alone until the first phase that is to be disturbed."""
        while self._first and tuner.poll() is None and PHASES.index(self._phase()) < self._first:
            time.sleep(1.0)

    def _bundle(self, known: Set[Path]) -> UndoBundle | None:
        """Return the bundle of the session that is not among the known ones, None where none was begun."""
        return next((UndoBundle.open(path) for path in bundle_directories(self._undo_root) if path not in known), None)

    def _await_restored(
        self, tuner: subprocess.Popen[bytes], find: Callable[[], UndoBundle | None], *, must_be_up: bool
    ) -> bool:
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            over = tuner.poll() is not None
            if over and ((bundle := find()) is None or bundle.is_closed()) and self._answers(must_be_up):
                return True
            time.sleep(0.02)
        return False

    def _answers(self, must_be_up: bool) -> bool:
        """Return whether the server lets us in; one that went down before a session began is started by `_state`."""
        if postmaster_of(self._data) is None:
            return not must_be_up
        try:
            connect(self._sandbox).close()
        except psycopg.OperationalError:
            return False
        return True

    @property
    def _sandbox(self) -> Path:
        return self._folder / "cache" / "sandboxes" / SANDBOX

    def _phase(self) -> str:
        """Return the phase of the tune that is in progress, by its newest trial."""
        with Store.open(self._folder / "data" / "pgdyno.db") as store:
            open_ones = (s for s in store.studies() if s.state in (StudyState.RUNNING, StudyState.INTERRUPTED))
            study = next(open_ones, None)
            if study is None:
                return PHASES[0]
            self._study = study.id
            return phase_of(next(reversed(store.trials(study.id)), None))

    def _doing(self, bundle: UndoBundle | None) -> str:
        if bundle is None:
            return "no session"
        records = bundle.reading().records
        down = "" if postmaster_of(self._data) else ", server down"
        return (records[-1].kind if records else "empty journal") + down

    def _begin_again(self, tuner: subprocess.Popen[bytes], kill: Kill) -> None:
        """Begin another tune where this one is complete or ended by itself; one that was killed is resumed.

        What was lost is put right for the next kill, so that each is judged alone.
        """
        if tuner.poll() is None:
            tuner.kill()
        if tuner.wait() >= 0 and tuner.returncode != 130:
            self._study = None
        if not kill.whole:
            self._cli("rollback", check=False)
            self._server.restart()
            self._before = self._state()

    def _lost(self) -> tuple[str, ...]:
        """Return what is different. A kernel value that only another program has moved for a while may settle."""
        deadline = time.monotonic() + self._settle_s
        while True:
            found = self._before.differences(self._state())
            only_kernel = all(line.startswith("kernel") for line in found)
            if not found or not only_kernel or time.monotonic() >= deadline:
                return tuple(found)
            time.sleep(1.0)

    def _left_running(self) -> list[str]:
        """Return whom the session left behind: its watchdogs, its load, its workers."""
        deadline = time.monotonic() + LEAVING_S
        while True:
            found = running_with("pgdyno.undo.watchdog", str(self._undo_root))
            found |= running_with("pgbench", str(self._sandbox))
            if not found or time.monotonic() > deadline:
                return [f"left running: {command[:120]}" for command in found.values()]
            time.sleep(0.05)

    def _state(self) -> State:
        self._server.start()
        return state_of(self._data, self._sandbox, kernel=self._linux)

    def _cli(self, *words: str, check: bool = True) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "pgdyno", *words], env=self._environment, capture_output=True, text=True, check=False
        )
        if check and done.returncode != 0:
            raise RuntimeError(f"pgdyno {' '.join(words)} failed: {done.stderr}")
        return done.stdout


def _wait_while(tuner: subprocess.Popen[bytes], condition: Callable[[], bool], seconds: float) -> None:
    """Wait while the condition holds, the tuner lives and the time is not over."""
    deadline = time.monotonic() + seconds
    while tuner.poll() is None and condition() and time.monotonic() < deadline:
        time.sleep(0.01)


def summary(done: Sequence[Kill]) -> str:
    """Return counts by kind and phase, what was lost, and how long the way back took."""
    by_kind: dict[str, list[Kill]] = defaultdict(list)
    for kill in done:
        by_kind[kill.kind].append(kill)
    restarts = sum(kill.restarted for kill in done)
    whole = sum(kill.whole for kill in done)
    lines = [f"{len(done)} kills of {len(by_kind)} kinds, {whole} times everything as it was, {restarts} restarts"]
    for kind, kills in sorted(by_kind.items()):
        lines.append(f"  {sum(kill.whole for kill in kills):4} of {len(kills):4} {kind}{_times(kills)}")
    phases = Counter(kill.phase for kill in done)
    lines += [f"  {phases[phase]:4} in {phase}" for phase in PHASES]
    lines += [f"  {count:4} while {doing}" for doing, count in sorted(Counter(kill.doing for kill in done).items())]
    lines.append(f"last blow to restored{_times(done)}")
    # Many lines tell of one cause: first how often each thing was lost, then each kill.
    things = Counter(line.split(":", 1)[0] for kill in done for line in kill.lost)
    lines += [f"LOST {count} times {thing}" for thing, count in things.most_common()]
    return "\n".join(lines + [f"LOST {kill}" for kill in done if not kill.whole])


def _times(kills: Sequence[Kill]) -> str:
    times = sorted(kill.restored_s for kill in kills if kill.restored_s is not None)
    if not times:
        return ": never"
    ninety_five = times[min(len(times) - 1, int(0.95 * len(times)))]
    return f": median {statistics.median(times):.1f} s, 95 % {ninety_five:.1f} s, maximum {times[-1]:.1f} s"
