"""Sessions in a loop: so many calls with a pause, a new session, and again; a server that went away is waited for.

The program behind `driver=loop`, run as a child of pgdyno: `python -m pgdyno.workloads.session_loop JOB.json`. It
writes what pgbench writes (a log of transactions for each session, a progress line each second), so that whatever
reads the one reads the other, and the gaps of its sessions into `gaps.json` beside the job.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from io import TextIOWrapper
from os import getpid
from pathlib import Path

import psycopg

from pgdyno.owner.account import Account, become
from pgdyno.owner.durable import open_fresh, read_regular
from pgdyno.owner.parent import end_with

RETRY_S = 0.05
"""Pause between two attempts to connect: a server that starts is not stormed."""
FIRST_SESSION_S = 10.0
"""A server that lets nobody in for this long at the beginning is not one that went away."""
GAPS = "gaps.json"


@dataclass(frozen=True, slots=True)
class LoopStatement:
    """One statement of the mix; with `ranged` it takes the first and the last key of a batch as parameters."""

    text: str
    weight: int
    ranged: bool


@dataclass(frozen=True, slots=True)
class LoopJob:
    """What is to be run. Times in seconds; `iterations` 0 never opens a session again by itself.

    `account` is whose rights the loop takes on before it opens anything, as `Account.numbers`; empty for ours.
    """

    dbname: str
    clients: int
    duration_s: float
    iterations: int
    pause_s: float
    tries: int
    prepare: bool
    rows: int
    batch: int
    seed: int | None
    log_prefix: str
    statements: tuple[LoopStatement, ...]
    account: str = ""

    @classmethod
    def read(cls, path: Path) -> LoopJob:
        """Read what `write` wrote."""
        members = json.loads(path.read_text())
        return cls(**{**members, "statements": tuple(LoopStatement(**one) for one in members["statements"])})

    def write(self, path: Path) -> None:
        """Write the job as JSON. No secret is in it: the way to the server is in PG* variables."""
        with open_fresh(path) as file:
            file.write(json.dumps(asdict(self), indent=1).encode())


@dataclass
class Deadline:
    """When all sessions end, as `time.monotonic` counts."""

    at: float

    def bring_forward(self) -> None:
        """End them now: as pgbench does, we are told by SIGALRM."""
        self.at = min(self.at, time.monotonic())


class LoopSession(threading.Thread):
    """One session: connects, calls, pauses, connects again. `failure` says why it gave up, None when it did not."""

    def __init__(self, number: int, job: LoopJob, log: TextIOWrapper, deadline: Deadline) -> None:
        super().__init__(name=f"session {number}", daemon=True)
        self.done = self.failed = self.sessions = 0
        self.busy_s = 0.0
        self.gaps: list[dict[str, object]] = []
        self.failure: str | None = None
        self._number, self._job, self._log, self._deadline = number, job, log, deadline
        # Not for secrets: which rows a batch reads; a seed makes the choice the same again.
        self._random = random.Random(None if job.seed is None else job.seed + number)  # noqa: S311 - a load, no secret
        self._lost: tuple[float, str] | None = None

    def run(self) -> None:
        """Loop until the time is over. An error that a new connection does not cure ends the session."""
        began = time.monotonic()
        while time.monotonic() < self._deadline.at and self.failure is None:
            try:
                with psycopg.connect(dbname=self._job.dbname, autocommit=True, connect_timeout=2) as connection:
                    self._opened()
                    self._calls(connection)
            except psycopg.OperationalError as error:
                if not _is_away(error):
                    self.failure = str(error).strip().partition("\n")[0]
                    break
                self._lost = self._lost or (time.time(), str(error).strip().partition("\n")[0])
                if not self.sessions and time.monotonic() - began > FIRST_SESSION_S:
                    self.failure = self._lost[1]
                time.sleep(RETRY_S)
            except psycopg.Error as error:
                self.failure = str(error).strip().partition("\n")[0]
        if self._lost is not None:
            over_s = max(0.0, time.monotonic() - self._deadline.at)
            self._close_gap(max(time.time() - over_s, self._lost[0]))

    def _opened(self) -> None:
        self.sessions += 1
        if self._lost is not None:
            self._close_gap(time.time())

    def _close_gap(self, until: float) -> None:
        assert self._lost is not None, "a gap that ends has begun"
        began, reason = self._lost
        self.gaps.append({"session": self._number, "from_s": began, "to_s": until, "reason": reason})
        self._lost = None

    def _calls(self, connection: psycopg.Connection[tuple[object, ...]]) -> None:
        job, called = self._job, 0
        while time.monotonic() < self._deadline.at and (not job.iterations or called < job.iterations):
            self._call(connection)
            called += 1
            if job.pause_s:
                time.sleep(job.pause_s)

    def _call(self, connection: psycopg.Connection[tuple[object, ...]]) -> None:
        job, statements = self._job, self._job.statements
        (place,) = self._random.choices(range(len(statements)), [one.weight for one in statements])
        first = self._random.randint(1, job.rows - job.batch + 1)
        keys = (first, first + job.batch - 1) if statements[place].ranged else None
        began, word = time.time(), "failed"
        for _ in range(job.tries):
            try:
                connection.execute(statements[place].text.encode(), keys, prepare=job.prepare)
            except (psycopg.errors.DeadlockDetected, psycopg.errors.SerializationFailure):
                continue
            word = str(round((time.time() - began) * 1e6))
            break
        ended = time.time()
        seconds, micros = divmod(round(ended * 1e6), 1_000_000)
        is_done = word != "failed"
        self.done += is_done
        self.failed += not is_done
        self.busy_s += ended - began if is_done else 0.0
        self._log.write(f"{self._number} {self.done} {word} {place} {seconds} {micros}\n")


def _is_away(error: psycopg.OperationalError) -> bool:
    """Tell a server that went away from a statement that it refused: a full disk, a timeout."""
    return error.sqlstate is None or error.sqlstate.startswith(("08", "57P"))


def run(job: LoopJob, folder: Path) -> int:
    """Run the sessions, tell their progress each second, and return the exit code: 0, or 2 when a session gave up."""
    deadline = Deadline(time.monotonic() + job.duration_s)  # the wall clock, which may be set, is for the logs alone
    signal.signal(signal.SIGALRM, lambda *_: deadline.bring_forward())
    names = [f"{job.log_prefix}.{getpid()}" + (f".{n}" if n else "") for n in range(job.clients)]
    logs = [Path(name).open("w", buffering=1) for name in names]  # noqa: SIM115 - closed when the sessions are
    sessions = [LoopSession(number, job, log, deadline) for number, log in enumerate(logs)]
    for session in sessions:
        session.start()
    before = (0, 0.0)
    while any(session.is_alive() for session in sessions):
        until = time.monotonic() + 1.0
        while time.monotonic() < until and any(session.is_alive() for session in sessions):
            time.sleep(0.05)
        before = _progress(sessions, before)
        if any(session.failure for session in sessions):
            break
    gaps = [gap for session in sessions for gap in session.gaps]
    (folder / GAPS).write_text(json.dumps(gaps))
    failures = [(number, one.failure) for number, one in enumerate(sessions) if one.failure]
    for number, failure in failures:
        sys.stderr.write(f"error: {failure}\nclient {number} aborted\n")
    if not failures:
        for log in logs:
            log.close()
    sessions_made = sum(session.sessions for session in sessions)
    sys.stdout.write(f"calls: {before[0]}\nsessions opened: {sessions_made}\ngaps: {len(gaps)}\n")
    return 2 if failures else 0


def _progress(sessions: Sequence[LoopSession], before: tuple[int, float]) -> tuple[int, float]:
    done, busy = sum(one.done for one in sessions), sum(one.busy_s for one in sessions)
    calls = done - before[0]
    mean_ms = 1000 * (busy - before[1]) / calls if calls else 0.0
    failed = sum(one.failed for one in sessions)
    text = f"progress: {time.time():.3f} s, {calls:.1f} tps, lat {mean_ms:.3f} ms stddev 0.000, {failed} failed"
    lost = sum(1 for one in sessions if one._lost is not None)
    sys.stderr.write(text + (f", {lost} sessions without a server" if lost else "") + "\n")
    sys.stderr.flush()
    return done, busy


def read_gaps(folder: Path) -> list[Mapping[str, object]]:
    """Return what a run left in its folder; empty when it was killed."""
    path = folder / GAPS
    return json.loads(read_regular(path, 64 << 20)) if path.exists() else []


def main(words: Sequence[str]) -> int:
    """Run the job in the folder that we were started in, with the rights of the load's account."""
    job = LoopJob.read(Path(words[0]))
    if job.account:
        parent = os.getppid()
        become(Account.parse(job.account))
        end_with(parent, signal.SIGTERM)  # the change of account has taken it back
    return run(job, Path())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
