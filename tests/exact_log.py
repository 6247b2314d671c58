"""Exact arithmetic on all transactions of a log at once: what folded figures are held against."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pgdyno.model.trial import LatencySummary
from pgdyno.workloads.pgbench.folded_log import FoldedLog
from pgdyno.workloads.pgbench.log_fold import LogFold
from pgdyno.workloads.pgbench.transaction_log import Status, Tally, TransactionLog


def folded(*logs: TransactionLog, since_us: int = 0, first_client: int = 0) -> FoldedLog:
    """Fold logs as a reader does, one piece after the other."""
    fold = LogFold(since_us, first_client=first_client)
    for log in logs:
        fold.add(log)
    return fold.folded()


def ok(log: TransactionLog) -> NDArray[np.bool_]:
    return np.equal(log.status, np.int8(Status.OK))


def select(log: TransactionLog, rows) -> TransactionLog:
    optional = [None if column is None else column[rows] for column in (log.lag_us, log.retries, log.client)]
    return TransactionLog(log.end_us[rows], log.latency_us[rows], log.script[rows], log.status[rows], *optional)


def between(log: TransactionLog, from_s: float, to_s: float) -> TransactionLog:
    """Return what ended in [from, to) of a log in the order of ends."""
    first, last = np.searchsorted(log.end_us, [round(from_s * 1e6), round(to_s * 1e6)])
    return select(log, slice(int(first), int(last)))


def tally(log: TransactionLog) -> Tally:
    committed = int(np.count_nonzero(log.status == Status.OK))
    skipped = int(np.count_nonzero(log.status == Status.SKIPPED))
    retried = 0 if log.retries is None else int(np.count_nonzero(log.retries > 0))
    return Tally(committed, len(log) - committed - skipped, retried, skipped)


def concatenate(logs: Sequence[TransactionLog]) -> TransactionLog:
    """Join logs into one, sorted by end."""
    names = ("end_us", "latency_us", "script", "status", "lag_us", "retries", "client")
    columns = [[getattr(log, name) for log in logs] for name in names]
    joined = TransactionLog(*(None if any(c is None for c in column) else np.concatenate(column) for column in columns))
    return select(joined, np.argsort(joined.end_us, kind="stable"))


def edges_s(log: TransactionLog, from_s: float, to_s: float) -> float:
    """Return by how many seconds the latencies of what ended in [`from_s`, `to_s`) exceed the time spent in it.

    They hold what such a transaction took before the window, and nothing of one that ended after it. Without these
    edges they add up to the time in which sessions were busy: at most sessions x seconds. Committed ones only.
    """
    begin, end = round(from_s * 1e6), round(to_s * 1e6)
    first, last = np.searchsorted(log.end_us, [begin, end])
    began, done = log.end_us[first:] - log.latency_us[first:], ok(log)[first:]
    inside, after = began[: last - first][done[: last - first]], began[last - first :][done[last - first :]]
    return float(np.maximum(begin - inside, 0).sum() - np.maximum(end - np.maximum(after, begin), 0).sum()) / 1e6


def summarize_latency(log: TransactionLog) -> LatencySummary | None:
    """Return the exact latencies of the committed transactions, None when there is none.

    A percentile is an observed value: the smallest that at least that share of the transactions did not exceed.
    """
    micros = log.latency_us[ok(log)]
    if not len(micros):
        return None
    quantiles = np.quantile(micros, [0.5, 0.95, 0.99, 0.999], method="inverted_cdf")
    p50, p95, p99, p999 = (float(value) / 1000 for value in quantiles)
    return LatencySummary(p50, p95, p99, p999, max=float(micros.max()) / 1000, mean=float(micros.mean()) / 1000)
