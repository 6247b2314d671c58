"""SIGKILL at random instants of a real tune: the tuner, its watchdogs, the postmaster."""

from __future__ import annotations

import os
import random
import signal
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Set
from dataclasses import dataclass
from pathlib import Path

import psycopg
from state import State, connect, state_of
from steered import PHASES, phase_of, steered_tune

from pgdyno.model.study import StudyState
from pgdyno.store.catalogue import Store
from pgdyno.target import processes, watch_record
from pgdyno.target.bundle import UndoBundle, bundle_directories
from pgdyno.target.watch_record import Role

SANDBOX = "torture"
LONGEST_S = 11.0
"""Three trials or so. A resumed tune goes on where the last one was killed, so that all phases come up."""
PATIENCE_S = 180.0
SHARE_IN_SESSION = 0.9
"""The rest may fall before the session, where there is nothing to restore."""
KINDS = ("tuner", "tuner", "tuner then watchdog", "watchdog then tuner", "postmaster")


@dataclass(frozen=True)
class Kill:
    """One kill: what was killed, in which phase of the tune, what the server was doing, and what came of it."""

    kind: str
    phase: str
    doing: str
    restored_s: float | None
    lost: tuple[str, ...]

    @property
    def whole(self) -> bool:
        """Return True when nothing was different afterwards."""
        return self.restored_s is not None and not self.lost

    def __str__(self) -> str:
        took = "never restored" if self.restored_s is None else f"restored in {self.restored_s:.1f} s"
        return (
            f"{self.kind} in {self.phase} ({self.doing}): {took}{'; LOST ' + '; '.join(self.lost) if self.lost else ''}"
        )


