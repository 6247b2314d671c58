"""The veto of one statement: never in equal arms nor for what slows all alike, soon for one that takes much longer."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from live_simulation import LiveSimulation, SimulatedLoad
from pgdyno.stats.body_index import PeriodCounts, StatementBody, StatementReference, body_of, pair_index
from pgdyno.stats.veto import LEAST_POOLED, Slower, VetoState, common_shift

COUNTED_S = 25.0


def first_veto(seed, factor=1.0, *, slowed=None, pairs=48, all_by=1.0, load=None):
    """Run pairs until something is vetoed; return the pair and what it was, or None."""
    simulation = LiveSimulation(load or SimulatedLoad(), seed)
    reference = simulation.reference(60, 10.0)
    body = body_of(reference, COUNTED_S)
    state = VetoState.begin(reference, COUNTED_S)
    factors = np.full(simulation.rates.size, all_by)
    if slowed is not None:
        factors[slowed(simulation, state)] *= factor
    coin = np.random.default_rng(seed + 7)
    done = 0
    while done < pairs:
        b_first = bool(coin.integers(2))
        first = simulation.period(COUNTED_S, factors if b_first else 1.0)
        second = simulation.period(COUNTED_S, 1.0 if b_first else factors)
        a, b = (second, first) if b_first else (first, second)
        pair = pair_index(body, a, b)
        if pair is None or not pair.is_matched:
            continue
        done += 1
        state = state.then(body, a, b)
        if state.vetoed():
            return done, dict(state.vetoed())
    return None


def frequent(simulation, state):
    """The watched statement of 100 calls a period or more whose time scatters least."""
    often = [number for number in state.ids if simulation.rates[number] * COUNTED_S > 100]
    return min(often, key=lambda number: simulation.cvs[number])


def test_equal_arms_are_not_vetoed():
    assert [seed for seed in range(30) if first_veto(seed) is not None] == []


def test_what_slows_every_statement_alike_is_no_statement_s_veto():
    assert [seed for seed in range(15) if first_veto(seed, all_by=2.0, pairs=24) is not None] == []


def test_a_frequent_statement_that_takes_twice_as_long_is_named_soon():
    found = [first_veto(seed, 2.0, slowed=frequent) for seed in range(20)]
    assert None not in found
    pairs = [pair for pair, _ in found]
    assert LEAST_POOLED <= np.median(pairs) <= 8
    assert max(pairs) <= 24
    factors = [one.factor for _, vetoed in found for one in vetoed.values()]
    assert 1.7 <= np.median(factors) <= 2.6


def test_it_is_named_though_all_others_gain():
    pair, vetoed = first_veto(3, 2.5 / 0.7, slowed=frequent, all_by=0.7)
    assert pair <= 12
    assert len(vetoed) == 1


BODY = StatementBody(np.array([0], dtype=np.int64), np.array([1.0]), np.array([1.0]), 1.0)


def reference(calls, cv=0.1):
    calls = np.array(calls, dtype=np.float64)
    return StatementReference(600.0, calls, calls.copy(), cv**2 * np.maximum(calls - 1, 0))


def period(calls, means):
    calls = np.array(calls, dtype=np.float64)
    return PeriodCounts(calls, calls * np.array(means, dtype=np.float64))


def test_rare_cheap_and_unknown_statements_are_not_watched():
    #                  watched, below a call a period, below 0.1 % of the time, called once
    given = replace(reference([6000, 10, 30, 1]), time_ms=np.array([6000.0, 500.0, 0.3, 900.0]))
    assert VetoState.begin(given, COUNTED_S).ids.tolist() == [0]


def test_a_rare_statement_is_pooled_over_pairs():
    state = VetoState.begin(reference([6000, 60]), COUNTED_S)
    for _ in range(3):
        state = state.then(BODY, period([100, 2], [1, 1]), period([100, 2], [1, 9]))
    assert state.pooled.tolist() == [3, 1]
    assert state.score[1] > 0


def test_a_statement_that_stays_as_it_was_while_others_gain_is_not_slower():
    """Only what slows all of them is taken off: a gain of the others is no loss of this one."""
    state = VetoState.begin(reference([6000, 6000]), COUNTED_S)
    for _ in range(12):
        state = state.then(BODY, period([100, 100], [1, 1]), period([100, 100], [0.4, 1]))
    assert common_shift(BODY, period([100, 100], [1, 1]), period([100, 100], [0.4, 1])) == pytest.approx(math.log(0.4))
    assert state.log_ratio[1] == pytest.approx(0.0)
    assert state.vetoed() == {}


def test_one_pair_is_no_alarm_however_slow():
    state = VetoState.begin(reference([6000]), COUNTED_S)
    slow = (BODY, period([900], [1]), period([900], [1000]))
    state = state.then(StatementBody(np.zeros(0, dtype=np.int64), np.zeros(0), np.zeros(0), 0.0), *slow[1:])
    assert state.vetoed() == {}
    state = state.then(StatementBody(np.zeros(0, dtype=np.int64), np.zeros(0), np.zeros(0), 0.0), *slow[1:])
    assert state.vetoed() == {0: Slower(pytest.approx(1000.0), 2)}


def test_a_critical_statement_is_refused_sooner():
    usual, critical = (VetoState.begin(reference([6000]), COUNTED_S, named) for named in ((), (0,)))
    none = StatementBody(np.zeros(0, dtype=np.int64), np.zeros(0), np.zeros(0), 0.0)
    for _ in range(12):
        pair = period([500], [1.0]), period([500], [1.5])
        usual, critical = usual.then(none, *pair), critical.then(none, *pair)
    assert usual.vetoed() == {}
    assert set(critical.vetoed()) == {0}


def test_the_shift_of_all_is_the_median_of_the_body():
    body = StatementBody(np.arange(3), np.full(3, 1 / 3), np.ones(3), 1.0)
    found = common_shift(body, period([9, 9, 9], [1, 1, 1]), period([9, 9, 9], [2, 2, 50]))
    assert found == pytest.approx(math.log(2))
    assert common_shift(body, period([0, 0, 0], [1, 1, 1]), period([9, 9, 9], [1, 1, 1])) == 0.0


def test_a_critical_statement_is_watched_however_little_it_takes():
    rare = reference([6000, 20])
    assert VetoState.begin(rare, COUNTED_S).ids.tolist() == [0]
    assert VetoState.begin(rare, COUNTED_S, (1,)).ids.tolist() == [0, 1]


@pytest.mark.parametrize(
    ("watched", "critical", "bounds"),
    [(0, (), []), (1, (), [100.0]), (3, (), [300.0, 300.0, 300.0]), (3, (1,), [300.0, 100.0, 300.0])],
)
def test_the_error_of_one_in_a_hundred_is_shared_by_all_but_those_that_the_user_named(watched, critical, bounds):
    state = VetoState.begin(reference([6000] * watched), COUNTED_S, critical)
    assert np.exp(state.bound) == pytest.approx(bounds)
    assert state.vetoed() == {}


NONE = StatementBody(np.zeros(0, dtype=np.int64), np.zeros(0), np.zeros(0), 0.0)


def test_the_score_of_a_pair_as_by_hand():
    """ln(2/1.2) times what the log ratio is beyond ln(2 x 1.2)/2, in the variance of both means and of 0.12 twice."""
    state = VetoState.begin(reference([6000]), COUNTED_S)
    spread = state.cv[0] ** 2 * (1 / 200 + 1 / 100) + 2 * 0.12**2
    step = math.log(2 / 1.2) * (math.log(1.7) - math.log(2.4) / 2) / spread
    for number in (1, 2):
        state = state.then(NONE, period([200], [1]), period([100], [1.7]))
        assert state.score[0] == pytest.approx(number * step)
        assert state.log_ratio[0] == pytest.approx(number * math.log(1.7))


def test_a_pair_counts_for_no_more_than_six_or_less_than_minus_four_and_nothing_falls_below_zero():
    state = VetoState.begin(reference([6000]), COUNTED_S)
    scores = []
    for mean in (1000, 0.001, 0.001, 1000):
        state = state.then(NONE, period([900], [1]), period([900], [mean]))
        scores.append(float(state.score[0]))
    assert scores == [6.0, 2.0, 0.0, 6.0]


@pytest.mark.parametrize(("calls", "judged"), [((4, 9), 0), ((9, 4), 0), ((5, 5), 1)])
def test_five_calls_in_each_arm_are_judged(calls, judged):
    state = VetoState.begin(reference([6000]), COUNTED_S)
    assert state.then(NONE, period([calls[0]], [1]), period([calls[1]], [1])).pooled.tolist() == [judged]


def test_a_call_a_period_and_a_thousandth_of_the_time_are_watched():
    given = reference([600_000, 24, 23, 24])
    least, less = (np.array([997_000.0, 1000.0, 1000.0, last]) for last in (1000.0, 999.0))
    assert VetoState.begin(replace(given, time_ms=least), COUNTED_S).ids.tolist() == [0, 1, 3]
    assert VetoState.begin(replace(given, time_ms=less), COUNTED_S).ids.tolist() == [0, 1]


def test_what_slows_all_is_taken_off_by_the_pairs_that_are_pooled():
    """Two calls a pair: three pairs are one judgement, and the shift of all of them is its mean."""
    state = VetoState.begin(reference([6000, 60]), COUNTED_S)
    for factor in (2.0, 4.0, 8.0):
        state = state.then(BODY, period([100, 2], [1, 1]), period([100, 2], [factor, 8]))
    spread = state.cv[1] ** 2 * (1 / 6 + 1 / 6) + 2 * 0.12**2
    assert state.score[1] == pytest.approx(math.log(2 / 1.2) * (math.log(8 / 4) - math.log(2.4) / 2) / spread)
    assert state.log_ratio[1] == pytest.approx(math.log(8)), "what is told is the statement's own, as people see it"
    assert (state.pairs.tolist(), state.common.tolist(), state.calls_a.tolist()) == ([0, 0], [0, 0], [0, 0])


@pytest.mark.parametrize("critical", [(), (0,)])
def test_one_pair_among_calm_ones_is_no_alarm_however_few_statements_are_watched(critical):
    state = VetoState.begin(reference([6000]), COUNTED_S, critical)
    for factor in (1.0, 1.0, 9.0, 1.0, 1.0, 1.0, 1.0, 9.0):
        state = state.then(NONE, period([200], [1]), period([100], [factor]))
        assert state.vetoed() == {}


def test_what_is_told_of_a_veto_is_what_the_pairs_that_it_rests_on_showed():
    """Slow from some pair on: the calm ones before have no part in the veto, and none in its factor."""
    state = VetoState.begin(reference([6000]), COUNTED_S)
    for factor in (*[1.0] * 9, 2.6, 2.6):
        assert state.vetoed() == {}
        state = state.then(NONE, period([200], [1]), period([100], [factor]))
    assert state.vetoed() == {0: Slower(pytest.approx(2.6), 2)}


def test_the_pairs_of_a_rare_statement_are_all_told():
    state = VetoState.begin(reference([6000, 60]), COUNTED_S)
    for factor in (1.0, 1.0, 1.0, 9.0, 9.0, 9.0, 9.0, 9.0, 9.0):
        state = state.then(NONE, period([100, 2], [1, 1]), period([100, 2], [1, factor]))
    assert (state.pooled.tolist(), state.latest.tolist(), state.latest_pairs.tolist()) == ([9, 3], [0, 2], [0, 6])
    assert state.vetoed()[1] == Slower(pytest.approx(9.0), 6)


@pytest.mark.parametrize(("mean_a", "mean_b", "judged"), [(0.05, 0.05, 1), (0.0, 0.05, 0), (0.05, 0.0, 0)])
def test_any_time_in_each_arm_is_judged_and_none_is_pooled(mean_a, mean_b, judged):
    state = VetoState.begin(reference([6000]), COUNTED_S)
    after = state.then(NONE, period([9], [mean_a]), period([9], [mean_b]))
    assert (after.pooled.tolist(), after.pairs.tolist()) == ([judged], [1 - judged])


@pytest.mark.parametrize(
    ("a", "b", "factor"),
    [
        (((1, 9), (0.5, 1)), ((1, 9), (2, 4)), 4.0),  # one call of half a millisecond
        (((0, 9), (0, 1)), ((9, 9), (1, 2)), 2.0),
        (((9, 9), (1, 1)), ((0, 9), (0, 2)), 2.0),
        (((9, 9), (0, 1)), ((9, 9), (1, 2)), 2.0),
        (((9, 9), (1, 1)), ((9, 9), (0, 2)), 2.0),
    ],
)
def test_only_what_ran_for_a_time_in_both_arms_shifts(a, b, factor):
    body = StatementBody(np.arange(2), np.full(2, 0.5), np.ones(2), 1.0)
    assert math.exp(common_shift(body, period(*a), period(*b))) == pytest.approx(factor)


def test_a_score_of_the_bound_itself_is_no_veto():
    state = VetoState.begin(reference([6000]), COUNTED_S)
    state = replace(state, latest=np.array([2]), latest_pairs=np.array([2]), score=state.bound)
    assert state.vetoed() == {}
    assert replace(state, score=np.nextafter(state.bound, np.inf)).vetoed() == {0: Slower(1.0, 2)}


def test_any_score_above_zero_goes_on_and_none_begins_anew():
    state = VetoState.begin(reference([6000]), COUNTED_S)
    state = state.then(NONE, period([200], [1]), period([100], [1.6]))
    assert 0 < state.score[0] < 1
    assert (state.latest.tolist(), state.latest_pairs.tolist()) == ([1], [1])
    state = state.then(NONE, period([200], [1]), period([100], [1.0]))
    assert (state.score.tolist(), state.latest.tolist(), state.log_ratio.tolist()) == ([0.0], [0], [0.0])
