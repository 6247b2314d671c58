"""The search of a tune: single-shot trials that the optimiser asks for, with baselines interleaved.

Nothing is claimed here. The search only proposes; the `proof` measures with fresh pairs.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial

from pgdyno.knobs.constraints import check
from pgdyno.knobs.dimension import Value
from pgdyno.knobs.space import SearchSpace, configuration_to_point, point_to_configuration
from pgdyno.model.configuration import BASELINE, Configuration
from pgdyno.model.trial import Role, Trial, TrialSpec, TrialState
from pgdyno.model.verdict import Metric
from pgdyno.optimizer.ask import Suggestion, ask
from pgdyno.optimizer.observation import ScoredPoint
from pgdyno.optimizer.rank import candidate
from pgdyno.optimizer.stopping import can_tell_flat, is_flat, should_stop
from pgdyno.studies.pairs.blocks import run_repeating
from pgdyno.studies.pairs.drift import level_now, relative_scores
from pgdyno.studies.tune.options import THERE_AND_BACK, TuneOptions
from pgdyno.studies.tune.restart_room import restarts_left
from pgdyno.trial.hopeless import FLOOR_SHARE
from pgdyno.trial.laboratory import Laboratory
from pgdyno.trial.restarts import needs_restart
from pgdyno.units import plural

INITIAL = 10
"""Points before the model leads: the baseline, the advisor-like starts, then global and local ones in turn."""

VOID_IN_A_ROW = 5
"""A void trial says nothing and is not counted against the search; so many in a row say that something is wrong."""

LOST = frozenset({TrialState.FAILED, TrialState.VOID, TrialState.REFUSED, TrialState.UNSTEADY})
"""What the model of feasibility learns from: of these configurations no figure can be had."""

ENOUGH_BASELINES = 3
"""Before so many runs of the baseline, what is poor is not known."""

Point = Mapping[str, Value]


@dataclass
class Search:
    """A search in progress: its trials, and what the optimiser may learn from them."""

    laboratory: Laboratory
    space: SearchSpace
    starts: tuple[Point, ...]
    options: TuneOptions
    baselines: list[Trial] = field(default_factory=list)
    trials: list[Trial] = field(default_factory=list)
    suggestions: list[Suggestion] = field(default_factory=list)
    noise_sd: float = 0.0
    """Scatter of ln(figure) of one trial, from the noise floor."""
    stopped: str = ""
    seems_flat: bool | None = None
    """What the one look at a quarter of the trials said: whether nothing stands out from the noise; None before it."""
    fresh: list[Trial] = field(default_factory=list)
    """Trials of a proof that the search's winner did not stand: the model learns from them too."""
    failed: list[Trial] = field(default_factory=list)
    """Trials of winners that failed in their proof: what a search trial had of such a configuration counts no more."""
    left_out: list[str] = field(default_factory=list)
    """What a time budget had no room for."""
    blocks: int = 0
    """How many blocks were begun."""
    _points: dict[Configuration, Point] = field(default_factory=dict, repr=False)

    def run(self) -> None:
        """Ask and measure until the budget is spent or more search is not worth it."""
        trials = self.options.trials
        self.laboratory.expect(trials + math.ceil(trials / self.options.baseline_every), at_most=True)
        self._run_blocks()

    def go_on(self) -> None:
        """Search further where the space seemed flat and fresh pairs have shown a gain; that is not asked again."""
        self.stopped = ""
        self._run_blocks()

    def _run_blocks(self) -> None:
        while not self.stopped:
            self.blocks += 1
            self._run_block(self.blocks)

    def _run_block(self, block: int) -> None:
        """Run one baseline and `baseline_every` suggestions, the baseline at a place drawn at random."""
        options = self.options
        lot = random.Random(f"{options.seed}/search/{block}")  # noqa: S311 - a seeded place that must repeat on resume
        place = lot.randrange(options.baseline_every + 1)
        for slot in range(options.baseline_every + 1):
            if slot == place:
                if self._has_room_for_a_baseline():
                    self.measure_baseline(block, slot)
                continue
            self.stopped = self._reason_to_stop()
            if self.stopped:
                return
            suggestion = self._ask()
            if suggestion.repeats:
                self.stopped = self._all_tried()
                return
            self.suggestions.append(suggestion)
            self._measure(suggestion, block, slot)

    def _has_room_for_a_baseline(self) -> bool:
        """Tell whether a configuration can still be tried after one more run of the baseline.

        Else that run has nothing to be held against, and its time is another configuration's.
        """
        watch = self.laboratory.stopwatch
        has_time = watch is None or watch.has_room(2 + self.options.proof_trials)
        return has_time and len(self._counted()) < self.options.trials

    def _counted(self) -> list[Trial]:
        """Return the trials that count against the most that were asked for."""
        return [trial for trial in self.trials if trial.state is not TrialState.VOID]

    def measure_baseline(self, block: int, slot: int) -> Trial:
        """Measure the baseline once more."""
        trial = run_repeating(self.laboratory.run, TrialSpec(BASELINE, Role.BASELINE, "baseline", block, slot))
        if self._has_figure(trial):
            self.baselines.append(trial)
        return trial

    def _ask(self) -> Suggestion:
        return ask(
            self.space.dimensions,
            self.history(),
            starts=self.starts,
            skipped=self.skipped(),
            held=() if self._may_restart() else self._restarting(),
            seed=self.options.seed,
            feasible=self.is_feasible,
            initial=INITIAL,
        )

    def _measure(self, suggestion: Suggestion, block: int, slot: int) -> None:
        configuration = point_to_configuration(self.space, suggestion.point)
        spec = TrialSpec(configuration, Role.SEARCH, suggestion.origin, block, slot)
        self.trials.append(run_repeating(partial(self.laboratory.run, floor_tps=self.floor_tps()), spec))

    def floor_tps(self) -> float | None:
        """Return the throughput that a trial must surely reach to be worth a whole window; None where none is known.

        FLOOR_SHARE of the best score so far, which counts for no more than is left of it after twice the noise of one
        trial: the best of many is a lucky one. Only where throughput is asked for and the clients alone bound it.
        """
        by_rate = self.laboratory.study.plan.rate is not None
        if self.options.metric is not Metric.THROUGHPUT or by_rate or len(self.baselines) < ENOUGH_BASELINES:
            return None
        figures = [(_time(trial), self._gain(trial)) for trial in self.baselines]
        best = max(score for _, score in self._scored()) - 2 * self.noise_sd
        return FLOOR_SHARE * math.exp(max(0.0, best) + level_now(figures))

    def _all_tried(self) -> str:
        """Return the words for a space of which no point is left; what keeps others out is said too."""
        which = "" if self._may_restart() else " without a restart"
        return f"every configuration that can be tried{which} was tried"

    def _restarting(self) -> list[str]:
        """Return the knobs of the space that need a restart."""
        facts = self.laboratory.facts
        return [dimension.name for dimension in self.space.dimensions if needs_restart(dimension.name, facts)]

    def _may_restart(self) -> bool:
        """Return False when the restarts that are left are needed to prove what was found."""
        left = restarts_left(self.laboratory, self.options)
        return left is None or left >= self.options.proof_restarts + THERE_AND_BACK

    def is_feasible(self, point: Point) -> bool:
        """Tell whether the constraints accept this point."""
        return self.accepts(point_to_configuration(self.space, point))

    def accepts(self, configuration: Configuration) -> bool:
        """Tell whether the constraints accept this configuration: what is left of one may need what was taken."""
        laboratory = self.laboratory
        return check(configuration, laboratory.facts, connections=laboratory.study.plan.clients) is None

    def _reason_to_stop(self) -> str:
        options = self.options
        if len(self._counted()) >= options.trials:
            return f"the {options.trials} search trials are used up"
        latest = self.trials[-VOID_IN_A_ROW:]
        if len(latest) == VOID_IN_A_ROW and all(trial.state is TrialState.VOID for trial in latest):
            return f"{plural(VOID_IN_A_ROW, 'trial')} in a row were void: {latest[-1].reason or 'unknown why'}"
        watch = self.laboratory.stopwatch
        if watch is not None and not self.trials and not watch.has_room(1 + options.proof_trials):
            return f"with the proof that has to follow, {watch.shortage(1 + options.proof_trials)}"
        if watch is not None and not watch.has_room(1, until_s=watch.share_s(options.SEARCH_SHARE)):
            return "the search's share of the time is used up"
        if watch is not None and not watch.has_room(1 + options.proof_trials):
            return "what is left of the time is needed for the proof"
        if self._looks_flat():
            measured = sum(map(self._has_figure, self.trials))
            return f"none of {measured} configurations stands out from the noise of the baseline"
        promises = [suggestion.log_expected_improvement for suggestion in self.suggestions]
        return should_stop(promises, self.noise_sd) or ""

    def history(self) -> list[ScoredPoint]:
        """Return what the optimiser learns from: every finished trial, scored against the baseline of its time.

        A trial that failed, was void or was refused is an observation without a value, and so is one that was unsteady
        each time it was repeated: where a configuration is never steady, its neighbours seldom are.
        """
        observations = [ScoredPoint(self._point(trial), score) for trial, score in self._scored()]
        lost = [t for t in (*self.trials, *self.failed) if t.state in LOST]
        return observations + [ScoredPoint(self._point(t), None) for t in lost]

    def _scored(self) -> list[tuple[Trial, float]]:
        """Return every trial that has a figure with its score: baselines, then what was asked."""
        fresh = [trial for trial in self.fresh if self._has_figure(trial)]
        baselines = sorted((*self.baselines, *(t for t in fresh if t.spec.role is Role.BASELINE)), key=_time)
        measured = [trial for trial in self.trials if self._has_figure(trial)]
        measured += [trial for trial in fresh if trial.spec.role is not Role.BASELINE]
        figures, repeats = ([(_time(t), self._gain(t)) for t in each] for each in (measured, baselines))
        scores, own = relative_scores(figures, repeats) if repeats else ([], [])
        return [*zip(baselines, own, strict=True), *zip(measured, scores, strict=bool(repeats))]

    def _looks_flat(self) -> bool:
        """Look, once there is enough to tell by, whether nothing that was tried stands out; False at any other time."""
        if self.seems_flat is not None:
            return False
        tried, repeats = self._measured()
        if not can_tell_flat(len(tried), len(repeats), trials=self.options.trials):
            return False
        self.seems_flat = is_flat(self.space.dimensions, [*repeats, *tried])
        return self.seems_flat

    def _measured(self) -> tuple[list[ScoredPoint], list[ScoredPoint]]:
        """Return the scores of what was tried, and those of the baseline's repeats, one by one."""
        scored = [(trial.spec.role, ScoredPoint(self._point(trial), score)) for trial, score in self._scored()]
        tried = [seen for role, seen in scored if role is Role.SEARCH]
        return tried, [seen for role, seen in scored if role is not Role.SEARCH]

    def skipped(self) -> list[Point]:
        """Return the points whose trials say nothing of them: disturbed each time they were repeated, or no figure.

        They count as tried. Asked again, they would be the next suggestion until the search is over.
        """
        return [self._point(t) for t in self.trials if t.state not in LOST and not self._has_figure(t)]

    def learn(self, trial: Trial) -> None:
        """Let the model learn from a trial that it did not ask for, where there is anything to learn."""
        self.fresh += [trial] if self._has_figure(trial) else []

    def score(self, trial: Trial) -> float | None:
        """Return ln of a known trial's gain over the baseline of its time; None where it has no figure."""
        return next((score for one, score in self._scored() if one.id == trial.id), None)

    def _has_figure(self, trial: Trial) -> bool:
        known = trial.figure(self.options.metric) is not None
        failed = any(trial.spec.configuration == one.spec.configuration for one in self.failed)
        return known and trial.state is TrialState.COMPLETE and not failed

    def _point(self, trial: Trial) -> Point:
        configuration = trial.spec.configuration
        if configuration not in self._points:  # the whole history is told again before each trial
            self._points[configuration] = configuration_to_point(self.space, configuration, self.laboratory.facts)
        return self._points[configuration]

    def _gain(self, trial: Trial) -> float:
        """Return the trial's figure so that higher is better, whatever the metric."""
        metric: Metric = self.options.metric
        figure = trial.figure(metric)
        if figure is None or figure <= 0:
            return 1e-12
        return figure if metric.higher_is_better else 1 / figure

    def winner(self) -> Configuration:
        """Return the tried configuration with the best posterior mean that is not the baseline.

        By the sceptical fit among those that surely lead; where none does, by the search's own fit, since whether it
        beats the baseline is decided in fresh pairs and not here. The empty one when no other was measured.
        """
        point = candidate(self.space.dimensions, self.history(), seed=self.options.seed)
        return point_to_configuration(self.space, point)


def _time(trial: Trial) -> float:
    return trial.outcome.began_at if trial.outcome else 0.0
