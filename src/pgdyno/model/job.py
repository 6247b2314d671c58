"""A job of the queue: a verb with its arguments that waits for a window of the night."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

JOB = "PGDYNO_JOB"
"""The environment variable that tells a run which job of the queue it is; its studies keep it as option `job`."""

JOB_DIGEST = "PGDYNO_JOB_DIGEST"
"""The environment variable that names the same job in its account's own record of jobs."""


class JobState(StrEnum):
    """How a job stands. WAITING ones run in their order; an interrupted one goes on in the next window."""

    WAITING = "waiting"
    RUNNING = "running"
    INTERRUPTED = "interrupted"
    DONE = "done"
    FAILED = "failed"
    REMOVED = "removed"


@dataclass(frozen=True, slots=True)
class Job:
    """One job. `argv` are the words after `pgdyno`, without a secret; `study` what it began, for going on with it.

    Times are seconds since the epoch. `reason` says why it waits, failed or was interrupted. It runs on `host`, where
    it was added, in `folder`, from which its relative paths are meant; `runner` is who runs it now, as HOST:PID.
    """

    id: int
    added_at: float
    argv: tuple[str, ...]
    host: str = ""
    folder: str = ""
    state: JobState = JobState.WAITING
    attempts: int = 0
    began_at: float | None = None
    ended_at: float | None = None
    exit_code: int | None = None
    study: str | None = None
    reason: str | None = None
    runner: str | None = None
