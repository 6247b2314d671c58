"""The ratio of two sets of runs that are not pairs, such as runs of two machines: Welch's interval on logarithms.

It covers how much runs scatter on each side, and nothing else: what differs between the days or places at which the
sides were measured is in the ratio, and no interval shows it. So no verdict may rest on it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from pgdyno.errors import UsageError
from pgdyno.model.verdict import Interval
from pgdyno.stats.distributions import stdtrit
from pgdyno.stats.paired import interval


def ratio_interval(a: Sequence[float], b: Sequence[float], confidence: float = 0.95) -> Interval | None:
    """Return geometric mean of A over that of B with Welch's interval; None unless each side has two runs or more.

    Raises UsageError for a value that is not finite and positive.
    """
    if len(a) < 2 or len(b) < 2:
        return None
    for value in (*a, *b):
        if not (math.isfinite(value) and value > 0):
            raise UsageError(f"{value} is not a positive number", hint="Leave out runs in which nothing was measured.")
    first, second = np.log(np.asarray(a, dtype=np.float64)), np.log(np.asarray(b, dtype=np.float64))
    parts = [float(side.var(ddof=1)) / side.size for side in (first, second)]
    error = math.sqrt(sum(parts))
    mean = float(first.mean() - second.mean())
    if error == 0:
        return interval(mean, 0.0, confidence)
    freedom = sum(parts) ** 2 / sum(part**2 / (n - 1) for part, n in zip(parts, (len(a), len(b)), strict=True))
    return interval(mean, float(-stdtrit(freedom, (1 - confidence) / 2)) * error, confidence)
