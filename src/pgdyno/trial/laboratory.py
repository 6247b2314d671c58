"""The executor of trials: carries out what the life cycle says, on a real target, and keeps what came of it."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from pgdyno.errors import ApplyError, GuardTripped, PgdynoError, RollbackError, StoreError, WorkloadError
from pgdyno.knobs.constraints import check
from pgdyno.model.configuration import BASELINE
from pgdyno.model.facts import Facts
from pgdyno.model.study import Study
from pgdyno.model.trial import Outcome, Trial, TrialSpec, TrialState
from pgdyno.probes.sampler import SampleBatch, Sampler
from pgdyno.store.catalogue import Store
from pgdyno.target.apply import Session, When
from pgdyno.target.target import Target
from pgdyno.trial.assess import Bounds, assess
from pgdyno.trial.lifecycle import Happening, Instruction, Phase, Transition, begin, step
from pgdyno.workloads.protocol import LoadReading, LoadResult, RunningLoad, Workload

OVERRUN_S = 60.0
"""A load that has not ended this long after its time is taken for hung and ended."""


_PREPARING = (Phase.PLANNED, Phase.APPLYING, Phase.RESETTING)
"""Here a configuration that fails is an ApplyError; any other error is the machine's and ends the study."""


class Watcher(Protocol):
    """Who is told how a trial goes: the progress display, and later the guards."""

    def trial_began(self, spec: TrialSpec, number: int, run_id: int) -> None:
        """Hear that a trial begins; `number` counts the study's trials from 1, `run_id` is its name in the store."""

    def phase(self, text: str) -> None:
        """Hear what the trial does now."""

    def reading(self, elapsed_s: float, duration_s: float, load: LoadReading | None, sampler: Sampler) -> None:
        """Hear once a second how the load goes; raise GuardTripped to end it."""

    def trial_ended(self, trial: Trial) -> None:
        """Hear the outcome."""


@dataclass
class _Work:
    """What one trial gathers on its way."""

    run_id: int
    spec: TrialSpec
    began: float
    dbname: str = ""
    database_bytes: float = 0.0
    fingerprint: str | None = None
    sampler: Sampler | None = None
    running: RunningLoad | None = None
    load: LoadResult | None = None
    batch: SampleBatch | None = None
    outcome: Outcome | None = None
    reason: str | None = None

    def driver_pids(self) -> Sequence[int]:
        """Return the processes that are load generators and not foreign."""
        return self.running.pids if self.running else ()


