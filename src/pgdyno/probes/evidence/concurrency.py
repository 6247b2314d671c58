"""Samples of pg_stat_activity as `Concurrency`: sessions, those that work, what they wait for. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pgdyno.model.evidence import Concurrency
from pgdyno.model.facts import Unknown


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
