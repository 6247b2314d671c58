"""A job of the queue: a verb with its arguments that waits for a window of the night."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


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

    Times are seconds since the epoch. `reason` says why it waits, failed or was interrupted.
    """

    id: int
    added_at: float
    argv: tuple[str, ...]
    state: JobState = JobState.WAITING
    attempts: int = 0
    began_at: float | None = None
    ended_at: float | None = None
    exit_code: int | None = None
    study: str | None = None
    reason: str | None = None
