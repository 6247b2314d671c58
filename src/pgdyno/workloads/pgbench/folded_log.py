"""A log of transactions as it was folded: figures of any window that begins and ends at a quarter of a second.

Counts, throughput, mean and maximum of a window are exact. A percentile is the greatest latency of its bucket: exact
below 2.048 ms, above at most 0.1 % more than the observed value (`RELATIVE_ERROR`), never above the maximum. So are the
mean and the maximum of a single client.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from pgdyno.model.trial import LatencySummary
from pgdyno.stats.histogram import BUCKETS, highest_of, lowest_of
from pgdyno.store.spool import Spool
from pgdyno.workloads.pgbench.transaction_log import Int64s, Tally

QUARTER_S = 0.25
QUARTER_US = 250_000
CLIENT_BITS = 15
"""A client and a bucket are kept in one number of 32 bits: the bucket in the lower 15."""
COLUMNS = (
    "quarter",
    "script",
    "offset",
    "committed",
    "skipped",
    "every",
    "retried",
    "total_us",
    "max_us",
    "lag_us",
    "every_lag_us",
    "spool",
)
"""Of each piece: transactions of one quarter and script that were read together. `total_us`, `max_us` and `lag_us` are
of committed ones, `every` and `every_lag_us` of all; `offset` is where they begin in the
spool of that number, in transactions."""
_READ = 1 << 18
_CLIENTS_AT_ONCE = 32


@dataclass(frozen=True, slots=True, eq=False)
class FoldedLog:
    """The transactions of one load generator or of several.

    `table` has a row for each of `COLUMNS` and a column for each piece, in the order of quarters. `boundaries` says by
    quarter how many committed transactions ran across its begin more than across the one before, and the sum of the
    moments at which those had begun. Times are in microseconds since the epoch.
    """

    table: Int64s
    spools: tuple[Spool, ...] = field(repr=False)
    boundaries: Mapping[int, tuple[int, int]] = field(repr=False)
    has_lag: bool
    clients: int
    """One more than the highest number of a client; 0 where they are unknown."""
    first_began_us: int
    first_end_us: int
    last_end_us: int

    def __len__(self) -> int:
        """Return the number of transactions, committed or not."""
        return int(self._column("every").sum())

    def between(self, from_s: float, to_s: float) -> FoldedLog:
        """Return what ended in the whole quarters of [`from_s`, `to_s`); everything where all of it ended there."""
        first, last = self._quarters(from_s, to_s)
        begin, end = np.searchsorted(self._column("quarter"), [first, last])
        return replace(self, table=self.table[:, begin:end])

    def begin_s(self, from_s: float) -> float:
        """Return when a window really begins: with the next quarter, but at once where nothing had ended before."""
        return from_s if round(from_s * 1e6) <= self.first_end_us else ceil_quarter(from_s) * QUARTER_S

    def tally(self) -> Tally:
        """Count what became of the transactions. Committed, failed and skipped add up to all of them."""
        committed, skipped, retried = (int(self._column(name).sum()) for name in ("committed", "skipped", "retried"))
        return Tally(committed, len(self) - committed - skipped, retried, skipped)

    def committed_by_script(self, scripts: int) -> list[int]:
        """Return how many committed of each of so many scripts, in their order."""
        counts = np.bincount(self._column("script"), weights=self._column("committed"), minlength=scripts)
        return [int(count) for count in counts]

    def committed_by_quarter(self, origin_s: float) -> Int64s:
        """Count committed transactions by quarter; the first begins at `origin_s`, what ended before is left out."""
        return self._by_quarter("committed", origin_s)

    def total_us_by_quarter(self, origin_s: float) -> Int64s:
        """Return the sum of the latencies of what `committed_by_quarter` counts."""
        return self._by_quarter("total_us", origin_s)

    def committed_by_second(self) -> Int64s:
        """Return how many committed in each second, from the first in which one did to the last."""
        counted = self._column("committed")
        seconds = self._column("quarter")[counted > 0] // 4
        if not seconds.size:
            return seconds
        return np.bincount(seconds - seconds[0], weights=counted[counted > 0]).astype(np.int64)

    def latency(self) -> LatencySummary | None:
        """Return the latencies of the committed transactions, None when there is none."""
        counts = self.histogram()
        committed = int(counts.sum())
        if not committed:
            return None
        largest = int(self._column("max_us").max())
        p50, p95, p99, p999 = (min(q, largest) / 1000 for q in quantiles_us(counts, (0.5, 0.95, 0.99, 0.999)))
        mean = int(self._column("total_us").sum()) / committed / 1000
        return LatencySummary(p50, p95, p99, p999, max=largest / 1000, mean=mean)

    def histogram(self) -> Int64s:
        """Return the number of committed transactions by bucket, shape (BUCKETS,)."""
        counts = np.zeros(BUCKETS, np.int64)
        for keys in self._keys():
            counts += np.bincount(keys & ((1 << CLIENT_BITS) - 1), minlength=BUCKETS)
        return counts

    def histograms_by_script(self, scripts: int) -> list[Int64s]:
        """Return `histogram` of each of so many scripts, in their order."""
        numbers = self._column("script")
        return [replace(self, table=self.table[:, numbers == script]).histogram() for script in range(scripts)]

    def by_client(self) -> Iterator[tuple[int, Int64s]]:
        """Yield the clients that committed anything, by number, with their histograms; none where they are unknown."""
        for start in range(0, self.clients, _CLIENTS_AT_ONCE):
            many = min(_CLIENTS_AT_ONCE, self.clients - start)
            counts = np.zeros(many << CLIENT_BITS, np.int64)
            for keys in self._keys():
                cells = keys - (start << CLIENT_BITS)
                if many < self.clients:
                    cells = cells[(cells >= 0) & (cells < counts.size)]
                counts += np.bincount(cells, minlength=counts.size)
            for client, own in enumerate(counts.reshape(many, -1)[:, :BUCKETS], start):
                if own.any():
                    yield client, own

    def by_second_and_script(self) -> Iterator[tuple[int, int, FoldedLog]]:
        """Yield (second since the epoch, script number, what ended in it), in that order."""
        scripts = int(self._column("script").max(initial=0)) + 1
        key = self._column("quarter") // 4 * scripts + self._column("script")
        order = np.argsort(key, kind="stable")
        starts = np.flatnonzero(np.diff(key[order], prepend=-1))
        for start, end in zip(starts, np.append(starts, key.size)[1:], strict=True):
            second, script = divmod(int(key[order[start]]), scripts)
            yield second, script, replace(self, table=self.table[:, order[start:end]])

    def total_us(self) -> int:
        """Return the sum of the latencies of committed transactions."""
        return int(self._column("total_us").sum())

    def lag_us(self) -> int | None:
        """Return the sum of the delays of committed transactions behind the schedule, None in a closed loop."""
        return int(self._column("lag_us").sum()) if self.has_lag else None

    def lag_ms_of_ends(self) -> tuple[float, float] | None:
        """Return the mean delay of the first and the last quarter of all transactions, to a quarter of a second."""
        if not self.has_lag or not len(self):
            return None
        before = np.cumsum(self._column("every"))
        share = before[-1] // 4
        early = slice(0, int(np.searchsorted(before, share)) + 1)
        late = slice(int(np.searchsorted(before, before[-1] - share)), None)
        lag, every = self._column("every_lag_us"), self._column("every")
        first, last = (float(lag[part].sum() / max(every[part].sum(), 1)) / 1000 for part in (early, late))
        return first, last

    def edges_s(self, from_s: float, to_s: float) -> float:
        """Return by how many seconds the latencies of what ended in a window exceed the time spent in it.

        They hold what such a transaction took before the window, and nothing of one that ended after it. Without these
        edges they add up to the time in which sessions were busy: at most sessions x seconds. Committed ones only.
        """
        first, last = self._quarters(from_s, to_s)
        return (self._behind_us(first) - self._behind_us(last)) / 1e6

    def discard(self) -> None:
        """Give the room of the spools back. Counts stay; latencies are no more to be had."""
        for spool in self.spools:
            spool.close()

    def _behind_us(self, quarter: int) -> int:
        """Return what the transactions that ran across the begin of a quarter had taken by then."""
        across = [told for at, told in self.boundaries.items() if at <= quarter]
        return sum(count for count, _ in across) * quarter * QUARTER_US - sum(began for _, began in across)

    def _quarters(self, from_s: float, to_s: float) -> tuple[int, int]:
        to_us = round(to_s * 1e6)
        first = ceil_quarter(self.begin_s(from_s))
        if self.begin_s(from_s) * 1e6 <= self.first_end_us:
            first = min(first, self.first_end_us // QUARTER_US)
        last = self.last_end_us // QUARTER_US + 1 if to_us >= self.last_end_us else to_us // QUARTER_US
        return first, max(first, last)

    def _by_quarter(self, name: str, origin_s: float) -> Int64s:
        after = self._column("quarter") - ceil_quarter(origin_s)
        return np.bincount(after[after >= 0], weights=self._column(name)[after >= 0]).astype(np.int64)

    def _column(self, name: str) -> Int64s:
        return np.asarray(self.table[COLUMNS.index(name)])

    def _keys(self) -> Iterator[Int64s]:
        """Yield clients and buckets of all transactions of the table, some hundred thousand at a time."""
        some: list[Int64s] = []
        size = 0
        places = (self._column(name) for name in ("spool", "offset", "committed"))
        for number, offset, count in zip(*places, strict=True):
            some.append(np.frombuffer(self.spools[number].read(4 * int(offset), 4 * int(count)), np.int32))
            size += int(count)
            if size >= _READ:
                yield np.concatenate(some)
                some, size = [], 0
        if some:
            yield np.concatenate(some)


def joined(logs: Sequence[FoldedLog]) -> FoldedLog:
    """Return the transactions of several load generators, whose clients were numbered on."""
    boundaries: dict[int, tuple[int, int]] = {}
    for log in logs:
        for quarter, (count, began) in log.boundaries.items():
            before = boundaries.get(quarter, (0, 0))
            boundaries[quarter] = before[0] + count, before[1] + began
    tables: list[Int64s] = []
    spools: list[Spool] = []
    for log in logs:
        tables.append(log.table.copy())
        tables[-1][COLUMNS.index("spool")] += len(spools)
        spools += log.spools
    table = np.concatenate(tables, axis=1)
    return FoldedLog(
        table=table[:, np.argsort(table[0], kind="stable")],
        spools=tuple(spools),
        boundaries=boundaries,
        has_lag=all(log.has_lag for log in logs),
        clients=max(log.clients for log in logs) if all(log.clients for log in logs if len(log)) else 0,
        first_began_us=min(log.first_began_us for log in logs),
        first_end_us=min(log.first_end_us for log in logs),
        last_end_us=max(log.last_end_us for log in logs),
    )


def ceil_quarter(at_s: float) -> int:
    """Return the number of the first quarter second that begins at this time or after it, since the epoch."""
    return -(-round(at_s * 1e6) // QUARTER_US)


def quantiles_us(counts: Int64s, shares: Sequence[float]) -> list[int]:
    """Return for each share the greatest latency of the bucket in which the transaction of that rank lies."""
    cumulative = np.cumsum(counts)
    ranks = np.clip(np.ceil(np.asarray(shares) * cumulative[-1] - 1e-9), 1, cumulative[-1])
    return [int(highest_of(index)) for index in np.searchsorted(cumulative, ranks)]


def mean_us(counts: Int64s) -> float:
    """Return the mean latency of a histogram, each value taken for the middle of its bucket."""
    used = np.flatnonzero(counts)
    return float(((lowest_of(used) + highest_of(used)) / 2 * counts[used]).sum() / counts[used].sum())
