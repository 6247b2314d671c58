"""The search methods that `optimizer.py` measures: the project's own, random search, and Optuna's TPE.

Each is given the same start (the default, then the surface's rule-of-thumb points or none), the same number of trials
and the same noise, and says after some numbers of trials which point it would return.
"""

from __future__ import annotations

import importlib.util
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
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
    """A search that ran: the point it would return after each checkpoint, failed trials, CPU seconds per suggestion."""

    returned: Mapping[int, Point]
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


Take = Callable[[Sequence[Dimension], Sequence[ScoredPoint], int], Point]
SCREENING = Design(max_pairs=24)
"""The pairs of baseline and winner in a proof, beside the trials of the search; their rule is that of `pgdyno tune`."""


def own(surface: Surface, trials: int, seed: int, checkpoints: Sequence[int], advice: Sequence[Point]) -> Search:
    """Run the project's optimiser and return what `choose` says: no fresh pairs."""
    return _own(surface, trials, seed, checkpoints, advice, lambda space, history, _: choose(space, history))


def own_tune(surface: Surface, trials: int, seed: int, checkpoints: Sequence[int], advice: Sequence[Point]) -> Search:
    """Run the project's optimiser and return what a tune takes: its candidate, where fresh pairs call it better."""

    def take(dimensions: Sequence[Dimension], history: Sequence[ScoredPoint], trial: int) -> Point:
        found = candidate(dimensions, history, seed=seed)
        is_better = screened(surface, found, np.random.default_rng([seed, trial, 7]))
        return found if is_better else surface.default

    return _own(surface, trials, seed, checkpoints, advice, take)


def screened(surface: Surface, found: Point, rng: Generator) -> bool:
    """Return whether fresh pairs, judged as a tune judges them, call this point better than the default."""
    a: list[float] = []
    b: list[float] = []
    while len(a) < SCREENING.max_pairs:
        pair = surface.measure(dict(surface.default), rng), surface.measure(dict(found), rng)
        if pair[0] is None or pair[1] is None:
            return False
        a.append(float(np.exp(pair[0])))
        b.append(float(np.exp(pair[1])))
        if len(a) < SCREENING.min_pairs:
            continue
        verdict = judge(a, b, metric=Metric.THROUGHPUT, design=SCREENING)
        if is_final(verdict, SCREENING):
            return verdict.word is Word.BETTER
    return False


def _own(
    surface: Surface, trials: int, seed: int, checkpoints: Sequence[int], advice: Sequence[Point], take: Take
) -> Search:
    """Run the project's optimiser, with the default measured anew every tenth trial."""
    dimensions = dimensions_of(surface)
    history: list[ScoredPoint] = []
    returned: dict[int, Point] = {}
    cpu_s = 0.0
    for trial in range(1, trials + 1):
        began = time.process_time()
        if trial > 1 and trial % BASELINE_EVERY == 1:
            point: Point = surface.default
        else:
            point = ask(dimensions, history, starts=advice, seed=seed).point
        cpu_s += time.process_time() - began
        history.append(ScoredPoint(point, surface.measure(dict(point), noise(seed, trial))))
        if trial in checkpoints:
            returned[trial] = take(dimensions, history, trial)
    return Search(returned, sum(seen.value is None for seen in history), cpu_s / trials)


def random_search(
    surface: Surface, trials: int, seed: int, checkpoints: Sequence[int], advice: Sequence[Point]
) -> Search:
    """Run random search: the best single measurement is returned."""
    dimensions, rng = dimensions_of(surface), np.random.default_rng([seed, 99])

    def suggest() -> Point:
        return {dimension.name: dimension.from_unit(float(rng.random())) for dimension in dimensions}

    return _best_observed(surface, trials, seed, checkpoints, advice, suggest, lambda point, value: None)


def optuna_tpe(surface: Surface, trials: int, seed: int, checkpoints: Sequence[int], advice: Sequence[Point]) -> Search:
    """Run Optuna's multivariate TPE; a failed trial is told as the worst value seen, the best measurement returned."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    dimensions = dimensions_of(surface)
    unit = optuna.distributions.FloatDistribution(0.0, 1.0)
    spread: dict[str, optuna.distributions.BaseDistribution] = {
        d.name: optuna.distributions.CategoricalDistribution(d.choices) if d.kind == "choice" else unit
        for d in dimensions
    }
    study = optuna.create_study(
        direction="maximize",
        sampler=optuna.samplers.TPESampler(seed=seed, multivariate=True),
    )
    worst = [surface.true(surface.default)[0]]

    def suggest() -> Point:
        drawn = study.ask(spread).params
        return {d.name: drawn[d.name] if d.kind == "choice" else d.decode((drawn[d.name],)) for d in dimensions}

    def tell(point: Point, value: float | None) -> None:
        worst.append(min(worst[-1], value if value is not None else worst[-1]))
        told = {d.name: point[d.name] if d.kind == "choice" else d.encode(point[d.name])[0] for d in dimensions}
        study.add_trial(
            optuna.trial.create_trial(params=told, distributions=spread, value=worst[-1] if value is None else value)
        )

    return _best_observed(surface, trials, seed, checkpoints, advice, suggest, tell)


def _best_observed(
    surface: Surface,
    trials: int,
    seed: int,
    checkpoints: Sequence[int],
    advice: Sequence[Point],
    suggest: Callable[[], Point],
    tell: Callable[[Point, float | None], None],
) -> Search:
    starts = [surface.default, *advice]
    best: tuple[float, Point] = (-np.inf, surface.default)
    returned: dict[int, Point] = {}
    failed, cpu_s = 0, 0.0
    for trial in range(1, trials + 1):
        began = time.process_time()
        point = starts.pop(0) if starts else suggest()
        cpu_s += time.process_time() - began
        value = surface.measure(dict(point), noise(seed, trial))
        failed += value is None
        if value is not None and value > best[0]:
            best = (value, point)
        began = time.process_time()
        tell(point, value)
        cpu_s += time.process_time() - began
        if trial in checkpoints:
            returned[trial] = best[1]
    return Search(returned, failed, cpu_s / trials)


METHODS: dict[str, Callable[[Surface, int, int, Sequence[int], Sequence[Point]], Search]] = {
    "choose": own,
    "tune": own_tune,
    "random": random_search,
    "tpe": optuna_tpe,
}
