"""Beyond how many clients throughput no longer rises, from a matrix that was measured. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from pgdyno.model.facts import Unknown

ENOUGH = 0.95
"""Part of the best throughput that counts as the best: differences below are within the noise of most machines."""
_FEWEST = 3


def knee(matrix: Sequence[tuple[int, float]]) -> int | Unknown:
    """Return the smallest number of clients whose throughput is within 5 % of the best of (clients, throughput).

    Unknown below three numbers of clients, and where the most clients are still the best: the knee lies beyond.
    """
    points = sorted(matrix)
    if len({clients for clients, _ in points}) < _FEWEST:
        return Unknown("a knee needs a matrix over at least three numbers of clients")
    best = max(rate for _, rate in points)
    if best <= 0:
        return Unknown("nothing was done at any number of clients")
    found = next(clients for clients, rate in points if rate >= ENOUGH * best)
    if found == points[-1][0]:
        return Unknown(f"throughput still rose at {found} clients, the most that were measured")
    return found
