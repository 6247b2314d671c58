"""What the server did beside its statements: database time and CPU are judged, the rest is told."""

from __future__ import annotations

import numpy as np
import pytest

from pgdyno.model.verdict import Word
from pgdyno.stats.body_index import PeriodCounts, ServerUse, StatementBody
from pgdyno.stats.second_metrics import second_metrics
from pgdyno.stats.sequential import Design

BODY = StatementBody(np.array([0]), np.array([1.0]), np.array([2.0]), 1.0)


def period(calls, **use):
    return PeriodCounts(np.array([float(calls)]), np.array([2.0 * calls]), use=ServerUse(**use))


def pairs(factor, count=6, **more):
    """Under B the sessions are at work for `factor` times as long for the same work, whatever the number of calls."""
    a = [period(1000 + n, active_ms=5.0 * (1000 + n), **more) for n in range(count)]
    b = [period(2000 - n, active_ms=5.0 * factor * (2000 - n), **more) for n in range(count)]
    return [*zip(a, b, strict=True)]


@pytest.mark.parametrize(("factor", "word"), [(1.5, Word.WORSE), (0.7, Word.BETTER), (1.0, Word.EQUIVALENT)])
def test_database_time_is_judged_for_the_same_work(factor, word):
    (found,) = second_metrics(BODY, pairs(factor), Design(doubt=0.0))
    assert (found.name, found.verdict.word, found.is_worse) == ("active_ms", word, word is Word.WORSE)
    assert (found.a, found.b) == (pytest.approx(2500.0), pytest.approx(2500.0 * factor))


def test_what_is_read_and_written_makes_no_claim():
    found = {one.name: one for one in second_metrics(BODY, pairs(1.0, temp_bytes=4000.0, cpu_ms=0.0), Design())}
    assert found["temp_bytes"].verdict is None
    assert found["temp_bytes"].a == pytest.approx(np.mean([4000 / (2 * (1000 + n) / 1000) for n in range(6)]))
    assert found["cpu_ms"].verdict is None, "of nothing there is no ratio"


def test_a_figure_that_went_up_in_one_pair_and_down_in_another_is_marked():
    some = pairs(1.5, count=3)
    assert second_metrics(BODY, some, Design())[0].in_each_pair
    assert not second_metrics(BODY, [*some, some[0][::-1]], Design())[0].in_each_pair
    assert not second_metrics(BODY, [*some, (some[0][0], some[0][0])], Design())[0].in_each_pair


def test_database_time_is_not_known_where_sessions_have_not_reported_that_of_their_statements():
    """PostgreSQL flushes it with the counters of relations, which a statement that touches none does not have."""
    some = pairs(1.0)
    silent = PeriodCounts(some[3][0].calls, some[3][0].time_ms, use=ServerUse(active_ms=3.0))
    assert second_metrics(BODY, [*some, (silent, some[3][1])], Design()) == ()


def test_a_figure_that_one_period_did_not_know_is_not_told():
    some = pairs(1.0)
    some[3] = (some[3][0], PeriodCounts(np.array([1.0]), np.array([2.0])))
    assert second_metrics(BODY, some, Design()) == ()
    assert second_metrics(BODY, [], Design()) == ()


def test_a_counter_that_fell_is_not_known():
    now, before = ServerUse(5.0, 9.0, 1.0, None, 7.0), ServerUse(3.0, 10.0, None, 1.0, 7.0)
    assert now.since(before) == ServerUse(2.0, None, None, None, 0.0)


@pytest.mark.parametrize(("visible", "is_known"), [(1.19, True), (1.21, False)])
def test_statements_may_take_a_fifth_more_than_their_sessions_report(visible, is_known):
    """A period whose statements took more has sessions that have told their time to nobody yet."""
    some = [(period(1000, active_ms=2000.0 / visible), period(1000, active_ms=5000.0))] * 3
    assert [one.name for one in second_metrics(BODY, some, Design())] == (["active_ms"] if is_known else [])


def test_cpu_is_judged_as_database_time_is():
    a, b = period(1000, cpu_ms=500.0), period(1000, cpu_ms=900.0)
    (found,) = second_metrics(BODY, [(a, b)] * 6, Design(doubt=0.0))
    assert (found.name, found.verdict.word, found.is_worse, found.in_each_pair) == ("cpu_ms", Word.WORSE, True, True)
    assert (found.a, found.b) == (pytest.approx(250.0), pytest.approx(450.0)), "ms for two seconds of work"


def test_a_figure_that_never_moved_went_no_way():
    same = period(1000, cpu_ms=500.0)
    (found,) = second_metrics(BODY, [(same, same)] * 3, Design())
    assert not found.in_each_pair


def test_a_period_without_work_tells_nothing():
    idle, busy = period(0, temp_bytes=5.0), period(1000, temp_bytes=5.0)
    assert second_metrics(BODY, [(busy, busy), (idle, busy)], Design()) == ()


def test_sessions_that_report_a_sixth_less_than_their_statements_took_are_believed():
    some = (period(600, active_ms=1000.0), period(600, active_ms=1000.0))
    assert [one.name for one in second_metrics(BODY, [some] * 3, Design())] == ["active_ms"]


def test_a_figure_of_nothing_in_one_period_and_one_of_a_fraction_are_told():
    """Half a second of work, and half a millisecond of CPU a second of it."""
    some = [(period(250, cpu_ms=0.25), period(250, cpu_ms=0.25))] * 3
    (found,) = second_metrics(BODY, some, Design())
    assert (found.a, found.b, found.verdict.word) == (0.5, 0.5, Word.NOT_RESOLVED)
    (partly,) = second_metrics(BODY, [*some, (period(250, cpu_ms=0.0), some[0][1])], Design())
    assert partly.verdict is None
