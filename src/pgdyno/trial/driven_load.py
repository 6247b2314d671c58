"""Drives the load of one trial to its end: its clock, its guards, its extension, its early end.

A load that was begun is given turns until it ends. In each of them its guards may stop it; about once a second its
reading goes to the guards, to the watcher and to the judgement of hopeless loads (`hopeless.py`), and when its planned
time is over `extension.py` says whether it goes on.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from pgdyno.errors import WorkloadError
from pgdyno.model.samples import Event
from pgdyno.probes.server_failures import CUT
from pgdyno.probes.window import foreign_cpu_pct, steal_pct
from pgdyno.trial.assess import disturbance
from pgdyno.trial.hopeless import Rates
from pgdyno.trial.sentry import Sentry
from pgdyno.trial.watcher import Watcher
from pgdyno.trial.work import Work
from pgdyno.undo.session import ServerSession
from pgdyno.workloads.protocol import RunningLoad

OVERRUN_S = 60.0
"""A load that has not ended this long after its time is taken for hung and ended."""
TURN_S = 0.5
"""A guard that trips ends a turn at once. Each turn wakes this process with cold caches: five a second were a part of
what it costs."""
SHORTEST_S = 0.05
READING_S = 0.9
"""A load and its guards have something new to say once a second; a little less, so that turns do not skip one."""


class DrivenLoad:
    """The running load of `work`, whose sampler and extension are made; its time counts from here on.

    `session` writes down its processes, which must not outlive it.
    `clock` is the wall clock, seconds since the epoch, as in samples; `timer` counts seconds and is never set.
    """

    def __init__(
        self,
        work: Work,
        watcher: Watcher,
        sentry: Sentry | None,
        session: ServerSession | None,
        *,
        clock: Callable[[], float],
        timer: Callable[[], float],
    ) -> None:
        assert work.running is not None, "a load is driven once it runs"
        assert work.sampler is not None, "the life cycle starts sampling before the load"
        assert work.extension is not None, "how long a load may go on is settled before it begins"
        self._work, self._running, self._sampler, self._extension = work, work.running, work.sampler, work.extension
        self._watcher, self._sentry, self._session = watcher, sentry, session
        self._clock, self._timer = clock, timer
        self._rates = Rates(work.floor_tps, work.plan)
        self._began, self._due_s = timer(), 0.0
        self._stopped_s: float | None = None

    def drive(self) -> None:
        """Return when the load has ended, with `work.load` what came of it, or `work.ended_early` why it was ended.

        Raises WorkloadError when it ended too early by itself or did not end, ScriptError where its script is why,
        GuardBreached when a guard tripped; no process of the load is left then.
        """
        work = self._work
        try:
            if self._session is not None:
                for pid in self._running.pids:
                    self._session.record_process(pid, "driver")
            alarm = None if self._sentry is None else self._sentry.alarm
            while work.ended_early is None and not self._running.wait(self._pause_s(), alarm):
                self._turn()
            self._sampler.mark()  # a row ends here: the window's CPU is not diluted by the idle rest of a second
            if work.ended_early is not None:
                work.events.append(Event(work.ended_early.ended_at, CUT, work.ended_early.sentence()))
                self._watcher.notice(work.ended_early.sentence())
                _discard(self._running)
                return
            work.load = self._running.finish()
            if work.load.failure is not None:
                raise work.load.failure
            if work.load.reason is not None:
                raise WorkloadError("the load ended early", detail=work.load.reason, hint="The server's log says why.")
        except BaseException:
            self._running.terminate()
            raise
        finally:
            if self._sentry is not None:
                self._sentry.load_ended()

    def _pause_s(self) -> float:
        """Return how long nothing has to be done unless the load ends or a guard trips."""
        left_s = self._work.plan.duration_s - (self._timer() - self._began)
        until = [TURN_S, left_s] if left_s > 0 else [TURN_S]
        if self._sentry is not None:
            until.append(self._sentry.patience_left_s)
        return max(SHORTEST_S, min(until))

    def _turn(self) -> None:
        """Hear the guards, and the load where a reading is due."""
        plan, extension = self._work.plan, self._extension
        elapsed = self._timer() - self._began
        if elapsed > (extension.longest_s if self._stopped_s is None else self._stopped_s) + OVERRUN_S:
            raise WorkloadError(
                f"the load still ran {OVERRUN_S:.0f} s after its scheduled end and was stopped",
                hint="Check the server's log for waiting statements, or use fewer clients.",
            )
        if self._sentry is not None:
            self._sentry.check()
        is_time_over = extension.reserve_s > 0 and elapsed >= plan.duration_s and self._stopped_s is None
        if elapsed < self._due_s and not (is_time_over and not extension.reason):
            return
        self._due_s = elapsed + READING_S
        reading = self._running.live()
        if self._sentry is not None:
            self._sentry.load_reads(reading)
            self._watcher.guards(self._sentry.indicators)
        self._watcher.reading(elapsed, max(plan.duration_s, elapsed), reading, self._sampler)
        if self._rates.hear(elapsed, reading):
            self._work.ended_early = self._rates
        elif is_time_over and extension.is_over(elapsed, self._running.series(), self._is_shared(elapsed)):
            self._stopped_s = elapsed
            self._running.let_end()

    def _is_shared(self, elapsed_s: float) -> bool:
        """Tell whether others used the CPUs since the load began, so that it cannot be used however long it lasts."""
        now = self._clock()
        window = self._sampler.rows(), now - elapsed_s, now
        foreign = foreign_cpu_pct(*window, driver_is_here=self._sampler.driver_is_here)
        return disturbance(foreign, steal_pct(*window), self._extension.bounds, "") is not None


def _discard(running: RunningLoad) -> None:
    """End a load of which no more is asked, and delete its logs."""
    running.terminate()
    with suppress(WorkloadError):  # it had not a single transaction
        running.finish().discard_logs()
