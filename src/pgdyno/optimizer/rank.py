"""Which tried point is the best, and how sure that is: by the model's posterior.

The best single measurement is the luckiest one as often as the best one; the posterior mean takes back the luck.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pgdyno.knobs.dimension import Dimension, Value
from pgdyno.optimizer.encoding import Point
from pgdyno.optimizer.model import fit_model, fit_sceptical
from pgdyno.optimizer.observation import Data, ScoredPoint, gather

SURE = 2.8
"""How many standard deviations of its lead over the default a point must lead by: it is one among fifty.

A compromise: at 2.4, twice as many searches of a space in which nothing helps end away from the default; at 3, the
default is kept in twice as many searches of twenty trials on recorded TPC-H, where nearly everything beats it.
"""


@dataclass(frozen=True, slots=True)
class Ranked:
    """A tried point with its posterior mean and standard deviation, in ln(performance), without measurement noise."""

    point: Mapping[str, Value]
    mean: float
    sd: float


def rank(dimensions: Sequence[Dimension], history: Sequence[ScoredPoint], *, seed: int) -> list[Ranked]:
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


def choose(dimensions: Sequence[Dimension], history: Sequence[ScoredPoint], *, sure: float = SURE) -> Point:
    """Return the point to recommend: the best by posterior mean that surely leads the default.

    "Surely": by `sure` standard deviations of the lead under the joint posterior of a sceptical fit. Otherwise, and
    when the default itself was never measured, the default is the answer.
    """
    data = gather(dimensions, history)
    default = _default_place(data)
    if default is None:
        return data.encoding.point(data.encoding.default)
    lead, sd = fit_sceptical(data).posterior.lead(default)
    leaders = np.flatnonzero(lead >= sure * sd)
    best = leaders[np.argmax(lead[leaders])] if len(leaders) else default
    return data.encoding.point(data.measured[best])


def leads(dimensions: Sequence[Dimension], history: Sequence[ScoredPoint]) -> list[tuple[Point, float, float]]:
    """Return each measured point with its lead over the default in ln(performance), and the deviation of that lead.

    By the joint posterior of the sceptical fit; empty where the default was never measured.
    """
    data = gather(dimensions, history)
    default = _default_place(data)
    if default is None:
        return []
    model = fit_sceptical(data)
    lead, sd = (model.scaled.spread * each for each in model.posterior.lead(default))
    return [(data.encoding.point(row), float(lead[i]), float(sd[i])) for i, row in enumerate(data.measured)]


def _default_place(data: Data) -> int | None:
    places = np.flatnonzero((data.measured == data.encoding.default).all(axis=1))
    return int(places[0]) if len(places) else None


def candidate(dimensions: Sequence[Dimension], history: Sequence[ScoredPoint], *, seed: int) -> Point:
    """Return the point that is worth fresh pairs: the one of `choose`, else the first of `rank` beside the default.

    The default where no other point was measured.
    """
    default = {dimension.name: dimension.default for dimension in dimensions}
    if (sure := choose(dimensions, history)) != default:
        return sure
    ranked = (entry.point for entry in rank(dimensions, history, seed=seed))
    return next((point for point in ranked if point != default), default)
