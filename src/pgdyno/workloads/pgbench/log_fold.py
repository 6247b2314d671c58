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
from pgdyno.stats.histogram import HIGHEST_US, bucket_of, highest_of
from pgdyno.store.spool import Spool
from pgdyno.workloads.pgbench.folded_log import CLIENT_BITS, COLUMNS, QUARTER_US, FoldedLog, mean_us
from pgdyno.workloads.pgbench.transaction_log import Int16s, Int64s, Status, TransactionLog

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
        self._clients = 0
        self.committed = self.failed = 0

    def add(self, log: TransactionLog) -> None:
        """Count the transactions. Raises WorkloadError when the disk does not take them."""
        if not len(log):
            return
        log, starts = _in_pieces(log)
        every, lag, retries = np.diff(starts, append=len(log)), log.lag_us, log.retries
        ok, latency, own_lag = None, log.latency_us, lag
        committed, skipped = every, np.zeros_like(every)
        if log.status.any():  # seldom; the other road is taken each second
            ok = log.status == Status.OK
            latency, own_lag = np.where(ok, latency, 0), None if lag is None else np.where(ok, lag, 0)
            committed = np.add.reduceat(ok, starts, dtype=np.int64)
            skipped = np.add.reduceat(log.status == Status.SKIPPED, starts, dtype=np.int64)
        offset = np.cumsum(committed) - committed
        columns: dict[str, Int64s | np.int64] = {
            "quarter": log.end_us[starts] // QUARTER_US,
            "script": log.script[starts].astype(np.int64),
            "offset": self._kept + offset,
            "committed": committed,
            "skipped": skipped,
            "every": every,
            "retried": np.int64(0) if retries is None else np.add.reduceat(retries > 0, starts, dtype=np.int64),
            "total_us": np.add.reduceat(latency, starts),
            "max_us": np.maximum.reduceat(latency, starts),
            "lag_us": np.int64(0) if own_lag is None else np.add.reduceat(own_lag, starts),
            "every_lag_us": np.int64(0) if lag is None else np.add.reduceat(lag, starts),
            "spool": np.int64(0),
        }
        piece = np.zeros((len(COLUMNS), starts.size), np.int64)
        for row, name in enumerate(COLUMNS):
            piece[row] = columns[name]
        self._pieces.append(piece)
        self._has_lag &= lag is not None
        self._has_clients &= log.client is not None
        if log.client is not None:
            self._clients = max(self._clients, min(int(log.client.max()) + self._first_client, _MOST_CLIENTS) + 1)
        first_end_us = int(log.end_us.min())
        if first_end_us - min(int(log.latency_us.max()), HIGHEST_US) < self._first_began_us:  # seldom, but at first
            self._first_began_us = min(self._first_began_us, int(_began_us(log).min()))
        self._first_end_us = min(self._first_end_us, first_end_us)
        self._last_end_us = max(self._last_end_us, int(log.end_us.max()))
        self.failed += len(log) - int(committed.sum()) - int(piece[COLUMNS.index("skipped")].sum())
        quarters_us = np.repeat(piece[0] * QUARTER_US, every)
        if ok is not None:
            log, quarters_us = log[ok], quarters_us[ok]
        self.committed += len(log)
        buckets = bucket_of(log.latency_us)
        self._keep(buckets, log.client)
        self._keep_edges(log, quarters_us)
        self._keep_recent(piece[0] * QUARTER_US // 1_000_000, offset, buckets)

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
        total = np.zeros(max((counts.size for counts in self._recent.values()), default=1), np.int64)
        for counts in self._recent.values():
            total[: counts.size] += counts
        return total

    def folded(self) -> FoldedLog:
        """Return what was counted. The fold is over: nothing may be added to it."""
        self._recent.clear()
        log = self.so_far()
        self._pieces.clear()
        return log

    def so_far(self) -> FoldedLog:
        """Return what was counted by now; `add` may go on."""
        table = np.concatenate(self._pieces, axis=1) if self._pieces else np.zeros((len(COLUMNS), 0), np.int64)
        return FoldedLog(
            table=table[:, np.argsort(table[0], kind="stable")],
            spools=(self._spool,),
            boundaries=dict(self._boundaries),
            has_lag=self._has_lag,
            clients=self._clients if self._has_clients else 0,
            first_began_us=self._first_began_us,
            first_end_us=self._first_end_us,
            last_end_us=self._last_end_us,
        )

    def _keep(self, buckets: Int64s, client: Int16s | None) -> None:
        numbers = buckets.astype(np.int32)
        if client is not None:
            numbers += np.minimum(client.astype(np.int32) + self._first_client, _MOST_CLIENTS) << CLIENT_BITS
        try:
            self._spool.append(numbers.tobytes())
        except OSError as error:
            raise WorkloadError(
                "the transactions of the load could not be kept",
                detail=str(error),
                hint="Free some space, or set PGDYNO_HOME to another folder.",
            ) from error
        self._kept += buckets.size

    def _keep_edges(self, log: TransactionLog, quarters_us: Int64s) -> None:
        """Note when those began that ran across a boundary of quarters: added where they begin to, taken off after."""
        origin = self._first_quarter * QUARTER_US
        across = np.flatnonzero(log.latency_us > log.end_us - quarters_us)
        last = quarters_us[across] // QUARTER_US
        across, last = across[last >= self._first_quarter], last[last >= self._first_quarter]
        began = _began_us(log[across])
        first = np.maximum(began // QUARTER_US, self._first_quarter - 1) + 1
        for sign, at in ((1, first), (-1, last + 1)):
            numbers, place = np.unique(at, return_inverse=True)
            sums = np.bincount(place, weights=began - origin, minlength=numbers.size)
            for quarter, count, total in zip(numbers, np.bincount(place), sums, strict=True):
                before = self._boundaries[int(quarter)]
                more = sign * int(count), sign * (int(total) + int(count) * origin)
                self._boundaries[int(quarter)] = before[0] + more[0], before[1] + more[1]

    def _keep_recent(self, seconds: Int64s, offset: Int64s, buckets: Int64s) -> None:
        """Count into the newest seconds, which ascend; those of a piece begin at `offset`."""
        newest = max(int(seconds[-1]), max(self._recent, default=0))
        self._recent = {second: counts for second, counts in self._recent.items() if second >= newest - RECENT_S}
        firsts = np.flatnonzero(np.diff(seconds, prepend=-1))
        starts = np.append(offset[firsts], buckets.size)
        for second, start, end in zip(seconds[firsts].tolist(), starts[:-1], starts[1:], strict=True):
            if second >= newest - RECENT_S and end > start:
                before = self._recent.get(second, np.zeros(0, np.int64))
                counts = np.bincount(buckets[start:end], minlength=before.size)
                counts[: before.size] += before
                self._recent[second] = counts


def _in_pieces(log: TransactionLog) -> tuple[TransactionLog, Int64s]:
    """Return the transactions so that those of a quarter and a script stand together, and where each of these begins.

    Quarters ascend. What one thread logs of one script is in order.
    """
    ends, scripts = log.end_us, int(log.script.max()) + 1
    if scripts == 1 and not (ends[1:] < ends[:-1]).any():
        first, last = int(ends[0]) // QUARTER_US, int(ends[-1]) // QUARTER_US
        if last - first <= len(log):  # a damaged line may be of another century
            starts = np.append(0, np.searchsorted(ends, np.arange(first + 1, last + 1) * QUARTER_US))
            return log, starts[np.diff(starts, append=len(log)) > 0]
    quarters = ends // QUARTER_US
    key = (quarters - quarters.min()) * scripts + log.script
    if (key[1:] < key[:-1]).any():
        order = np.argsort(key.astype(np.uint16) if key.max() < 1 << 16 else key, kind="stable")
        log, key = log[order], key[order]
    return log, np.append(0, np.flatnonzero(key[1:] != key[:-1]) + 1)


def _began_us(log: TransactionLog) -> Int64s:
    return log.end_us - np.minimum(log.latency_us, HIGHEST_US)
