"""Is a figure the same at another level? An answer of equivalence: the interval must lie within the tolerance. Pure.

The runs of two levels are pairs of one repetition, and their interval is that of `sequential`, with one look when all
is over. What is read off it has three words, because "no difference found" proves nothing:

    constant        the interval lies within [1/(1+t), 1+t], t the tolerance that was fixed beforehand
    not constant    the interval lies outside of it
    not resolved    else
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from pgdyno.model.results.scale import Constancy
from pgdyno.model.verdict import Interval, Metric
from pgdyno.stats.sequential import Design, judge

FEWEST_PAIRS = 4
"""With fewer, a tolerance as large as the doubt is never met, however alike the runs are."""


def constancy(
    reference: Sequence[float], level: Sequence[float], tolerance: float, *, confidence: float = 0.95
) -> tuple[Constancy, Interval | None]:
    """Return the word and the interval of level over reference, pair by pair; no interval below `FEWEST_PAIRS` pairs.

    `reference` and `level` hold one figure a repetition, in the same order. `tolerance` is a ratio distance (0.05 =
    5 %), which is taken as the doubt too: of few pairs nobody knows their scatter better. `confidence` is that of the
    interval, in (0, 1). Raises UsageError as `judge` does.
    """
    pairs = len(reference)
    if pairs < FEWEST_PAIRS or len(level) != pairs:
        return Constancy.NOT_RESOLVED, None
    design = Design(tolerance, confidence, min_pairs=pairs, max_pairs=pairs, doubt=tolerance)
    found = judge(reference, level, metric=Metric.THROUGHPUT, design=design).interval
    band = math.log1p(tolerance)
    low, high = math.log(found.lo), math.log(found.hi)
    if -band <= low and high <= band:
        return Constancy.CONSTANT, found
    return (Constancy.NOT_CONSTANT if low > band or high < -band else Constancy.NOT_RESOLVED), found
