"""Is one class of statements slower than it was? A rank test that knows ties and dependence, and many at once. Pure.

Mann and Whitney's statistic is the chance that an execution of B takes longer than one of A, ties counted half. Its
variance is the classical one with the correction for ties, or that of the placements summed over blocks of dependent
executions (Obuchowski 1997, on DeLong's components), whichever is larger: sessions may make it wider, pairing never
makes it narrower.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from pgdyno.stats.arrays import Floats
from pgdyno.stats.distributions import ndtr

Counts: TypeAlias = NDArray[np.number]
FEWEST_BLOCKS = 10
"""Below that a variance between blocks is too uncertain to be used."""


@dataclass(frozen=True, slots=True)
class RankTest:
    """The chance that B takes longer, ties counted half, and the one-sided p-values of slower and of faster."""

    chance: float
    slower: float
    faster: float


def rank_test(counts_a: Counts, counts_b: Counts) -> RankTest:
    """Test whether values of B are greater, and whether they are smaller, than those of A.

    `counts` have the shape (blocks, levels): how many executions of a block have a value; levels ascend, and are the
    same on both sides. At least 20 executions a side are meant: the normal approximation with a correction for
    continuity is used.
    """
    all_a, all_b = (counts.sum(axis=0, dtype=np.float64) for counts in (counts_a, counts_b))
    n_a, n_b = float(all_a.sum()), float(all_b.sum())
    below_a, below_b = ((np.cumsum(one) - one / 2) / n for one, n in ((all_a, n_a), (all_b, n_b)))
    chance = float(all_b @ below_a / n_b)
    variance = max(_classical(all_a + all_b, n_a, n_b), _between(counts_a, counts_b, below_a, below_b, chance))
    if variance <= 0:  # all values are equal
        return RankTest(chance, 1.0, 1.0)
    step, scatter = 0.5 / (n_a * n_b), math.sqrt(variance)
    slower, faster = ndtr([(0.5 + step - chance) / scatter, (chance + step - 0.5) / scatter])
    return RankTest(chance, float(slower), float(faster))


def adjusted(p_values: Floats) -> Floats:
    """Return p-values as Benjamini and Hochberg (1995) adjust them: those below q hold q of false discoveries."""
    p = np.asarray(p_values, np.float64)
    order = np.argsort(p)
    scaled = p[order] * p.size / np.arange(1, p.size + 1)
    found = np.empty_like(p)
    found[order] = np.minimum.accumulate(scaled[::-1])[::-1]
    return found


def _classical(ties: Floats, n_a: float, n_b: float) -> float:
    n = n_a + n_b
    return float((n + 1 - (ties**3 - ties).sum() / (n * (n - 1))) / (12.0 * n_a * n_b))


def _between(counts_a: Counts, counts_b: Counts, below_a: Floats, below_b: Floats, chance: float) -> float:
    """Return the variance of the chance by sums of placements over blocks; 0 where blocks are too few to tell."""
    size_a, size_b = counts_a.sum(axis=1), counts_b.sum(axis=1)
    used = int(np.count_nonzero(size_a + size_b))
    if used < FEWEST_BLOCKS:
        return 0.0
    of_b = (counts_b @ below_a - chance * size_b) / size_b.sum()
    of_a = (counts_a @ (1 - below_b) - chance * size_a) / size_a.sum()
    return float(((of_a + of_b) ** 2).sum() * used / (used - 1))
