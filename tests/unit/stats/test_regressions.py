"""Steps of statements that are made up: what is told, of whom, since when, and what is not."""

from __future__ import annotations

import math

import numpy as np
import pytest

from pgdyno.stats.regressions import _MEMORY, LEARN, Regressions, _moment, _Usual
from pgdyno.stats.statement_deltas import StatementDeltas
from pgdyno.stats.statement_steps import bound

MEANS = np.array([2.0, 5.0, 1.0, 8.0, 3.0, 4.0])
CALLS = np.array([300.0, 200.0, 500.0, 50.0, 100.0, 2.0])


def period(rng, factors=1.0, *, calls=CALLS, blocks=10.0, scatter=0.05):
    """One period in which the means move by themselves by `scatter`."""
    size = calls.size
    ran = rng.poisson(calls).astype(float)
    ids = np.flatnonzero(ran)
    means = MEANS[:size] * factors * np.exp(rng.normal(0, scatter, size))
    ms = ran * means
    none = np.zeros(ids.size)
    blocks = np.broadcast_to(np.asarray(blocks, dtype=float), size)
    return StatementDeltas(
        60.0, ids, ran[ids], ms[ids], ms[ids], (means**2 * ran * 0.25)[ids], none, 3 * ran[ids], (ran * blocks)[ids]
    )


def watched(seed, periods, change=lambda number: {}):
    """Return what is told in so many periods, with the period; `change` says how one differs."""
    rng, found, told = np.random.default_rng(seed), Regressions(), []
    for number in range(1, periods + 1):
        told += [(number, step) for step in found.add(period(rng, **change(number)))]
    return found, told


def factors(number, value):
    made = np.ones(MEANS.size)
    made[number] = value
    return made


def test_equal_periods_raise_nothing():
    for seed in range(3):
        assert watched(seed, 200)[1] == []


@pytest.mark.parametrize("statement", [0, 2, 3])
def test_a_statement_that_takes_twice_as_long_is_told_once_and_since_when(statement):
    for seed in range(2):
        change = lambda number: {"factors": factors(statement, 2.0)} if number > 40 else {}  # noqa: E731
        [(when, step)] = watched(seed, 60, change)[1]
        assert step.number == statement
        assert when <= 46
        assert abs(step.since - 41) <= 1
        assert step.factor == pytest.approx(2.0, rel=0.2)
        assert not step.is_back


def test_a_statement_that_takes_nearly_all_the_time_is_named_and_is_not_the_server():
    calls = np.array([300.0, 9000.0, 500.0, 50.0, 100.0, 2.0])
    change = lambda number: {"calls": calls, "factors": factors(1, 2.0 if number > 40 else 1.0)}  # noqa: E731
    [(_, step)] = watched(10, 60, change)[1]
    assert step.number == 1
    whole = lambda number: {"calls": calls, "factors": 1.5 if number > 40 else 1.0}  # noqa: E731
    [(_, step)] = watched(10, 60, whole)[1]
    assert step.number is None


def test_what_a_few_dear_statements_do_is_told_of_them_and_is_not_the_server_s():
    """Three of sixty take three fourths of the time: what they do by chance together, the others do not."""
    rng, found, told = np.random.default_rng(12), Regressions(), []
    calls = np.where(np.arange(60) < 3, 3000.0, 50.0)
    for number in range(60):
        means = 2.0 * np.exp(rng.normal(0, 0.05, 60)) * np.where((np.arange(60) < 3) & (number >= 40), 1.8, 1.0)
        ms = calls * means
        told += found.add(
            StatementDeltas(60.0, np.arange(60), calls, ms, ms, calls * means**2 / 4, calls, calls, calls)
        )
    assert sorted(step.number for step in told) == [0, 1, 2]


def test_what_was_slower_is_told_when_it_is_as_it_was():
    change = lambda number: {"factors": factors(1, 2.0)} if 40 < number <= 80 else {}  # noqa: E731
    _, told = watched(1, 120, change)
    assert [(step.number, step.is_back) for _, step in told] == [(1, False), (1, True)]
    assert told[1][1].factor == pytest.approx(0.5, rel=0.2)


def test_what_all_share_is_the_servers_and_no_statements():
    change = lambda number: {"factors": 1.5} if number > 40 else {}  # noqa: E731
    [(when, step)] = watched(2, 80, change)[1]
    assert step.number is None
    assert when <= 46
    assert step.factor == pytest.approx(1.5, rel=0.15)


