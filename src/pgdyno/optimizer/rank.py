"""Which tried point is the best, how sure that is, and what its knobs are worth: all by the model's posterior.

The best single measurement is the luckiest one as often as the best one; the posterior mean takes back the luck.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from pgdyno.knobs.dimension import Dimension, Value
from pgdyno.optimizer.encoding import Point
from pgdyno.optimizer.model import fit_model
from pgdyno.optimizer.observation import Data, Observation, gather

Vector = NDArray[np.float64]

CONFIDENCE = 0.995


@dataclass(frozen=True, slots=True)
class Ranked:
    """A tried point with its posterior mean and standard deviation, in ln(performance), without measurement noise."""

    point: Mapping[str, Value]
    mean: float
    sd: float


def rank(dimensions: Sequence[Dimension], history: Sequence[Observation], *, seed: int) -> list[Ranked]:
    """Return the measured points, best posterior mean first; empty when every trial failed.

    Nothing here is random yet; `seed` is for a model whose fit is.
    """
    data = gather(dimensions, history)
    if not len(data.values):
        return []
    model = fit_model(data)
    center, spread = model.scaled.center, model.scaled.spread
    mean = center + spread * model.tried_mean
    sd = spread * model.tried_sd
    order = np.argsort(-mean, kind="stable")
    return [Ranked(data.encoding.point(data.measured[i]), float(mean[i]), float(sd[i])) for i in order]


def choose(dimensions: Sequence[Dimension], history: Sequence[Observation], *, confidence: float = CONFIDENCE) -> Point:
    """Return the point to recommend: the best by posterior mean that is surely enough better than the default.

    "Surely enough": the joint posterior gives it at least `confidence` to be better. Otherwise, and when the default
    itself was never measured, the default is the answer.
    """
    data = gather(dimensions, history)
    default = np.flatnonzero((data.measured == data.encoding.default).all(axis=1))
    if not len(default):
        return data.encoding.point(data.encoding.default)
    chance, mean = _chances(data, int(default[0]))
    sure = np.flatnonzero(chance >= confidence)
    best = sure[np.argmax(mean[sure])] if len(sure) else default[0]
    return data.encoding.point(data.measured[best])


def importance(
    dimensions: Sequence[Dimension], history: Sequence[Observation], winner: Point, *, seed: int
) -> dict[str, float]:
    """Return, per knob that the winner changes, what its posterior mean loses when that knob alone goes back.

    In ln(performance): 0.1 says that the model expects 10 % less without it. Empty when every trial failed.
    `seed` as in `rank`.
    """
    data = gather(dimensions, history, [winner])
    if not len(data.values):
        return {}
    row, default = data.encoding.row(winner), data.encoding.default
    changed = np.flatnonzero(row != default)
    without = np.tile(row, (len(changed) + 1, 1))
    without[np.arange(len(changed)), changed] = default[changed]
    model = fit_model(data)
    mean = model.posterior.predict(data.encoding.features(without))[0] * model.scaled.spread
    return {data.encoding.dimensions[place].name: float(mean[-1] - mean[i]) for i, place in enumerate(changed)}


def _chances(data: Data, default: int) -> tuple[Vector, Vector]:
    """Return each measured point's probability of being better than the default, and its posterior mean."""
    model = fit_model(data)
    covariance = model.posterior.covariance(data.encoding.features(data.measured))
    own = np.diag(covariance)
    variance = own + own[default] - 2 * covariance[:, default]
    gap = model.tried_mean - model.tried_mean[default]
    return ndtr(gap / np.sqrt(np.maximum(variance, 1e-12))), model.tried_mean
