"""How many sessions there are, what they wait for, and beyond how many throughput no longer rises. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pgdyno.model.evidence import Concurrency
from pgdyno.model.facts import Unknown

ENOUGH = 0.95
"""Part of the best throughput that counts as the best: differences below are within the noise of most machines."""
_FEWEST = 3


def concurrency(samples: Sequence[Sequence[Mapping[str, Any]]]) -> Concurrency | Unknown:
    """Return means over the samples. Sessions that wait for nothing count as `CPU`.

    Where the role may not see what other roles' sessions do, only their number is known.
    """
    if not samples:
        return Unknown("the sessions of the server were not sampled")
    count = len(samples)
    connected = sum(int(row["sessions"]) for sample in samples for row in sample) / count
    if any(row["state"] is None for sample in samples for row in sample):
        hidden = Unknown("the role may not see what other sessions do; GRANT pg_monitor lets it")
        return Concurrency(connected=connected, active_mean=hidden, active_max=hidden, lock_waiters_mean=hidden)
    actives, waits = [], dict[str, float]()
    for sample in samples:
        working = [row for row in sample if row["state"] in ("active", "fastpath function call")]
        actives.append(sum(int(row["sessions"]) for row in working))
        for row in working:
            kind = row["wait_event_type"]
            name = "CPU" if kind is None else f"{kind}:{row['wait_event']}"
            waits[name] = waits.get(name, 0.0) + int(row["sessions"]) / count
    return Concurrency(
        connected=connected,
        active_mean=sum(actives) / count,
        active_max=max(actives),
        waits=dict(sorted(waits.items(), key=lambda item: -item[1])),
        lock_waiters_mean=sum((value for name, value in waits.items() if name.startswith("Lock:")), 0.0),
    )


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
