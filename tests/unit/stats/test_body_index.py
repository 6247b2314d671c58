"""The body index and what rests on it, by algebra and by simulated loads whose effect is known."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as nst

from fix_postgres import NIGHT
from live_simulation import LiveSimulation, SimulatedLoad, simulated_study
from pgdyno.errors import UsageError
from pgdyno.stats.body_index import (
    PairIndex,
    PeriodCounts,
    StatementBody,
    StatementReference,
    added,
    body_of,
    capped,
    counts,
    offered_work,
    pair_index,
    reference_of,
    tail_ratio,
)
from pgdyno.stats.sequential import Design
from pgdyno.stats.statement_deltas import StatementDeltas
from simulation import run_studies

SHARES = nst.arrays(np.float64, st.integers(1, 40), elements=st.floats(1e-6, 1e3))


@given(SHARES)
def test_weights_sum_to_one_and_keep_the_order_of_the_shares(shares):
    weights = capped(shares)
    assert weights.sum() == pytest.approx(1.0)
    assert (np.diff(weights[np.argsort(shares, kind="stable")]) >= -1e-12).all()


@given(SHARES)
def test_no_weight_is_above_the_cap_unless_others_would_weigh_twice_their_share(shares):
    weights, shares = capped(shares), shares / shares.sum()
    assert (weights <= 2 * shares + 1e-9).all()
    above = weights > 0.25 + 1e-9
    if above.any():  # those below have all that they may have
        assert weights[~above] == pytest.approx(2 * shares[~above]) or above.all()


def test_weights_below_the_cap_keep_their_proportions():
    found = capped(np.array([0.1, 0.2, 0.2, 0.1, 0.4]))
    assert found == pytest.approx(np.array([0.125, 0.25, 0.25, 0.125, 0.25]))
    assert capped(np.full(5, 7.0)) == pytest.approx(np.full(5, 0.2))
    assert capped(np.array([79.2, 19.8, 1.0])) == pytest.approx(np.array([0.584, 0.396, 0.02]))


def reference(calls, mean_ms, cv, seconds=600.0):
    calls, mean_ms, cv = (np.array(one, dtype=np.float64) for one in (calls, mean_ms, cv))
    return StatementReference(seconds, calls, calls * mean_ms, (cv * mean_ms) ** 2 * np.maximum(calls - 1, 0))


def test_the_body_is_what_a_period_resolves():
    #            resolved, too rare, too ragged, never called
    given_ = reference([6000, 120, 6000, 0], [2, 50, 2, 1], [1.0, 0.1, 3.0, 1.0])
    assert body_of(given_, 25.0).ids.tolist() == [0]
    assert body_of(given_, 25.0).covered == pytest.approx(1 / 2.5)
    assert body_of(given_, 100.0).ids.tolist() == [0, 1, 2], "longer periods resolve more"


@given(st.lists(st.lists(st.floats(0.01, 1e4), max_size=9), min_size=1, max_size=6))
def test_the_parts_of_a_reference_say_together_what_all_their_calls_say(parts):
    made = [
        StatementDeltas(
            5.0, np.array([2]), np.array([float(len(one))]), np.array([sum(one)]), np.array([sum(one)]),
            np.array([np.var(one) * len(one) if one else 0.0]), np.zeros(1), np.zeros(1), np.zeros(1),
        )
        for one in parts
    ]  # fmt: skip
    found, every = reference_of(made, 3), [time for one in parts for time in one]
    assert (found.seconds, found.calls.tolist()) == (5.0 * len(parts), [0, 0, len(every)])
    assert found.time_ms[2] == pytest.approx(sum(every))
    assert found.m2[2] == pytest.approx(np.var(every) * len(every) if every else 0.0, rel=1e-6, abs=1e-3)


def test_a_server_that_did_nothing_has_no_body():
    idle = reference([0, 0], [1, 1], [1, 1])
    assert body_of(idle, 25.0).ids.size == 0
    assert body_of(idle, 25.0).covered == 0.0


BODY = StatementBody(np.array([0, 1], dtype=np.int64), np.array([0.6, 0.4]), np.array([1.0, 10.0]), 0.9)


def period(calls, means, new_ms=0.0):
    calls = np.array(calls, dtype=np.float64)
    return PeriodCounts(calls, calls * np.array(means, dtype=np.float64), new_ms)


def test_the_mix_does_not_move_the_index():
    pair = pair_index(BODY, period([100, 10, 0], [1, 10, 5]), period([1000, 3, 7], [1, 10, 900]))
    assert pair.log_ratio == pytest.approx(0.0)
    assert pair.present == 1.0


def test_each_statement_moves_it_by_its_weight():
    pair = pair_index(BODY, period([100, 10, 1], [1, 10, 1]), period([100, 10, 1], [2, 10, 99]))
    assert pair.log_ratio == pytest.approx(0.6 * math.log(2))
    assert pair.work_log_ratio == pytest.approx(0.0), "the arms' times are no offered work"


def test_a_statement_that_ran_too_seldom_gives_its_weight_to_the_rest():
    pair = pair_index(BODY, period([100, 2, 1], [1, 10, 1]), period([100, 10, 1], [2, 30, 1]))
    assert pair.log_ratio == pytest.approx(math.log(2))
    assert pair.present == pytest.approx(0.6)
    assert pair_index(BODY, period([0, 0, 9], [1, 1, 1]), period([9, 9, 9], [1, 1, 1])) is None


def test_a_pair_of_unequal_work_or_of_little_of_the_body_is_no_pair():
    even = period([100, 10, 1], [1, 10, 1])
    assert pair_index(BODY, even, even).is_matched
    assert not pair_index(BODY, even, period([150, 15, 1], [1, 10, 1])).is_matched
    assert not pair_index(BODY, period([2, 19, 1], [1, 10, 1]), period([2, 19, 1], [1, 10, 1])).is_matched


@given(st.lists(st.integers(3, 500), min_size=2, max_size=2), st.floats(0.1, 10))
def test_the_index_of_swapped_arms_is_the_opposite(calls, factor):
    a, b = period([*calls, 1], [1, 10, 1]), period([100, 100, 1], [factor, 10, 1])
    one, other = pair_index(BODY, a, b), pair_index(BODY, b, a)
    assert one.log_ratio == pytest.approx(-other.log_ratio)
    assert one.work_log_ratio == pytest.approx(-other.work_log_ratio)


def test_statements_that_the_reference_lacks_are_new():
    none = np.zeros(2)
    found = counts(
        StatementDeltas(
            30.0, np.array([1, 5]), np.array([4.0, 2.0]), np.array([8.0, 72.0]), none, none, none, none, none
        ),
        3,
    )
    assert found.calls.tolist() == [0, 4, 0]
    assert found.new_ms == 72.0
    assert found.new_share == pytest.approx(0.9)


def test_the_tail_is_told_with_its_uncertainty():
    a = [period([9, 9, calls], [1, 1, 100]) for calls in (1, 3, 2, 9, 1, 4)]
    b = [period([9, 9, calls], [1, 1, 100]) for calls in (2, 2, 3, 1, 9, 3)]
    found = tail_ratio(BODY, a, b, seed=1)
    assert found.ratio == pytest.approx(1.0)
    assert found.lo < 1 < found.hi
    assert tail_ratio(BODY, a[:2], b[:2], seed=1) is None
    short = [period([9, 9, 0.001], [1, 1, 100])] * 3
    assert tail_ratio(BODY, short, short, seed=1).ratio == pytest.approx(1.0), "three tenths of a millisecond in all"
    assert tail_ratio(BODY, [period([9, 9, 0], [1, 1, 1])] * 4, b[:4], seed=1) is None
    with pytest.raises(UsageError):
        tail_ratio(BODY, a, b[:3], seed=1)
    spread = [period([9, 9, calls], [1, 1, 100]) for calls in (5, 1, 8, 2, 9, 6)]
    even = [period([9, 9, 4], [1, 1, 100])] * 6
    drawn = np.random.default_rng(1).integers(0, 6, size=(2000, 6))
    means = np.array([5, 1, 8, 2, 9, 6])[drawn].mean(axis=1) / 4
    half = tail_ratio(BODY, even, spread, seed=1, confidence=0.5)
    assert (half.lo, half.hi) == pytest.approx(np.quantile(means, [0.25, 0.75])), "as much lies below as above"


@settings(max_examples=5, deadline=None)
@given(st.integers(0, 10_000))
def test_a_faster_server_has_an_index_below_one(seed):
    found = simulated_study(SimulatedLoad(), effect=0.7, pairs=8, seed=seed)
    assert np.mean(found.log_ratios) == pytest.approx(math.log(0.7), abs=0.12)


def test_equal_arms_make_few_claims_and_a_tenth_is_found():
    """Studies of a drifting load: claims stay at the rule's 5 % (six deviations of room), a tenth is found."""
    count = 300 if NIGHT else 80
    equal = np.array([simulated_study(SimulatedLoad(), effect=1.0, pairs=48, seed=s).log_ratios for s in range(count)])
    none = run_studies(equal, Design())
    assert none.claims <= 0.05 + 6 * math.sqrt(0.05 * 0.95 / count)
    assert none.coverage(0.0) >= 0.94 - 6 * math.sqrt(0.05 * 0.95 / count)
    tenth = run_studies(equal[:60] + math.log(0.9), Design())
    assert tenth.lower.all()
    assert np.median(tenth.pairs) <= 20


