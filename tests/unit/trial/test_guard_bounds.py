"""The numbers that stand in what guards compare: just below and at each of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from guard_ticks import GB, a_tick, ticks
from pgdyno.model.guard import Absent, Concurrent, GuardReading
from pgdyno.model.guard_table import GUARDS, LIVE_GUARDS
from pgdyno.probes.guards.memory import MemoryReading
from pgdyno.probes.guards.reader import GuardedLoad, Tick
from pgdyno.probes.guards.server import GuardRow
from pgdyno.stats.body_index import PeriodCounts, StatementBody
from pgdyno.trial.guard_history import EARLY, History, rate
from pgdyno.trial.guard_quantities import readings, with_clients
from pgdyno.trial.guard_settings import guard_plan
from pgdyno.trial.live_guards import LiveGuards, LiveLoad

BODY = StatementBody(np.array([0]), np.array([1.0]), np.array([2.0]), 0.9)


def of(history: History, name: str, concurrent: Concurrent | None = None) -> GuardReading:
    (found,) = [reading for reading in readings(history, concurrent) if reading.name == name]
    return found


def test_a_rate_is_growth_over_nine_tenths_of_a_second_at_least() -> None:
    assert rate([(0.0, 5.0), (0.5, 99.0), (0.9, 14.0)]) == pytest.approx(10.0)
    assert rate([(60.0, 5.0), (63.0, 35.0)]) == pytest.approx(10.0), "whenever the first was"
    assert rate([(0.0, 5.0), (0.89, 14.0)]) is EARLY
    assert rate([(1.0, 5.0), (3.0, 4.0)]) == 0.0
    assert rate([]) is EARLY


def with_load(t: float, transactions: int, failed: int) -> Tick:
    return replace(a_tick(t), load=GuardedLoad(0.0, 100.0, 5.0, transactions, failed))


@pytest.mark.parametrize(
    ("good", "bad", "share"),
    [(19, 1, 5.0), (18, 1, 0.0), (15, 5, 25.0), (100, 0, 0.0), (0, 20, 100.0), (-1, 21, 0.0), (100, -1, 0.0)],
)
def test_of_twenty_transactions_a_share_fails(good: int, bad: int, share: float) -> None:
    """By the load's own count and by the server's alike."""
    by_load = ticks(with_load(0, 1000, 7), with_load(2, 1000 + good, 7 + bad))
    by_server = ticks(
        a_tick(0, commits=50, rollbacks=3, load=True), a_tick(2, commits=50 + good, rollbacks=3 + bad, load=True)
    )
    assert [of(one, "errors").value for one in (by_load, by_server)] == [share, share]


def test_a_load_of_five_seconds_is_held_against_the_baseline() -> None:
    usual = Concurrent(100.0, 5.0)
    assert isinstance(of(ticks(a_tick(4.99, load=True)), "throughput", usual).value, Absent)
    assert of(ticks(a_tick(5.0, load=True)), "throughput", usual).value == 100.0
    begun = replace(a_tick(1004.0), load=GuardedLoad(1000.0, 100.0, 5.0, 0, 0))
    assert isinstance(of(ticks(begun), "throughput", usual).value, Absent)
    assert of(ticks(replace(begun, t=1005.0)), "throughput", usual).value == 100.0


@pytest.mark.parametrize(("tps", "is_told"), [(4.0, True), (3.99, False)])
def test_twenty_transactions_in_the_time_that_a_breach_must_last_are_enough(tps: float, is_told: bool) -> None:
    assert GUARDS["throughput"].hold_s == 5.0
    found = of(ticks(a_tick(9.0, load=True, tps=tps)), "throughput", Concurrent(tps, None)).value
    assert found == 100.0 if is_told else isinstance(found, Absent)


def test_a_p99_is_held_against_five_milliseconds_at_least() -> None:
    for baseline, ratio in ((5.0, 4.0), (4.0, 4.0), (10.0, 2.0)):
        found = of(ticks(a_tick(9.0, load=True, p99_ms=20.0)), "p99", Concurrent(100.0, baseline))
        assert found.value == pytest.approx(ratio)
    assert isinstance(of(ticks(a_tick(9.0, load=True, p99_ms=None)), "p99", Concurrent(1e3, 5.0)).value, Absent)


def memory(t: float, stalled_us: int | Absent, swapped_in: int | Absent) -> Tick:
    read = MemoryReading(8 * GB, 16 * GB, "the host", stalled_us, 0, swapped_in)
    return replace(a_tick(t), memory=read)


def test_stalls_are_percent_of_the_time_and_swap_is_bytes_a_second() -> None:
    history = ticks(memory(0, 5_000_000, 7 << 20), memory(2, 5_500_000, 11 << 20))
    assert of(history, "memory-stall").value == pytest.approx(25.0), "half a second of two"
    assert of(history, "swap-in").value == pytest.approx(2 << 20)
    none = Absent("not here")
    absent = ticks(memory(0, none, none), memory(2, none, none))
    assert [of(absent, name).value for name in ("memory-stall", "swap-in")] == [none, none]


def test_the_age_of_transactions_is_of_two_to_the_31_and_warns_beyond_what_autovacuum_waits_for() -> None:
    def aged(xid_age: int) -> GuardReading:
        tick = a_tick(0)
        assert isinstance(tick.server, GuardRow)
        return of(ticks(replace(tick, server=replace(tick.server, xid_age=xid_age))), "xid-age")

    assert aged(1 << 30).value == 50.0
    assert [aged(age).warns for age in (200_000_000, 200_000_001)] == [False, True]


def test_deadlocks_are_those_since_the_load_began_and_never_fewer_than_none() -> None:
    def history(*counts: int) -> History:
        return ticks(*(a_tick(t, deadlocks=count, load=True) for t, count in enumerate(counts)))

    assert [of(history(*one), "deadlocks").value for one in ((2, 2), (2, 3, 7), (7, 2))] == [0.0, 5.0, 0.0]


def test_a_server_without_room_is_full_with_its_sessions() -> None:
    tick = a_tick(0, sessions=5, room=0)
    reading = of(ticks(tick), "connections")
    assert reading.value == 500.0
    found = with_clients(reading, tick, 5)
    assert (found.value, found.about) == (1000.0, "10 of 0, 5 of them for the load")


def watching(**more: float) -> LiveGuards:
    usual = LiveLoad(BODY, 50.0, 3.0, 4.0, 2, 0.0, 0)
    return LiveGuards(replace(usual, **more), guard_plan([], 1, {**GUARDS, **LIVE_GUARDS}))


def value(guards: LiveGuards, name: str) -> object:
    return guards._statuses[name].reading.value


def heard(guards: LiveGuards, *calls: float, factor: float = 2.5) -> object:
    """Hear readings with so many calls each, that took `factor` times as long as in the reference."""
    for number, count in enumerate(calls):
        guards.statements(2.0 * number, PeriodCounts(np.array([count]), np.array([2.0 * count * factor])))
    return value(guards, "statement-time")


def test_twenty_calls_tell_and_two_do_where_forty_are_usual() -> None:
    assert heard(watching(calls_a_second=5.0), 20.0) == pytest.approx(2.5)
    assert isinstance(heard(watching(calls_a_second=5.0), 19.0), Absent)
    assert heard(watching(calls_a_second=20.0), 2.0) == pytest.approx(2.5)
    assert isinstance(heard(watching(calls_a_second=19.9), 2.0), Absent)
    assert isinstance(heard(watching(calls_a_second=20.0), 1.0), Absent)


@pytest.mark.parametrize(("calls", "told", "backlog"), [(149.0, 2.5, 2.0), (150.0, 1.0, 1.0)])
def test_half_as_many_calls_again_are_a_burst(calls: float, told: float, backlog: float) -> None:
    """Of fifty a second a reading of two seconds has a hundred."""
    guards = watching()
    assert heard(guards, calls) == pytest.approx(told)
    assert ("; a burst: 1.5 times the usual calls end" in guards._statuses["statement-time"].reading.about) == (
        backlog == 1.0
    )
    guards.sessions(0.0, 8)
    assert value(guards, "backlog") == backlog


def test_a_burst_of_a_load_of_few_calls_is_none() -> None:
    assert heard(watching(calls_a_second=19.9), 300.0) == pytest.approx(2.5)
    assert heard(watching(calls_a_second=20.0), 300.0) == 1.0


def test_where_hardly_a_call_ends_those_that_are_usual_are_told_of_sessions_at_work() -> None:
    for at_work, told in ((3, 100.0), (2, None)):
        guards = watching()
        guards.sessions(0.0, at_work)
        found = heard(guards, 0.0)
        assert found == told if told is not None else isinstance(found, Absent)
    guards = watching()
    guards.sessions(0.0, 3)
    assert heard(guards, 1.0) == 50.0, "a hundred are usual: one ended, and one may be about to"


@pytest.mark.parametrize(("longest_s", "age_s", "told"), [(0.0, 12.0, 2.0), (6.0, 12.0, 2.0), (24.0, 12.0, 0.5)])
def test_a_statement_is_held_against_the_longest_and_against_six_seconds(
    longest_s: float, age_s: float, told: float
) -> None:
    guards = watching(longest_s=longest_s)
    guards.switched(True, 100.0)
    guards.sessions(0.0, 1, at=110.0 + age_s, begun=[110.0, 99.9])
    assert value(guards, "oldest-statement") == pytest.approx(told)


def test_what_began_under_b_is_watched_until_the_baseline_is_back() -> None:
    guards = watching()

    def oldest(*begun: float) -> object:
        guards.sessions(0.0, 1, at=160.0, begun=begun)
        return value(guards, "oldest-statement")

    assert guards.since == float("inf")
    guards.switched(True, 100.0)
    guards.switched(False, 130.0)
    assert guards.since == 100.0
    assert [oldest(99.9), oldest(100.0), oldest(129.9), oldest(130.0)] == pytest.approx([0.0, 10.0, 30.1 / 6, 0.0])
    guards.back()
    assert oldest(100.0) == 0.0


@pytest.mark.parametrize(("most", "blocked", "told"), [(0, 5, 3.0), (1, 5, 3.0), (2, 6, 3.0), (10, 5, 0.5)])
def test_waits_for_locks_are_held_against_the_most_and_against_five_thirds(
    most: int, blocked: int, told: float
) -> None:
    guards = watching(most_blocked=most)
    guards.sessions(0.0, 9, blocked)
    assert value(guards, "lock-waits") == pytest.approx(told)
    assert value(guards, "backlog") == pytest.approx((9 - blocked) / 4)


def test_what_is_usual_is_that_of_the_last_period_of_a_where_it_took_longer() -> None:
    def told(period: Sequence[float]) -> object:
        guards, (calls, time_ms) = watching(), period
        guards.hold_against(PeriodCounts(np.array([calls]), np.array([time_ms])), 10.0)
        return heard(guards, 100.0)

    assert told((100.0, 400.0)) == pytest.approx(1.25), "twice the time of the reference"
    assert told((100.0, 100.0)) == pytest.approx(2.5)
    assert told((0.0, 0.0)) == pytest.approx(2.5)


def test_in_a_burst_fewer_sessions_than_usual_are_as_few_as_they_are() -> None:
    guards = watching()
    heard(guards, 150.0)
    guards.sessions(0.0, 2)
    assert value(guards, "backlog") == 0.5
    assert heard(watching(), 150.0, factor=0.25) == 0.25


def test_of_the_statements_of_b_the_oldest_is_told() -> None:
    guards = watching()
    guards.switched(True, 100.0)
    guards.sessions(0.0, 1, at=160.0, begun=[130.0, 100.0, 148.0])
    assert value(guards, "oldest-statement") == 10.0


def test_calls_of_microseconds_tell_as_well_and_nobody_at_work_is_nobody() -> None:
    quick = replace(BODY, mean_ms=np.array([0.01]))
    guards = LiveGuards(LiveLoad(quick, 5.0, 3.0, 4.0, 2, 0.0, 0), watching().plan)
    guards.statements(0.0, PeriodCounts(np.array([20.0]), np.array([0.5])))
    assert value(guards, "statement-time") == pytest.approx(2.5)
    assert isinstance(heard(watching(active_p95=0.5), 0.0), Absent)
    guards.hold_against(PeriodCounts(np.array([20.0]), np.array([0.4])), 10.0)
    guards.statements(2.0, PeriodCounts(np.array([20.0]), np.array([0.5])))
    assert value(guards, "statement-time") == pytest.approx(1.25), "twice as slow under A, too"
    instant = LiveGuards(LiveLoad(replace(BODY, mean_ms=np.array([0.0])), 5.0, 3.0, 4.0, 2, 0.0, 0), watching().plan)
    assert isinstance(heard(instant, 20.0), Absent)