def test_another_plan_shows_in_the_blocks_of_a_call():
    change = lambda number: {"factors": factors(3, 3.0), "blocks": 10 * factors(3, 40.0)} if number > 40 else {}  # noqa: E731
    [(_, step)] = watched(3, 60, change)[1]
    assert step.blocks == pytest.approx(40, rel=0.1)
    assert step.blocks_before == pytest.approx(10)
    assert step.rows == pytest.approx(1)


def test_a_statement_that_becomes_so_slow_that_it_hardly_ends_is_told_all_the_same():
    rare = np.where(np.arange(CALLS.size) == 3, 2.0, CALLS)
    change = lambda number: {"calls": rare, "factors": factors(3, 80.0)} if number > 40 else {}  # noqa: E731
    [(when, step)] = watched(11, 60, change)[1]
    assert (step.number, when <= 47) == (3, True)
    assert step.factor == pytest.approx(80, rel=0.3)
    away = lambda number: {"calls": rare} if number > 40 else {}  # noqa: E731
    assert watched(11, 60, away)[1] == []


def test_what_comes_slowly_bursts_and_rare_statements_raise_nothing():
    slow = lambda number: {"factors": 2 ** (max(0, number - 40) / 200)}  # noqa: E731
    burst = lambda number: {"factors": factors(0, 5.0)} if number in (50, 51) else {}  # noqa: E731
    rare = lambda number: {"factors": factors(5, 3.0)} if number > 40 else {}  # noqa: E731
    for change in (slow, burst, rare):
        assert watched(4, 150, change)[1] == []


def test_nothing_is_told_before_it_is_known_how_a_load_moves():
    change = lambda number: {"factors": factors(0, 3.0)} if number > 8 else {}  # noqa: E731
    assert watched(5, LEARN - 1, change)[1] == []
    assert watched(5, LEARN - 1)[0].detectable() is not None


def test_after_a_restart_nothing_is_compared_with_what_was_before_it():
    rng, found = np.random.default_rng(6), Regressions()
    for _ in range(40):
        assert found.add(period(rng)) == []
    found.forget()
    for number in range(30):
        cold = 3.0 if number < 3 else 2.0
        assert found.add(period(rng, cold)) == []


def test_after_a_restart_the_server_is_compared_with_whole_sides_alone():
    """The first periods of a server with hardly any data, or any statistics, are no past to be slower than."""
    rng, found, told = np.random.default_rng(6), Regressions(), []
    for _ in range(40):
        assert found.add(period(rng)) == []
    found.forget()
    for number in range(1, 31):
        told += [(number, step) for step in found.add(period(rng, 1.0 if number <= 3 else 2.0)) if step.number is None]
    assert min(number for number, _ in told) >= 2 * 5


def test_lost_periods_leave_the_rest_comparable():
    rng, found, told = np.random.default_rng(7), Regressions(), []
    for number in range(60):
        if number % 7 == 3:
            found.hold()
        else:
            told += found.add(period(rng, factors(0, 2.0) if number >= 40 else 1.0))
    assert [step.number for step in told] == [0]


def test_statements_that_come_later_have_no_past():
    rng, found = np.random.default_rng(8), Regressions()
    for number in range(60):
        few = CALLS[:4] if number < 30 else CALLS
        assert found.add(period(rng, calls=few)) == []
    assert found.watched()[0] == 5
    assert found.watched()[1] == pytest.approx(1, abs=0.01)
    assert found.detectable() < 1.6


def even(times, calls=100.0):
    """One period of statements that take these milliseconds in all, and do not scatter in the least."""
    times = np.array(times, dtype=float)
    calls = np.broadcast_to(np.asarray(calls, dtype=float), times.size)
    none = np.zeros(times.size)
    return StatementDeltas(60.0, np.arange(times.size), calls.copy(), times, times, none, none, none, none)


def told_of(before, after, periods=60, *, more=12, calls=100.0):
    """Return what is told, with the period, where all periods are `before` and then `after`."""
    found, told = Regressions(), []
    for number in range(1, periods + more + 1):
        step = even(before if number <= periods else after, calls)
        told += [(number, one) for one in found.add(step)]
    return told


