"""The proof of a tune on a response surface: the code of `pgdyno tune` from the end of its search on.

Frugal choice, blocks, veto, repair and what is offered are the product's; only the laboratory is simulated. A trial
measures the surface once with noise, nothing bounds time or restarts, and nothing drifts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol, cast

import numpy as np
from numpy.random import Generator

from pgdyno.knobs.dimension import Dimension
from pgdyno.knobs.space import SearchSpace, configuration_to_point
from pgdyno.model.configuration import BASELINE, Configuration
from pgdyno.model.facts import Facts, SettingFact
from pgdyno.model.study import Study, StudyKind, StudyState
from pgdyno.model.trial import LoadPlan, Outcome, Trial, TrialSpec, TrialState, WorkloadSpec
from pgdyno.model.verdict import Word
from pgdyno.optimizer.observation import ScoredPoint
from pgdyno.studies.tune.noise_runs import measure_noise
from pgdyno.studies.tune.options import TuneOptions
from pgdyno.studies.tune.run import search_and_prove
from pgdyno.studies.tune.search import Point, Search
from pgdyno.studies.tune.tuned import Tuned
from pgdyno.trial.company import Company
from pgdyno.trial.laboratory import Laboratory
from pgdyno.trial.stopwatch import WALL, Stopwatch


class Measured(Protocol):
    """What a trial needs of a surface."""

    @property
    def default(self) -> Point: ...
    def measure(self, point: Point, rng: Generator, /) -> float | None: ...


class _Facts:
    """A server that has the knobs of the space and no others."""

    def __init__(self, space: SearchSpace) -> None:
        self._rows = {dimension.name: _row(dimension) for dimension in space.dimensions}

    def row(self, name: str) -> SettingFact | None:
        return self._rows.get(name)


def _row(dimension: Dimension) -> SettingFact:
    kind = "enum" if dimension.kind == "choice" else dimension.kind
    default = dimension.to_text(dimension.default)
    return SettingFact(dimension.name, default, None, kind, "sighup", "default", enumvals=dimension.choices)


@dataclass
class SurfaceLaboratory:
    """Runs trials on a surface; what `studies.tune` uses of a laboratory."""

    surface: Measured
    space: SearchSpace
    rng: Generator
    trials: list[Trial] = field(default_factory=list)
    stopwatch: Stopwatch | None = None
    company: Company = field(default_factory=Company)

    def __post_init__(self) -> None:
        self.facts = _Facts(self.space)
        plan = LoadPlan(clients=1, jobs=1, warmup_s=1.0, measure_s=1.0)
        load = WorkloadSpec("surface", {}, "0" * 16, "a surface", read_only=True)
        self.study = Study("s1", StudyKind.TUNE, "surface", StudyState.RUNNING, 0.0, "surface", "e1", {}, load, plan)

    def expect(self, trials: int, *, at_most: bool = False) -> None: ...

    def run(self, spec: TrialSpec, *, floor_tps: float | None = None) -> Trial:
        """Measure a configuration once."""
        point = configuration_to_point(self.space, spec.configuration, cast(Facts, self.facts))
        value = self.surface.measure(dict(point), self.rng)
        state = TrialState.FAILED if value is None else TrialState.COMPLETE
        outcome = Outcome(state, throughput=None if value is None else math.exp(value), elapsed_s=1.0)
        self.trials.append(Trial(len(self.trials) + 1, self.study.id, spec, state, outcome))
        _pass(self.stopwatch)
        return self.trials[-1]


@dataclass
class KnownSearch(Search):
    """A search that has these scores already, against a default that stands still; a tune's rule may end it before.

    `looks` is False where that rule is to end none.
    """

    known: Sequence[ScoredPoint] = ()
    default: Point = field(default_factory=dict)
    looks: bool = True

    def run(self) -> None:
        """Take the scores one after the other until there are no more, or none of them stands out."""
        self.used: list[ScoredPoint] = []
        while not self.stopped:
            if len(self.used) == len(self.known):
                self.stopped = "its trials are used up"
            elif self.looks and self._looks_flat():
                self.stopped = "none stands out"
            else:
                self._use(self.known[len(self.used)])

    def go_on(self) -> None:
        """Take the rest of the scores: what is asked after a look that a proof revoked does not know of that proof."""
        while len(self.used) < len(self.known):
            self._use(self.known[len(self.used)])
        self.stopped = "its trials are used up"

    def _use(self, seen: ScoredPoint) -> None:
        """Take a score, and its time where that is bounded; the noise floor is within the time of the first ones."""
        self.used.append(seen)
        if len(self.used) > self.options.noise_runs:
            _pass(self.laboratory.stopwatch)

    def accepts(self, configuration: Configuration) -> bool:
        """Accept all: a surface has no constraints."""
        return True

    def history(self) -> list[ScoredPoint]:
        """Return what was known, and what the proof let the model learn."""
        failed = [self._point(trial) for trial in self.failed]
        kept = [ScoredPoint(seen.point, None if seen.point in failed else seen.value) for seen in self.used]
        told = [ScoredPoint(self._point(trial), math.log(self._gain(trial))) for trial in self.fresh]
        return [*kept, *told, *(ScoredPoint(point, None) for point in failed)]

    def _measured(self) -> tuple[list[ScoredPoint], list[ScoredPoint]]:
        """Return what was tried, and the default's repeats, the noise floor's among them; nothing drifts here."""
        measured = [seen for seen in self.used if seen.value is not None]
        floor = [ScoredPoint(self.default, math.log(self._gain(trial))) for trial in self.baselines]
        repeats = [seen for seen in measured if seen.point == self.default]
        return [seen for seen in measured if seen.point != self.default], [*floor, *repeats]


@dataclass(frozen=True, slots=True)
class Offer:
    """What a tune offers, the default where that is nothing."""

    point: Point
    together: int
    """How many of its settings have no effect of their own, but one together."""
    unshown: int
    """How many have an effect of their own that is not shown."""
    runs: int
    """How many the tune had beside its search."""
    trials: int
    """How many its search had, repeats of the default among them."""
    seemed_flat: bool
    """Whether nothing stood out at a quarter of them; where fresh pairs did not agree, the search went on."""


def offer(
    surface: Measured,
    dimensions: Sequence[Dimension],
    known: Sequence[ScoredPoint],
    seed: int,
    *,
    in_time: bool = False,
    looks: bool = True,
) -> Offer:
    """Return what a tune offers whose search had these trials; `in_time` as one with a budget would.

    Without `looks` its search has all of them, also where nothing stands out.
    """
    tuned, laboratory = ended(surface, dimensions, known, seed, in_time=in_time, looks=looks)
    winner = tuned.winner if tuned.is_offered else BASELINE
    point = configuration_to_point(laboratory.space, winner, cast(Facts, laboratory.facts))
    alone = tuned.proof.effects if tuned.proof else {}
    search = cast(KnownSearch, tuned.search)
    unshown = sum(name in alone and alone[name].word is not Word.BETTER for name in winner)
    together = sum(name not in alone for name in winner)
    return Offer(point, together, unshown, len(laboratory.trials), len(search.used), bool(search.seems_flat))


def ended(
    surface: Measured,
    dimensions: Sequence[Dimension],
    known: Sequence[ScoredPoint],
    seed: int,
    *,
    in_time: bool = False,
    looks: bool = True,
) -> tuple[Tuned, SurfaceLaboratory]:
    """Return how the tune of `offer` ends, and the laboratory of its noise floor and its proof.

    `in_time` gives it a budget of which the search took its share: a trial is a second.
    """
    space, options = SearchSpace(tuple(dimensions), ()), TuneOptions(seed=seed, trials=len(known))
    simulated = SurfaceLaboratory(surface, space, np.random.default_rng([seed, len(known), 7]))
    laboratory = cast(Laboratory, simulated)
    search = KnownSearch(laboratory, space, (), options, known=known, default=surface.default, looks=looks)
    noise = measure_noise(search, options, lambda _: None)
    search.noise_sd = noise.floor.pair_sd / math.sqrt(2)
    if in_time:
        simulated.stopwatch = _stopwatch(len(known), options)
    tuned = Tuned(noise, search)
    search_and_prove(laboratory, tuned, options, lambda _: None)
    return tuned, simulated


def _stopwatch(searched: int, options: TuneOptions) -> Stopwatch:
    """Return the clock of a budget of which this many trials of the search took their share, the noise floor within."""
    share = searched / options.SEARCH_SHARE
    watch = Stopwatch(math.inf, began=0.0, clock=lambda: 0.0)
    watch.budget_s = share + 2 * watch.restart_s + watch.closing_s
    for _ in range(options.noise_runs):
        _pass(watch)
    return watch


def _pass(watch: Stopwatch | None) -> None:
    """Let a trial's time pass: a second."""
    if watch is not None:
        position = watch.position_s + 1.0
        watch.mark(Outcome(TrialState.COMPLETE, elapsed_s=1.0, counters={WALL: position}), recorded=False)
