"""A laboratory whose server is a response surface: for studies by the thousand, where no server is needed.

Implements what `studies` uses of `trial.laboratory.Laboratory`. Time is virtual; noise, drift, disturbance and
failures are drawn from a seed.
"""

from __future__ import annotations

import math
import random
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from facts_from_params import make_facts
from pgdyno.knobs.constraints import check
from pgdyno.model.sample_tables import TABLES
from pgdyno.model.samples import SampleValue
from pgdyno.model.study import Study, StudyKind, StudyState
from pgdyno.model.trial import (
    BESIDE_OTHERS,
    ENDED_EARLY,
    LatencySummary,
    LoadPlan,
    Outcome,
    Role,
    Trial,
    TrialSpec,
    TrialState,
    WorkloadSpec,
)
from pgdyno.trial.company import Company
from pgdyno.trial.recorded import given_back
from pgdyno.trial.restarts import Restarts
from pgdyno.trial.stopwatch import BudgetSpent, Stopwatch
from pgdyno.units import parse_quantity

TRIAL_S = 8.0
Surface = Callable[[Mapping[str, str]], float]


def shared_buffers_cliff(settings: Mapping[str, str]) -> float:
    """Return the gain of a load whose working set fits from 1 GB on, and that nothing else moves."""
    size = parse_quantity(settings.get("shared_buffers", "128MB"), "8kB") * 8192
    return 3.4 if size >= 1 << 30 else 1.0


def work_mem_and_buffers(settings: Mapping[str, str]) -> float:
    """Two settings matter, each by a cliff; the others ride along."""
    work_mem = parse_quantity(settings.get("work_mem", "4MB"), "kB")
    return shared_buffers_cliff(settings) * (1.6 if work_mem >= 32 << 10 else 1.0)


def flat(settings: Mapping[str, str]) -> float:
    """Return the gain of a load that no knob moves."""
    return 1.0


@dataclass
class SimulatedStore:
    """The trials of one study; they left neither samples nor records."""

    kept: list[Trial] = field(default_factory=list)

    def trials(self, study_id: str) -> list[Trial]:
        return list(self.kept)

    def trial(self, trial_id: int) -> Trial:
        return next(trial for trial in self.kept if trial.id == trial_id)

    def samples(self, run_id: int, table: str) -> dict[str, list[SampleValue]]:
        return {name: [] for name in ("t", *TABLES[table].column_names())}

    def records(self, run_id: int, kind: object) -> list[object]:
        return []

    def histograms(self, run_id: int) -> list[object]:
        return []

    def events(self, run_id: int) -> list[object]:
        return []


