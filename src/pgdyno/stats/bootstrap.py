"""Intervals by resampling, for ratios that have no honest closed form: medians and quantiles within two single runs.

Bins of a run are correlated (checkpoints, vacuum, caches), so whole blocks of neighbours are drawn, with the ends
joined (circular block bootstrap, Politis and Romano 1992). The percentiles are corrected for the bias of the
estimate (BC, Efron) and widened for few blocks, as Student's t widens the normal.

What such an interval covers is the noise *within* these two runs. Two runs of one configuration differ by more than
that; only pairs (`sequential.judge`) can tell a configuration's effect from a run's luck.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from pgdyno.errors import UsageError
from pgdyno.model.verdict import Interval
from pgdyno.stats.distributions import ndtr, ndtri, stdtrit

Floats = NDArray[np.float64]
Statistic = Callable[[Floats], Floats]
"""Reduces the last axis: shape (resamples, n) to (resamples,). Its value must be positive."""

FEWEST = 20
"""Below this number of bins, intervals of correlated series cover visibly less than they say."""


def median(sample: Floats) -> Floats:
    """Return the median along the last axis."""
    return np.asarray(np.median(sample, axis=-1), dtype=np.float64)


def quantile(q: float) -> Statistic:
    """Return the statistic "quantile q", 0 to 1, along the last axis."""

    def of(sample: Floats) -> Floats:
        return np.asarray(np.quantile(sample, q, axis=-1), dtype=np.float64)

    return of


def ratio_interval(
    a: Sequence[float] | Floats,
    b: Sequence[float] | Floats,
    *,
    rng: np.random.Generator,
    statistic: Statistic = median,
    confidence: float = 0.95,
    block_bins: int | None = None,
    resamples: int = 2000,
) -> Interval:
    """Return statistic(b) / statistic(a) with its bootstrap interval.

    `a` and `b` are the positive values of consecutive bins of one run each, of any two lengths from FEWEST up.
    `block_bins` is the length of a block; None chooses it for each series from its lag-1 autocorrelation. Raises
    UsageError for a series that is too short or not positive.
    """
    first, second = _series("a", a), _series("b", b)
    estimate = float(np.log(statistic(second[None]))[0] - np.log(statistic(first[None]))[0])
    lengths = [block_bins or block_length(series) for series in (first, second)]
    drawn = [
        np.log(statistic(series[_indices(series.size, length, resamples, rng)]))
        for series, length in zip((first, second), lengths, strict=True)
    ]
    blocks = min(first.size / lengths[0], second.size / lengths[1])
    lo, hi = _corrected(drawn[1] - drawn[0], estimate, confidence, blocks)
    return Interval(math.exp(estimate), math.exp(min(lo, estimate)), math.exp(max(hi, estimate)), confidence)


def block_length(series: Floats) -> int:
    """Return the block length for a series: (sqrt(6) r / (1 - r^2))^(2/3) n^(1/3), r its lag-1 autocorrelation.

    The rule of Carlstein (1986) for an AR(1) series, between 1 and a quarter of the length.
    """
    centred = series - series.mean()
    energy = float((centred * centred).sum())
    r = float((centred[1:] * centred[:-1]).sum()) / energy if energy > 0 else 0.0
    r = min(max(r + 2 / series.size, 0.0), 0.95)  # the estimate is low by about (1 + 3 r) / n
    length = (math.sqrt(6) * r / (1 - r * r)) ** (2 / 3) * series.size ** (1 / 3)
    return int(min(max(round(length), 1), max(series.size // 4, 1)))


def _series(name: str, values: Sequence[float] | Floats) -> Floats:
    series = np.asarray(values, dtype=np.float64)
    if series.ndim != 1 or series.size < FEWEST:
        raise UsageError(f"series {name} has {series.size} bins, a bootstrap needs {FEWEST}", hint="Measure longer.")
    if not (np.isfinite(series).all() and (series > 0).all()):
        raise UsageError(f"series {name} holds a value that is not positive", hint="Use longer bins.")
    return series


def _indices(size: int, length: int, resamples: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Return indices of circular blocks, shape (resamples, size)."""
    starts = rng.integers(size, size=(resamples, math.ceil(size / length)))
    indices = (starts[:, :, None] + np.arange(length)) % size
    return np.asarray(indices.reshape(resamples, -1)[:, :size], dtype=np.int64)


def _corrected(drawn: Floats, estimate: float, confidence: float, blocks: float) -> tuple[float, float]:
    """Return bias-corrected percentiles; the normal quantile is that of Student's t with blocks - 1 freedom."""
    below = float((drawn < estimate).mean() + (drawn == estimate).mean() / 2)
    bias = float(ndtri(min(max(below, 1 / drawn.size), 1 - 1 / drawn.size)))
    freedom = max(blocks - 1, 1.0)
    z = float(-stdtrit(freedom, (1 - confidence) / 2)) * math.sqrt((freedom + 1) / freedom)
    levels = ndtr(np.array([2 * bias - z, 2 * bias + z]))
    lo, hi = np.quantile(drawn, levels)
    return float(lo), float(hi)
