"""What came of a load: counts, the series for finding the steady window, histograms, and any window's exact figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pgdyno.model.record import InstanceRecord
from pgdyno.model.samples import HistogramRow
from pgdyno.model.trial import LatencySummary
from pgdyno.stats.histogram import LatencyHistogram
from pgdyno.workloads.load_warnings import LoadWarning
from pgdyno.workloads.transaction_log import (
    Int64s,
    TransactionLog,
    counts_per_bin,
    edges_s,
    summarize_latency,
    tally,
)

BIN_S = 0.25


@dataclass(frozen=True, slots=True, eq=False)
class CountBins:
    """Committed transactions per whole bin of `bin_s` seconds. Bin 0 begins at `origin_s` (seconds since the epoch)."""

    origin_s: float
    bin_s: float
    counts: Int64s


@dataclass(frozen=True, slots=True)
class WindowResult:
    """The exact figures of the transactions that ended in a window, in milliseconds and transactions per second.

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
    histograms: list[HistogramRow]
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
    log: TransactionLog = field(repr=False, kw_only=True)

    def window(self, from_s: float, to_s: float) -> WindowResult:
        """Return the exact figures of [`from_s`, `to_s`), in seconds since the epoch."""
        part = self.log.between(from_s, to_s)
        counts, seconds = tally(part), to_s - from_s
        return WindowResult(
            transactions=counts.committed,
            seconds=seconds,
            throughput=counts.committed / seconds if seconds > 0 else 0.0,
            latency=summarize_latency(part),
            failed=counts.failed,
            retried=counts.retried,
            skipped=counts.skipped,
            lag_ms=mean_lag_ms(part),
            edges_s=edges_s(self.log, from_s, to_s),
        )

    def discard_logs(self) -> None:
        """Delete the transaction logs: the histograms hold what is worth keeping, at a hundredth of the size."""
        for file in self.log_files:
            file.unlink(missing_ok=True)


def mean_lag_ms(log: TransactionLog) -> float | None:
    """Return the mean delay behind the schedule in milliseconds, None in a closed loop or for an empty log."""
    if log.lag_us is None or not log.ok().any():
        return None
    return float(log.lag_us[log.ok()].mean()) / 1000


def count_bins(log: TransactionLog, *, began_at: float) -> CountBins:
    """Return the series of committed transactions since the load began, without the bin that its end cut short."""
    return CountBins(began_at, BIN_S, counts_per_bin(log, origin_s=began_at, bin_s=BIN_S)[:-1])


def histogram_rows(log: TransactionLog, scripts: Sequence[str], *, instance: int) -> list[HistogramRow]:
    """Return one row for each second and script in which anything ended. Rows of several instances add up.

    `scripts` are the names in the order of pgbench's command line, which numbers them so in its log.
    """
    return [_row(second, scripts[script], part, instance) for second, script, part in log.by_second_and_script()]


def _row(second: int, script: str, part: TransactionLog, instance: int) -> HistogramRow:
    micros = part.latency_us[part.ok()]
    histogram = LatencyHistogram()
    histogram.record(micros)
    counts = tally(part)
    return HistogramRow(
        second=second,
        instance=instance,
        script=script,
        count=counts.committed,
        total_us=int(micros.sum()),
        failed=counts.failed,
        retried=counts.retried,
        skipped=counts.skipped,
        blob=histogram.encode(),
    )


def mean_round_trips(rows: Sequence[HistogramRow], by_script: Mapping[str, int | None]) -> float | None:
    """Return the mean over the transactions of all scripts, None where one that ran has an unknown number."""
    counts = [(row.count, by_script.get(row.script)) for row in rows if row.count]
    known = [(count, trips) for count, trips in counts if trips is not None]
    if not counts or len(known) < len(counts):
        return None
    return sum(count * trips for count, trips in known) / sum(count for count, _ in known)


def mean_pause_s(rows: Sequence[HistogramRow], by_script: Mapping[str, float]) -> float:
    """Return the mean over the transactions of all scripts; a script that is not among them does not sleep."""
    counted = sum(row.count for row in rows)
    return sum(row.count * by_script.get(row.script, 0.0) for row in rows) / counted if counted else 0.0
