"""What the searches that `optimizer.py` measures share, and the project's own search.

Each search is given the same start (the default, then the surface's rule-of-thumb points or none), the same number of
trials and the same noise, and says after some numbers of trials which points it would return: its own answer, and that
answer where fresh pairs call it better than the default, which is how a tune takes one.
"""

from __future__ import annotations

import importlib.util
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.random import Generator

from pgdyno.knobs.dimension import Dimension, Value
from pgdyno.model.verdict import Metric, Verdict, Word
from pgdyno.optimizer.ask import ask
from pgdyno.optimizer.frugal import reduce
from pgdyno.optimizer.observation import ScoredPoint
from pgdyno.optimizer.rank import candidate, choose
from pgdyno.stats.sequential import Design, is_final, judge
from pgdyno.studies.tune.options import TuneOptions
from pgdyno.studies.tune.run import MOST_SETTINGS

Point = Mapping[str, Value]
BASELINE_EVERY = 10
"""The own method measures the default anew as every tenth trial, inside its budget, as `pgdyno tune` interleaves it."""


class Surface(Protocol):
    """What a surface offers; see surfaces/surfaces.py."""

    @property
    def space(self) -> Sequence[Mapping[str, object]]: ...
    @property
    def default(self) -> Point: ...
    @property
    def advice(self) -> Sequence[Point]: ...
    @property
    def best(self) -> float: ...

    def true(self, point: Point, /) -> tuple[float, bool]: ...
    def measure(self, point: Point, rng: Generator, /) -> float | None: ...


class Surfaces(Protocol):
    """A `surfaces.py`."""

    PROBLEMS: Sequence[str]

    def get(self, name: str) -> Surface: ...


@dataclass(frozen=True, slots=True)
class Search:
    """A search that ran: what each way to answer returns after each checkpoint, failed trials, CPU s per suggestion."""

    returned: Mapping[str, Mapping[int, Point]]
    failed: int
    cpu_s: float


