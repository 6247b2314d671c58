"""What the model says of each knob: how much the performance moves along it, and how sure that is. Pure.

A knob's slice is the mean performance at each of its values, over the settings of the other knobs that were tried (the
partial dependence of Friedman 2001) by the posterior of the sceptical fit, whose covariance gives the deviation of
every difference exactly. Its importance is the difference between the best and the worst value of its slice. The
model's own hyperparameters count as known, and the best and worst were picked: a little importance is everywhere, and
where two knobs changed together the one may have the effect of the other.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pgdyno.knobs.dimension import Dimension, Value
from pgdyno.optimizer.encoding import Encoding, Rows
from pgdyno.optimizer.model import Model, fit_sceptical
from pgdyno.optimizer.observation import ScoredPoint, gather
from pgdyno.units import plural

FEWEST, FEWEST_A_KNOB = 10, 1.5
"""Of fewer configurations, or fewer for each knob that was changed, the effect of one is taken for that of another.

In simulated searches of 14 configurations over 16 knobs, of which one mattered, a second one seemed to in two of three.
With 24 to 48 it was 5 of 225, where 5 % are allowed.
"""
MOST_LEVELS = 7
MOST_OTHERS = 32
"""So many settings of the other knobs are averaged over, evenly chosen among those that were tried."""


@dataclass(frozen=True, slots=True)
class KnobLevel:
    """A value of a slice: ln of the performance over that at the default, and its standard deviation."""

    value: Value
    lead: float
    sd: float


@dataclass(frozen=True, slots=True)
class KnobSlice:
    """One knob: its values in their order, and what the best is above the worst, in ln, with its deviation."""

    knob: str
    levels: tuple[KnobLevel, ...]
    best: Value
    worst: Value
    span: float
    sd: float


def knob_slices(dimensions: Sequence[Dimension], history: Sequence[ScoredPoint]) -> list[KnobSlice] | str:
    """Return each knob, the most important first; in words, why nothing is known where that is so.

    A knob that was never changed is left out.
    """
    data = gather(dimensions, history)
    measured = data.measured
    changed = [at for at in range(measured.shape[1]) if len(np.unique(measured[:, at])) > 1]
    needed = max(FEWEST, math.ceil(FEWEST_A_KNOB * len(changed)))
    if len(measured) < needed:
        over = f" over {plural(len(changed), 'knob')}" if changed else ""
        return f"{len(measured)} different configurations{over} were measured, and {needed} are needed"
    others = measured[np.unique(np.linspace(0, len(measured) - 1, MOST_OTHERS).round().astype(int))]
    model = fit_sceptical(data, floored=False)
    found = [_slice(data.encoding, model, others, at) for at in changed]
    return sorted(found, key=lambda one: -one.span)


def _slice(encoding: Encoding, model: Model, others: Rows, at: int) -> KnobSlice:
    places = _places(encoding, at)
    rows = np.repeat(others[None, :, :], len(places), axis=0)
    rows[:, :, at] = places[:, None]
    features = encoding.features(rows.reshape(-1, rows.shape[2]))
    size = len(places), len(others)
    mean = model.posterior.predict(features)[0].reshape(size).mean(axis=1)
    joint = model.posterior.covariance(features).reshape(*size, *size).mean(axis=(1, 3))
    spread = model.scaled.spread
    default = int(np.flatnonzero(places == encoding.default[at])[0])
    best, worst = int(np.argmax(mean)), int(np.argmin(mean))
    dimension = encoding.dimensions[at]
    values = [encoding.point(row)[dimension.name] for row in rows[:, 0, :]]
    return KnobSlice(
        dimension.name,
        tuple(
            KnobLevel(value, spread * float(mean[place] - mean[default]), spread * _sd(joint, place, default))
            for place, value in enumerate(values)
        ),
        values[best],
        values[worst],
        spread * float(mean[best] - mean[worst]),
        spread * _sd(joint, best, worst),
    )


def _sd(joint: NDArray[np.float64], a: int, b: int) -> float:
    return float(np.sqrt(max(joint[a, a] + joint[b, b] - 2 * joint[a, b], 0.0)))


def _places(encoding: Encoding, at: int) -> Rows:
    """Return the default and others evenly over the knob's levels, which are in their order, special ones last."""
    count = len(encoding.dimensions[at].levels)
    spread = np.linspace(0, count - 1, min(count, MOST_LEVELS - 1)).round().astype(int)
    return np.unique([*spread, encoding.default[at]])
