from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from exact_log import folded, select
from pgdyno.model.trial import LoadPlan
from pgdyno.workloads.load_warnings import LoadFacts, LoadWarningKind, judge_load
from pgdyno.workloads.pgbench.transaction_log import Tally, TransactionLog

PLAN = LoadPlan(clients=4, jobs=2, warmup_s=0.0, measure_s=10.0)
FACTS = LoadFacts(
    plan=PLAN, seconds=10.0, cores=2, driver_cpu_s=4.0, counts=Tally(1000, 0, 0, 0), malformed_lines=0, scale=10
)
KIND = LoadWarningKind


def steady(count: int = 1000, seconds: float = 10.0, lag: np.ndarray | None = None) -> TransactionLog:
    ends = np.linspace(0, seconds * 1e6 - 1, count).astype(np.int64)
    return TransactionLog(
        ends, np.full(count, 900, np.int64), np.zeros(count, np.int16), np.zeros(count, np.int8), lag_us=lag
    )


def kinds(facts: LoadFacts, log: TransactionLog | None = None) -> list[LoadWarningKind]:
    return [warning.kind for warning in judge_load(facts, folded(log or steady()))]


def test_a_sound_load_has_none() -> None:
    assert kinds(FACTS) == []


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"driver_cpu_s": 14.1}, KIND.DRIVER_SATURATED),
        ({"throttled_pct": 98.0}, KIND.DRIVER_THROTTLED),
        ({"cores": 1, "plan": replace(PLAN, clients=5)}, KIND.CLIENTS_EXCEED_CORES),
        ({"scale": 3}, KIND.CLIENTS_EXCEED_SCALE),
        ({"seconds": 3.0, "driver_cpu_s": 1.0}, KIND.RUN_TOO_SHORT),
        ({"counts": Tally(99, 0, 0, 0)}, KIND.RUN_TOO_SHORT),
        ({"plan": replace(PLAN, rate=110.0)}, KIND.RATE_NOT_REACHED),
        ({"counts": Tally(1000, 1, 0, 0)}, KIND.TRANSACTIONS_FAILED),
        ({"malformed_lines": 1}, KIND.LOG_DAMAGED),
        ({"plan": replace(PLAN, connect_each=True)}, KIND.CONNECT_EACH),
        ({"plans": ("read:\nAggregate\n  ->  Bitmap Heap Scan on bench0001",)}, KIND.PLAN),
        ({"plans": ("read:\nGather\n  ->  Parallel Bitmap Heap Scan on bench0001",)}, KIND.PLAN),
        ({"plans": ("read:\nAggregate\n  ->  Seq Scan on bench0001",)}, KIND.PLAN),
    ],
)
def test_each_warning_stands_alone(change: dict[str, object], expected: LoadWarningKind) -> None:
    assert kinds(replace(FACTS, **change)) == [expected]


def test_a_warning_of_few_cores_or_branches_claims_no_more_than_is_known() -> None:
    (cores,) = judge_load(replace(FACTS, cores=1, plan=replace(PLAN, clients=5)), folded(steady()))
    assert "where no lock or disk is waited for" in cores.text, "sessions that wait for locks want no CPU"
    (branches,) = judge_load(replace(FACTS, scale=1), folded(steady()))
    assert "update 1 branch:" in branches.text


@pytest.mark.parametrize(
    "change",
    [
        {"driver_cpu_s": 13.9},
        {"throttled_pct": 4.9},
        {"plan": replace(PLAN, clients=50), "pauses": True},
        {"plan": replace(PLAN, clients=8), "scale": None},
        {"scale": None},
        {"plan": replace(PLAN, rate=104.0)},
        {"plans": ("read:\nAggregate\n  ->  Index Scan using bench0001_mykey_idx on bench0001",)},
    ],
)
def test_just_inside_the_bounds_there_is_none(change: dict[str, object]) -> None:
    assert kinds(replace(FACTS, **change)) == []


def test_one_thread_does_not_serve_two() -> None:
    facts = replace(FACTS, plan=replace(PLAN, clients=1), driver_cpu_s=7.5)
    assert kinds(facts) == [KIND.DRIVER_SATURATED]


def test_a_growing_queue() -> None:
    facts = replace(FACTS, plan=replace(PLAN, rate=100.0))
    assert kinds(facts, steady(lag=np.linspace(0, 400_000, 1000).astype(np.int64))) == [KIND.LAG_GROWING]
    assert kinds(facts, steady(lag=np.full(1000, 300_000, np.int64))) == []
    assert kinds(facts, steady(lag=np.linspace(0, 20_000, 1000).astype(np.int64))) == []


def test_a_second_without_any_transaction() -> None:
    log = steady()
    gap = folded(select(log, np.flatnonzero((log.end_us < 4_000_000) | (log.end_us >= 6_000_000))))
    facts = replace(FACTS, counts=Tally(len(gap), 0, 0, 0))
    warnings = judge_load(facts, gap)
    assert [warning.kind for warning in warnings] == [KIND.STALLED]
    assert "2 of 10 seconds" in warnings[0].text


def test_slow_transactions_are_not_a_stall() -> None:
    slow = steady(count=20, seconds=40.0)
    assert kinds(replace(FACTS, seconds=40.0, counts=Tally(200, 0, 0, 0)), slow) == []


def test_clients_that_wait_for_their_turn_do_not_wait_for_a_cpu() -> None:
    """50 clients under a rate of which 0.09 are in a transaction on average crowd nothing, until they do."""
    facts = replace(FACTS, plan=replace(PLAN, clients=50, rate=100.0))
    late = np.full(1000, 300_000, np.int64)
    assert kinds(facts, steady(lag=late)) == [], "300 ms of lag are no work"
    log = steady(lag=late)
    at_work = replace(log, latency_us=late + 200_000)  # 1,000 transactions of 0.2 s in 10 s: 20 at work
    assert kinds(facts, at_work) == [KIND.CLIENTS_EXCEED_CORES, KIND.CLIENTS_EXCEED_SCALE]
    assert "20 clients share 2 cores" in judge_load(facts, folded(at_work))[0].text
