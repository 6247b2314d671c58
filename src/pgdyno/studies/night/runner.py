"""Night runs: jobs of the queue, one after another, within a window; each ends in time and goes on in the next night.

Knows no process and no server: `NightTools` starts and looks for it, the clock is passed in. A job runs as a pgdyno of
its own, which restores its server when it is told to end; the runner never touches one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from pgdyno.errors import ExitCode, PgdynoError
from pgdyno.model.job import Job, JobState
from pgdyno.model.study import Study, StudyState
from pgdyno.store.queue import Queue
from pgdyno.studies.night.window import NightWindow, Occurrence
from pgdyno.units import seconds_text

TICK_S = 1.0
HUNG_S = 1800.0
"""A job that still restores its server so long after it was told to end is killed; its watchdog does the rest."""
ATTEMPTS, NIGHTS = 3, 14
"""How often a job may end without a result: when it has to begin again each time, and when it can go on."""
INTERRUPTED_CODE = 130
_RESULTS = (ExitCode.OK, ExitCode.FINDINGS, ExitCode.NOT_RESOLVED)


class Child(Protocol):
    """A job that runs as a process."""

    def poll(self) -> int | None:
        """Return its exit code, negative for a signal, or None while it runs."""

    def terminate(self) -> None:
        """Tell it to end: it restores its server first."""

    def kill(self) -> None:
        """End it at once."""


class NightTools(Protocol):
    """What a runner needs of the world."""

    def start(self, job: Job, words: Sequence[str]) -> Child:
        """Start pgdyno with these words."""

    def words(self, job: Job, study: Study | None) -> tuple[str, ...] | None:
        """Return the words that begin the job, or go on with its study; None when that cannot be gone on with."""

    def studies(self, job: Job) -> list[Study]:
        """Return the studies that the job began, the newest first."""

    def refusal(self, job: Job) -> str | None:
        """Say why a job must not run at all, None when this account added it as it is and it has not ended."""

    def ended(self, job: Job) -> None:
        """Take note that a job has ended and must not begin again."""

    def disturbance(self, job: Job) -> str | None:
        """Look for a while, and say what keeps the job from having host and server alone; None when it is quiet."""


@dataclass(frozen=True, slots=True)
class NightPlan:
    """How a night goes, in seconds.

    A job is told to end `restore_s` before the window does. None begins with less than `shortest_s` left before that.
    While the machine is not quiet it is looked at again every `retry_s`.
    """

    window: NightWindow
    restore_s: float = 120.0
    shortest_s: float = 600.0
    retry_s: float = 60.0


@dataclass
class Night:
    """What came of one window: the jobs in their order, and why it ended before its time."""

    jobs: list[Job] = field(default_factory=list)
    refused: list[Job] = field(default_factory=list)
    stopped: str | None = None
    code: ExitCode = ExitCode.OK


class NightRunner:
    """The one runner of a host. `name` is HOST:PID; `host` the one whose jobs it takes."""

    def __init__(
        self,
        queue: Queue,
        plan: NightPlan,
        work: NightTools,
        *,
        host: str,
        name: str,
        announce: Callable[[str], None],
        clock: Callable[[], float] = time.time,
        timer: Callable[[], float] | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._queue, self._plan, self._work = queue, plan, work
        self._host, self._name = host, name
        self._announce, self._clock, self._sleep = announce, clock, sleep
        # A window is a matter of the wall clock; how long a job takes to end is not, however the clock is set.
        self._timer = timer or (time.monotonic if clock is time.time else clock)

    def run(self, *, once: bool, until: float | None = None) -> list[Night]:
        """Work off window after window; with `once` only the one that is open now, none when it is closed.

        Ends at `until`, or with a night that left a server damaged. Jobs that a killed runner left are taken up again.
        """
        for job in self._queue.recover(host=self._host, at=self._clock()):
            self._keep_study(job)
            self._announce(f"job {job.id} is taken up again: {job.reason}")
        nights: list[Night] = []
        while until is None or self._clock() < until:
            window = self._plan.window
            now = window.now(self._clock())
            if now is None:
                opens = window.following(self._clock()).opens
                words = f"the window {window} is closed until {window.clock_text(opens)}: nothing is started"
                self._announce(words)
                if once:
                    break
                self._wait(opens if until is None else min(opens, until))
                continue
            nights.append(self._night(now if until is None else Occurrence(now.opens, min(now.closes, until))))
            if once or nights[-1].code is ExitCode.DAMAGED:
                break
            self._wait(now.closes if until is None else min(now.closes, until))
        return nights

    def _night(self, now: Occurrence) -> Night:
        night, tried = Night(), set[int]()
        ends = now.closes - self._plan.restore_s
        self._announce(
            f"the window {self._plan.window} is open until {self._plan.window.clock_text(now.closes)}; "
            f"jobs are told to end {seconds_text(self._plan.restore_s)} before"
        )
        disturbed: dict[int, str] = {}
        while night.stopped is None:
            if ends - self._clock() < self._plan.shortest_s:
                night.stopped = f"less than {seconds_text(self._plan.shortest_s)} are left for a job"
                break
            job = self._queue.claim(host=self._host, runner=self._name, at=self._clock(), but=tried | disturbed.keys())
            if job is not None and (refusal := self._work.refusal(job)) is not None:
                tried.add(job.id)
                self._refuse(job, refusal, night)
            elif job is not None and (disturbance := self._disturbance(job)) is not None:
                self._queue.put_back(job.id, reason=f"not begun: {disturbance}")
                disturbed[job.id] = disturbance
            elif job is not None:
                tried.add(job.id)
                self._take(job, ends, night)
            elif not disturbed:
                night.stopped = "no job waits"
            elif ends - self._clock() - self._plan.retry_s < self._plan.shortest_s:
                self._not_begun(disturbed, night)
            else:
                self._look_again_later(disturbed)
                disturbed.clear()
        self._announce(f"the night is over: {night.stopped}")
        return night

    def _disturbance(self, job: Job) -> str | None:
        try:
            return self._work.disturbance(job)
        except BaseException:
            self._queue.put_back(job.id, reason="the runner was ended before the job began")
            raise

    def _look_again_later(self, disturbed: Mapping[int, str]) -> None:
        """Wait: every job that is left was looked at, and has its host or its own server not alone."""
        again = seconds_text(self._plan.retry_s)
        for job_id, disturbance in disturbed.items():
            self._announce(f"job {job_id} waits, looked at again in {again}: {disturbance}")
        self._sleep(self._plan.retry_s)

    def _not_begun(self, disturbed: Mapping[int, str], night: Night) -> None:
        night.jobs += [self._queue.job(job_id) for job_id in disturbed]
        night.stopped = "; ".join(f"job {job_id} was not begun: {reason}" for job_id, reason in disturbed.items())
        night.code = ExitCode.UNSUITABLE

    def _refuse(self, job: Job, refusal: str, night: Night) -> None:
        """Leave a job in the queue and say why: its words may be anybody's who can write the store."""
        night.refused.append(self._queue.put_back(job.id, reason=f"refused: {refusal}"))
        night.code = ExitCode.UNSUITABLE
        self._announce(f"job {job.id} is refused: {refusal}")

    def _take(self, job: Job, ends: float, night: Night) -> None:
        """Run a claimed job, and keep how it ended."""
        ended = self._run_job(job, ends)
        night.jobs.append(ended)
        reason = f": {ended.reason}" if ended.reason else ""
        self._announce(f"job {job.id} is {ended.state.value}{reason}")
        if ended.exit_code == ExitCode.DAMAGED:
            night.stopped = f"job {job.id} could not restore its server; no other job is started"
            night.code = ExitCode.DAMAGED

    def _run_job(self, job: Job, ends: float) -> Job:
        before = next(iter(self._work.studies(job)), None)
        if before is not None and before.state is StudyState.COMPLETE:
            return self._end(job, JobState.DONE, None, "its study was finished outside of the queue")
        words = self._work.words(job, before) or self._work.words(job, None)
        assert words is not None, "a job can always begin anew"
        self._announce(f"job {job.id} begins, until {self._plan.window.clock_text(ends)}: pgdyno {' '.join(words)}")
        try:
            child = self._work.start(job, words)
        except (PgdynoError, OSError) as error:  # its folder is gone, its log cannot be written: the others can run
            return self._end(job, JobState.FAILED, None, f"it could not be started: {error}")
        told_at: float | None = None
        try:
            while (code := child.poll()) is None:
                now = self._clock()
                if told_at is None and now >= ends:
                    self._announce(f"job {job.id} is told to end: the window closes")
                    child.terminate()
                    told_at = self._timer()
                elif told_at is not None and self._timer() - told_at > HUNG_S:
                    child.kill()
                self._sleep(TICK_S)
        except BaseException:
            self._give_up(job, child)
            raise
        return self._conclude(job, code, told_at)

    def _give_up(self, job: Job, child: Child) -> None:
        """The runner itself is to end: let the job restore its server, and keep that it was interrupted."""
        child.terminate()
        began = self._timer()
        while child.poll() is None and self._timer() - began < HUNG_S:
            self._sleep(TICK_S / 10)
        self._end(job, JobState.INTERRUPTED, child.poll(), "its runner was told to end")

    def _conclude(self, job: Job, code: int, told_at: float | None) -> Job:
        study = next(iter(self._work.studies(job)), None)
        can_go_on = study is not None and self._work.words(job, study) is not None
        if code in _RESULTS:
            return self._end(job, JobState.DONE, code, None)
        if told_at is not None:
            took = f"the window closed; it ended {seconds_text(self._timer() - told_at)} after it was told to"
            if can_go_on:
                return self._end(job, JobState.INTERRUPTED, code, f"{took}, and continues in the next window")
            return self._again(job, code, f"{took}, and has to start over: it cannot be resumed")
        if code == INTERRUPTED_CODE or code < 0:
            signal = f"signal {-code}" if code < 0 else "a signal"
            return self._again(job, code, f"ended by {signal} that was not the runner's", can_go_on=can_go_on)
        if code == ExitCode.UNSUITABLE:
            return self._again(job, code, "the environment was unsuitable; its log says why", can_go_on=can_go_on)
        return self._end(job, JobState.FAILED, code, f"exit code {code}; its log says why")

    def _again(self, job: Job, code: int, reason: str, *, can_go_on: bool = False) -> Job:
        if job.attempts >= (NIGHTS if can_go_on else ATTEMPTS):
            return self._end(job, JobState.FAILED, code, f"{reason}; given up after {job.attempts} attempts")
        return self._end(job, JobState.INTERRUPTED, code, reason)

    def _end(self, job: Job, state: JobState, code: int | None, reason: str | None) -> Job:
        study = next(iter(self._work.studies(job)), None)
        if state in (JobState.DONE, JobState.FAILED):
            self._work.ended(job)
        return self._queue.end(
            job.id, state, at=self._clock(), exit_code=code, study=None if study is None else study.id, reason=reason
        )

    def _keep_study(self, job: Job) -> None:
        study = next(iter(self._work.studies(job)), None)
        if study is not None:
            self._queue.keep_study(job.id, study.id)

    def _wait(self, until: float) -> None:
        while self._clock() < until:
            self._sleep(max(0.0, min(60.0, until - self._clock())))
