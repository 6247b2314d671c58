"""The latency that each client of a load met: totals can be smooth while one client waits. Pure."""

from __future__ import annotations

import numpy as np

from pgdyno.model.record import ClientRecord
from pgdyno.workloads.pgbench.folded_log import FoldedLog, mean_us, quantiles_us


def client_records(log: FoldedLog) -> list[ClientRecord]:
    """Return one record for each client that committed anything, by its number; none where the log names no clients."""
    found = []
    for client, counts in log.by_client():
        p50, p95, p99, largest = (micros / 1000 for micros in quantiles_us(counts, (0.5, 0.95, 0.99, 1.0)))
        found.append(ClientRecord(client, int(np.sum(counts)), mean_us(counts) / 1000, p50, p95, p99, largest))
    return found
