"""What the executions of a batch chain come to, run here or recorded by another scheduler."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from pgdyno.errors import ExitCode
from pgdyno.model.project import Peak
from pgdyno.model.results.parts import StudyResult


class JobEnd(StrEnum):
    """How a job ended in one execution; only the first is a success."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    TIMED_OUT = "timed out"
    CANCELLED = "cancelled"
    CHECK_FAILED = "check failed"
    """It returned well, and what it left in the database is not what should be there."""
    NOT_RUN = "not run"
    """A job that it waits for did not succeed, or the execution was ended before its turn."""
    SKIPPED = "skipped"
    """The chain leaves it out, with a reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedResult:
    """What a functional check found; `passed` is None where it could not be made, with the reason in `found`."""

    check: str
    found: str
    passed: bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRun:
    """One job in one execution. Times in seconds since the execution began, None where it never ran.

    `waits` are seconds of its active sessions by class of wait, by samples of one a second, as is `busy_s`. Of `rows`,
    `wal_bytes`, `server_cpu_s` (of the whole server, while the job ran alone) and `cpu_s` (of its own programs) what is
    None has its reason in `unknown`.
    """

    execution: int
    process: str
    job: str
    end: JobEnd
    began_s: float | None = None
    ended_s: float | None = None
    attempts: int = 0
    code: int | None = None
    reason: str = ""
    busy_s: float | None = None
    waits: Mapping[str, float] = field(default_factory=dict)
    rows: int | None = None
    wal_bytes: int | None = None
    server_cpu_s: float | None = None
    cpu_s: float | None = None
    unknown: Mapping[str, str] = field(default_factory=dict)
    checks: tuple[CheckedResult, ...] = ()

    @property
    def key(self) -> str:
        """Return what the chain calls it."""
        return f"{self.process}/{self.job}"

    @property
    def seconds(self) -> float | None:
        """Return how long it took, retries included; None where it never ran."""
        return None if self.began_s is None or self.ended_s is None else self.ended_s - self.began_s


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchExecution:
    """One execution of the chain. `restore_s` is how long its data took to come back before it; None for not at all.

    `ended` says why it was ended before its time, empty where it was not.
    """

    number: int
    began_at: float
    window_s: float
    restore_s: float | None = None
    run: int | None = None
    ended: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchResult(StudyResult):
    """Every job of every execution, and what the hosts needed most. `imported` where another scheduler ran it."""

    chain: str
    imported: bool = False
    executions: tuple[BatchExecution, ...] = ()
    jobs: tuple[JobRun, ...] = ()
    ended: str = ""
    """Why there are fewer executions than were asked for, or the last is not whole; empty where all were made."""
    peaks: tuple[Peak, ...] = ()
    no_peak: str = ""
    """Why there is no peak; empty where there is one."""

    @property
    def unsuccessful(self) -> tuple[JobRun, ...]:
        """Return the jobs that should have succeeded and did not."""
        return tuple(one for one in self.jobs if one.end not in (JobEnd.SUCCEEDED, JobEnd.SKIPPED))

    @property
    def exit_code(self) -> ExitCode:
        """Return 1 where a job did not succeed, or not all was executed."""
        return ExitCode.FINDINGS if self.unsuccessful or self.ended else ExitCode.OK
