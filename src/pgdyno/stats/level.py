"""The level that repeated runs of one configuration stand at over time: constant, unless they say that it moved. Pure.

Each of a few models says how fast the level walks: not at all, or a random walk whose variance from one run to the
next is a given multiple of the noise's. Within a model the level is the best linear prediction from all runs
(generalised least squares; Rasmussen and Williams 2006, eq. 2.41), and the models are averaged by their restricted
likelihood (Patterson and Thompson 1971). So a level that stands still is a plain mean and adds no noise to what is
compared with it, and one that moves is followed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pgdyno.stats.arrays import Floats

WALKS = np.array([0.0, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0])
"""Variance of the level's walk over the mean time between two runs, in variances of the noise of one run."""
STILL = 0.5
"""The chance, before anything was seen, that the level stands still; the walks share the rest."""
WILD = 4.0
"""A run further from its four nearest neighbours than this many typical distances moves the level no further."""
LEAST = 1e-18


@dataclass(frozen=True, slots=True)
class BaselineLevel:
    """`values` is the level at each run, at `times` (seconds); `apart` how far each run lies from what others predict.

    `apart` of a run is what a single trial at its time would be off by: the noise of one run, and that of the level.
    """

    times: Floats
    values: Floats
    apart: Floats

    def at(self, times: Sequence[float]) -> Floats:
        """Return the level at any times: between two runs a straight line, outside of them held."""
        return np.interp(times, self.times, self.values)


def find_level(times: Sequence[float], values: Sequence[float] | Floats) -> BaselineLevel:
    """Return the level of `values` (logarithms of figures, any unit) at ascending `times`; one run is its own level."""
    at, seen = np.asarray(times, dtype=np.float64), np.asarray(values, dtype=np.float64)
    size = seen.size
    if size == 1:
        return BaselineLevel(at, seen.copy(), np.zeros(1))
    tamed = _tamed(seen)
    gap = float(at[-1] - at[0]) / (size - 1)
    steps = (at - at[0]) / gap if gap > 0 else np.zeros(size)
    shared = np.minimum.outer(steps, steps)
    likelihoods, noises, aparts = [], [], []
    inverses = np.linalg.inv(np.eye(size) + WALKS[:, None, None] * shared)
    for inverse, volume in zip(inverses, np.linalg.slogdet(inverses)[1], strict=True):
        weights = inverse.sum(axis=0)
        projection = inverse - np.outer(weights, weights) / weights.sum()
        noise = projection @ tamed
        squares = max(float(tamed @ noise), LEAST)
        half_log = 0.5 * float(volume) - 0.5 * float(np.log(weights.sum()))
        likelihoods.append(half_log - 0.5 * (size - 1) * float(np.log(squares)))
        noises.append(noise)
        aparts.append(noise / np.diag(projection))
    prior = np.where(WALKS == 0, STILL, (1 - STILL) / (WALKS.size - 1))
    share = prior * np.exp(np.array(likelihoods) - max(likelihoods))
    share /= share.sum()
    return BaselineLevel(at, tamed - share @ np.array(noises), share @ np.array(aparts) + seen - tamed)


def _tamed(values: Floats) -> Floats:
    """Return the runs with wild ones drawn in; of three nobody can say which is wild."""
    size = values.size
    if size < 4:
        return values
    runs = np.arange(size)
    places = np.clip(runs - 2, 0, max(0, size - 5))[:, None] + np.arange(min(4, size - 1))
    around = np.median(values[places + (places >= runs[:, None])], axis=1)  # the run itself is left out
    distance = values - around
    reach = WILD * 1.4826 * float(np.median(np.abs(distance)))
    return np.asarray(around + np.clip(distance, -reach, reach))
