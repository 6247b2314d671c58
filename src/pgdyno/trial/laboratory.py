"""The executor of trials: carries out what the life cycle says, on a real target, and keeps what came of it."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path

from pgdyno.control.restart_budget import Permission, RestartBudget
from pgdyno.errors import ApplyError, GuardTripped, PgdynoError, RollbackError, StoreError
from pgdyno.fleet.start import begin_load
from pgdyno.knobs.constraints import check
from pgdyno.model.configuration import BASELINE
from pgdyno.model.facts import Facts
from pgdyno.model.guard import Breach
from pgdyno.model.samples import Event
from pgdyno.model.study import Study
from pgdyno.model.trial import EXTENDED, OUTAGE, LoadPlan, Outcome, Role, Trial, TrialSpec, TrialState
from pgdyno.probes.sampler import Sampler
from pgdyno.server.snapshot import fingerprint_of
from pgdyno.store.catalogue import Store
from pgdyno.targets.target import Target
from pgdyno.trial.assess import Bounds, examined
from pgdyno.trial.breach import Baselines, ScriptErrors, ending, tripped
from pgdyno.trial.company import Company, Look
from pgdyno.trial.driven_load import OVERRUN_S, DrivenLoad
from pgdyno.trial.extension import Extension, reserve_s
from pgdyno.trial.lifecycle import Phase, Transition, TrialAction, TrialEvent, begin, step
from pgdyno.trial.pace import Pace
from pgdyno.trial.recorded import given_back, require_planned
from pgdyno.trial.restarts import Restarts
from pgdyno.trial.sentry import GuardBreached, Sentry, off_text
from pgdyno.trial.stopwatch import Stopwatch
from pgdyno.trial.top_statements import top_statement_plans
from pgdyno.trial.watcher import Watcher
from pgdyno.trial.work import Work
from pgdyno.undo.applied import When
from pgdyno.undo.session import ServerSession
from pgdyno.workloads.buffer_warmth import warm_buffers
from pgdyno.workloads.protocol import Workload

APPLY_S = 900.0
"""Longer than this an apply hangs: it may restart twice, there and back, and each restart has a bound of its own."""
BETWEEN_S = 300.0
"""Longer than this the study hangs that should end a trial or begin the next one."""
_PREPARING = (Phase.PLANNED, Phase.APPLYING, Phase.RESETTING)
"""Here a configuration that fails is an ApplyError; any other error is the machine's and ends the study."""


