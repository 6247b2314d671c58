"""Fold a log of transactions while it is read: what stays in memory does not grow with their number.

Of each quarter second and script are kept the counts, the exact sum and maximum of the latencies, and in a file beside
the log four bytes for each committed transaction: its client and the bucket of its latency. `FoldedLog` answers from
them. In memory stay some 90 bytes for each of a second's quarters and scripts: 5 MB for two hours of one script.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import numpy as np

from pgdyno.errors import WorkloadError
from pgdyno.stats.histogram import BUCKETS, HIGHEST_US, bucket_of, highest_of
from pgdyno.workloads.folded_log import CLIENT_BITS, COLUMNS, QUARTER_US, FoldedLog, mean_us
from pgdyno.workloads.spool import Spool
from pgdyno.workloads.transaction_log import Int16s, Int64s, Status, TransactionLog

RECENT_S = 5
_MOST_CLIENTS = (1 << 15) - 1


class LogFold:
    """Takes the transactions of one load generator in any order, and gives a `FoldedLog` of them.

    `since_us` is when the load began, in microseconds since the epoch. Clients are numbered from `first_client` on.
    `folder` takes the file without a name that holds what does not stay in memory.
    """

    def __init__(self, since_us: int = 0, *, first_client: int = 0, folder: Path | None = None) -> None:
        self._first_quarter = since_us // QUARTER_US
        self._first_client = first_client
        self._spool = Spool(folder)
        self._kept = 0
        self._pieces: list[Int64s] = []
        self._boundaries: defaultdict[int, tuple[int, int]] = defaultdict(lambda: (0, 0))
        self._recent: dict[int, Int64s] = {}
        self._first_began_us = self._first_end_us = np.iinfo(np.int64).max
        self._last_end_us = 0
        self._has_lag = self._has_clients = True
        self.committed = self.failed = 0

    def add(self, log: TransactionLog) -> None:
        """Count the transactions. Raises WorkloadError when the disk does not take them."""
        if not len(log):
            return
        ends, quarters = log.end_us, log.end_us // QUARTER_US
        key = (quarters - quarters.min()) * (int(log.script.max()) + 1) + log.script
        order = np.argsort(key.astype(np.uint16) if key.max() < 1 << 16 else key, kind="stable")
        starts = np.flatnonzero(np.diff(key[order], prepend=-1))
        ok = (log.status == Status.OK)[order]
        latency = np.where(ok, log.latency_us[order], 0)
        skipped = (log.status == Status.SKIPPED)[order]
        buckets = bucket_of(latency[ok])
        committed = np.add.reduceat(ok, starts, dtype=np.int64)
        lag, retries = log.lag_us, log.retries
        columns: dict[str, Int64s | np.int64] = {
            "quarter": quarters[order][starts],
            "script": log.script[order][starts].astype(np.int64),
            "offset": self._kept + np.cumsum(committed) - committed,
            "committed": committed,
            "skipped": np.add.reduceat(skipped, starts, dtype=np.int64),
            "every": np.diff(starts, append=key.size),
            "retried": np.int64(0) if retries is None else np.add.reduceat(retries[order] > 0, starts, dtype=np.int64),
            "total_us": np.add.reduceat(latency, starts),
            "max_us": np.maximum.reduceat(latency, starts),
            "lag_us": np.int64(0) if lag is None else np.add.reduceat(np.where(ok, lag[order], 0), starts),
            "every_lag_us": np.int64(0) if lag is None else np.add.reduceat(lag[order], starts),
            "spool": np.int64(0),
        }
        piece = np.zeros((len(COLUMNS), starts.size), np.int64)
        for row, name in enumerate(COLUMNS):
            piece[row] = columns[name]
        self._pieces.append(piece)
        self._keep(buckets, None if log.client is None else log.client[order][ok])
        self._keep_edges(ends[order][ok], latency[ok])
        self._keep_recent(ends[order][ok] // 1_000_000, buckets)
        self._has_lag &= lag is not None
        self._has_clients &= log.client is not None
        self._first_began_us = min(self._first_began_us, int((ends - log.latency_us).min()))
        self._first_end_us = min(self._first_end_us, int(ends.min()))
        self._last_end_us = max(self._last_end_us, int(ends.max()))
        self.committed += buckets.size
        self.failed += len(log) - buckets.size - int(np.count_nonzero(skipped))

    def mean_ms(self) -> float | None:
        """Return the mean latency of the newest five seconds or six, within 0.1 %; None when nothing committed."""
        total = self._recent_counts()
        return mean_us(total) / 1000 if total.any() else None

    def p99_ms(self) -> float | None:
        """Return the 99th percentile of the newest five seconds or six, within 0.1 %; None when nothing committed."""
        cumulative = np.cumsum(self._recent_counts())
        if not cumulative[-1]:
            return None
        return float(highest_of(np.searchsorted(cumulative, np.ceil(0.99 * cumulative[-1])))) / 1000

    def _recent_counts(self) -> Int64s:
        total = np.zeros(BUCKETS, np.int64)
        for counts in self._recent.values():
            total[: counts.size] += counts
        return total

    def folded(self) -> FoldedLog:
        """Return what was counted. The fold is over: nothing may be added to it."""
        self._recent.clear()
        table = np.concatenate(self._pieces, axis=1) if self._pieces else np.zeros((len(COLUMNS), 0), np.int64)
        self._pieces.clear()
        return FoldedLog(
            table=table[:, np.argsort(table[0], kind="stable")],
            spools=(self._spool,),
            boundaries=dict(self._boundaries),
            has_lag=self._has_lag,
            has_clients=self._has_clients,
            first_began_us=self._first_began_us,
            first_end_us=self._first_end_us,
            last_end_us=self._last_end_us,
        )

    def _keep(self, buckets: Int64s, client: Int16s | None) -> None:
        number = (
            np.int64(0) if client is None else np.minimum(client.astype(np.int64) + self._first_client, _MOST_CLIENTS)
        )
        try:
            self._spool.append(((number << CLIENT_BITS) + buckets).astype(np.int32).tobytes())
        except OSError as error:
            raise WorkloadError(
                "the transactions of the load could not be kept",
                detail=str(error),
                hint="Make room, or set PGDYNO_HOME to another folder.",
            ) from error
        self._kept += buckets.size

    def _keep_edges(self, ends: Int64s, latency: Int64s) -> None:
        """Note when those began that ran across a boundary of quarters: added where they begin to, taken off after."""
        began = ends - np.minimum(latency, HIGHEST_US)
        first, last = np.maximum(began // QUARTER_US, self._first_quarter - 1) + 1, ends // QUARTER_US
        across = np.flatnonzero(last >= first)
        origin = self._first_quarter * QUARTER_US
        for sign, at in ((1, first[across]), (-1, last[across] + 1)):
            quarters, place = np.unique(at, return_inverse=True)
            sums = np.bincount(place, weights=began[across] - origin, minlength=quarters.size)
            for quarter, count, total in zip(quarters, np.bincount(place), sums, strict=True):
                before = self._boundaries[int(quarter)]
                more = sign * int(count), sign * (int(total) + int(count) * origin)
                self._boundaries[int(quarter)] = before[0] + more[0], before[1] + more[1]

    def _keep_recent(self, seconds: Int64s, buckets: Int64s) -> None:
        """Count into the newest seconds; `seconds` ascend."""
        starts = np.flatnonzero(np.diff(seconds, prepend=-1))
        for start, end in zip(starts, np.append(starts, seconds.size)[1:], strict=True):
            second, before = int(seconds[start]), self._recent.get(int(seconds[start]), np.zeros(0, np.int64))
            counts = np.bincount(buckets[start:end], minlength=before.size)
            counts[: before.size] += before
            self._recent[second] = counts
        newest = max(self._recent, default=0)
        self._recent = {second: counts for second, counts in self._recent.items() if second >= newest - RECENT_S}
