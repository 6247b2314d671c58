"""Does the effect of a switch still grow while it is counted? Then the wash-out was too short, and hides a part of it.

Carry-over never invents an effect, it shrinks one: a true -10 % that comes with a time constant of 15 s is seen as -7 %
in periods of 30 s with 5 s of wash-out, with one of 60 s as -1.5 % (simulated). The test finds large ones only (-30 %
with 15 s: in 95 % by 16 pairs; -10 %: in 45 %), so that its silence proves nothing. Pure.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from pgdyno.stats.distributions import stdtrit

LOOKS = (8, 16, 32)
"""Pairs at which one looks, each look with ERROR of its own."""
ERROR = 0.01


def fades_in(first_halves: Sequence[float], second_halves: Sequence[float]) -> bool:
    """Return whether the log ratios of the halves of the counted time differ, by a t test at the look just reached.

    Both hold one log ratio a pair. False between the looks and where nothing scatters.
    """
    pairs = len(first_halves)
    if pairs not in LOOKS or len(second_halves) != pairs:
        return False
    apart = np.asarray(second_halves, dtype=np.float64) - np.asarray(first_halves, dtype=np.float64)
    error = float(apart.std(ddof=1)) / math.sqrt(pairs)
    return error > 0 and abs(float(apart.mean())) / error > float(stdtrit(pairs - 1, 1 - ERROR / 2))
