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
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.random import Generator

from pgdyno.knobs.dimension import Dimension, Value
from pgdyno.model.verdict import Metric, Word
from pgdyno.optimizer.ask import ask
from pgdyno.optimizer.observation import ScoredPoint
from pgdyno.optimizer.rank import candidate, choose
from pgdyno.stats.sequential import Design, is_final, judge
from surface_tune import Offer, offer

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
    """A search that ran: what each way to answer returns after each checkpoint, failed trials, CPU s per suggestion.

    `offers` tells of the answers `offered`, `unended` and `in time` how they came about.
    """

    returned: Mapping[str, Mapping[int, Point]]
    failed: int
    cpu_s: float
    offers: Mapping[str, Mapping[int, Offer]] = field(default_factory=dict)


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
    return Dimension(
        name,
        "integer" if integer else "real",
        min(low, default),
        max(high, default),
        bool(spec.get("log")),
        default=int(start) if integer else start,
    )


def noise(seed: int, trial: int) -> Generator:
    """Return what the noise of a trial is drawn from: the same for every method."""
    return np.random.default_rng([seed, trial, 99])


SCREENING = Design(max_pairs=24)
"""The pairs of baseline and winner in a proof, beside the trials of the search; their rule is that of `pgdyno tune`."""


def own(surface: Surface, trials: int, seed: int, checkpoints: Sequence[int], advice: Sequence[Point]) -> Search:
    """Run the project's optimiser.

    `choose` is what the judgement of its own trials returns, `tune` the candidate of a tune, if proved, `offered`
    what a tune offers of it, `unended` the same without the rule that ends a search in which nothing stands out, and
    `in time` what a tune does that has a budget.
    """
    dimensions = dimensions_of(surface)
    history, cpu_s = searched(surface, trials, seed, advice)
    offers: dict[str, dict[int, Offer]] = {"offered": {}, "unended": {}, "in time": {}}
    returned: dict[str, dict[int, Point]] = {answer: {} for answer in ("choose", "tune", *offers)}
    for trial in checkpoints:
        known = history[:trial]
        returned["choose"][trial] = choose(dimensions, known)
        found = candidate(dimensions, known, seed=seed)
        returned["tune"][trial] = proved(surface, found, seed, trial)
        real = offer(surface, dimensions, known, seed)
        offers["offered"][trial] = real
        offers["unended"][trial] = offer(surface, dimensions, known, seed, looks=False) if real.seemed_flat else real
        offers["in time"][trial] = offer(surface, dimensions, known, seed, in_time=True)
        for answer, told in offers.items():
            returned[answer][trial] = told[trial].point
    return Search(returned, sum(seen.value is None for seen in history), cpu_s, offers)


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


def proved(surface: Surface, found: Point, seed: int, trial: int) -> Point:
    """Return what was found after this trial if fresh pairs, judged as a tune judges them, call it better."""
    left, right = list[float](), list[float]()
    rng = np.random.default_rng([seed, trial, 7])
    while found != surface.default and len(left) < SCREENING.max_pairs:
        values = [surface.measure(dict(point), rng) for point in (surface.default, found)]
        known = [float(np.exp(value)) for value in values if value is not None]
        if len(known) < 2:
            break
        left.append(known[0])
        right.append(known[1])
        if len(left) < SCREENING.min_pairs:
            continue
        verdict = judge(left, right, metric=Metric.THROUGHPUT, design=SCREENING)
        if is_final(verdict, SCREENING):
            return found if verdict.word is Word.BETTER else surface.default
    return surface.default
