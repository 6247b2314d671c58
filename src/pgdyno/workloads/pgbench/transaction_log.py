"""Transactions as columns, as they are read of a log, before they are folded. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

Int64s = NDArray[np.int64]
Int16s = NDArray[np.int16]
Int8s = NDArray[np.int8]


class Status(IntEnum):
    """What became of a transaction. The values stand for the words in the time column of pgbench's log."""

    OK = 0
    SKIPPED = -1
    FAILED = -2
    SERIALIZATION = -3
    DEADLOCK = -4


@dataclass(frozen=True, slots=True, eq=False)
class TransactionLog:
    """Transactions as parallel columns, in any order.

    `end_us` is the epoch time at which a transaction completed, `latency_us` its duration (0 where there is none:
    skipped or failed), counted from the scheduled start under an open loop. `lag_us` is the part of the latency
    before the transaction really began, None in a closed loop. `retries` is None when no retry was allowed. `client` is
    the number of the client, None where it is not known.
    """

    end_us: Int64s
    latency_us: Int64s
    script: Int16s
    status: Int8s
    lag_us: Int64s | None = None
    retries: Int16s | None = None
    client: Int16s | None = None

    def __len__(self) -> int:
        return len(self.end_us)

    def __getitem__(self, which: NDArray[np.intp] | NDArray[np.bool_]) -> TransactionLog:
        """Return some of the transactions: those at these places in their order, or those marked."""
        lag, retries, client = self.lag_us, self.retries, self.client
        return TransactionLog(
            self.end_us[which],
            self.latency_us[which],
            self.script[which],
            self.status[which],
            None if lag is None else lag[which],
            None if retries is None else retries[which],
            None if client is None else client[which],
        )


@dataclass(frozen=True, slots=True)
class Tally:
    """Counts of transactions: committed, failed, committed or failed after a retry, and never begun (skipped)."""

    committed: int
    failed: int
    retried: int
    skipped: int
