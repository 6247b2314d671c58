"""A batch chain: processes of jobs that wait for each other, as its file has it. Pure.

Times are seconds. A job is called by its key, `process/job`, which is what dependencies and recorded runs name.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class JobWork(StrEnum):
    """What a job is; in each case a program is started, with a list of arguments and never through a shell."""

    SQL = "sql"
    SQL_FILE = "sql_file"
    SCRIPT = "script"
    ARGV = "argv"


class Expects(StrEnum):
    """What a functional check asks of the database after its job."""

    ROWS = "rows"
    """The table has so many rows."""
    CHECKSUM = "checksum"
    """The table's rows have this sum, whatever their order; `batch run` prints it."""
    TRUE = "true"
    """The query returns one row with true."""


@dataclass(frozen=True, slots=True)
class JobCheck:
    """A functional check: of a table, or by a query of the author's own."""

    expects: Expects
    subject: str
    wanted: str = ""

    @property
    def text(self) -> str:
        """Return it in words."""
        if self.expects is Expects.TRUE:
            return f"{self.subject} is true"
        of_rows = self.expects is Expects.ROWS
        return f"{self.subject} has {self.wanted} rows" if of_rows else f"{self.subject} has checksum {self.wanted}"


@dataclass(frozen=True, slots=True)
class ChainJob:
    """One job. `words` is its argument list, or its SQL text or file as the only one.

    `starts_s` is how long after the first start of the calendar it may begin; `skip` is why it is left out, empty
    where it is not. `line` is where the file has it.
    """

    process: str
    name: str
    work: JobWork
    words: tuple[str, ...]
    after: tuple[str, ...] = ()
    starts_s: float = 0.0
    time_out_s: float | None = None
    retries: int = 0
    retry_wait_s: float = 0.0
    success: tuple[int, ...] = (0,)
    checks: tuple[JobCheck, ...] = ()
    skip: str = ""
    line: int = 0

    @property
    def key(self) -> str:
        """Return what other jobs and recorded runs call it."""
        return f"{self.process}/{self.name}"


@dataclass(frozen=True, slots=True)
class ChainProcess:
    """Jobs with one window. Jobs that took less than `threshold_s` in the reference are not compared."""

    name: str
    jobs: tuple[ChainJob, ...]
    threshold_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Chain:
    """The whole of a file. `parallel` jobs run at a time at most; `restore` brings the data back between executions."""

    name: str
    processes: tuple[ChainProcess, ...]
    database: str = ""
    parallel: int = 1
    executions: int = 3
    restore: tuple[str, ...] = ()
    restore_time_out_s: float | None = None

    @property
    def jobs(self) -> dict[str, ChainJob]:
        """Return every job by its key, in the order of the file."""
        return {job.key: job for process in self.processes for job in process.jobs}


def cycle_of(after: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    """Return jobs that wait for each other in a ring, the first again at the end; empty where there is none."""
    left = {key: set(waits) for key, waits in after.items()}
    waiting = _waiting(after)
    free = [key for key, waits in left.items() if not waits]
    while free:
        done = free.pop()
        del left[done]
        for key in waiting[done]:
            left[key].discard(done)
            if not left[key]:
                free.append(key)
    if not left:
        return ()
    way = dict.fromkeys([next(iter(left))])  # in their order, and found at once
    at = next(iter(way))
    while (at := min(left[at])) not in way:
        way[at] = None
    names = list(way)
    return (at, *reversed(names[names.index(at) :]))


def _waiting(after: Mapping[str, tuple[str, ...]]) -> dict[str, list[str]]:
    """Return by each job those that wait for it."""
    found: dict[str, list[str]] = {key: [] for key in after}
    for key, waits in after.items():
        for other in waits:
            found[other].append(key)
    return found


def in_order(chain: Chain) -> list[ChainJob]:
    """Return the jobs so that each comes after those that it waits for, else in the order of the file."""
    jobs = chain.jobs
    places = {key: place for place, key in enumerate(jobs)}
    names, left = list(jobs), {key: set(job.after) for key, job in jobs.items()}
    waiting = _waiting({key: job.after for key, job in jobs.items()})
    free = [places[key] for key, waits in left.items() if not waits]
    found = list[ChainJob]()
    heapq.heapify(free)
    while free:
        done = names[heapq.heappop(free)]
        found.append(jobs[done])
        for key in waiting[done]:
            left[key].discard(done)
            if not left[key]:
                heapq.heappush(free, places[key])
    return found