def test_the_mix_rules_raw_time_per_call_and_not_the_index():
    simulation = LiveSimulation(SimulatedLoad(), 3)
    assert simulation.reference(10, 30.0).shares.sum() == pytest.approx(1.0)
    found = simulated_study(SimulatedLoad(), effect=1.0, pairs=48, seed=3)
    assert np.std(found.log_ratios) < np.std(found.raw) / 1.5


@pytest.mark.parametrize(("calls", "cv", "resolved"), [(240, 0.1, True), (239, 0.1, False), (6000, 2.37, True),
                                                       (6000, 2.38, False)])  # fmt: skip
def test_ten_calls_a_period_and_a_mean_known_to_fifteen_percent_are_resolved(calls, cv, resolved):
    """Of 600 s a period of 25 has a 24th: 250 calls know a mean to a root of 250th of their scatter."""
    assert (body_of(reference([calls], [2.0], [cv]), 25.0).ids.size == 1) is resolved


def test_three_calls_in_both_periods_count_and_half_of_the_weight_is_a_pair():
    whole, most, half = (pair_index(BODY, period([100, 10], [1, 10]), period(calls, [1, 10])) for calls in
                         ([100, 3], [100, 2], [2, 10]))  # fmt: skip
    assert (whole.present, most.present, half.present) == pytest.approx((1.0, 0.6, 0.4))
    assert [one.is_matched for one in (most, half)] == [False, False], "of their work a part is missing, too"
    for present, matched in ((0.5, True), (0.499, False)):
        assert PairIndex(0.0, 0.0, present).is_matched is matched
    for work, matched in ((0.2, True), (-0.2, True), (0.201, False), (-0.201, False)):
        assert PairIndex(0.0, work, 1.0).is_matched is matched