class Kills:
    """A sandbox that stays up, and one tune after another on it."""

    def __init__(
        self, folder: Path, draw: random.Random, *, linux: bool, settle_s: float = 0.0, first: str = PHASES[0]
    ) -> None:
        self._linux = linux
        self._first = PHASES.index(first)
        self._settle_s = settle_s
        self.done: list[Kill] = []
        self._folder, self._draw = folder, draw
        self._environment = {**os.environ, "PGDYNO_HOME": str(folder)}
        self._cli("sandbox", "start", SANDBOX)
        self._data = next(folder.glob(f"cache/sandboxes/{SANDBOX}/server/data"))
        self._before = self._state()
        self._study: str | None = None

    def close(self) -> None:
        """Remove the sandbox."""
        self._cli("sandbox", "remove", SANDBOX)

    def once(self) -> Kill:
        """Go on with the tune, or begin another one, kill, wait for the watchdog, and compare."""
        kind, after_s = self._draw.choice(KINDS), self._draw.uniform(0.3, LONGEST_S)
        known = set(bundle_directories(self._undo_root))
        tuner = self._start()
        if self._draw.random() < SHARE_IN_SESSION:
            _wait_while(tuner, lambda: not set(bundle_directories(self._undo_root)) - known, PATIENCE_S)
        self._await_first(tuner)
        _wait_while(tuner, lambda: True, after_s)
        bundle = self._bundle(known)
        doing = self._doing(bundle)
        killed_at = time.monotonic()
        if tuner.poll() is None:
            self._kill(kind, tuner, bundle)
        # A tuner that had no session when it was chosen may have begun one before it died.
        restored = self._await_restored(tuner, lambda: self._bundle(known))
        restored_s = time.monotonic() - killed_at if restored else None
        kill = Kill(kind, self._phase(), doing, restored_s, self._lost())
        self._remember(tuner)
        self.done.append(kill)
        return kill

    @property
    def _undo_root(self) -> Path:
        return self._folder / "state" / "undo"

    def _start(self) -> subprocess.Popen[bytes]:
        words = ["tune", "--resume", self._study, "--json"] if self._study else self._new()
        with (self._folder / "tune.log").open("ab") as log, (self._folder / "tune.json").open("wb") as out:
            return subprocess.Popen(
                [sys.executable, "-m", "pgdyno", *words], env=self._environment, stdout=out, stderr=log
            )

    def _new(self) -> list[str]:
        return steered_tune(self._folder, SANDBOX, linux=self._linux, seed=len(self.done))

    def _await_first(self, tuner: subprocess.Popen[bytes]) -> None:
        """Leave a tune alone until the first phase that is to be disturbed."""
        while self._first and tuner.poll() is None and PHASES.index(self._phase()) < self._first:
            time.sleep(1.0)

    def _kill(self, kind: str, tuner: subprocess.Popen[bytes], bundle: UndoBundle | None) -> None:
        match kind:
            case "tuner then watchdog":
                tuner.kill()
                time.sleep(self._draw.uniform(0, 1.5))
                _kill_first(bundle)
            case "watchdog then tuner":
                _kill_first(bundle)
                time.sleep(self._draw.uniform(0, 1.5))
                tuner.kill()
            case "postmaster":
                pid = processes.postmaster_pid(self._data)
                if pid is not None:
                    os.kill(pid, signal.SIGKILL)
                # The tune lives: it may go on for a while, and is then ended by SIGTERM.
                _wait_while(tuner, lambda: True, self._draw.uniform(0, 8))
                tuner.terminate()
            case _:
                tuner.kill()

    def _bundle(self, known: Set[Path]) -> UndoBundle | None:
        """Return the bundle of the session that is not among the known ones, None where none was begun."""
        return next((UndoBundle.open(path) for path in bundle_directories(self._undo_root) if path not in known), None)

    def _await_restored(self, tuner: subprocess.Popen[bytes], find: Callable[[], UndoBundle | None]) -> bool:
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            over = tuner.poll() is not None
            if over and ((bundle := find()) is None or bundle.is_closed()) and self._answers():
                return True
            time.sleep(0.02)
        return False

    def _answers(self) -> bool:
        """Return whether the server lets us in; one that was down before the tune began is started by `_state`."""
        if processes.postmaster_pid(self._data) is None:
            return True
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
        down = "" if processes.postmaster_pid(self._data) else ", server down"
        return (records[-1].kind if records else "empty journal") + down

    def _remember(self, tuner: subprocess.Popen[bytes]) -> None:
        """Begin another tune where this one is complete or ended by itself; one that was killed is resumed."""
        if tuner.returncode not in (-9, 130):
            self._study = None

    def _lost(self) -> tuple[str, ...]:
        """Return what is different. A kernel value that only another program has moved for a while may settle."""
        deadline = time.monotonic() + self._settle_s
        while True:
            found = self._before.differences(self._state())
            only_kernel = all(line.startswith(("kernel", "queue")) for line in found)
            if not found or not only_kernel or time.monotonic() >= deadline:
                return tuple(found)
            time.sleep(1.0)

    def _state(self) -> State:
        if processes.postmaster_pid(self._data) is None:
            self._cli("sandbox", "start", SANDBOX)
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


def _kill_first(bundle: UndoBundle | None) -> None:
    first = watch_record.identity(bundle.directory, Role.FIRST) if bundle else None
    if first is not None and first.is_alive():
        os.kill(first.pid, signal.SIGKILL)


def summary(done: list[Kill]) -> str:
    """Return counts by kind and phase, what was lost, and how long the way back took."""
    times = [kill.restored_s for kill in done if kill.restored_s is not None and kill.kind != "postmaster"]
    lines = [f"{len(done)} kills, {sum(kill.whole for kill in done)} times everything as it was"]
    lines += [f"  {count:4} {kind}" for kind, count in sorted(Counter(kill.kind for kill in done).items())]
    phases = Counter(kill.phase for kill in done)
    lines += [f"  {phases[phase]:4} in {phase}" for phase in PHASES]
    lines += [f"  {count:4} while {doing}" for doing, count in sorted(Counter(kill.doing for kill in done).items())]
    if times:
        lines.append(f"kill to restored: median {statistics.median(times):.1f} s, maximum {max(times):.1f} s")
    return "\n".join(lines + [f"LOST {kill}" for kill in done if not kill.whole])