class Laboratory:
    """Runs the trials of one study, one after another.

    Trials that the store already holds for this study (from before a kill) are given back in their order instead of
    being run again, so that a study is resumed by asking the same questions again. `session` is None where nothing
    may be changed (a bench of a server as it is). `sentry` watches from each configuration in force to the end of its
    trial; a guard that trips ends the load and brings the baseline back before anything else. None watches nothing.
    `budget` bounds the restarts of trials, not those of the way back. `stopwatch` counts the time of a study that has
    a budget of it. `look` says what others do on a machine where two runs in a row were disturbed: the study waits a
    little, and where it `uses_beside`, runs beside those who stay are used. None insists on a machine that is left to
    it. `are_alike` says that all trials have the same settings.
    """

    def __init__(
        self,
        *,
        study: Study,
        target: Target,
        workload: Workload,
        store: Store,
        facts: Facts,
        session: ServerSession | None,
        watcher: Watcher,
        folder: Path,
        bounds: Bounds | None = None,
        restart: When = "always",
        sentry: Sentry | None = None,
        budget: RestartBudget | None = None,
        stopwatch: Stopwatch | None = None,
        look: Look | None = None,
        uses_beside: bool = False,
        are_alike: bool = False,
        clock: Callable[[], float] = time.time,
        timer: Callable[[], float] | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.study = study
        self.facts = facts
        self.store = store
        self.bounds = bounds or Bounds()
        self.spent_s = 0.0
        self.stopwatch = stopwatch
        self._target = target
        self._workload = workload
        self._session = session
        self._watcher = watcher
        self._folder = folder
        self._restart = restart
        self.restarts = Restarts(facts, budget, always=restart == "always", sleep=sleep)
        self._sentry = sentry
        self.company = Company(look, uses_beside=uses_beside)
        self._guards_began = self._told_cold = False
        self._trips = 0
        self._baselines = Baselines()
        self._script_errors = ScriptErrors(are_alike=are_alike)
        self._clock = clock
        # The wall clock may be set in mid-study, by years: what is measured against a bound is not read from it.
        self._timer = timer or (time.monotonic if clock is time.time else clock)
        self._sleep = sleep
        self._recorded = deque(given_back(store.trials(study.id)))
        self._count = 0
        self._pace = Pace(study.metric, study.plan.duration_s)

    def expect(self, trials: int, *, at_most: bool = False) -> None:
        """Hear how many trials the study runs next, fewer where `at_most`; for people who wait."""
        self._pace.expect(trials, at_most=at_most)

    def _tell_outlook(self) -> None:
        left_s = None if self.stopwatch is None else self.stopwatch.left_s()
        self._watcher.outlook(self._pace.outlook(until_s=left_s))

    @property
    def is_replaying(self) -> bool:
        """Return True while trials from before a kill are still to be given back."""
        return bool(self._recorded)

    def run(
        self,
        spec: TrialSpec,
        *,
        plan: LoadPlan | None = None,
        workload: Workload | None = None,
        floor_tps: float | None = None,
    ) -> Trial:
        """Run one trial, or give back the recorded one that stands at this place.

        `plan` and `workload` take the place of the study's own for this trial, as the cells of a matrix need; what is
        different about them belongs into `spec.factors`. Such a workload was prepared by whoever brings it.
        A search trial that lies surely below `floor_tps` at half of its window is ended there (`trial.hopeless`); no
        other trial ever is.

        Changes the server to the trial's configuration and leaves it there; the session's end puts it back. Raises
        KeyboardInterrupt again after the trial was concluded as abandoned, RollbackError and GuardTripped likewise.
        """
        self._count += 1
        self._pace.begin(spec)
        recorded = bool(self._recorded)
        if recorded:
            self.restarts.replay(spec.configuration)
            trial = self._replay(spec)
            self._pace.end(trial)
        else:
            self.restarts.allow(spec.configuration, self._waiting)
            if self.company.wants_wait:
                self._expect("wait for others", BETWEEN_S)
                budget_s = None if self.stopwatch is None else self.stopwatch.budget_s
                self.company.wait(self._watcher, budget_s=budget_s, timer=self._timer)
            floor = floor_tps if spec.role is Role.SEARCH else None
            trial = self._measure(spec, plan or self.study.plan, workload or self._workload, floor)
        if trial.outcome is not None:
            self.spent_s += trial.outcome.elapsed_s
            self.company.note(trial.outcome)
            if self.stopwatch is not None:
                self.stopwatch.mark(trial.outcome, recorded=recorded)
            if trial.state is TrialState.COMPLETE:
                self._script_errors.note_complete()
            if trial.state is TrialState.COMPLETE and spec.configuration == BASELINE:
                self._baselines.keep(trial.outcome, plan or self.study.plan, workload or self._workload)
        return trial

    def begin_guards(self) -> None:
        """Read how the guards stand, once, before the first change; `run` does it by itself.

        Raises EnvironmentUnsuitable when one is in breach already or cannot see.
        """
        if self._sentry is not None and not self._guards_began:
            self._watcher.notice(off_text(self._sentry.begin(self.study.plan.connections)))
            self._guards_began = True

    def _replay(self, spec: TrialSpec) -> Trial:
        trial = self._recorded.popleft()
        require_planned(trial, spec, self.study.id)
        return trial

    def _measure(self, spec: TrialSpec, plan: LoadPlan, workload: Workload, floor_tps: float | None) -> Trial:
        self.begin_guards()
        run_id = self.store.begin_trial(self.study.id, spec)
        work = Work(run_id, spec, plan, workload, floor_tps, self._clock(), self._timer())
        self._tell_outlook()
        self._watcher.trial_began(spec, self._count, work.run_id)
        transition = begin()
        error: BaseException | None = None
        with work.watch:
            while True:
                happening, raised = self._carry_out(transition.instructions, work, transition)
                error = error or raised
                if transition.phase is Phase.DONE:
                    break
                transition = step(transition.phase, happening)
        trial = self.store.trial(work.run_id)
        self._pace.end(trial)
        self._tell_outlook()
        self._watcher.trial_ended(trial)
        if error is not None:
            raise error
        return trial

    def _carry_out(
        self, instructions: Sequence[TrialAction], work: Work, transition: Transition
    ) -> tuple[TrialEvent, BaseException | None]:
        """Carry out the instructions; an error becomes what happened, and is given back where it must go on up."""
        happening = TrialEvent.ASSESSED
        try:
            for instruction in instructions:
                happening = _STEPS[instruction](self, work, transition) or happening
        except ApplyError as error:
            work.reason = error.one_line
            return TrialEvent.NOT_IN_FORCE, None
        except RollbackError as error:
            work.reason = error.one_line
            return TrialEvent.FAILED, error
        except GuardBreached as error:
            return TrialEvent.FAILED, self._answer(error.breach, work)
        except PgdynoError as error:
            if transition.phase is Phase.DONE:
                raise
            work.reason = error.one_line
            if isinstance(error, StoreError):
                self.store.hurry()  # the server waits to be put back
            if isinstance(error, StoreError | GuardTripped) or self._script_errors.ends_study(error, work.spec):
                return TrialEvent.FAILED, error
            # Nothing was learned of a configuration that the machine kept from being measured: a resume runs it again.
            return (TrialEvent.INTERRUPTED, error) if transition.phase in _PREPARING else (TrialEvent.FAILED, None)
        except KeyboardInterrupt as interrupt:
            work.reason = "interrupted"
            self.store.hurry()
            return TrialEvent.INTERRUPTED, interrupt
        return happening, None

    def _waiting(self, permission: Permission) -> None:
        self._expect("wait for the restart window")
        self._watcher.phase(f"waiting: {permission.reason}")

    def _expect(self, doing: str, within_s: float | None = None) -> None:
        """Tell the watchdog what comes; data that are cloned take as long as they take."""
        if self._session is not None:
            self._session.expect(doing, within_s)

    def _answer(self, breach: Breach, work: Work) -> BaseException | None:
        """Bring the baseline back after a breach, and return what ends the study, None when it can go on."""
        assert self._sentry is not None, "nobody else tells of a breach"
        work.reason = str(breach)
        work.watch.close()
        self._trips += 1
        work.events.append(Event(breach.at, "guard", str(breach)))
        self._watcher.notice(str(breach))
        most = self._sentry.plan.trips
        end = ending(breach, is_baseline=work.spec.configuration == BASELINE, trips=self._trips, most=most)
        if self._session is None:
            return end
        try:
            self._session.apply(BASELINE, restart="as-needed")
        except (RollbackError, KeyboardInterrupt) as error:
            return error
        except PgdynoError as error:  # the session's end has more means: it also starts a server that is down
            return tripped(breach, f"The baseline was not restored at once: {error.one_line}.")
        seconds = self._clock() - breach.at
        text = f"the baseline was in force again {seconds:.1f} s after guard {breach.name} tripped"
        work.events.append(Event(self._clock(), "guard", text))
        self._watcher.notice(text)
        return end

    def _check(self, work: Work, _: Transition) -> TrialEvent:
        refusal = check(work.spec.configuration, self.facts, connections=work.plan.connections)
        if refusal is None:
            return TrialEvent.ACCEPTED
        work.reason = refusal.reason
        return TrialEvent.REFUSED

    def _apply(self, work: Work, _: Transition) -> TrialEvent:
        if self._session is None:
            assert work.spec.configuration == BASELINE, "a configuration needs a session that can undo it"
            work.fingerprint = fingerprint_of(self._target.postgres)
        else:
            self._watcher.phase("apply")
            self._session.expect(f"apply of trial {work.run_id}", APPLY_S)
            applied = self._session.apply(work.spec.configuration, restart=self._restart)
            work.fingerprint, work.outage_s = applied.fingerprint, applied.outage_s
        if self._sentry is not None:
            self._sentry.compare_with(self._baselines.of(work.plan, work.workload))
            work.watch.enter_context(self._sentry.watch())
        return TrialEvent.IN_FORCE

    def _reset(self, work: Work, _: Transition) -> TrialEvent:
        self._watcher.phase("reset")
        self._expect(f"reset of trial {work.run_id}")
        guarding: AbstractContextManager[None] = self._sentry.interrupting() if self._sentry else nullcontext()
        began = self._timer()
        with guarding:
            work.dbname = work.workload.reset(self._target, policy=work.plan.reset)
            self._warm(work)
        work.reset_s = self._timer() - began
        (row,) = self._target.postgres.fetch("SELECT pg_database_size(%s) AS bytes", [work.dbname])
        work.database_bytes = float(str(row["bytes"]))
        return TrialEvent.READY

    def _warm(self, work: Work) -> None:
        """Fill shared buffers that a restart has emptied; where that cannot be, say so once."""
        if work.outage_s is None:
            return
        work.warmed_bytes, why_not = warm_buffers(self._target, work.dbname, self.facts)
        if why_not is not None and not self._told_cold:
            self._watcher.notice(f"shared buffers are cold after each restart, as pg_prewarm cannot be used: {why_not}")
            self._told_cold = True

    def _start_sampling(self, work: Work, _: Transition) -> None:
        work.sampler = Sampler(
            self._target, load_database=work.dbname, driver_pids=work.driver_pids, folder=self._folder
        )
        work.sampler.start()

    def _run_load(self, work: Work, _: Transition) -> TrialEvent:
        self._watcher.phase("load")
        extension = work.extension = self._extension(work)
        self._expect(f"load of trial {work.run_id}", extension.longest_s + OVERRUN_S + BETWEEN_S)
        if self._sentry is not None:
            self._sentry.load_begins(work.dbname, is_captured=work.is_captured)
        reserved = replace(work.plan, measure_s=work.plan.measure_s + extension.reserve_s)
        work.running = begin_load(work.workload, self._target, work.dbname, reserved, self._folder / str(work.run_id))
        DrivenLoad(work, self._watcher, self._sentry, self._session, clock=self._clock, timer=self._timer).drive()
        return TrialEvent.LOAD_ENDED

    def _extension(self, work: Work) -> Extension:
        repeated = None if work.spec.repeats is None else self.store.trial(work.spec.repeats).outcome
        return Extension(
            work.plan,
            self.bounds,
            0.0
            if work.is_captured
            else reserve_s(
                work.plan,
                left_s=None if self.stopwatch is None else self.stopwatch.left_s(),
                repeats_extended=repeated is not None and EXTENDED in repeated.counters,
                beside_others=self.company.uses_next,
            ),
        )

    def _stop_sampling(self, work: Work, _: Transition) -> None:
        if work.sampler is not None:
            work.batch = work.sampler.stop()

    def _assess(self, work: Work, _: Transition) -> TrialEvent:
        outcome = work.assessed(self.facts, self.bounds, beside_others=self.company.uses_next)
        if work.ended_early is None:
            if self._sentry is not None:
                self._sentry.check()
            outcome = self._examine(outcome, work)
        work.outcome = outcome
        return TrialEvent.ASSESSED

    def _examine(self, outcome: Outcome, work: Work) -> Outcome:
        """Let the workload check its own data; data that break their conditions make the run void."""
        assert work.load is not None, "only a load that ended is examined"
        self._watcher.phase("examine")
        self._expect(f"examination of trial {work.run_id}")
        found = work.workload.examine(self._target, work.dbname, work.load, outcome)
        assert work.batch is not None, "sampling has ended before"
        top = top_statement_plans(self._target.postgres, work.dbname, work.batch.rows, found.plans)
        work.records += [*found.checks, *found.plans, *top, *found.texts]
        return examined(outcome, found)

    def _conclude(self, work: Work, transition: Transition) -> None:
        outcome = work.outcome
        if outcome is None:
            state = transition.state or TrialState.FAILED
            outcome = Outcome(state=state, reason=work.reason, began_at=work.began, ended_at=self._clock())
        outcome = replace(outcome, elapsed_s=self._timer() - work.since, settings_fingerprint=work.fingerprint)
        if work.outage_s is not None:
            outcome = replace(outcome, counters={**outcome.counters, OUTAGE: work.outage_s})
        if self.stopwatch is not None:
            outcome = replace(outcome, counters={**outcome.counters, **self.stopwatch.counters()})
        work.keep(self.store, outcome)


_STEPS: dict[TrialAction, Callable[[Laboratory, Work, Transition], TrialEvent | None]] = {
    TrialAction.CHECK: Laboratory._check,
    TrialAction.APPLY: Laboratory._apply,
    TrialAction.RESET: Laboratory._reset,
    TrialAction.START_SAMPLING: Laboratory._start_sampling,
    TrialAction.RUN_LOAD: Laboratory._run_load,
    TrialAction.STOP_SAMPLING: Laboratory._stop_sampling,
    TrialAction.ASSESS: Laboratory._assess,
    TrialAction.CONCLUDE: Laboratory._conclude,
}
