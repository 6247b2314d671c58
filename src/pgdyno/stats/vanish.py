"""Statements that hardly run any more under B: cancelled ones are counted nowhere, which looks like speed.

A statement that fails or runs into its timeout has no call and no time in pg_stat_statements (seen on 15): driving the
slowest ones there improves every figure of time. Between equal neighbours the calls of a statement scatter by 0.37 in
ln, the lowest ratio seen was 0.34. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pgdyno.stats.body_index import PeriodCounts

LEFT = 0.2
"""Under B no more than this much of the calls under A, or of what is left of most statements' calls ..."""
LEAST_EXPECTED = 20
"""... which are so many at least ..."""
PAIRS = 2
"""... in so many pairs."""


def vanished(pairs: Sequence[tuple[PeriodCounts, PeriodCounts]]) -> tuple[int, ...]:
    """Return the numbers of the statements that vanished under B, from pairs of periods of A and of B.

    The pairs need not be matched: where all statements run less often, none of them has vanished.
    """
    if not pairs:
        return ()
    seen = sum(_gone(a, b).astype(np.int64) for a, b in pairs)
    return tuple(int(number) for number in np.flatnonzero(np.asarray(seen) >= PAIRS))


def _gone(a: PeriodCounts, b: PeriodCounts) -> NDArray[np.bool_]:
    often = a.calls >= LEAST_EXPECTED
    left = np.divide(b.calls, a.calls, out=np.ones_like(a.calls), where=often)
    if not often.any():
        return often
    usual = min(1.0, float(np.quantile(left[often], 0.5, method="higher")))
    return np.asarray(often & (left < LEFT * usual))
