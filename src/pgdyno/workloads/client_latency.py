"""The latency that each client of a load met: totals can be smooth while one client waits. Pure."""

from __future__ import annotations

import numpy as np

from pgdyno.model.record import ClientRecord
from pgdyno.workloads.transaction_log import TransactionLog, summarize_latency


def client_records(log: TransactionLog) -> list[ClientRecord]:
    """Return one record for each client that committed anything, by its number; none where the log names no clients."""
    if log.client is None or not len(log):
        return []
    order = np.argsort(log.client, kind="stable")
    clients = log.client[order]
    starts = np.flatnonzero(np.diff(clients, prepend=clients[0] - 1))
    found = []
    for start, end in zip(starts, [*starts[1:], len(clients)], strict=True):
        part = log.select(order[start:end])
        latency = summarize_latency(part)
        if latency is not None:
            count = int(np.count_nonzero(part.ok()))
            figures = (latency.mean, latency.p50, latency.p95, latency.p99, latency.max)
            found.append(ClientRecord(int(clients[start]), count, *figures))
    return found
