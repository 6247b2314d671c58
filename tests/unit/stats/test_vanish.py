"""Statements that are gone under B are named, those that only run less often are not."""

import numpy as np

from live_simulation import LiveSimulation, SimulatedLoad
from pgdyno.stats.body_index import PeriodCounts
from pgdyno.stats.veto import vanished


def period(*calls):
    return PeriodCounts(np.array(calls, dtype=np.float64), np.ones(len(calls)))


def test_two_pairs_without_a_frequent_statement_name_it():
    gone, rare, fewer = (100, 0), (19, 0), (100, 20)
    pair = period(gone[0], rare[0], fewer[0]), period(gone[1], rare[1], fewer[1])
    assert vanished([pair]) == ()
    assert vanished([pair, pair]) == (0,)
    assert vanished([]) == ()


def test_where_most_run_less_often_only_what_is_gone_is_named():
    pair = period(100, 200, 300), period(0, 30, 45)
    assert vanished([pair, pair]) == (0,)
    paused = period(100, 200, 300), period(0, 0, 0)
    assert vanished([paused, paused]) == ()


def test_equal_arms_lose_nothing():
    simulation = LiveSimulation(SimulatedLoad(), 5)
    assert vanished([(simulation.period(25.0), simulation.period(25.0)) for _ in range(48)]) == ()


def test_twenty_calls_are_often_and_a_fifth_of_them_is_not_gone():
    least = period(20, 1000), period(0, 1000)
    assert vanished([least, least]) == (0,)
    for left, names in ((199, (0,)), (200, ())):
        pair = period(1000, 1000, 1000), period(left, 1000, 1000)
        assert vanished([pair, pair]) == names


def test_where_most_run_more_often_what_is_left_is_not_measured_by_that():
    for left in (50, 30):
        pair = period(100, 100, 100), period(left, 500, 500)
        assert vanished([pair, pair]) == ()