def test_counters_are_halved_by_their_first_half_and_new_statements_have_their_share():
    whole = PeriodCounts(np.array([10.0, 4.0]), np.array([70.0, 20.0]), 10.0, PeriodCounts(
        np.array([4.0, 1.0]), np.array([30.0, 5.0]), 4.0))  # fmt: skip
    first, second = whole.halves
    assert (first.calls.tolist(), second.calls.tolist()) == ([4, 1], [6, 3])
    assert (second.time_ms.tolist(), second.new_ms) == ([40, 15], 6.0)
    assert (whole.new_share, second.halves) == (0.1, None)


def test_a_body_of_less_than_a_millisecond_is_one():
    tiny = reference([600, 900], [0.001, 0.0002], [0.5, 0.5])
    assert tiny.shares == pytest.approx([0.6 / 0.78, 0.18 / 0.78])
    assert body_of(tiny, 25.0).ids.tolist() == [0, 1]
    assert period([600, 0], [0.001, 1], new_ms=0.2).new_share == pytest.approx(0.25)


def test_the_mean_and_the_scatter_of_a_call_are_known_of_what_was_called_and_took_time():
    given_ = StatementReference(9.0, *(np.array(one) for one in (
        [0.0, 1.0, 2.0, 2.0, 5.0], [0.0, 3.0, 0.5, 0.0, 20.0], [0.0, 0.0, 0.02, 0.0, 16.0])))  # fmt: skip
    assert given_.mean_ms.tolist() == [0, 3, 0.25, 0, 4]
    assert given_.cv == pytest.approx([math.inf, math.inf, math.sqrt(0.02) / 0.25, math.inf, 0.5])
    assert given_.shares == pytest.approx([0, 3 / 23.5, 0.5 / 23.5, 0, 20 / 23.5])
    idle = np.zeros(2)
    assert StatementReference(9.0, idle, idle, idle).shares.tolist() == [0, 0]
    assert PeriodCounts(idle, idle).new_share == 0.0
    assert capped(np.zeros(0)).size == 0


