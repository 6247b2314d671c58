"""What voids a replay: the injector and the gates, what was not sent, errors; never the server."""

from __future__ import annotations

import numpy as np
import pytest

from pgdyno.model.replay_comparison import Cause, ErrorLine, Errors, Limits, ReplayPause
from pgdyno.stats.replay_fidelity import Schedule, injector_limit_ms, judge_fidelity

N = 10_000


def judged(*, injector=0, gate=0, server=0, sent=N, refused=0, errors=0, transactions=10**6, limits=None, pauses=()):
    due = np.arange(N, dtype=np.int64) * 1000
    parts = [np.broadcast_to(np.asarray(part, np.int64), N) for part in (injector, gate, server)]
    lines = (
        ErrorLine("new", "", "40001", Cause.ORDER, errors, ""),
        ErrorLine("new", "", "42P01", Cause.ENVIRONMENT, N, ""),
    )
    schedule = Schedule(due, *parts, np.array([100_000]), N, sent, refused, pauses=pauses)
    return judge_fidelity(schedule, Errors(0, lines, True), transactions, limits or Limits())


def test_a_run_on_schedule_counts():
    found = judged(injector=500)
    assert found.is_valid
    assert found.warnings == ()
    assert [(one.part, one.p99) for one in found.lateness] == [("injector", 0.5), ("gate", 0), ("server", 0)]


@pytest.mark.requirement("R-RPL-17")
def test_an_overloaded_injector_voids_the_run():
    late = np.where(np.arange(N) % 50 == 0, 11_000, 100)  # 2 % of the statements, and a tenth of the pause is 10 ms
    found = judged(injector=late)
    assert not found.is_valid
    assert found.invalid == ("the injector was late: p99 11 ms, more than 10 ms",)


@pytest.mark.parametrize(("think_ms", "limit"), [(None, 2), (5, 2), (100, 10), (500, 50), (60_000, 100)])
def test_the_limit_is_a_tenth_of_the_pause_from_2_to_100_ms(think_ms, limit):
    assert injector_limit_ms(think_ms, Limits()) == limit


def test_a_slow_server_never_voids():
    assert judged(server=5_000_000).is_valid


def test_gates_that_lower_the_rate_void_the_run():
    growing = np.linspace(0, 150_000, N)
    found = judged(gate=growing)
    assert found.invalid == ("the schedule took 1.50 % longer by the injector or the gates, more than 1 %",)
    assert judged(gate=growing / 2).is_valid


def test_a_run_that_was_paused_does_not_count_and_its_pause_is_no_schedule():
    late = np.linspace(0, 50_000, N)
    assert judged(gate=late).rate_off_percent == pytest.approx(0.5, rel=0.01)
    one = ReplayPause(2.0, 7.0, 5.0)
    for pauses, words in (((one,), "once, 5.0 s"), ((one, one), "2 times, 10 s")):
        found = judged(pauses=pauses)
        assert found.invalid == (
            f"the run was paused {words} in all: "
            "the server rested, its caches and background work are not the capture's",
        )
    assert judged(gate=late, pauses=(one,)).rate_off_percent == pytest.approx(1.0, rel=0.01), "of 10 s 5 were none"
    assert judged(gate=late, pauses=(one, one)).rate_off_percent is None


def test_what_was_not_sent_voids_the_run():
    assert judged(sent=9_900).is_valid
    assert judged(sent=9_899).invalid == ("9,899 of 10,000 statements were sent, less than 99 %",)


def test_errors_and_refused_statements_beyond_their_limits_void_the_run():
    assert judged(errors=100).is_valid
    assert "101 answers of 10,000 are not the captured ones" in judged(errors=101).invalid[0]
    assert judged(errors=101, limits=Limits(error_percent=2)).is_valid
    assert judged(refused=101).is_valid
    assert "102 of 10,102 statements are refused" in judged(refused=102).invalid[0]


@pytest.mark.requirement("R-RPL-13")
def test_fewer_than_a_million_transactions_warn():
    found = judged(transactions=999_999)
    assert found.is_valid
    assert found.warnings == ("999,999 transactions are fewer than the 1,000,000 of a certification.",)


def test_nothing_sent_is_no_run():
    empty = np.zeros(0, np.int64)
    found = judge_fidelity(Schedule(empty, empty, empty, empty, empty, 0, 0, 0), Errors(0, (), False), 0, Limits())
    assert not found.is_valid
    assert (found.think_ms, found.rate_off_percent) == (None, None)
    assert {(one.p50, one.p99, one.largest) for one in found.lateness} == {(0.0, 0.0, 0.0)}


def test_lateness_is_told_in_milliseconds_by_its_half_its_hundredth_and_its_largest():
    injector = next(iter(judged(injector=np.arange(N)).lateness))
    assert (injector.p50, injector.p99, injector.largest) == pytest.approx((4.9995, 9.89901, 9.999))


def test_one_statement_and_statements_of_one_moment_have_no_rate():
    for due in ([5], [5, 5]):
        moments = np.array(due)
        none = np.zeros(moments.size, np.int64)
        schedule = Schedule(moments, none, none, none, none[:0], moments.size, moments.size, 0)
        assert judge_fidelity(schedule, Errors(0, (), True), 10**6, Limits()).rate_off_percent is None


def test_the_rate_is_of_the_time_between_the_first_and_the_last_that_was_due():
    due, late = np.array([5_000_000, 6_000_000]), np.array([0, 30_000])
    schedule = Schedule(due, late, 2 * late, 100 * late, late[:0], 2, 2, 0)
    assert judge_fidelity(schedule, Errors(0, (), True), 10**6, Limits()).rate_off_percent == pytest.approx(9.0)


def test_what_is_at_its_limit_is_within_it():
    slow = judged(gate=np.full(N, 99_990), limits=Limits(injector_ms=200.0))
    assert (slow.rate_off_percent, slow.invalid) == (1.0, ())
    assert judged(refused=2500, limits=Limits(refused_percent=20.0)).invalid == ()
    assert injector_limit_ms(None, Limits(injector_ms=0.5)) == 0.5


def test_the_limit_goes_by_the_median_pause_in_milliseconds():
    found = judged()
    assert (found.think_ms, found.injector_limit_ms) == (100.0, 10.0)


@pytest.mark.parametrize(("late_us", "counts"), [(10_000, True), (10_001, False)])
def test_an_injector_at_its_limit_is_within_it(late_us, counts):
    assert (judged(injector=late_us).invalid == ()) is counts


def test_a_pause_is_taken_out_of_the_schedule_to_the_microsecond():
    last = (N - 1) * 1000
    for seconds, off in (((last - 1) / 1e6, 100.0 * 50_000), (last / 1e6, None)):
        found = judged(gate=np.full(N, 50_000), pauses=(ReplayPause(0.0, seconds, seconds),))
        assert found.rate_off_percent == (off if off is None else pytest.approx(off, rel=1e-6))
