"""A batch chain: processes of jobs that wait for each other, as its file has it. Pure.

Times are seconds. A job is called by its key, `process/job`, which is what dependencies and recorded runs name.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from pgdyno.stats.precedence import ordered
from pgdyno.units import plural


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
        return (
            f"{self.subject} has {plural(int(self.wanted), 'row')}"
            if of_rows
            else f"{self.subject} has checksum {self.wanted}"
        )


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


def waits_of(chain: Chain) -> dict[str, tuple[str, ...]]:
    """Return for whom each job waits."""
    return {key: job.after for key, job in chain.jobs.items()}


def in_order(chain: Chain) -> list[ChainJob]:
    """Return the jobs so that each comes after those that it waits for, else in the order of the file."""
    jobs = chain.jobs
    return [jobs[key] for key in ordered(waits_of(chain))]


@dataclass(frozen=True, slots=True)
class BatchOptions:
    """`max_seconds` bounds the whole, restores included; the run ends when `stop_file` is there."""

    path: Path
    executions: int
    max_seconds: float
    stop_file: Path | None = None
