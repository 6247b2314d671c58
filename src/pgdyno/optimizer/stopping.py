"""When more search is not worth it: nothing that was tried shows, or the model expects less than the noise."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from pgdyno.knobs.dimension import Dimension
from pgdyno.optimizer.encoding import Encoding, Matrix, Vector
from pgdyno.optimizer.gp import PRIOR
from pgdyno.optimizer.kernel import distances, parts
from pgdyno.optimizer.observation import ScoredPoint

EARLIEST = 25
"""Suggestions before which the model's promises end no search: a model of fewer trials is too sure of itself."""
PATIENCE = 5
"""How many suggestions in a row must promise less than the noise."""
FLAT_FROM = 10
"""So many points must have been measured before a space is called flat: the first ones, which cover it."""
FLAT_SHARE = 4
"""One in so many of the trials that the search may make is where that is told. A search whose share is fewer points
than those makes all its trials: there is little to save, and few points tell nothing."""
FLAT_REPEATS = 4
"""So often must the default have been measured: the noise of fewer runs is anybody's guess."""
FLAT_LEVEL = 0.95
"""A flat space passes the look with this chance."""
SIGNALS = (0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
"""Variances of what settings do, in variances of the noise of one trial: from what hardly shows to what is plain."""
DRAWS = 2000
"""Of noise alone, to know how far it goes: the level holds to half a per cent then."""
WILD = 3.0
"""So many standard deviations below its median, by the median distance from it, a value is drawn in."""
LEAST = 1e-18


def should_stop(log_expected_improvements: Sequence[float | None], noise_sd: float) -> str | None:
    """Return why the search should end, None while it is worth going on.

    `log_expected_improvements` are those of the suggestions so far, None where no model led; `noise_sd` is the
    standard deviation of ln(performance) of one trial. The rule is a proposal of the project's study of optimisers
    (five asks in a row, at 25 trials or more) and bounds regret by what could not be measured anyway. It ends the
    search of a few knobs; with many, some corner always promises more (docs/explanation/optimizer.md).
    """
    if len(log_expected_improvements) < EARLIEST or noise_sd <= 0:
        return None
    floor = math.log(noise_sd) + math.log(0.1)
    last = log_expected_improvements[-PATIENCE:]
    if any(promise is None or promise > floor for promise in last):
        return None
    return f"{PATIENCE} suggestions in a row promised less than a tenth of the noise of one trial"


def can_tell_flat(tried: int, repeats: int, *, trials: int) -> bool:
    """Tell whether so many tried points and repeats of the default are enough to call a space flat.

    `trials` is how many the search may make.
    """
    return repeats >= FLAT_REPEATS and tried >= trials // FLAT_SHARE >= FLAT_FROM


def is_flat(dimensions: Sequence[Dimension], history: Sequence[ScoredPoint]) -> bool:
    """Return whether all that was measured differs no more, nor in any other way, than noise alone would have it.

    `history` has an entry for each measurement, the repeats of the default among them. It is a suspicion only: a dozen
    points miss a gain that is not much larger than the noise, so that fresh pairs have to agree
    (docs/explanation/optimizer.md).

    The statistic is the restricted likelihood (Patterson and Thompson 1971) of settings that matter, over that of noise
    alone: the mean of it for effects with SIGNALS times the variance of the noise, which are alike in neighbours (the
    covariance of the search at its prior's length-scale) or each configuration's own. So it sees that the default's
    repeats agree where others do not, that all lie off the default, that neighbours are alike, that one stands out.
    What noise alone comes to depends on nothing but the points (Crainiceanu and Ruppert 2004), so that DRAWS draws of
    it tell. Values far below the others of the default, or of what was tried, are drawn in: one bad trial is no gain.
    """
    measured = [(seen.point, seen.value) for seen in history if seen.value is not None]
    encoding = Encoding(dimensions, [point for point, _ in measured])
    rows = encoding.rows([point for point, _ in measured])
    x = encoding.features(rows)
    weights = np.full(int(encoding.groups.max()) + 1, PRIOR.scale_median**-2)
    neighbours = parts(distances(x, x, encoding.groups), weights).total
    same = (rows[:, None] == rows[None, :]).all(axis=2).astype(np.float64)
    noise = np.random.default_rng(0).normal(size=(DRAWS, len(measured)))
    values = np.vstack([[value for _, value in measured], noise])
    is_default = (rows == encoding.default).all(axis=1)
    for group in (is_default, ~is_default):
        values[:, group] = _tamed(values[:, group])
    ratios = _likelihood_ratios(neighbours, values) + _likelihood_ratios(same, values)
    return bool(np.mean(ratios[1:] >= ratios[0]) > 1 - FLAT_LEVEL)


def _likelihood_ratios(covariance: Matrix, values: Matrix) -> Vector:
    """Return the restricted likelihood of effects of that covariance over that of noise alone, for each row of values.

    The level and the size of the noise are integrated out.
    """
    size = len(covariance)
    around = values - values.mean(axis=1, keepdims=True)
    alone = np.maximum((around**2).sum(axis=1), LEAST)
    total = np.zeros(len(values))
    for signal in SIGNALS:
        inverse = np.linalg.inv(np.eye(size) + signal * covariance)
        weights = inverse.sum(axis=0)
        projection = inverse - np.outer(weights, weights) / weights.sum()
        squares = np.maximum(((around @ projection) * around).sum(axis=1), LEAST)
        volume = float(np.linalg.slogdet(inverse)[1]) - math.log(weights.sum()) + math.log(size)
        total += np.exp(0.5 * volume - 0.5 * (size - 1) * np.log(squares / alone))
    return np.asarray(total / len(SIGNALS))


def _tamed(values: Matrix) -> Matrix:
    """Return rows in which no value is further below the row's median than WILD of its usual distances."""
    middle = np.median(values, axis=1, keepdims=True)
    usual = 1.4826 * np.median(np.abs(values - middle), axis=1, keepdims=True)
    return np.maximum(values, middle - WILD * usual)
