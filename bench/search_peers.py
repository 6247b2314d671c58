"""The optimisers that `optimizer.py` measures beside the project's own: random search, a plain GP, Optuna's TPE, SMAC.

The libraries run at their documented defaults. Each peer answers twice: with its best single measurement (the plain GP
with its best posterior mean), and `proved`, with that point where the same fresh pairs that a tune has call it better.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Protocol
from unittest import mock

import numpy as np

from pgdyno.knobs.dimension import Dimension
from pgdyno.optimizer.feasibility import log_probability
from pgdyno.optimizer.rank import rank
from search_methods import Point, Search, Surface, dimensions_of, noise, own, proved, searched

PLAIN: Mapping[str, object] = {
    "kernel.SMOOTH": 1.0,
    "kernel.ADDITIVE": 0.0,
    "model.POOR_RANK": 10**9,
    "ask.CAUTION": 1.0,
    "candidates.ROUNDS": 3,
    "ask.log_worth": log_probability,
}
"""What makes a plain GP of the project's: Matern 5/2 with a weight per knob, a floor below the median, ln(EI) by the
model's own deviation, looked for in few rounds, and the chance of success without a wall."""


class Peer(Protocol):
    """What a library is asked and told. `performance` is ln, higher is better; None where the trial failed."""

    def ask(self) -> Point: ...
    def tell(self, point: Point, performance: float | None, /) -> None: ...


def random_search(
    surface: Surface, trials: int, seed: int, checkpoints: Sequence[int], advice: Sequence[Point]
) -> Search:
    """Run random search."""
    peer = _Random(dimensions_of(surface), np.random.default_rng([seed, 99]))
    return _run("random", peer, surface, trials, seed, checkpoints, advice)


def plain_gp(surface: Surface, trials: int, seed: int, checkpoints: Sequence[int], advice: Sequence[Point]) -> Search:
    """Run the Gaussian process that the project's study of optimisers began with, as far as that is known."""
    dimensions, returned = dimensions_of(surface), dict[int, Point]()
    with _constants(PLAIN):
        history, cpu_s = searched(surface, trials, seed, advice)
        for trial in checkpoints:
            ranked = rank(dimensions, history[:trial], seed=seed)
            returned[trial] = ranked[0].point if ranked else surface.default
    failed = sum(seen.value is None for seen in history)
    return _answered("gp", returned, surface, seed, failed, cpu_s)


@contextmanager
def _constants(values: Mapping[str, object]) -> Iterator[None]:
    with ExitStack() as stack:
        for place, value in values.items():
            stack.enter_context(mock.patch(f"pgdyno.optimizer.{place}", value))
        yield


def optuna_tpe(surface: Surface, trials: int, seed: int, checkpoints: Sequence[int], advice: Sequence[Point]) -> Search:
    """Run Optuna's multivariate TPE; a failed trial is told as the worst value seen."""
    return _run("tpe", _Tpe(dimensions_of(surface), seed), surface, trials, seed, checkpoints, advice)


def smac_forest(
    surface: Surface, trials: int, seed: int, checkpoints: Sequence[int], advice: Sequence[Point]
) -> Search:
    """Run SMAC's random forest, its facade for hyperparameters; a failed trial is told as the worst value seen."""
    with tempfile.TemporaryDirectory(prefix="pgdyno-smac-") as folder:
        peer = _Smac(dimensions_of(surface), trials, seed, folder)
        return _run("smac", peer, surface, trials, seed, checkpoints, advice)


@dataclass
class _Random:
    dimensions: Sequence[Dimension]
    rng: np.random.Generator

    def ask(self) -> Point:
        return {dimension.name: dimension.from_unit(float(self.rng.random())) for dimension in self.dimensions}

    def tell(self, point: Point, performance: float | None, /) -> None:
        """Learn nothing."""


@dataclass
class _Worst:
    """What a failed trial is told as: the worst value seen so far."""

    value: float = float("inf")

    def of(self, performance: float | None) -> float:
        self.value = self.value if performance is None else min(self.value, performance)
        return self.value if performance is None else performance


