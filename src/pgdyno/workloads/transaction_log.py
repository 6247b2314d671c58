"""The transactions of a run as columns, sorted by their end, and the arithmetic on them. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from pgdyno.model.trial import LatencySummary

Int64s = NDArray[np.int64]
Int16s = NDArray[np.int16]
Int8s = NDArray[np.int8]
_Integer = TypeVar("_Integer", np.int64, np.int16)


class Status(IntEnum):
    """What became of a transaction. The values stand for the words in the time column of pgbench's log."""

    OK = 0
    SKIPPED = -1
    FAILED = -2
    SERIALIZATION = -3
    DEADLOCK = -4


@dataclass(frozen=True, slots=True, eq=False)
class TransactionLog:
    """Transactions as parallel columns in the order of their end.

    `end_us` is the epoch time at which a transaction completed, `latency_us` its duration (0 where there is none:
    skipped or failed), counted from the scheduled start under an open loop. `lag_us` is the part of the latency
    before the transaction really began, None in a closed loop. `retries` is None when no retry was allowed. `client` is
    the number of the client, None where it is not known.
    Takes 21 bytes for a transaction (more with lag and retries): a gigabyte for an hour at 15,000 a second.
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

    def ok(self) -> NDArray[np.bool_]:
        """Return the mask of the transactions that committed."""
        return np.equal(self.status, np.int8(Status.OK))

    def select(self, rows: slice | Int64s) -> TransactionLog:
        """Return the transactions at the given positions."""
        return TransactionLog(
            self.end_us[rows],
            self.latency_us[rows],
            self.script[rows],
            self.status[rows],
            None if self.lag_us is None else self.lag_us[rows],
            None if self.retries is None else self.retries[rows],
            None if self.client is None else self.client[rows],
        )

    def between(self, from_s: float, to_s: float) -> TransactionLog:
        """Return the transactions that ended in [`from_s`, `to_s`), in seconds since the epoch."""
        first, last = np.searchsorted(self.end_us, [_micros(from_s), _micros(to_s)])
        return self.select(slice(int(first), int(last)))

    def by_second_and_script(self) -> Iterator[tuple[int, int, TransactionLog]]:
        """Yield (second since the epoch, script number, its transactions), in that order."""
        if not len(self):
            return
        scripts = int(self.script.max()) + 1
        key = (self.end_us // 1_000_000) * scripts + self.script
        order = np.argsort(key, kind="stable")
        keys = key[order]
        starts = np.flatnonzero(np.diff(keys, prepend=keys[0] - 1))
        for start, end in zip(starts, [*starts[1:], len(keys)], strict=True):
            second, script = divmod(int(keys[start]), scripts)
            yield second, script, self.select(order[start:end])


@dataclass(frozen=True, slots=True)
class Tally:
    """Counts of transactions: committed, failed, committed or failed after a retry, and never begun (skipped)."""

    committed: int
    failed: int
    retried: int
    skipped: int


def concatenate(logs: Sequence[TransactionLog]) -> TransactionLog:
    """Join logs of several threads or instances into one, sorted by end. They must have the same columns."""
    if not logs:
        empty = np.zeros(0, np.int64)
        return TransactionLog(empty, empty, empty.astype(np.int16), empty.astype(np.int8))
    joined = TransactionLog(
        np.concatenate([log.end_us for log in logs]),
        np.concatenate([log.latency_us for log in logs]),
        np.concatenate([log.script for log in logs]),
        np.concatenate([log.status for log in logs]),
        _join([log.lag_us for log in logs]),
        _join([log.retries for log in logs]),
        _join([log.client for log in logs]),
    )
    return joined.select(np.argsort(joined.end_us, kind="stable"))


def tally(log: TransactionLog) -> Tally:
    """Count what became of the transactions. Committed, failed and skipped add up to all of them."""
    committed = int(np.count_nonzero(log.status == Status.OK))
    skipped = int(np.count_nonzero(log.status == Status.SKIPPED))
    retried = 0 if log.retries is None else int(np.count_nonzero(log.retries > 0))
    return Tally(committed, len(log) - committed - skipped, retried, skipped)


def counts_per_bin(log: TransactionLog, *, origin_s: float, bin_s: float) -> Int64s:
    """Count committed transactions by the bin their end falls into. Bin 0 begins at `origin_s`, none is left out."""
    ends = log.end_us[log.ok()] - _micros(origin_s)
    return np.bincount(np.maximum(ends, 0) // round(bin_s * 1e6)).astype(np.int64)


def edges_s(log: TransactionLog, from_s: float, to_s: float) -> float:
    """Return by how many seconds the latencies of what ended in [`from_s`, `to_s`) exceed the time spent in it.

    They hold what such a transaction took before the window, and nothing of one that ended after it. Without these
    edges they add up to the time in which sessions were busy: at most sessions x seconds. Committed ones only.
    """
    begin, end = _micros(from_s), _micros(to_s)
    first, last = np.searchsorted(log.end_us, [begin, end])
    began, ok = log.end_us[first:] - log.latency_us[first:], log.ok()[first:]
    inside, after = began[: last - first][ok[: last - first]], began[last - first :][ok[last - first :]]
    return float(np.maximum(begin - inside, 0).sum() - np.maximum(end - np.maximum(after, begin), 0).sum()) / 1e6


def summarize_latency(log: TransactionLog) -> LatencySummary | None:
    """Return the exact latencies of the committed transactions, None when there is none.

    A percentile is an observed value: the smallest that at least that share of the transactions did not exceed.
    """
    micros = log.latency_us[log.ok()]
    if not len(micros):
        return None
    quantiles = np.quantile(micros, [0.5, 0.95, 0.99, 0.999], method="inverted_cdf")
    p50, p95, p99, p999 = (float(value) / 1000 for value in quantiles)
    return LatencySummary(p50, p95, p99, p999, max=float(micros.max()) / 1000, mean=float(micros.mean()) / 1000)


def _micros(seconds: float) -> int:
    return round(seconds * 1_000_000)


def _join(columns: Sequence[NDArray[_Integer] | None]) -> NDArray[_Integer] | None:
    present = [column for column in columns if column is not None]
    return np.concatenate(present) if len(present) == len(columns) else None
