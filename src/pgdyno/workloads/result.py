"""What came of a load: counts, the series for finding the steady window, histograms, and the figures of any window."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from pgdyno.errors import ScriptError
from pgdyno.model.record import ClientRecord, InstanceRecord
from pgdyno.model.samples import HistogramRow
from pgdyno.model.trial import LatencySummary
from pgdyno.stats.histogram import LatencyHistogram
from pgdyno.workloads.load_warnings import LoadWarning
from pgdyno.workloads.pgbench.folded_log import QUARTER_S, FoldedLog, ceil_quarter, mean_us, quantiles_us
from pgdyno.workloads.pgbench.transaction_log import Int64s

BIN_S = QUARTER_S


@dataclass(frozen=True, slots=True, eq=False)
class CountBins:
    """Committed transactions per whole bin of `bin_s` seconds. Bin 0 begins at `origin_s` (seconds since the epoch).

    Bins begin at whole quarters of a second: the first one that begins after the load did.
    """

    origin_s: float
    bin_s: float
    counts: Int64s
    latency_us: Int64s
    """The sums of the latencies of those that are counted."""


@dataclass(frozen=True, slots=True)
class WindowResult:
    """The figures of the transactions that ended in a window, in milliseconds and transactions per second.

    `latency` is None when nothing committed in it. `lag_ms` is the mean delay behind the schedule, which is inside
    the latency; None in a closed loop. `edges_s` is what latencies hold beyond the time spent in the window.
    """

    transactions: int
    seconds: float
    throughput: float
    latency: LatencySummary | None
    failed: int
    retried: int
    skipped: int
    lag_ms: float | None
    edges_s: float


@dataclass(frozen=True, slots=True)
class Gap:
    """When a session of the load had no server: from the moment it was lost until it was open again, in seconds."""

    session: int
    from_s: float
    to_s: float
    reason: str


def away_s(gaps: Sequence[Gap], from_s: float, to_s: float) -> float:
    """Return for how long of a window at least one session had no server."""
    total, reached = 0.0, from_s
    for gap in sorted(gaps, key=lambda gap: gap.from_s):
        begin, end = max(gap.from_s, reached), min(gap.to_s, to_s)
        total, reached = total + max(0.0, end - begin), max(reached, end)
    return total


@dataclass(frozen=True, slots=True, eq=False)
class SecondHistograms:
    """One row for each second and script in which anything ended, made again each time that it is iterated over.

    Rows of several instances add up. `parts` are logs, the names of their scripts in the order of pgbench's command
    line, which numbers them so in its log, and the instance's number.
    """

    parts: tuple[tuple[FoldedLog, tuple[str, ...], int], ...]

    def __iter__(self) -> Iterator[HistogramRow]:
        for log, scripts, instance in self.parts:
            for second, script, part in log.by_second_and_script():
                yield _row(second, scripts[script], part, instance)


def _row(second: int, script: str, part: FoldedLog, instance: int) -> HistogramRow:
    histogram = LatencyHistogram()
    histogram.record_buckets(part.histogram())
    counts = part.tally()
    return HistogramRow(
        second=second,
        instance=instance,
        script=script,
        count=counts.committed,
        total_us=part.total_us(),
        failed=counts.failed,
        retried=counts.retried,
        skipped=counts.skipped,
        blob=histogram.encode(),
    )


@dataclass(frozen=True, slots=True, eq=False)
class LoadResult:
    """One finished load. Times in seconds since the epoch of this machine's clock.

    `transactions` committed; `failed` ended by an error after their last try; `retried` needed more than one try;
    `skipped` were never begun. `driver_cpu_s` is pgbench's own CPU time over the whole load. `reason` is None when
    the load ran to its end with all its clients, else it says why not, and nothing here may be scored.
    `plans` are the execution plans of the workload's main statements as the load's sessions had them.
    """

    began_at: float
    ended_at: float
    transactions: int
    failed: int
    retried: int
    skipped: int
    driver_cpu_s: float
    bins: CountBins
    histograms: SecondHistograms
    warnings: tuple[LoadWarning, ...]
    log_files: tuple[Path, ...]
    argv: tuple[str, ...]
    exit_code: int
    aborted_clients: int
    malformed_lines: int
    reason: str | None
    plans: tuple[str, ...] = ()
    pauses: bool = False
    """True where clients sleep between their statements."""
    instances: tuple[InstanceRecord, ...] = ()
    """What each load generator did, where there were several."""
    partial: str | None = None
    """Why this is not the whole of the load that was asked for: an instance was killed or ended short."""
    gaps: tuple[Gap, ...] = ()
    """When sessions had no server, of a load that waits for one."""
    device_reads: tuple[tuple[float, int], ...] = ()
    """Moments, and the requests to read that the server alone had sent to devices by then, where they are counted."""
    round_trips: float | None = None
    """How often a transaction waits for the server's answer, on average; None where that is not known."""
    pause_s: float = 0.0
    """How long its client sleeps for each transaction at least, by its script or between two, in seconds."""
    late: str | None = None
    """Why a load generator with a schedule did not keep it: the run says nothing, and is repeated."""
    void: str | None = None
    """Why the load was not the one that was asked for, whatever it measured."""
    failure: ScriptError | None = None
    """The error of its script that ended it, where that is the `reason`."""
    log: FoldedLog = field(repr=False, kw_only=True)

    def window(self, from_s: float, to_s: float) -> WindowResult:
        """Return the figures of the whole quarter seconds in [`from_s`, `to_s`), in seconds since the epoch.

        A window that reaches to the end of the load holds its last transaction, too, one from its begin on the first.
        """
        from_s = self.log.begin_s(from_s)
        part = self.log.between(from_s, to_s)
        counts, seconds = part.tally(), to_s - from_s
        return WindowResult(
            transactions=counts.committed,
            seconds=seconds,
            throughput=counts.committed / seconds if seconds > 0 else 0.0,
            latency=part.latency(),
            failed=counts.failed,
            retried=counts.retried,
            skipped=counts.skipped,
            lag_ms=mean_lag_ms(part),
            edges_s=self.log.edges_s(from_s, to_s),
        )

    def discard_logs(self) -> None:
        """Delete the transaction logs: the histograms hold what is worth keeping, at a hundredth of the size."""
        self.log.discard()
        for file in self.log_files:
            file.unlink(missing_ok=True)


