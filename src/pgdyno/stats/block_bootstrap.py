"""Intervals from resampled blocks: statements of a session, or of a moment, depend on each other. Pure.

A bootstrap of single statements would call their number the amount of information. Here whole sessions are drawn with
replacement, or slices of time where sessions are few; both sides of a comparison share the drawing, so that what a
block has in common cancels. What is resampled are counts by block and value, so that a million executions cost no more
than a thousand.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from pgdyno.stats.arrays import Floats, Integers

Weights: TypeAlias = NDArray[np.float32]
FEWEST_BLOCKS, MOST_BLOCKS = 40, 200
RESAMPLES = 400
CONFIDENCE = 0.95
_FEWEST_USED = 10
"""Blocks in which a class was seen; with fewer there is no interval."""
_BINS_PER_E = 200
_EXACT = 1000


@dataclass(frozen=True, slots=True)
class DependentBlocks:
    """Which block each row is in, how many there are, and of what they are made: sessions or slices of time."""

    of: NDArray[np.int32]
    count: int
    made_of: str


def make_blocks(session: Integers, due: Integers) -> DependentBlocks:
    """Return blocks of sessions, neighbours joined to at most 200; slices of time where there are fewer than 40."""
    names, place = np.unique(session, return_inverse=True)
    sessions = int(names.size)
    if sessions >= FEWEST_BLOCKS:
        count = min(sessions, MOST_BLOCKS)
        return DependentBlocks((place * count // sessions).astype(np.int32), count, "sessions")
    span = int(due.max(initial=0)) + 1
    return DependentBlocks(
        (due.astype(np.int64) * FEWEST_BLOCKS // span).astype(np.int32), FEWEST_BLOCKS, "slices of time"
    )


def drawn(blocks: int, seed: int, resamples: int = RESAMPLES) -> Weights:
    """Return how often each block is drawn in each resample, shape (resamples, blocks)."""
    random = np.random.default_rng(seed)
    return random.multinomial(blocks, np.full(blocks, 1 / blocks), size=resamples).astype(np.float32)


def counted(values: Sequence[Integers], blocks: Integers, count: int) -> tuple[Floats, list[Weights]]:
    """Return the levels of the values of several sides, and each side's counts, shape (blocks, levels).

    Up to 1,000 values are levels themselves; more are counted in bins of half a per cent, of which the centre is told.
    """
    joined = np.concatenate(values)
    if joined.size <= _EXACT:
        levels, place = np.unique(joined, return_inverse=True)
        centres = levels.astype(np.float64)
    else:
        bins = np.rint(np.log(np.maximum(joined, 1)) * _BINS_PER_E).astype(np.int32)
        seen = np.bincount(bins)
        levels = np.flatnonzero(seen)
        place = (np.cumsum(seen > 0) - 1)[bins]
        centres = np.exp(levels / _BINS_PER_E)
    found, width = list[Weights](), int(levels.size)
    for part in np.split(place, np.cumsum([one.size for one in values])[:-1]):
        at = blocks.astype(np.int64) * width + part
        found.append(np.bincount(at, minlength=count * width).reshape(count, width).astype(np.float32))
    return centres, found


def quantile_ratios(
    centres: Floats,
    counts_a: Weights,
    counts_b: Weights,
    weights: Weights,
    shares: Sequence[float],
    confidence: float = CONFIDENCE,
) -> list[tuple[float, float] | None]:
    """Return the ends of the interval of the ratio of each quantile, B over A; None where too few blocks hold it.

    `centres` are the values of the levels, `counts_a` and `counts_b` count them by block, shape (blocks, levels), as
    `counted` returns them; `weights` is how often each resample drew each block, shape (resamples, blocks). `shares`
    are the quantiles, 0.99 for p99, and `confidence` is that of each interval, in (0, 1).
    """
    if min(np.count_nonzero(side.sum(axis=1)) for side in (counts_a, counts_b)) < _FEWEST_USED:
        return [None] * len(shares)
    with np.errstate(invalid="ignore", divide="ignore"):
        ratios = _resampled(counts_b, weights, centres, shares) / _resampled(counts_a, weights, centres, shares)
    found = list[tuple[float, float] | None]()
    for row in ratios:
        usable = row[np.isfinite(row)]
        ends = (
            np.quantile(usable, ((1 - confidence) / 2, (1 + confidence) / 2)) if 2 * usable.size >= row.size else None
        )
        found.append(None if ends is None else (float(ends[0]), float(ends[1])))
    return found


def share_interval(
    good: NDArray[np.number], blocks: DependentBlocks, weights: Weights, confidence: float = CONFIDENCE
) -> tuple[float, float, float]:
    """Return the mean of a figure of each row, such as 0 or 1, with the ends of its interval.

    `good` has the figure of each row, and `blocks` says which block it is of; `weights` and `confidence` are as in
    `quantile_ratios`.
    """
    sums = np.bincount(blocks.of, good, blocks.count)
    sizes = np.bincount(blocks.of, minlength=blocks.count)
    with np.errstate(invalid="ignore", divide="ignore"):
        means = (weights @ sums) / (weights @ sizes)
    mean = float(np.mean(good))
    low, high = np.quantile(means[np.isfinite(means)], ((1 - confidence) / 2, (1 + confidence) / 2))
    return mean, min(float(low), mean), max(float(high), mean)


def _resampled(counts: Weights, weights: Weights, centres: Floats, shares: Sequence[float]) -> Floats:
    """Return the quantiles of each resample, shape (shares, resamples), between levels; NaN where it drew nothing."""
    cumulative = np.cumsum(weights @ counts, axis=1, dtype=np.float64)
    total = cumulative[:, -1]
    found = np.full((len(shares), weights.shape[0]), np.nan)
    for index, share in enumerate(shares):
        at = (cumulative < share * total[:, None]).sum(axis=1)
        found[index] = np.where(total > 0, centres[at], np.nan)
    return found
