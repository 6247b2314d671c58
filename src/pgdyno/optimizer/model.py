"""The model of the objective: the Gaussian process on the measured points, in standardised targets."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from pgdyno.optimizer.encoding import Vector
from pgdyno.optimizer.gp import NO_SCATTER, PRIOR, Posterior, Prior, Scatter, fit
from pgdyno.optimizer.observation import Data

SCEPTIC = replace(PRIOR, noise_median=0.5, noise_spread=0.5)
"""For judging: half of all scatter is noise unless the points say otherwise.

The search may believe too much, for its next trial puts that right; nothing puts right what a judgement believes. Under
the wide prior of the search, two dozen points that differ by noise alone are often explained without any noise.
"""
ENOUGH_REPEATS = 3
"""Repeats from which the search learns the noise: of one or two, a lucky pair would pass for a quiet machine."""
SURPRISE = 3.0
"""A point further than this from what all others predict, in standard deviations, was disturbed."""
POOR_RANK = 4
FLOOR_FACTOR = 2.0


@dataclass(frozen=True, slots=True)
class Model:
    """A fitted model. `tried_mean` and `tried_sd` are those of the measured points, in standardised targets."""

    posterior: Posterior
    scaled: Scaled
    tried_mean: Vector
    tried_sd: Vector

    @property
    def best(self) -> float:
        """Return the best posterior mean at a measured point."""
        return float(self.tried_mean.max())


def fit_model(data: Data) -> Model:
    """Fit to the measured points of a history for the search; there must be at least one."""
    scatter = _scatter(data)
    return _model(data, data.counts, PRIOR, scatter if scatter.freedom >= ENOUGH_REPEATS else NO_SCATTER)


def fit_sceptical(data: Data, *, floored: bool = True) -> Model:
    """Fit to the measured points for a judgement: it expects noise, and learns it from how repeats scatter.

    Without `floored` hopeless values count as low as they are: for who asks how much lies between best and worst.

    Disturbed points hardly count. A trial that met a busy neighbour is off by ten times the noise, and one such point
    hides what all others show; it gets the variance that makes it no surprise.
    """
    reference = _default_value(data)
    model = _model(data, data.counts, SCEPTIC, _scatter(data), floored=floored, reference=reference)
    surprise = np.abs(model.posterior.surprise())
    disturbed = surprise > SURPRISE
    if not disturbed.any():
        return model
    counts = data.counts.copy()
    counts[disturbed] /= surprise[disturbed] ** 2
    return _model(data, counts, SCEPTIC, _scatter(data), floored=floored, reference=reference)


def _default_value(data: Data) -> float:
    """Return what the default reached; beyond all where it was not measured."""
    at_default = (data.measured == data.encoding.default).all(axis=1)
    return float(data.values[at_default].min()) if at_default.any() else math.inf


def _scatter(data: Data) -> Scatter:
    return Scatter(data.squares, float(data.counts.sum()) - len(data.counts))


def _model(
    data: Data,
    counts: Vector,
    prior: Prior,
    scatter: Scatter,
    *,
    floored: bool = True,
    reference: float = math.inf,
) -> Model:
    scaled = scale(data.values, floored=floored, reference=reference)
    x = data.encoding.features(data.measured)
    scatter = replace(scatter, squares=scatter.squares / scaled.spread**2)
    posterior = fit(x, scaled.targets, data.encoding.groups, counts=counts, scatter=scatter, prior=prior)
    return Model(posterior, scaled, *posterior.predict(x))


@dataclass(frozen=True, slots=True)
class Scaled:
    """Targets with mean 0 and standard deviation 1; a value in ln(performance) is center + spread * target."""

    targets: Vector
    center: float
    spread: float


def scale(values: Vector, *, floored: bool = True, reference: float = math.inf) -> Scaled:
    """Raise hopeless values to a floor, unless all of each is asked for, then standardise.

    The floor lies below a poor value, the fifth-worst, by twice the distance of the best above it: how bad a bad
    configuration is tells nothing about where the best one is, and would use up the model's range. The reference is
    a rank from the bottom, not the median: as the search gathers good points the median rises to the best one, and a
    floor that follows it would erase all that the first points taught. It is never above the `reference`, which no
    judgement of a gain over it may raise.
    """
    poor = float(np.sort(values)[min(POOR_RANK, (len(values) - 1) // 2)])
    best = float(values.max())
    floor = min(reference, poor - FLOOR_FACTOR * (best - poor))
    kept = np.maximum(values, floor) if floored and best > poor else values
    center, spread = float(kept.mean()), float(kept.std())
    if spread < 1e-9:
        spread = 1.0
    return Scaled((kept - center) / spread, center, spread)
