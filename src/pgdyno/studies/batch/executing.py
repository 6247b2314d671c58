"""One execution of a chain: start what is due, look, end what is late. Jobs, clock and sleep are handed in."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Protocol

from pgdyno.model.results.batch import JobEnd, JobRun
from pgdyno.studies.batch.chain import Chain, ChainJob
from pgdyno.studies.batch.schedule import (
    AttemptEnd,
    JobPhase,
    JobStanding,
    Scheduler,
    attempt_ended,
    first_states,
    is_over,
    never_ran,
    started,
)

LOOK_S = 0.2
"""How often running jobs are looked at; a job's times are so exact."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFigures:
    """What was seen of a job on the server, as `JobRun` has it; what is None has its reason in `unknown`."""

    busy_s: float | None = None
    waits: Mapping[str, float] = field(default_factory=dict)
    rows: int | None = None
    wal_bytes: int | None = None
    server_cpu_s: float | None = None
    unknown: Mapping[str, str] = field(default_factory=dict)


class RunningAttempt(Protocol):
    """An attempt of a job."""

    def poll(self) -> AttemptEnd | None:
        """Return how it ended, None while it runs. Its checks belong to it."""

    def begin_stop(self) -> None:
        """Have it end, its sessions on the server too, and do not wait for that; some `poll` gives its end.

        It is told once: again it does nothing.
        """

    def stop(self) -> None:
        """End it as `begin_stop` does, and wait: `poll` then gives its end."""


class Starter(Protocol):
    """What starts jobs."""

    def start(self, job: ChainJob, attempt: int) -> RunningAttempt:
        """Start an attempt. A program that cannot be started is an attempt that failed, and no error."""


class Onlooker(Protocol):
    """What keeps beside a job what the server did for it."""

    def began(self, key: str) -> None:
        """Note that a job began."""

    def ended(self, key: str) -> None:
        """Note that it is over."""

    def look(self) -> None:
        """Look at the server, where it is time to."""

    def figures(self, key: str) -> JobFigures:
        """Return what was seen of a job."""


def execute(
    chain: Chain,
    execution: int,
    starter: Starter,
    onlooker: Onlooker,
    *,
    clock: Callable[[], float],
    sleep: Callable[[float], object],
    halt: Callable[[], str],
    tell: Callable[[str], None],
) -> tuple[tuple[JobRun, ...], str]:
    """Run the chain once, and return every job and why it was ended before its time, empty where it was not.

    `execution` is its number, which each `JobRun` has. `starter` starts the attempts of jobs, and `onlooker` gives the
    server's figures of each. `clock` returns seconds that never go back, and `sleep` waits for so many. `halt`, asked
    at each look, says why to end, and is empty while it may go on; `tell` is given a line for each job that is over.
    Whatever ends it ends every job that runs.
    """
    scheduler, jobs, states = Scheduler(chain), chain.jobs, first_states(chain)
    running: dict[str, RunningAttempt] = {}
    late, began, why = set[str](), clock(), ""

    def now() -> float:
        return clock() - began

    def settle(key: str, state: JobStanding) -> None:
        states[key] = state
        if state.phase is JobPhase.OVER:
            onlooker.ended(key)
            assert state.end is not None, "a job that is over has an end"
            tell(f"{key}: {state.end.value}{f', {state.reason}' if state.reason else ''}")

    try:
        while not is_over(states):
            for key, attempt in list(running.items()):
                ended = attempt.poll()
                if ended is not None:
                    del running[key]
                    settle(key, attempt_ended(jobs[key], states[key], ended, now(), was_late=key in late))
                    late.discard(key)
            onlooker.look()
            why = halt()
            if why:
                break
            steps = scheduler.steps(states, now())
            for key, reason in steps.never.items():
                settle(key, never_ran(states[key], reason))
            for key in steps.stop:
                if key not in late:
                    late.add(key)
                    running[key].begin_stop()  # others run on, and are looked at
            for key in steps.start:
                if not states[key].attempts:
                    onlooker.began(key)
                states[key] = started(states[key], now())
                running[key] = starter.start(jobs[key], states[key].attempts)
            if not steps.start and not steps.never and not is_over(states):
                sleep(LOOK_S)
    finally:
        for attempt in running.values():
            attempt.begin_stop()  # so that they are waited for together
        for key, attempt in running.items():
            attempt.stop()
            ended = attempt.poll()
            code, cpu_s = (None, None) if ended is None else (ended.code, ended.cpu_s)
            told = AttemptEnd(code, cancelled=why or "the run was interrupted", cpu_s=cpu_s)
            settle(key, attempt_ended(jobs[key], states[key], told, now(), was_late=False))
    for key, state in list(states.items()):
        if state.phase is not JobPhase.OVER:
            settle(key, never_ran(state, why))
    return tuple(_run(execution, jobs[key], state, onlooker) for key, state in states.items()), why


def _run(execution: int, job: ChainJob, state: JobStanding, onlooker: Onlooker) -> JobRun:
    figures = onlooker.figures(job.key) if state.began_s is not None else JobFigures()
    if state.began_s is not None and state.cpu_s is None:
        figures = replace(figures, unknown={**figures.unknown, "cpu_s": "its programs ended unseen"})
    return JobRun(
        execution=execution,
        process=job.process,
        job=job.name,
        end=state.end or JobEnd.NOT_RUN,
        began_s=state.began_s,
        ended_s=state.ended_s,
        attempts=state.attempts,
        code=state.code,
        reason=state.reason,
        cpu_s=state.cpu_s,
        checks=state.checks,
        **asdict(figures),
    )