def load_surfaces(folder: Path) -> Surfaces:
    """Load the `surfaces.py` of a folder by its path."""
    spec = importlib.util.spec_from_file_location("surfaces_" + str(abs(hash(folder))), folder / "surfaces.py")
    if spec is None or spec.loader is None:
        raise SystemExit(f"error: no surfaces.py in {folder}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    surfaces: Surfaces = module
    return surfaces


def dimensions_of(surface: Surface) -> tuple[Dimension, ...]:
    """Return the dimensions of a surface's space."""
    return tuple(_dimension(spec) for spec in surface.space)


def _dimension(spec: Mapping[str, object]) -> Dimension:
    name = str(spec["name"])
    if spec["type"] == "cat":
        choices = spec["choices"]
        assert isinstance(choices, list), "a choice lists its words"
        return Dimension(name, "choice", choices=tuple(map(str, choices)), default=str(spec["default"]))
    low, high, default = (float(str(spec[key])) for key in ("lo", "hi", "default"))
    integer = spec["type"] == "int"
    if integer:
        low, high = float(np.ceil(low)), float(np.floor(high))
    start = min(max(default, low), high)
    dimension = Dimension(
        name,
        "integer" if integer else "real",
        low,
        high,
        bool(spec.get("log")),
        default=int(start) if integer else start,
    )
    return dimension.including(default)


def noise(seed: int, trial: int) -> Generator:
    """Return what the noise of a trial is drawn from: the same for every method."""
    return np.random.default_rng([seed, trial, 99])


NOISE_RUNS = TuneOptions().noise_runs
SCREENING = Design(max_pairs=24)
"""The pairs of baseline and winner in a proof, beside the trials of the search; their rule is that of `pgdyno tune`."""
PART = replace(SCREENING, confidence=1 - (1 - SCREENING.confidence) / MOST_SETTINGS)
"""The rule for what a part of the winner is worth, of as many parts as are measured at most."""


def own(surface: Surface, trials: int, seed: int, checkpoints: Sequence[int], advice: Sequence[Point]) -> Search:
    """Run the project's optimiser.

    `choose` is what the judgement of its own trials returns, `tune` the candidate of a tune, if proved, and `offered`
    the few settings of that candidate which a tune would prove.
    """
    dimensions = dimensions_of(surface)
    history, cpu_s = searched(surface, trials, seed, advice)
    returned: dict[str, dict[int, Point]] = {"choose": {}, "tune": {}, "offered": {}}
    for trial in checkpoints:
        known = history[:trial]
        returned["choose"][trial] = choose(dimensions, known)
        found = candidate(dimensions, known, seed=seed)
        returned["tune"][trial] = proved(surface, found, seed, trial)
        returned["offered"][trial] = offered(surface, few_of(surface, found, known, seed), seed, trial)
    return Search(returned, sum(seen.value is None for seen in history), cpu_s)


def searched(surface: Surface, trials: int, seed: int, advice: Sequence[Point]) -> tuple[list[ScoredPoint], float]:
    """Return the trials of the project's search and CPU seconds a suggestion; every tenth measures the default anew."""
    dimensions = dimensions_of(surface)
    history: list[ScoredPoint] = []
    cpu_s = 0.0
    for trial in range(1, trials + 1):
        began = time.process_time()
        if trial > 1 and trial % BASELINE_EVERY == 1:
            point: Point = surface.default
        else:
            point = ask(dimensions, history, starts=advice, seed=seed).point
        cpu_s += time.process_time() - began
        history.append(ScoredPoint(point, surface.measure(dict(point), noise(seed, trial))))
    return history, cpu_s / trials


def few_of(surface: Surface, found: Point, history: Sequence[ScoredPoint], seed: int) -> tuple[Point, Point]:
    """Return the part of a candidate that a tune without a bound of time or restarts would prove first.

    And that part without the settings that it would leave out together: the same where there are none.
    """
    if found == surface.default:
        return found, found
    floor = [surface.measure(dict(surface.default), np.random.default_rng([seed, run, 8])) for run in range(NOISE_RUNS)]
    noise_sd = float(np.std([value for value in floor if value is not None], ddof=1))
    left = reduce(
        dimensions_of(surface),
        history,
        found,
        noise_sd=noise_sd,
        most=MOST_SETTINGS,
        amounts={},
        tolerance=None,
        is_possible=lambda _: True,
    )
    return left.point, {**left.point, **{name: surface.default[name] for name in left.rest}}


def offered(surface: Surface, parts: tuple[Point, Point], seed: int, trial: int) -> Point:
    """Return what a tune offers: the whole part only where it is better than without those left out together."""
    whole, less = parts
    if whole == less:
        return proved(surface, whole, seed, trial)
    pairs, rng = Pairs(surface), np.random.default_rng([seed, trial, 7])
    while pairs.measure(rng, surface.default, whole, less) and pairs.count < SCREENING.max_pairs:
        better = pairs.verdict(0, 1, SCREENING)
        is_lost = better is not None and is_final(better, SCREENING) and better.word is not Word.BETTER
        if is_lost or all(verdict is not None and is_final(verdict, design) for verdict, design in (
            (better, SCREENING), (pairs.verdict(2, 1, PART), PART))):  # fmt: skip
            break
    matters, design = pairs.verdict(2, 1, PART), SCREENING
    answer, place = whole, 1
    if matters is None or matters.word is not Word.BETTER:
        answer, place, design = less, 2, PART
    verdict = pairs.verdict(0, place, design)
    return answer if verdict is not None and verdict.word is Word.BETTER else surface.default


@dataclass
class Pairs:
    """Fresh blocks of several points on a surface."""

    surface: Surface
    blocks: list[list[float]] = field(default_factory=list)

    @property
    def count(self) -> int:
        """Return how many blocks there are."""
        return len(self.blocks)

    def measure(self, rng: Generator, *points: Point) -> bool:
        """Measure each point once; return False, and keep nothing, where one fails."""
        values = [self.surface.measure(dict(point), rng) for point in points]
        known = [float(np.exp(value)) for value in values if value is not None]
        if len(known) == len(points):
            self.blocks.append(known)
        return len(known) == len(points)

    def verdict(self, a: int, b: int, design: Design) -> Verdict | None:
        """Return the verdict on two points by their places, None before the fewest pairs."""
        if self.count < design.min_pairs:
            return None
        left, right = ([block[place] for block in self.blocks] for place in (a, b))
        return judge(left, right, metric=Metric.THROUGHPUT, design=design)


def proved(surface: Surface, found: Point, seed: int, trial: int) -> Point:
    """Return what was found after this trial if fresh pairs, judged as a tune judges them, call it better."""
    pairs, rng = Pairs(surface), np.random.default_rng([seed, trial, 7])
    while found != surface.default and pairs.count < SCREENING.max_pairs:
        if not pairs.measure(rng, surface.default, found):
            break
        verdict = pairs.verdict(0, 1, SCREENING)
        if verdict is not None and is_final(verdict, SCREENING):
            return found if verdict.word is Word.BETTER else surface.default
    return surface.default
