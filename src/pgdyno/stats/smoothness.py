"""How even a throughput is from second to second. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean, stdev

from pgdyno.model.run_evidence import Smoothness

FEWEST_SECONDS = 5
CAVEAT = (
    "Even throughput is a hint at even response times and proves nothing for a single user: a total can be smooth "
    "while one client waits. The table of clients shows that."
)


def smoothness(per_second: Sequence[float]) -> Smoothness | None:
    """Return it for transactions per whole second, seconds without any included; None for less than five."""
    if len(per_second) < FEWEST_SECONDS or fmean(per_second) <= 0:
        return None
    cv = stdev(per_second) / fmean(per_second)
    return Smoothness(cv, len(per_second), min(per_second), max(per_second), sum(1 for one in per_second if one == 0))