def test_a_step_is_told_when_most_of_five_periods_have_it_with_its_begin_its_size_and_its_share():
    [(when, step)] = told_of([100.0] * 6, [200.0] + [100.0] * 5)
    assert (when, step.number, step.since) == (63, 0, 61)
    assert (step.factor, step.share) == pytest.approx((2.0, 2 / 7)), "of the periods that have it"
    assert (step.blocks, step.rows) == (None, None)


def test_the_share_is_of_the_periods_since_the_step():
    found = Regressions()
    for number in range(20):
        told = found.add(even([200.0 if number >= 12 else 100.0] + [100.0] * 5))
    (step,) = told
    assert (step.since, step.factor, step.share) == (13, pytest.approx(2.0), pytest.approx(2 / 7))


@pytest.mark.parametrize(("lasts", "told_at"), [(2, []), (3, [63])])
def test_a_step_that_two_periods_have_is_not_told_and_one_of_three_is(lasts, told_at):
    found, told = Regressions(), []
    for number in range(1, 64):
        is_slow = 60 < number <= 60 + lasts
        told += [number for _ in found.add(even([200.0 if is_slow else 100.0] + [100.0] * 5))]
    assert told == told_at


def test_where_only_some_statements_run_the_server_s_step_begins_all_the_same_where_it_began():
    """What a period lacks is no step: each statement is set against its own usual time."""
    rng, found, told = np.random.default_rng(0), Regressions(), []
    times = np.array([100.0, 4000.0, 200.0, 9000.0, 100.0, 3000.0, 500.0, 8000.0])
    for number in range(1, 270):
        runs = np.where(rng.random(8) < 0.75, 100.0, 1.0)
        told += found.add(even(times * (1.3 if number > 250 else 1.0) * runs / 100, calls=runs))
    assert (told[0].number, told[0].since) == (None, 251)


def test_how_far_single_calls_scatter_bounds_what_can_be_told():
    """Thirty periods against all before them is as clear as it gets: v / 30 + v / 270 for v of one period's mean."""
    found, calls, mean, deviation = Regressions(), np.full(6, 100.0), 20.0, 80.0
    none = np.zeros(6)
    for _ in range(300):
        ms = calls * mean
        found.add(StatementDeltas(60.0, np.arange(6), calls, ms, ms, calls * deviation**2, none, none, none))
    of_calls = (deviation / mean) ** 2 / 100
    period = of_calls + of_calls**2 / 2 + 0.05**2
    told = found.detectable()
    assert told is not None
    assert math.log(told) == pytest.approx(bound(6, 60.0) * math.sqrt(period * (1 / 30 + 1 / 270)), rel=0.05)


@pytest.mark.parametrize("seed", range(3))
def test_rare_statements_do_not_make_a_frequent_one_look_unsteady(seed):
    """How far single calls of theirs scatter is known; only what is beyond that counts for all."""
    rng, found, told = np.random.default_rng(seed), Regressions(), []
    calls, cv, means = np.array([2000.0] + [20.0] * 60), np.array([0.5] + [2.0] * 60), np.array([1.0] + [2.0] * 60)
    none = np.zeros(61)
    for number in range(1, 71):
        slow = np.array([2.0 if number > 60 else 1.0] + [1.0] * 60)
        shape = calls / cv**2
        ms = calls * means * slow * rng.gamma(shape) / shape
        m2 = (cv * ms / calls) ** 2 * calls
        told += [
            (number, one.number)
            for one in found.add(StatementDeltas(60.0, np.arange(61), calls, ms, ms, m2, none, none, none))
        ]
    assert [number for _, number in told] == [0]
    assert told[0][0] <= 65


@pytest.mark.parametrize(("calls", "is_told"), [(2000.0, True), (10.0, False)])
def test_a_step_counts_by_the_calls_of_its_own_periods(calls, is_told):
    """Twice as long is beyond doubt over thousands of calls, and nothing over ten that scatter as they do."""
    found, told, none = Regressions(), [], np.zeros(6)
    for number in range(1, 64):
        is_slow = number > 60
        ran = np.array([calls if is_slow else 2000.0] + [2000.0] * 5)
        ms = ran * 20.0 * np.array([2.0 if is_slow else 1.0] + [1.0] * 5)
        told += found.add(StatementDeltas(60.0, np.arange(6), ran, ms, ms, ms**2 / ran, none, none, none))
    assert [one.number for one in told] == ([0] if is_told else [])


