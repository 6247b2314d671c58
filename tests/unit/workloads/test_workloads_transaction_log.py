from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgdyno.stats.histogram import LatencyHistogram
from pgdyno.workloads.result import count_bins, histogram_rows, mean_lag_ms
from pgdyno.workloads.transaction_log import (
    Status,
    TransactionLog,
    concatenate,
    counts_per_bin,
    edges_s,
    summarize_latency,
    tally,
)

SECOND = 1_000_000
SCRIPTS = ["read", "update"]


def log_of(
    ends: list[int], latencies: list[int], scripts: list[int] | None = None, statuses: list[int] | None = None
) -> TransactionLog:
    count = len(ends)
    return concatenate(
        [
            TransactionLog(
                np.array(ends, np.int64),
                np.array(latencies, np.int64),
                np.array(scripts or [0] * count, np.int16),
                np.array(statuses or [0] * count, np.int8),
            )
        ]
    )


transactions = st.lists(
    st.tuples(
        st.integers(0, 5 * SECOND),
        st.integers(1, 3_000_000),
        st.integers(0, 1),
        st.sampled_from([Status.OK, Status.OK, Status.OK, Status.FAILED, Status.SKIPPED, Status.DEADLOCK]),
    ),
    max_size=60,
)


def build(rows: list[tuple[int, int, int, Status]]) -> TransactionLog:
    return log_of(
        [r[0] for r in rows],
        [r[1] if r[3] == Status.OK else 0 for r in rows],
        [r[2] for r in rows],
        [r[3] for r in rows],
    )


@given(transactions)
def test_every_transaction_is_counted_once_everywhere(rows: list[tuple[int, int, int, Status]]) -> None:
    log = build(rows)
    counts = tally(log)
    assert counts.committed + counts.failed + counts.skipped == len(rows)
    table = histogram_rows(log, SCRIPTS, instance=3)
    assert sum(row.count for row in table) == counts.committed
    assert sum(row.failed for row in table) == counts.failed
    assert sum(row.skipped for row in table) == counts.skipped
    assert sum(row.total_us for row in table) == int(log.latency_us[log.ok()].sum())
    assert len({(row.second, row.script) for row in table}) == len(table)
    assert all(row.instance == 3 for row in table)
    assert counts_per_bin(log, origin_s=0.0, bin_s=0.25).sum() == counts.committed
    assert len(count_bins(log, began_at=0.0).counts) == max(0, len(counts_per_bin(log, origin_s=0.0, bin_s=0.25)) - 1)


@given(transactions, transactions)
def test_histograms_of_two_instances_add_to_the_histogram_of_the_union(
    one: list[tuple[int, int, int, Status]], two: list[tuple[int, int, int, Status]]
) -> None:
    added = LatencyHistogram()
    for part in (one, two):
        for row in histogram_rows(build(part), SCRIPTS, instance=0):
            added.add(LatencyHistogram.decode(row.blob))
    union = LatencyHistogram()
    for row in histogram_rows(build(one + two), SCRIPTS, instance=0):
        union.add(LatencyHistogram.decode(row.blob))
    if any(row[3] == Status.OK for row in one + two):
        for quantile in (0.5, 0.95, 0.99, 1.0):
            assert added.quantile_ms(quantile) == union.quantile_ms(quantile)


@given(transactions, st.floats(0, 5), st.floats(0, 5))
def test_two_windows_side_by_side_hold_what_their_sum_holds(
    rows: list[tuple[int, int, int, Status]], one: float, two: float
) -> None:
    log = build(rows)
    middle, end = sorted((one, two))
    left, right = log.between(0.0, middle), log.between(middle, end)
    assert len(left) + len(right) == len(log.between(0.0, end))
    assert all(micros < round(middle * 1e6) for micros in left.end_us)


def test_a_window_holds_its_beginning_and_not_its_end() -> None:
    log = log_of([2 * SECOND - 1, 2 * SECOND, 3 * SECOND - 1, 3 * SECOND], [1, 2, 3, 4])
    assert log.between(2.0, 3.0).latency_us.tolist() == [2, 3]


def test_latency_is_exact_and_of_committed_transactions_only() -> None:
    log = log_of(list(range(1, 102)), [*range(1000, 101_000, 1000), 0], statuses=[0] * 100 + [Status.FAILED])
    summary = summarize_latency(log)
    assert summary is not None
    assert (summary.p50, summary.p95, summary.p99, summary.max) == (50.0, 95.0, 99.0, 100.0)
    assert summary.mean == pytest.approx(50.5)
    assert summarize_latency(log.select(slice(100, None))) is None


def test_bins_keep_the_empty_ones() -> None:
    log = log_of([10 * SECOND, 10 * SECOND + 249_999, 11 * SECOND], [5, 5, 5])
    assert counts_per_bin(log, origin_s=10.0, bin_s=0.25).tolist() == [2, 0, 0, 0, 1]


def test_a_transaction_belongs_to_the_second_of_its_end() -> None:
    rows = histogram_rows(log_of([3 * SECOND, 4 * SECOND - 1, 4 * SECOND], [7, 8, 9]), ["read"], instance=0)
    assert [(row.second, row.count, row.total_us) for row in rows] == [(3, 2, 15), (4, 1, 9)]


def test_logs_with_and_without_lag_do_not_pretend_to_have_it() -> None:
    plain = log_of([1], [1])
    lagged = TransactionLog(plain.end_us, plain.latency_us, plain.script, plain.status, np.array([2500], np.int64))
    assert mean_lag_ms(lagged) == 2.5
    assert mean_lag_ms(concatenate([plain, lagged])) is None


@pytest.mark.requirement("R-BEN-12")
@given(transactions, st.integers(-1, 5 * SECOND), st.integers(1, 5 * SECOND))
def test_latencies_without_the_edges_are_the_time_spent_in_the_window(
    rows: list[tuple[int, int, int, Status]], begin: int, width: int
) -> None:
    log, end = build(rows), begin + width
    done = [(ended - latency, ended) for ended, latency, _, status in rows if status == Status.OK]
    inside = log.between(begin / SECOND, end / SECOND)
    whole = int(inside.latency_us[inside.ok()].sum())
    spent = sum(max(0, min(ended, end) - max(began, begin)) for began, ended in done)
    assert whole - SECOND * edges_s(log, begin / SECOND, end / SECOND) == pytest.approx(spent)


def test_a_stall_at_the_begin_of_a_window_is_an_edge() -> None:
    log = log_of([100_000, 2_000_000, 2_100_000], [150_000, 1_900_000, 100_000])
    assert edges_s(log, 0.0, 2.0) == pytest.approx(0.05 - 1.9), "the second ends with the window, not in it"
    assert edges_s(log, 0.0, 2.000001) == pytest.approx(0.05 - 1e-6)
    assert edges_s(log_of([], []), 0.0, 2.0) == 0
