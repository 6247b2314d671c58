"""What a folded log says, against exact arithmetic on all its transactions at once."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from exact_log import between, concatenate, edges_s, folded, ok, summarize_latency, tally
from pgdyno.stats.histogram import RELATIVE_ERROR, LatencyHistogram
from pgdyno.store import spool
from pgdyno.workloads.pgbench.folded_log import QUARTER_US, joined
from pgdyno.workloads.pgbench.log_fold import LogFold, _in_pieces
from pgdyno.workloads.pgbench.transaction_log import Status, TransactionLog
from pgdyno.workloads.result import SecondHistograms, client_records, count_bins, mean_lag_ms

SECOND = 1_000_000
SCRIPTS = ("read", "update")
Row = tuple[int, int, int, Status, int]

transactions = st.lists(
    st.tuples(
        st.integers(0, 5 * SECOND),
        st.one_of(st.integers(1, 5000), st.integers(1, 3_000_000)),
        st.integers(0, 1),
        st.sampled_from([Status.OK, Status.OK, Status.OK, Status.FAILED, Status.SKIPPED, Status.DEADLOCK]),
        st.integers(0, 3),
    ),
    max_size=60,
)


def build(rows: list[Row], *, lag: bool = False) -> TransactionLog:
    columns = np.array([(r[0], r[1] if r[3] == Status.OK else 0, *r[2:]) for r in rows], np.int64).reshape(-1, 5).T
    log = TransactionLog(
        columns[0],
        columns[1],
        columns[2].astype(np.int16),
        columns[3].astype(np.int8),
        lag_us=columns[1] // 2 if lag else None,
        client=columns[4].astype(np.int16),
    )
    return concatenate([log])


@given(transactions)
def test_every_transaction_is_counted_once_everywhere(rows: list[Row]) -> None:
    exact, log = build(rows), folded(build(rows))
    assert (len(log), log.tally()) == (len(rows), tally(exact))
    table = list(SecondHistograms(((log, SCRIPTS, 3),)))
    for name, whole in (("count", "committed"), ("failed", "failed"), ("skipped", "skipped")):
        assert sum(getattr(row, name) for row in table) == getattr(tally(exact), whole)
    assert sum(row.total_us for row in table) == int(exact.latency_us[ok(exact)].sum())
    assert [(row.second, row.script) for row in table] == sorted({(row.second, row.script) for row in table})
    assert {row.second for row in table} == {row[0] // SECOND for row in rows}
    assert all(row.instance == 3 and len(LatencyHistogram.decode(row.blob)) == row.count for row in table)
    assert sum(log.committed_by_script(2)) == log.tally().committed == int(log.committed_by_quarter(0.0).sum())
    assert len(count_bins(log, began_at=0.0).counts) == max(0, len(log.committed_by_quarter(0.0)) - 1)


@given(transactions, st.integers(0, 60), st.integers(0, 22), st.integers(0, 22))
def test_a_window_has_the_exact_counts_and_percentiles_within_the_stated_error(
    rows: list[Row], cut: int, one: int, two: int
) -> None:
    log = folded(build(rows[:cut]), build(rows[cut:]))
    begin, end = sorted((one / 4, two / 4))
    part, exact = log.between(begin, end), between(build(rows), begin, end)
    if end * SECOND >= max((row[0] for row in rows), default=0):
        exact = between(build(rows), begin, 1e6)
    assert part.tally() == tally(exact)
    found, true = part.latency(), summarize_latency(exact)
    assert (found is None) == (true is None)
    if found is not None and true is not None:
        assert (found.max, found.mean) == pytest.approx((true.max, true.mean))
        for share in ("p50", "p95", "p99", "p999"):
            value, real = getattr(found, share), getattr(true, share)
            assert real <= value <= real * (1 + RELATIVE_ERROR)
            assert value == real or real >= 2.048, "buckets below 2.048 ms are exact"
    assert log.edges_s(begin, end) == pytest.approx(edges_s(build(rows), begin, end)) or begin == end or end >= 5.0


@given(transactions, transactions)
def test_two_generators_joined_are_what_one_that_saw_all_would_say(one: list[Row], two: list[Row]) -> None:
    shifted = [(*row[:4], row[4] + 4) for row in two]
    apart = joined([folded(build(one)), folded(build(two), first_client=4)])
    whole = folded(build(one + shifted))
    assert (apart.tally(), apart.latency()) == (whole.tally(), whole.latency())
    assert client_records(apart) == client_records(whole)
    assert [(s, n, p.tally()) for s, n, p in apart.by_second_and_script()] == [
        (s, n, p.tally()) for s, n, p in whole.by_second_and_script()
    ]
    assert apart.edges_s(1.0, 3.0) == pytest.approx(whole.edges_s(1.0, 3.0))


@given(transactions)
def test_each_client_has_the_figures_of_its_own_transactions(rows: list[Row]) -> None:
    exact = build(rows)
    found = {record.client: record for record in client_records(folded(exact))}
    assert set(found) == {row[4] for row in rows if row[3] == Status.OK}
    for client, record in found.items():
        micros = np.sort(exact.latency_us[ok(exact) & np.equal(exact.client, client)]) / 1000
        assert record.transactions == micros.size
        assert (record.mean_ms, record.max_ms) == pytest.approx((micros.mean(), micros.max()), rel=RELATIVE_ERROR)
        assert record.p50_ms == pytest.approx(micros[math.ceil(micros.size / 2) - 1], rel=RELATIVE_ERROR)


def test_many_clients_are_told_apart() -> None:
    count = 700
    ends, numbers = np.arange(count, dtype=np.int64), np.arange(count, dtype=np.int16) % 350
    log = TransactionLog(ends, numbers + np.int64(1), numbers * 0, numbers.astype(np.int8) * 0, client=numbers)
    records = client_records(folded(log))
    assert [(one.client, one.transactions, one.max_ms) for one in records] == [
        (client, 2, (client + 1) / 1000) for client in range(350)
    ]


def test_logs_with_and_without_lag_do_not_pretend_to_have_it() -> None:
    plain, lagged = build([(1, 1, 0, Status.OK, 0)]), build([(1, 5000, 0, Status.OK, 0)], lag=True)
    assert mean_lag_ms(folded(lagged)) == 2.5
    assert mean_lag_ms(folded(plain, lagged)) is None
    assert mean_lag_ms(folded()) is None


def test_what_stays_in_memory_does_not_grow_with_the_transactions() -> None:
    fold, before = LogFold(), 0
    for second in range(40):
        ends = second * SECOND + np.arange(0, SECOND, 25, dtype=np.int64)
        zeros = np.zeros(ends.size, np.int64)
        fold.add(TransactionLog(ends, zeros + 700 + ends % 9, zeros.astype(np.int16), zeros.astype(np.int8)))
        kept = sum(piece.nbytes for piece in fold._pieces)
        assert kept - before <= 4 * 96, "four quarters a second, however many transactions"
        assert sum(counts.size for counts in fold._recent.values()) < 6 * 1000, "six seconds of buckets up to 708 us"
        before = kept
    assert 4 * fold.committed > spool.IN_MEMORY
    log = fold.folded()
    assert not log.spools[0]._memory, "on disk by now"
    assert (log.tally().committed, log.latency().max) == (1_600_000, 0.708)


def test_a_recent_percentile_forgets_what_is_older_than_its_seconds() -> None:
    fold = LogFold()
    assert fold.p99_ms() is None
    fold.add(build([(n, 9000, 0, Status.OK, 0) for n in range(50)]))
    assert fold.p99_ms() == pytest.approx(9.0, rel=RELATIVE_ERROR)
    fold.add(build([(20 * SECOND + n, 500, 0, Status.OK, 0) for n in range(50)]))
    assert (fold.p99_ms(), fold.committed) == (0.5, 100)


@pytest.mark.requirement("R-BEN-12")
@given(transactions, st.integers(0, 20), st.integers(1, 20))
def test_latencies_without_the_edges_are_the_time_spent_in_the_window(rows: list[Row], begin: int, width: int) -> None:
    log, end = folded(build(rows)), begin + width
    done = [(ended - latency, ended) for ended, latency, _, status, _ in rows if status == Status.OK]
    inside = log.between(begin / 4, end / 4)
    if end * QUARTER_US >= log.last_end_us:
        end = log.last_end_us // QUARTER_US + 1
    begin_us, end_us = begin * QUARTER_US, max(begin, end) * QUARTER_US
    spent = sum(max(0, min(ended, end_us) - max(began, begin_us)) for began, ended in done)
    assert inside.total_us() - SECOND * log.edges_s(begin / 4, end / 4) == pytest.approx(spent, abs=1e-6)


def test_transactions_that_began_before_the_load_are_cut_at_its_beginning() -> None:
    log = folded(build([(10 * SECOND, 3_600 * SECOND, 0, Status.OK, 0)]), since_us=9 * SECOND)
    assert min(log.boundaries) >= 35, "an hour's worth of boundaries is not kept for one damaged line"


def test_the_first_beginning_may_be_told_last() -> None:
    rows = (
        [(5 * SECOND, 10, 0, Status.OK, 0)],
        [(6 * SECOND, 2 * SECOND, 0, Status.OK, 1), (7 * SECOND, 9, 0, Status.OK, 0)],
    )
    log = folded(*(build(one) for one in rows))
    assert (log.first_began_us, log.first_end_us, log.last_end_us) == (4 * SECOND, 5 * SECOND, 7 * SECOND)


def test_the_quarters_of_a_log_in_order_are_found_without_looking_at_each(monkeypatch: pytest.MonkeyPatch) -> None:
    log = build([(at, 5, 0, Status.OK, 0) for at in (*range(0, SECOND, SECOND // 8), 2 * SECOND)])
    monkeypatch.setattr(np, "flatnonzero", None)
    same, starts = _in_pieces(log)
    assert same is log
    assert starts.tolist() == [0, 2, 4, 6, 8], "an empty quarter has no piece"


def test_bins_keep_the_empty_ones() -> None:
    rows = [(10 * SECOND + at, 5, 0, Status.OK, 0) for at in (0, 249_999, SECOND)]
    assert folded(build(rows)).committed_by_quarter(10.0).tolist() == [2, 0, 0, 0, 1]
    assert count_bins(folded(build(rows)), began_at=10.0).counts.tolist() == [2, 0, 0, 0]
    assert count_bins(folded(build(rows)), began_at=10.01).origin_s == 10.25


def test_a_transaction_belongs_to_the_second_of_its_end() -> None:
    rows = [(at, 7, 0, Status.OK, 0) for at in (3 * SECOND, 4 * SECOND - 1, 4 * SECOND)]
    found = SecondHistograms(((folded(build(rows)), ("read",), 0),))
    assert [(row.second, row.count, row.total_us) for row in found] == [(3, 2, 14), (4, 1, 7)]
    assert len(list(found)) == 2, "it can be iterated over again"


def test_the_last_transaction_of_a_load_is_in_a_window_that_reaches_to_its_end() -> None:
    log = folded(build([(at * SECOND, 7, 0, Status.OK, 0) for at in (1, 2, 3)]))
    assert (len(log.between(2.0, 3.0)), len(log.between(2.0, 2.9)), len(log.between(1.1, 2.0))) == (2, 1, 0)
