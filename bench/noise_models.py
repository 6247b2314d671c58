"""The kinds of noise that benchmark runs have, for verifying what the rules do under each of them.

A model gives the logarithm of the performance of consecutive runs of one configuration; `paired_log_ratios` lays
interleaved pairs over it with the order inside each pair drawn at random, as a study does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
NoiseModel = Callable[[np.random.Generator, int, int, float], Floats]
"""(rng, studies, runs, cv) to log performance, shape (studies, runs)."""


def normal(rng: np.random.Generator, studies: int, runs: int, cv: float) -> Floats:
    """Return independent normal noise."""
    return rng.standard_normal((studies, runs)) * cv


def drift(rng: np.random.Generator, studies: int, runs: int, cv: float) -> Floats:
    """Return normal noise on a trend of one CV a run: data that grow, a machine that warms up."""
    return normal(rng, studies, runs, cv) + cv * np.arange(runs)


def autocorrelated(rng: np.random.Generator, studies: int, runs: int, cv: float) -> Floats:
    """Return AR(1) noise with 0.8 between neighbours: a neighbour's load that comes and goes."""
    shocks = normal(rng, studies, runs, cv)
    series = np.empty_like(shocks)
    series[:, 0] = shocks[:, 0]
    for run in range(1, runs):
        series[:, run] = 0.8 * series[:, run - 1] + 0.6 * shocks[:, run]
    return series


def heavy_tailed(rng: np.random.Generator, studies: int, runs: int, cv: float) -> Floats:
    """Return Student's t with 3 degrees of freedom, scaled to the CV: mostly quiet, now and then far off."""
    return np.asarray(rng.standard_t(3, size=(studies, runs)) * cv / np.sqrt(3.0), dtype=np.float64)


def bimodal(rng: np.random.Generator, studies: int, runs: int, cv: float) -> Floats:
    """Return two modes 2 CV apart with little scatter, drawn anew for each run: memory layout after a restart."""
    modes = rng.choice(np.array([-cv, cv]), size=(studies, runs))
    return np.asarray(modes + normal(rng, studies, runs, cv / 5), dtype=np.float64)


def skewed(rng: np.random.Generator, studies: int, runs: int, cv: float) -> Floats:
    """Return exponential losses: a ceiling that runs fall short of."""
    return np.asarray(-rng.exponential(cv, size=(studies, runs)), dtype=np.float64)


NOISE_MODELS: Mapping[str, NoiseModel] = {
    "normal": normal,
    "drift": drift,
    "autocorrelated": autocorrelated,
    "heavy-tailed": heavy_tailed,
    "bimodal": bimodal,
    "skewed": skewed,
}


def paired_log_ratios(
    model: NoiseModel, *, rng: np.random.Generator, studies: int, pairs: int, cv: float, effect: float = 0.0
) -> Floats:
    """Return ln(b/a) of the pairs of many studies, shape (studies, pairs).

    `effect` is the true effect of b as a ratio distance (0.05 = 5 %). Which run of a pair is b is a fair coin.
    """
    series = model(rng, studies, 2 * pairs, cv)
    coin = rng.integers(2, size=(studies, pairs)) * 2 - 1
    return np.asarray((series[:, 1::2] - series[:, ::2]) * coin + np.log1p(effect), dtype=np.float64)
