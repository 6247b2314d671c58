"""Amdahl's law and the Universal Scalability Law, fitted to throughput by load, with intervals. Pure.

    X(n) = rate n / (1 + contention (n - 1) + coherency n (n - 1))          Gunther 2007; coherency 0 is Amdahl's law

n / X(n) is a straight sum of 1, n - 1 and n (n - 1), so the fit is one of least squares, weighted because the scatter
of throughput is a share of it. Intervals are the ends of draws from the distribution that such a fit leaves (Student's
t with what degrees of freedom remain, coefficients together). They hold for what is drawn from them, too: the load with
the greatest throughput, and that throughput. A coefficient below 0 means a load that scales better than in proportion,
which neither law knows: it is 0 in both.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np

from pgdyno.errors import UsageError
from pgdyno.model.results.scale import LawFigure, ScalingLaw
from pgdyno.stats.arrays import Floats

_ROUNDS = 6
"""Of weighting anew by the fit itself: weights from the runs would favour those that are high by chance."""
_DRAWS = 4000
_FEWEST_LOADS = {"amdahl": 3, "usl": 4}
_LEAST_SPARE = 2
"""Runs beyond the coefficients: without them the scatter, and so every interval, would be a guess."""


def fit_amdahl(loads: Sequence[float], throughputs: Sequence[float], *, confidence: float = 0.95) -> ScalingLaw | str:
    """Fit Amdahl's law to one throughput a run; the reason as text where the runs are too few for it.

    Raises UsageError on figures that are not positive.
    """
    return _fit("amdahl", loads, throughputs, confidence)


def fit_usl(loads: Sequence[float], throughputs: Sequence[float], *, confidence: float = 0.95) -> ScalingLaw | str:
    """Fit the Universal Scalability Law; otherwise as `fit_amdahl`."""
    return _fit("usl", loads, throughputs, confidence)


def _fit(law: str, loads: Sequence[float], throughputs: Sequence[float], confidence: float) -> ScalingLaw | str:
    n, x = np.asarray(loads, dtype=np.float64), np.asarray(throughputs, dtype=np.float64)
    if n.shape != x.shape or not (
        np.all(np.isfinite(n)) and np.all(n > 0) and np.all(np.isfinite(x)) and np.all(x > 0)
    ):
        raise UsageError("loads and throughputs are not pairs of positive numbers", hint="Leave out runs without any.")
    width, different = (2 if law == "amdahl" else 3), int(np.unique(n).size)
    if different < _FEWEST_LOADS[law]:
        return f"it takes {_FEWEST_LOADS[law]} different loads, and there are {different}"
    if n.size < width + _LEAST_SPARE:
        return f"it takes {width + _LEAST_SPARE} runs, and there are {n.size}"
    columns = np.stack([np.ones(n.size), n - 1, n * (n - 1)], axis=1)[:, :width]
    fitted = np.ones(n.size)
    for _ in range(_ROUNDS):
        solved = _constrained(columns / fitted[:, None], n / x / fitted)
        fitted = columns @ solved
    return _told(solved, _draws(columns / fitted[:, None], n / x / fitted), confidence)


def _constrained(columns: Floats, values: Floats) -> Floats:
    """Return the coefficients of least squares with none below 0: the best of the few sets that may be 0."""
    best, least = np.zeros(columns.shape[1]), np.inf
    for chosen in itertools.product(*((place, 0) for place in range(1, columns.shape[1]))):
        used = sorted({0, *chosen})
        found = np.linalg.lstsq(columns[:, used], values, rcond=None)[0]
        off = float(np.sum((columns[:, used] @ found - values) ** 2))
        if np.all(found >= 0) and off < least:
            best, least = np.zeros(columns.shape[1]), off
            best[used] = found
    return best


def _draws(columns: Floats, values: Floats) -> Floats:
    """Return draws of the coefficients, shape (draws, coefficients): the same ones for the same runs."""
    found = np.linalg.lstsq(columns, values, rcond=None)[0]
    freedom = values.size - columns.shape[1]
    scatter = max(float(np.sum((values - columns @ found) ** 2)) / freedom, 1e-24)
    spread = np.asarray(np.linalg.inv(columns.T @ columns), dtype=np.float64)
    random = np.random.default_rng(0)
    wide = np.sqrt(freedom * scatter / random.chisquare(freedom, _DRAWS))
    drawn = found + wide[:, None] * (random.standard_normal((_DRAWS, found.size)) @ np.linalg.cholesky(spread).T)
    return _allowed(np.asarray(drawn), spread)


def _allowed(drawn: Floats, spread: Floats) -> Floats:
    """Return the draws with none of their shares below 0: the nearest such ones, as the fit itself is."""
    shares = list(range(1, drawn.shape[1]))
    for zeros in (*([one] for one in reversed(shares)), shares):
        below = np.any(drawn[:, zeros] < 0, axis=1)
        shift = spread[:, zeros] @ np.linalg.inv(spread[np.ix_(zeros, zeros)])
        drawn = np.where(below[:, None], drawn - drawn[:, zeros] @ shift.T, drawn)
        drawn[:, zeros] = np.where(below[:, None], 0.0, drawn[:, zeros])
    return np.asarray(drawn, dtype=np.float64)


def _told(found: Floats, draws: Floats, confidence: float) -> ScalingLaw:
    centre, around = _figures(found[None, :]), _figures(draws)
    ends = np.quantile(around, ((1 - confidence) / 2, (1 + confidence) / 2), axis=1, method="nearest")
    names = ("rate", "contention", "coherency", "peak", "limit", "knee")
    return ScalingLaw(
        **{
            name: LawFigure(value=_bound(value), lo=_bound(min(lo, value)), hi=_bound(max(hi, value)))
            for name, value, lo, hi in zip(names, centre[:, 0], ends[0], ends[1], strict=True)
        }
    )


def _bound(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def _figures(coefficients: Floats) -> Floats:
    """Return rate, contention, coherency, peak, limit and knee of each row of coefficients, shape (6, rows)."""
    first = np.maximum(coefficients[:, 0], 1e-300)
    rest = np.maximum(coefficients[:, 1:], 0.0)
    rate, contention = 1 / first, rest[:, 0] / first
    coherency = rest[:, 1] / first if rest.shape[1] > 1 else np.zeros(first.size)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        peak = np.maximum(np.sqrt(np.maximum(1 - contention, 0.0) / coherency), 1.0)
        peak = np.where(coherency > 0, peak, np.inf)
        at_peak = rate * peak / (1 + contention * (peak - 1) + coherency * peak * (peak - 1))
        limit = np.where(coherency > 0, at_peak, rate / contention)
        return np.stack([rate, contention, coherency, peak, limit, limit / rate])
