"""What of a chain begins, is ended or never runs at a moment: dependencies, calendar, places, retries, times. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto

from pgdyno.model.results.batch import CheckedResult, JobEnd
from pgdyno.studies.batch.chain import Chain, ChainJob, in_order


class JobPhase(Enum):
    """Where a job stands."""

    WAITING = auto()
    RUNNING = auto()
    OVER = auto()


@dataclass(frozen=True, slots=True)
class JobStanding:
    """A job's state. Times in seconds since the execution began; `due_s` is when it may begin, or begin again."""

    phase: JobPhase
    due_s: float
    attempts: int = 0
    began_s: float | None = None
    attempt_s: float | None = None
    ended_s: float | None = None
    end: JobEnd | None = None
    code: int | None = None
    reason: str = ""
    cpu_s: float | None = None
    checks: tuple[CheckedResult, ...] = ()


Standings = Mapping[str, JobStanding]


@dataclass(frozen=True, slots=True)
class AttemptEnd:
    """How one attempt ended: its exit code (negative for a signal), and its checks where it came to them.

    `cancelled` says who or what ended it, `failed` why it is no success in spite of its code; empty otherwise.
    """

    code: int | None
    cancelled: str = ""
    failed: str = ""
    cpu_s: float | None = None
    checks: tuple[CheckedResult, ...] = ()


@dataclass(frozen=True, slots=True)
class DueSteps:
    """What is to be done now. `never` are jobs that cannot run any more, with the reason."""

    start: tuple[str, ...]
    stop: tuple[str, ...]
    never: Mapping[str, str]


def first_states(chain: Chain) -> dict[str, JobStanding]:
    """Return the states at the beginning: jobs that the chain leaves out are over."""
    return {
        key: JobStanding(JobPhase.OVER, 0.0, end=JobEnd.SKIPPED, reason=job.skip)
        if job.skip
        else JobStanding(JobPhase.WAITING, job.starts_s)
        for key, job in chain.jobs.items()
    }


class Scheduler:
    """The jobs of one chain in their order, so that each moment is decided without sorting them again."""

    def __init__(self, chain: Chain) -> None:
        self._jobs = in_order(chain)
        self._after = _really_after(self._jobs)
        self._places = chain.parallel

    def steps(self, states: Standings, now_s: float) -> DueSteps:
        """Return what is to be done at this moment; of jobs that could begin the first of the order do."""
        free = self._places - sum(one.phase is JobPhase.RUNNING for one in states.values())
        start, stop, never = list[str](), list[str](), dict[str, str]()
        for job in self._jobs:
            state = states[job.key]
            if state.phase is JobPhase.RUNNING and is_late(job, state, now_s):
                stop.append(job.key)
            if state.phase is not JobPhase.WAITING:
                continue
            after = self._after[job.key]
            missing = _missing(after, states, never)
            if missing:
                never[job.key] = missing
            elif free > 0 and state.due_s <= now_s and all(states[one].phase is JobPhase.OVER for one in after):
                start.append(job.key)
                free -= 1
        return DueSteps(tuple(start), tuple(stop), never)


def is_over(states: Standings) -> bool:
    """Tell whether nothing is left to run."""
    return all(one.phase is JobPhase.OVER for one in states.values())


def is_late(job: ChainJob, state: JobStanding, now_s: float) -> bool:
    """Tell whether an attempt that runs is beyond its job's time-out."""
    return job.time_out_s is not None and state.attempt_s is not None and now_s - state.attempt_s >= job.time_out_s


def started(state: JobStanding, now_s: float) -> JobStanding:
    """Return the state of a job whose next attempt began."""
    return replace(
        state,
        phase=JobPhase.RUNNING,
        attempts=state.attempts + 1,
        attempt_s=now_s,
        began_s=now_s if state.began_s is None else state.began_s,
    )


def attempt_ended(job: ChainJob, state: JobStanding, ended: AttemptEnd, now_s: float, *, was_late: bool) -> JobStanding:
    """Return the state after an attempt: over, or waiting for the next one; what was cancelled is not tried again.

    `state` is that of `job` while the attempt ran, `ended` how the attempt ended, and `now_s` when, in seconds since
    the execution began. One that `was_late` was ended at the job's time-out, and timed out whatever its exit code.
    """
    end, reason = _verdict(job, ended, was_late=was_late)
    before = state.cpu_s if state.attempts > 1 else 0.0
    cpu = None if ended.cpu_s is None or before is None else ended.cpu_s + before
    state = replace(state, code=ended.code, reason=reason, cpu_s=cpu, checks=ended.checks, ended_s=now_s, end=end)
    again = end in (JobEnd.FAILED, JobEnd.TIMED_OUT, JobEnd.CHECK_FAILED) and state.attempts <= job.retries
    if again:
        return replace(state, phase=JobPhase.WAITING, due_s=now_s + job.retry_wait_s)
    return replace(state, phase=JobPhase.OVER)


def never_ran(state: JobStanding, reason: str) -> JobStanding:
    """Return the state of a job that cannot run any more; one that was tried before keeps how that ended."""
    if state.end is not None:
        return replace(state, phase=JobPhase.OVER)
    return replace(state, phase=JobPhase.OVER, end=JobEnd.NOT_RUN, reason=reason)


def _verdict(job: ChainJob, ended: AttemptEnd, *, was_late: bool) -> tuple[JobEnd, str]:
    if was_late:
        return JobEnd.TIMED_OUT, f"it took longer than {job.time_out_s:,.15g} s"
    if ended.cancelled:
        return JobEnd.CANCELLED, ended.cancelled
    if ended.code is None or ended.code not in job.success:
        return JobEnd.FAILED, ended.failed or f"exit code {ended.code}"
    wrong = next((one for one in ended.checks if not one.passed), None)
    if wrong is not None:
        return JobEnd.CHECK_FAILED, f"{wrong.check}: {wrong.found}"
    return JobEnd.SUCCEEDED, ""


def _really_after(jobs: Sequence[ChainJob]) -> dict[str, tuple[str, ...]]:
    """Return for whom each job waits when those that are skipped hand on for whom they would have waited."""
    skipped = {job.key for job in jobs if job.skip}
    found: dict[str, tuple[str, ...]] = {}
    for job in jobs:
        names = [name for other in job.after for name in (found[other] if other in skipped else (other,))]
        found[job.key] = tuple(dict.fromkeys(names))
    return found


def _missing(after: Sequence[str], states: Standings, never: Mapping[str, str]) -> str:
    """Return why a job can never run: one that it waits for is over without success."""
    for other in after:
        state = states[other]
        if other in never:
            return f"{other} was not run"
        if state.phase is JobPhase.OVER and state.end is not JobEnd.SUCCEEDED:
            return f"{other}: {'' if state.end is None else state.end.value}"
    return ""
