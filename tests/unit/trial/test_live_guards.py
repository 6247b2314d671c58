"""Do the statements of a live load still end, and in which time: what trips, how soon, and what does not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from live_simulation import LiveSimulation, SimulatedLoad
from pgdyno.model.guard_table import GUARDS, LIVE_GUARDS
from pgdyno.model.live import Colour
from pgdyno.stats.body_index import PeriodCounts, StatementBody, body_of
from pgdyno.trial.guard_settings import guard_plan
from pgdyno.trial.live_guards import STEP_S, LiveGuards, LiveLoad

BODY = StatementBody(np.array([0, 1]), np.array([0.5, 0.5]), np.array([2.0, 10.0]), 0.9)
PLAN = guard_plan([], 1, {**GUARDS, **LIVE_GUARDS})


def guards(plan=PLAN, **load):
    return LiveGuards(replace(LiveLoad(BODY, 50.0, 3.0, 4.0, 2, 0.0, 0), **load), plan)


def step(factor=1.0, calls=50.0):
    each = np.array([calls, calls, 0.0])
    return PeriodCounts(each, each * np.array([2.0, 10.0, 0.0]) * factor)


def told(watching, *steps):
    return [watching.statements(100 + STEP_S * number, one) for number, one in enumerate(steps)]


def test_a_change_that_slows_the_body_down_is_told_at_the_third_reading_and_no_sooner():
    first, second, third = told(guards(), *[step(4.0)] * 3)
    assert (first, second) == (None, None)
    assert third is not None
    assert third.name == "statement-time"
    assert third.at - 100 + STEP_S <= 10
    assert "24 ms a call, 6 in the reference" in third.words
    assert told(guards(), *[step(2.9)] * 20) == [None] * 20


def test_one_slow_reading_and_what_was_before_a_switch_are_no_breach():
    watching = guards()
    assert told(watching, step(4.0), step(4.0)) == [None, None]
    watching.begin()
    assert watching.statements(104, step(4.0)) is None
    assert told(guards(), step(4.0), step(0.5), step(4.0), step(0.5)) == [None] * 4


def test_what_the_baseline_does_too_is_no_arm_s_doing():
    watching = guards()
    watching.hold_against(step(2.0), STEP_S)
    assert told(watching, *[step(4.0)] * 5) == [None] * 5
    watching.hold_against(step(0.5), STEP_S)
    assert told(watching, *[step(4.0)] * 3)[-1] is not None


def test_a_baseline_that_was_faster_for_once_makes_no_arm_slow():
    """Only where it is slower than the reference is an arm held against it: one lucky period is no other load."""
    watching = guards()
    watching.hold_against(step(0.5), STEP_S)
    assert told(watching, *[step(2.9)] * 20) == [None] * 20


def test_a_load_whose_statements_no_longer_end_is_told_and_one_that_went_home_is_not():
    for at_work, breached in ((3, True), (2, False), (0, False)):
        watching = guards()
        for number in range(12):
            watching.sessions(100 + number / 2, at_work)
        assert (told(watching, *[step(calls=0.0)] * 3)[-1] is not None) == breached


def test_the_last_calls_of_the_arm_before_do_not_hide_that_nothing_ends_any_more():
    few, enough = (1.0, 1.0, 1.0, 0.0), (9.0,) * 4
    for at_work, calls, breached in ((3, few, True), (2, few, False), (3, enough, False)):
        watching, seen = guards(calls_a_second=24.0), []
        for number, ended in enumerate(calls):
            for half in range(4):
                watching.sessions(100 + STEP_S * (number - 1) + half / 2, at_work if number or half else 0)
            seen.append(watching.statements(100 + STEP_S * number, step(calls=ended)))
        assert [one is not None for one in seen] == [False, False, False, breached], (at_work, calls)


def test_a_load_of_few_calls_says_nothing():
    watching = guards(calls_a_second=2.0)
    assert told(watching, *[step(99.0, calls=1.0)] * 3) == [None] * 3
    assert watching.statement_time == 0.0
    assert {indicator.colour for indicator in watching.indicators} == {Colour.OFF}


@pytest.mark.parametrize(("cores", "p99", "most"), [(2, 1.0, 8), (2, 10.0, 30), (None, 1.0, 64)])
def test_sessions_that_pile_up_are_told_after_five_seconds(cores, p99, most):
    watching = guards(cores=cores, active_p99=p99)
    calm = [watching.sessions(100 + number / 2, most) for number in range(40)]
    assert calm == [None] * 40
    piled = [watching.sessions(200 + number / 2, most + 1) for number in range(11)]
    assert piled[:-1] == [None] * 10
    assert piled[-1] is not None
    assert piled[-1].name == "backlog"


def test_guards_are_set_and_switched_off_by_the_user():
    plan = guard_plan(["statement-time=5x", "backlog=off"], 1, {**GUARDS, **LIVE_GUARDS})
    watching = guards(plan)
    assert told(watching, *[step(4.0)] * 5) == [None] * 5
    assert [watching.sessions(100 + number, 99) for number in range(9)] == [None] * 9


def test_equal_arms_of_a_drifting_load_never_trip():
    simulation = LiveSimulation(SimulatedLoad(drift=0.3), 5)
    reference = simulation.reference(60, 10.0)
    body = body_of(reference, 25.0)
    calls = float(reference.calls[body.ids].sum()) / reference.seconds
    watching = LiveGuards(LiveLoad(body, calls, 1.0, 2.0, 2, 0.0, 0), PLAN)
    for number in range(2000):
        assert watching.statements(STEP_S * number, simulation.period(STEP_S)) is None


def at_work(watching, active, blocked=0, ticks=24):
    return [watching.sessions(100 + 0.5 * tick, active, blocked) for tick in range(ticks)]


def test_in_a_burst_statements_queue_and_no_setting_is_blamed():
    """Twice the usual calls end: what they wait for is each other."""
    watching = guards()
    assert told(watching, *[step(9.0, calls=101.0)] * 8) == [None] * 8
    assert watching.statement_time == 1.0
    assert at_work(watching, 60) == [None] * 24
    assert told(guards(), *[step(9.0, calls=60.0)] * 3)[-1] is not None, "hardly more than usual is no burst"


def test_a_setting_that_cripples_the_load_in_a_burst_lets_fewer_calls_end_and_is_told():
    watching = guards()
    told(watching, *[step(9.0, calls=101.0)] * 2)
    assert told(watching, *[step(30.0, calls=30.0)] * 4)[-1] is not None


def test_a_load_that_has_grown_since_the_reference_is_no_burst():
    watching = guards()
    watching.hold_against(step(1.0, calls=100.0), STEP_S)
    assert told(watching, *[step(9.0, calls=101.0)] * 3)[-1] is not None


def test_who_waits_for_a_lock_is_counted_by_lock_waits_alone_and_for_ten_seconds():
    seen = at_work(guards(), 60, blocked=56)
    assert [one.name for one in seen if one is not None][:1] == ["lock-waits"]
    first = next(number for number, one in enumerate(seen) if one is not None)
    assert 0.5 * first >= 10.0
    assert at_work(guards(), 60, blocked=2)[11].name == "backlog"


def value(watching, name):
    return watching._statuses[name].reading.value


@pytest.mark.parametrize(
    ("active", "blocked", "load", "backlog", "lock_waits"),
    [
        (8, 0, {}, 2.0, 0.0),  # 4 sessions are usual
        (8, 2, {}, 1.5, 1.2),
        (1, 5, {}, 0.0, 3.0),
        (8, 5, {"most_blocked": 2}, 0.75, 2.5),
        (4, 0, {"active_p99": 0.5, "cores": 1}, 3.0, 0.0),
        (32, 0, {"cores": None}, 1.5, 0.0),
    ],
)
def test_sessions_are_held_against_those_that_are_usual(active, blocked, load, backlog, lock_waits):
    watching = guards(**load)
    watching.sessions(100.0, active, blocked)
    assert (value(watching, "backlog"), value(watching, "lock-waits")) == pytest.approx((backlog, lock_waits))


def test_after_a_restart_statements_may_take_four_times_as_long_until_the_wash_out_is_over():
    watching = guards()
    seen = []
    for change in (lambda: None, lambda: watching.begin(is_cold=True), watching.warm, watching.begin):
        change()
        told(watching, step(2.0))
        watching.sessions(100.0, 8)
        seen.append((watching.statement_time, value(watching, "backlog")))
    assert seen == [(2.0, 2.0), (0.5, 0.5), (2.0, 2.0), (2.0, 2.0)]


def test_a_period_of_the_baseline_tells_what_is_usual_by_the_second():
    watching = guards()
    for period, seconds, usual, calls in (
        (step(2.0, calls=10.0), 4.0, 2.0, 5.0),
        (step(0.5, calls=10.0), 1.0, 1.0, 20.0),
        (step(2.0, calls=0.0), 2.0, 1.0, 0.0),
        (step(3.0, calls=10.0), 0.0, 3.0, 0.0),
    ):
        watching.hold_against(period, seconds)
        assert (watching._usual, watching._usual_calls) == (usual, calls)


@pytest.mark.parametrize(
    ("calls", "a_second", "active", "p95", "expected"),
    [
        (1.0, 10.0, 1, 0.5, 8.0),  # 40 are usual, and 4 ended
        (1.0, 10.0, 0, 0.0, 1.0),
        (1.0, 10.0, 2, 3.0, 1.0),
        (5.0, 10.0, 3, 3.0, 1.0),  # 20 are enough to tell by their time
        (4.5, 10.0, 3, 3.0, 40 / 19),
        (1.0, 9.9, 3, 3.0, 0.0),
    ],
)
def test_fewer_calls_than_usual_end_while_sessions_are_at_work(calls, a_second, active, p95, expected):
    watching = guards(calls_a_second=a_second, active_p95=p95)
    for tick in range(4):
        watching.sessions(100 + tick / 2, active)
    told(watching, *[step(1.0, calls=calls)] * 2)
    assert watching.statement_time == pytest.approx(expected)