@pytest.mark.parametrize(("factor", "is_told"), [(1.29, False), (1.31, True)])
def test_of_the_steadiest_statement_a_step_of_thirty_percent_is_told(factor, is_told):
    assert bool(told_of([100.0] * 6, [100.0 * factor] + [100.0] * 5)) is is_told


@pytest.mark.parametrize(("share", "is_told"), [(0.016, False), (0.0165, True)])
def test_a_step_that_costs_less_than_a_two_hundredth_of_the_time_is_not_told(share, is_told):
    """A step of 31 % costs 1 less 1 over 1.31 of what the statement takes after it."""
    rest = [1000.0 * (1 - share) / 5] * 5
    after = 1.31 * share / (1 + 0.31 * share)
    assert (after * (1 - 1 / 1.31) >= 0.005) is is_told
    assert bool(told_of([1000.0 * share, *rest], [1310.0 * share, *rest])) is is_told


@pytest.mark.parametrize(("factor", "is_told"), [(1.14, False), (1.16, True), (1 / 1.16, False)])
def test_of_the_steadiest_server_a_step_of_fifteen_percent_is_told(factor, is_told):
    told = told_of([100.0] * 6, [100.0 * factor] * 6, 250)
    assert [one.number for _, one in told] == ([None] if is_told else [])
    if is_told:
        assert told[0][1].factor == pytest.approx(1.16)
        assert told[0][1].share == 1.0
        assert (told[0][0], told[0][1].since) == (253, 251), "told after three periods, since the first of them"


@pytest.mark.parametrize(("calls", "is_told"), [(5.0, True), (4.9, False)])
def test_periods_of_five_calls_count(calls, is_told):
    assert bool(told_of([100.0] * 6, [200.0] + [100.0] * 5, calls=calls)) is is_told


def test_of_five_statements_what_all_share_is_taken_off_and_of_four_it_is_not():
    """Of four that all take half as long again each is told; of five it is the server."""
    assert {one.number for _, one in told_of([100.0] * 4, [150.0] * 4)} >= {0, 1, 2, 3}
    assert {one.number for _, one in told_of([100.0] * 5, [150.0] * 5)} == {None}


def test_nothing_is_told_before_the_twentieth_period():
    assert told_of([100.0] * 6, [300.0] + [100.0] * 5, 14, more=5) == []
    assert [when for when, _ in told_of([100.0] * 6, [300.0] + [100.0] * 5, 15, more=5)] == [20]


def test_what_is_usual_is_learnt_from_a_bounded_past():
    usual = _Usual()
    for _ in range(5 * _MEMORY):
        usual.learn(0.1)
    assert usual.count == pytest.approx(_MEMORY, rel=0.01)
    assert usual.squares / usual.count == pytest.approx(0.01)


def test_what_is_usual_of_the_server_begins_at_a_floor_that_counts_as_forty_contrasts():
    """By hand: nothing, eight contrasts of 0.02 each squared, and as much of less than one."""
    assert _Usual().scatter() == pytest.approx(0.04)
    assert _Usual(0.16, 8.0).scatter() == pytest.approx(math.sqrt(0.02))
    assert _Usual(0.16, 0.5).scatter() == pytest.approx(math.sqrt((0.16 + 40 * 0.16) / 40.5))


def test_a_contrast_far_out_counts_as_three_deviations_and_a_near_one_as_it_is():
    far, near = _Usual(), _Usual()
    far.learn(-5.0)
    near.learn(0.11)
    assert far.squares == pytest.approx((3 * 0.04) ** 2)
    assert near.squares == pytest.approx(0.11**2)


def test_a_statement_that_ran_once_in_the_kept_periods_is_not_idle():
    found, calls = Regressions(), np.zeros(3)
    none = np.zeros(1)
    for _ in range(4):
        found.add(
            StatementDeltas(60.0, np.array([1]), np.array([1.0]), *([np.array([2.0])] * 2), none, none, none, none)
        )
    assert found.idle(3, np.array([2])) == [0]
    assert calls.size == 3


@pytest.mark.parametrize(("step", "told"), [(3, 4), (6, 6), (14, 12)])
def test_a_step_is_told_no_nearer_to_an_edge_than_half_a_side(step, told):
    """Nearer to it a side has too few periods for its scatter."""
    assert _moment(np.repeat([0.0, 1.0], [step, 16 - step]), 8) == told
    assert _moment(np.array([0.0, 1.0, 1.0, 1.0]), 2) == 2
