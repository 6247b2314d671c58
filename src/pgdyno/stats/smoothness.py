"""How even a throughput is from second to second. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

FEWEST_SECONDS = 5
CAVEAT = (
    "Even throughput is a hint at even response times and proves nothing for a single user: a total can be smooth "
    "while one client waits. The table of clients shows that."
)


@dataclass(frozen=True, slots=True)
class Smoothness:
    """`cv` is the coefficient of variation of the transactions per second over `seconds` whole seconds.

    `least` and `most` are the slowest and the fastest second; `empty` counts seconds without any transaction.
    """

    cv: float
    seconds: int
    least: float
    most: float
    empty: int


def smoothness(per_second: Sequence[float]) -> Smoothness | None:
    """Return it for transactions per whole second, seconds without any included; None for less than five."""
    if len(per_second) < FEWEST_SECONDS or fmean(per_second) <= 0:
        return None
    cv = stdev(per_second) / fmean(per_second)
    return Smoothness(cv, len(per_second), min(per_second), max(per_second), sum(1 for one in per_second if one == 0))