def deltas(calls, exec_ms, m2=0.0, ids=(0,)):
    """Return five seconds in which each of these had so many calls, and planning took a millisecond a statement."""
    ids, none = np.array(ids), np.zeros(len(ids))
    calls, exec_ms, m2 = (none + one for one in (calls, exec_ms, m2))
    return StatementDeltas(5.0, ids, calls, exec_ms + 1, exec_ms, m2, none, none, none)


def test_calls_of_2_and_4_and_of_3_and_9_ms_scatter_by_29_around_their_mean():
    found = reference_of([deltas(1, 2), deltas(1, 4), deltas(0, 0), deltas(2, 12, 18)], 1)
    assert (found.seconds, found.calls[0], found.time_ms[0], found.m2[0]) == (20.0, 4, 22, 29)


def test_the_first_number_beyond_the_reference_is_a_new_statement():
    found = counts(deltas([4, 2, 1], [8, 70, 1], ids=(1, 2, 3)), 3)
    assert (found.calls.tolist(), found.time_ms.tolist(), found.new_ms) == ([0, 4, 2], [0, 9, 71], 2)
    whole = added([found, PeriodCounts(np.array([1.0, 1, 1]), np.array([5.0, 6, 7]), 0.5)])
    assert (whole.calls.tolist(), whole.time_ms.tolist(), whole.new_ms) == ([1, 5, 3], [5, 15, 78], 2.5)


def test_a_statement_that_took_no_time_in_a_period_gives_its_weight_to_the_rest():
    some, none = period([100, 10], [0.001, 0.01]), period([100, 10], [0.002, 0])
    assert pair_index(BODY, some, some).present == 1.0
    for pair in ((some, none), (none, some)):
        found = pair_index(BODY, *pair)
        assert (found.present, abs(found.log_ratio)) == pytest.approx((0.6, math.log(2)))
    assert offered_work(BODY, period([3, 2], [99, 99])) == 23


def test_a_drawing_of_pairs_in_which_an_arm_had_no_other_time_tells_nothing_of_the_tail():
    seldom, even = ([period([9, 9, calls], [1, 1, 100]) for calls in arm] for arm in ([0, 0, 9], [3, 3, 3]))
    over, under = tail_ratio(BODY, seldom, even, seed=1), tail_ratio(BODY, even, seldom, seed=1)
    assert (over.ratio, over.lo, over.hi) == pytest.approx((1, 1 / 3, 1))
    assert (under.ratio, under.lo, under.hi) == pytest.approx((1, 1, 3))
    assert tail_ratio(BODY, even, [period([9, 9, 0], [1, 1, 1])] * 3, seed=1) is None