class Laboratory:
    """Runs the trials of one study, one after another.

    Trials that the store already holds for this study (from before a kill) are given back in their order instead of
    being run again, so that a study is resumed by asking the same questions anew. `session` is None where nothing
    may be changed (a bench of a server as it is).
    """

    def __init__(
        self,
        *,
        study: Study,
        target: Target,
        workload: Workload,
        store: Store,
        facts: Facts,
        session: Session | None,
        watcher: Watcher,
        folder: Path,
        bounds: Bounds | None = None,
        restart: When = "always",
        clock: Callable[[], float] = time.time,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.study = study
        self.facts = facts
        self.store = store
        self.bounds = bounds or Bounds()
        self.spent_s = 0.0
        self._target = target
        self._workload = workload
        self._session = session
        self._watcher = watcher
        self._folder = folder
        self._restart = restart
        self._clock = clock
        self._sleep = sleep
        self._recorded = deque(t for t in store.trials(study.id) if t.state is not TrialState.ABANDONED)
        self._count = 0

    @property
    def is_replaying(self) -> bool:
        """Return True while trials from before a kill are still to be given back."""
        return bool(self._recorded)

    def run(self, spec: TrialSpec) -> Trial:
        """Run one trial, or give back the recorded one that stands at this place.

        Changes the server to the trial's configuration and leaves it there; the session's end puts it back. Raises
        KeyboardInterrupt again after the trial was concluded as abandoned, RollbackError and GuardTripped likewise.
        """
        self._count += 1
        trial = self._replay(spec) if self._recorded else self._measure(spec)
        if trial.outcome is not None:
            self.spent_s += trial.outcome.elapsed_s
        return trial

    def _replay(self, spec: TrialSpec) -> Trial:
        trial = self._recorded.popleft()
        if trial.spec != spec:
            raise StoreError(
                f"trial {trial.id} of study {self.study.id} is not the one that the plan has at this place",
                detail=f"recorded {trial.spec.role} {trial.spec.arm}, planned {spec.role} {spec.arm}",
                hint="The study was made by another version of pgdyno: begin a new one.",
            )
        return trial

    def _measure(self, spec: TrialSpec) -> Trial:
        work = _Work(self.store.begin_trial(self.study.id, spec), spec, self._clock())
        self._watcher.trial_began(spec, self._count, work.run_id)
        transition = begin()
        error: BaseException | None = None
        while True:
            happening, raised = self._carry_out(transition.instructions, work, transition)
            error = error or raised
            if transition.phase is Phase.DONE:
                break
            transition = step(transition.phase, happening)
        trial = self.store.trial(work.run_id)
        self._watcher.trial_ended(trial)
        if error is not None:
            raise error
        return trial

    def _carry_out(
        self, instructions: Sequence[Instruction], work: _Work, transition: Transition
    ) -> tuple[Happening, BaseException | None]:
        """Carry out the instructions; an error becomes what happened, and is given back where it must go on up."""
        happening = Happening.ASSESSED
        try:
            for instruction in instructions:
                happening = _STEPS[instruction](self, work, transition) or happening
        except ApplyError as error:
            work.reason = _words(error)
            return Happening.NOT_IN_FORCE, None
        except RollbackError as error:
            work.reason = _words(error)
            return Happening.FAILED, error
        except PgdynoError as error:
            if transition.phase is Phase.DONE:
                raise
            work.reason = _words(error)
            if isinstance(error, StoreError | GuardTripped):
                return Happening.FAILED, error
            # Nothing was learned of a configuration that the machine kept from being measured: a resume runs it again.
            return (Happening.INTERRUPTED, error) if transition.phase in _PREPARING else (Happening.FAILED, None)
        except KeyboardInterrupt as interrupt:
            work.reason = "interrupted"
            return Happening.INTERRUPTED, interrupt
        return happening, None

    def _check(self, work: _Work, _: Transition) -> Happening:
        refusal = check(work.spec.configuration, self.facts, connections=self.study.plan.clients)
        if refusal is None:
            return Happening.ACCEPTED
        work.reason = refusal.reason
        return Happening.REFUSED

    def _apply(self, work: _Work, _: Transition) -> Happening:
        if self._session is None:
            assert work.spec.configuration == BASELINE, "a configuration needs a session that can undo it"
            return Happening.IN_FORCE
        self._watcher.phase("apply")
        applied = self._session.apply(work.spec.configuration, restart=self._restart)
        work.fingerprint = applied.fingerprint
        return Happening.IN_FORCE

    def _reset(self, work: _Work, _: Transition) -> Happening:
        self._watcher.phase("reset")
        work.dbname = self._workload.reset(self._target, policy=self.study.plan.reset)
        (row,) = self._target.postgres.fetch("SELECT pg_database_size(%s) AS bytes", [work.dbname])
        work.database_bytes = float(str(row["bytes"]))
        return Happening.READY

    def _start_sampling(self, work: _Work, _: Transition) -> None:
        work.sampler = Sampler(self._target, load_database=work.dbname, driver_pids=work.driver_pids)
        work.sampler.start()

    def _run_load(self, work: _Work, _: Transition) -> Happening:
        self._watcher.phase("load")
        plan, began = self.study.plan, self._clock()
        folder = self._folder / str(work.run_id)
        work.running = running = self._workload.begin(self._target, work.dbname, plan, folder)
        if self._session is not None:
            for pid in running.pids:
                self._session.record_process(pid, "driver")
        assert work.sampler is not None, "the life cycle starts sampling before the load"
        try:
            while not running.poll():
                elapsed = self._clock() - began
                if elapsed > plan.duration_s + OVERRUN_S:
                    raise WorkloadError(f"the load still ran {OVERRUN_S:.0f} s after its time and was ended")
                self._watcher.reading(elapsed, plan.duration_s, running.live(), work.sampler)
                self._sleep(0.05)
            work.sampler.mark()  # a row ends here, so that the window's CPU is not diluted by the idle rest of a second
            work.load = running.finish()
            if work.load.reason is not None:
                raise WorkloadError("the load ended early", detail=work.load.reason)
        except BaseException:
            running.terminate()
            raise
        return Happening.LOAD_ENDED

    def _stop_sampling(self, work: _Work, _: Transition) -> None:
        if work.sampler is not None:
            work.batch = work.sampler.stop()

    def _assess(self, work: _Work, _: Transition) -> Happening:
        assert work.load is not None, "the life cycle assesses only a load that ended"
        assert work.batch is not None, "the life cycle stops sampling before it assesses"
        outcome = assess(work.load, work.batch.rows, self.study.plan, self.bounds)
        size = {"database_bytes": work.database_bytes}
        work.outcome = replace(outcome, counters={**outcome.counters, **size})
        return Happening.ASSESSED

    def _conclude(self, work: _Work, transition: Transition) -> None:
        outcome = work.outcome
        if outcome is None:
            state = transition.state or TrialState.FAILED
            outcome = Outcome(state=state, reason=work.reason, began_at=work.began, ended_at=self._clock())
        outcome = replace(outcome, elapsed_s=self._clock() - work.began, settings_fingerprint=work.fingerprint)
        if work.batch is not None:
            self.store.add_samples(work.run_id, work.batch.rows)
            self.store.add_events(work.run_id, work.batch.events)
        if work.load is not None:
            self.store.add_histograms(work.run_id, work.load.histograms)
            work.load.discard_logs()
        self.store.finish_trial(work.run_id, outcome)


_STEPS: dict[Instruction, Callable[[Laboratory, _Work, Transition], Happening | None]] = {
    Instruction.CHECK: Laboratory._check,
    Instruction.APPLY: Laboratory._apply,
    Instruction.RESET: Laboratory._reset,
    Instruction.START_SAMPLING: Laboratory._start_sampling,
    Instruction.RUN_LOAD: Laboratory._run_load,
    Instruction.STOP_SAMPLING: Laboratory._stop_sampling,
    Instruction.ASSESS: Laboratory._assess,
    Instruction.CONCLUDE: Laboratory._conclude,
}


def _words(error: PgdynoError) -> str:
    return f"{error.message}: {error.detail}" if error.detail else error.message