class SimulatedLaboratory:
    """Runs trials in virtual time; `odd` multiplies the throughput of the trials of these numbers.

    `disturbed` is the share of disturbed trials, or tells it of a trial by its number from 1 and its configuration.

    `shared` takes disturbed runs beside others as a laboratory does that may look. `drowned` is the scatter of
    throughput that others add to a disturbed run.

    `unknown_cpu` tells of a trial whether the server's CPU is known, by its number and its settings.

    `kill_after` raises KeyboardInterrupt in that trial, as a signal would."""

    def __init__(
        self,
        surface: Surface,
        *,
        seed: int = 1,
        cv: float = 0.05,
        drift_per_h: float = 0.0,
        disturbed: float | Callable[[int, Mapping[str, str]], bool] = 0.0,
        odd: Mapping[int, float] | None = None,
        unsteady: Callable[[Mapping[str, str]], bool] = lambda settings: False,
        fails: Callable[[Mapping[str, str]], bool] = lambda settings: False,
        unknown_cpu: Callable[[int, Mapping[str, str]], bool] = lambda number, settings: False,
        shared: bool = False,
        drowned: float = 0.0,
        kill_after: int | None = None,
        recorded: list[Trial] | None = None,
        duration: Callable[[int], float] = lambda number: TRIAL_S,
        startup_s: float = 0.0,
    ) -> None:
        self.study = simulated_study()
        self.facts = make_facts(18)
        self.store = SimulatedStore(list(recorded or []))
        self.spent_s = 0.0
        self.clock_s = startup_s
        self.stopwatch: Stopwatch | None = None
        self._duration = duration
        self.measured = 0
        self.restarts = Restarts(self.facts, always=False)
        self._recorded = deque(given_back(recorded or []))
        self._surface = surface
        self._seed, self._cv, self._drift, self._disturbed = seed, cv, drift_per_h, disturbed
        self._odd = odd or {}
        self._unsteady, self._fails, self._unknown_cpu = unsteady, fails, unknown_cpu
        self._kill_after = kill_after
        self._drowned, self.company = drowned, Company((lambda: None) if shared else None, uses_beside=shared)

    @property
    def is_replaying(self) -> bool:
        return bool(self._recorded)

    def expect(self, trials: int, *, at_most: bool = False) -> None:
        pass

    def run(self, spec: TrialSpec, *, floor_tps: float | None = None) -> Trial:
        self.restarts.replay(spec.configuration)
        recorded = bool(self._recorded)
        if recorded:
            trial = self._recorded.popleft()
            assert trial.spec == spec
        else:
            if self._kill_after is not None and self.measured >= self._kill_after:
                raise KeyboardInterrupt
            self.measured += 1
            trial = self._measure(spec)
            ended = floor_tps is not None and spec.role is Role.SEARCH and _is_below(trial, floor_tps)
            trial = self._timed(_ended_early(trial) if ended else trial, share=0.5 if ended else 1.0)
            self.store.kept.append(trial)
        assert trial.outcome is not None
        self.spent_s += trial.outcome.elapsed_s
        self.company.note(trial.outcome)
        if self.stopwatch is not None:
            self.stopwatch.mark(trial.outcome, recorded=recorded)
        return trial

    def budget(self, budget_s: float | None) -> None:
        """Count the time of this study, whose process began at 0; trials that would outlast it are cut off."""
        self.stopwatch = None if budget_s is None else Stopwatch(budget_s, began=0.0, clock=lambda: self.clock_s)

    def _timed(self, trial: Trial, *, share: float) -> Trial:
        seconds = share * self._duration(len(self.store.kept) + 1)
        assert trial.outcome is not None
        if self.stopwatch is not None and self.clock_s + seconds > self.stopwatch.end_s:
            self.clock_s = max(self.clock_s, self.stopwatch.end_s)
            raise BudgetSpent
        self.clock_s += seconds
        counters = dict(trial.outcome.counters)
        if self.stopwatch is not None:
            counters |= self.stopwatch.counters()
        return replace(trial, outcome=replace(trial.outcome, elapsed_s=seconds, counters=counters))

    def _measure(self, spec: TrialSpec) -> Trial:
        number = len(self.store.kept) + 1
        chance = random.Random(f"{self._seed}/{number}")
        if check(spec.configuration, self.facts, connections=self.study.plan.clients) is not None:
            outcome = Outcome(TrialState.REFUSED, reason="too much memory", elapsed_s=0.0)
        elif self._unsteady(spec.configuration):
            outcome = Outcome(TrialState.UNSTEADY, reason="never steady", began_at=self.spent_s, elapsed_s=TRIAL_S)
        elif self._fails(spec.configuration):
            outcome = Outcome(TrialState.FAILED, reason="did not start", elapsed_s=TRIAL_S)
        else:
            outcome = self._outcome(spec, chance)
        return Trial(number, self.study.id, spec, outcome.state, outcome)

    def _outcome(self, spec: TrialSpec, chance: random.Random) -> Outcome:
        drift = math.exp(self._drift * self.spent_s / 3600)
        gain = self._surface(spec.configuration)
        tps = 30 * gain * self._odd.get(len(self.store.kept) + 1, 1.0) * drift * math.exp(chance.gauss(0, self._cv))
        cpu = 60 / gain * math.exp(chance.gauss(0, self._cv / 3))
        latency = LatencySummary(*(2000 / tps * factor for factor in (0.9, 1.4, 1.9, 2.4, 3.0, 1.0)))
        share = self._disturbed
        number = len(self.store.kept) + 1
        disturbed = share(number, spec.configuration) if callable(share) else chance.random() < share
        if disturbed:
            tps *= math.exp(chance.gauss(0, self._drowned))
        taken = disturbed and self.company.uses_next
        beside = {BESIDE_OTHERS: 1.0} if taken else {}
        return Outcome(
            TrialState.DISTURBED if disturbed and not taken else TrialState.COMPLETE,
            reason="foreign CPU" if disturbed else None,
            began_at=self.spent_s,
            ended_at=self.spent_s + TRIAL_S,
            elapsed_s=TRIAL_S,
            throughput=tps,
            latency_ms=latency,
            server_cpu_ms_per_tx=None if self._unknown_cpu(number, spec.configuration) else cpu,
            counters={**beside, "xact_commit": 100.0, "blks_read": 1e6 / gain, "blks_hit": 1e6},
        )


def _is_below(trial: Trial, floor_tps: float) -> bool:
    outcome = trial.outcome
    return outcome is not None and outcome.throughput is not None and outcome.throughput < floor_tps


def _ended_early(trial: Trial) -> Trial:
    assert trial.outcome is not None
    counters = {**trial.outcome.counters, ENDED_EARLY: 1.0}
    return replace(trial, outcome=replace(trial.outcome, latency_ms=None, counters=counters))


def simulated_study() -> Study:
    """Return the study of a tune of reads."""
    workload = WorkloadSpec("ybio", {}, "0" * 16, "reads of scattered rows", read_only=True)
    plan = LoadPlan(clients=2, jobs=1, warmup_s=3.0, measure_s=3.0)
    return Study("s1", StudyKind.TUNE, "simulated", StudyState.RUNNING, 0.0, "simulated", "e1", {}, workload, plan)