class _Tpe:
    def __init__(self, dimensions: Sequence[Dimension], seed: int) -> None:
        import optuna

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self._optuna, self._dimensions, self._worst = optuna, dimensions, _Worst()
        unit = optuna.distributions.FloatDistribution(0.0, 1.0)
        self._space: dict[str, optuna.distributions.BaseDistribution] = {
            d.name: optuna.distributions.CategoricalDistribution(d.choices) if d.kind == "choice" else unit
            for d in dimensions
        }
        sampler = optuna.samplers.TPESampler(seed=seed, multivariate=True)
        self._study = optuna.create_study(direction="maximize", sampler=sampler)

    def ask(self) -> Point:
        return _point(self._dimensions, self._study.ask(self._space).params)

    def tell(self, point: Point, performance: float | None, /) -> None:
        params, value = _unit(self._dimensions, point), self._worst.of(performance)
        trial = self._optuna.trial.create_trial(params=params, distributions=self._space, value=value)
        self._study.add_trial(trial)


class _Smac:
    def __init__(self, dimensions: Sequence[Dimension], trials: int, seed: int, folder: str) -> None:
        import ConfigSpace
        from smac import HyperparameterOptimizationFacade, Scenario
        from smac.runhistory.dataclasses import TrialInfo, TrialValue

        self._dimensions, self._worst = dimensions, _Worst()
        self._configuration, self._info, self._value = ConfigSpace.Configuration, TrialInfo, TrialValue
        self._space = ConfigSpace.ConfigurationSpace(seed=seed)
        for d in dimensions:
            choice = d.kind == "choice"
            self._space.add(ConfigSpace.Categorical(d.name, d.choices) if choice else ConfigSpace.Float(d.name, (0, 1)))
        scenario = Scenario(self._space, deterministic=True, n_trials=trials, seed=seed, output_directory=folder)
        self._facade = HyperparameterOptimizationFacade(scenario, lambda _, seed=0: 0.0, logging_level=False)
        self._first = self._facade.ask()  # held back behind the starts, which want the same seed
        self._asked = [self._first]
        self._is_asked = False

    def ask(self) -> Point:
        self._asked = self._asked or [self._facade.ask()]
        self._is_asked = True
        return _point(self._dimensions, dict(self._asked[0].config))

    def tell(self, point: Point, performance: float | None, /) -> None:
        if self._is_asked:
            info, self._is_asked = self._asked.pop(), False
        else:
            values = _unit(self._dimensions, point)
            info = self._info(self._configuration(self._space, values=values), seed=self._first.seed)
        self._facade.tell(info, self._value(cost=-self._worst.of(performance)), save=False)


def _point(dimensions: Sequence[Dimension], unit: Mapping[str, object]) -> Point:
    return {
        d.name: str(unit[d.name]) if d.kind == "choice" else d.decode((float(str(unit[d.name])),)) for d in dimensions
    }


def _unit(dimensions: Sequence[Dimension], point: Point) -> dict[str, object]:
    return {d.name: point[d.name] if d.kind == "choice" else d.encode(point[d.name])[0] for d in dimensions}


def _run(
    name: str,
    peer: Peer,
    surface: Surface,
    trials: int,
    seed: int,
    checkpoints: Sequence[int],
    advice: Sequence[Point],
) -> Search:
    starts = [surface.default, *advice]
    best: tuple[float, Point] = (-np.inf, surface.default)
    returned: dict[int, Point] = {}
    failed, cpu_s = 0, 0.0
    for trial in range(1, trials + 1):
        began = time.process_time()
        point = starts.pop(0) if starts else peer.ask()
        cpu_s += time.process_time() - began
        value = surface.measure(dict(point), noise(seed, trial))
        failed += value is None
        if value is not None and value > best[0]:
            best = (value, point)
        began = time.process_time()
        peer.tell(point, value)
        cpu_s += time.process_time() - began
        if trial in checkpoints:
            returned[trial] = best[1]
    return _answered(name, returned, surface, seed, failed, cpu_s / trials)


def _answered(name: str, found: Mapping[int, Point], surface: Surface, seed: int, failed: int, cpu_s: float) -> Search:
    fresh = {trial: proved(surface, point, seed, trial) for trial, point in found.items()}
    return Search({name: found, f"{name} proved": fresh}, failed, cpu_s)


SEARCHES: dict[str, Callable[[Surface, int, int, Sequence[int], Sequence[Point]], Search]] = {
    "own": own,
    "random": random_search,
    "gp": plain_gp,
    "tpe": optuna_tpe,
    "smac": smac_forest,
}
NEEDS = {"tpe": "optuna", "smac": "smac"}
"""The packages that searches need."""