def mean_lag_ms(log: FoldedLog) -> float | None:
    """Return the mean delay behind the schedule in milliseconds, None in a closed loop or for an empty log."""
    lag_us, committed = log.lag_us(), log.tally().committed
    return None if lag_us is None or not committed else lag_us / committed / 1000


def count_bins(log: FoldedLog, *, began_at: float) -> CountBins:
    """Return the series of committed transactions since the load began, without the bins that begin and end cut."""
    origin_s = ceil_quarter(began_at) * QUARTER_S
    return CountBins(origin_s, BIN_S, log.committed_by_quarter(origin_s)[:-1], log.total_us_by_quarter(origin_s)[:-1])


def sum_bins(several: Sequence[CountBins]) -> CountBins:
    """Return the sum of several series over the time that all of them have."""
    origin_s = max(bins.origin_s for bins in several)
    skipped = [round((origin_s - bins.origin_s) / BIN_S) for bins in several]
    length = max(0, min(len(bins.counts) - skip for bins, skip in zip(several, skipped, strict=True)))
    counts, latencies = np.zeros(length, np.int64), np.zeros(length, np.int64)
    for bins, skip in zip(several, skipped, strict=True):
        counts += bins.counts[skip : skip + length]
        latencies += bins.latency_us[skip : skip + length]
    return CountBins(origin_s, BIN_S, counts, latencies)


def mean_round_trips(counts: Mapping[str, int], by_script: Mapping[str, int | None]) -> float | None:
    """Return the mean over the transactions of all scripts, None where one that ran has an unknown number."""
    ran = [(count, by_script.get(script)) for script, count in counts.items() if count]
    known = [(count, trips) for count, trips in ran if trips is not None]
    if not ran or len(known) < len(ran):
        return None
    return sum(count * trips for count, trips in known) / sum(count for count, _ in known)


def mean_pause_s(counts: Mapping[str, int], by_script: Mapping[str, float]) -> float:
    """Return the mean over the transactions of all scripts; a script that is not among them does not sleep."""
    counted = sum(counts.values())
    return sum(count * by_script.get(script, 0.0) for script, count in counts.items()) / counted if counted else 0.0


def client_records(log: FoldedLog) -> list[ClientRecord]:
    """Return one record for each client that committed anything, by its number; none where the log names no clients."""
    found = []
    for client, counts in log.by_client():
        p50, p95, p99, largest = (micros / 1000 for micros in quantiles_us(counts, (0.5, 0.95, 0.99, 1.0)))
        found.append(ClientRecord(client, int(np.sum(counts)), mean_us(counts) / 1000, p50, p95, p99, largest))
    return found
