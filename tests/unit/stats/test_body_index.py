"""The body index and what rests on it, by algebra and by simulated loads whose effect is known."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as nst

from live_simulation import LiveSimulation, SimulatedLoad, simulated_study
from pgdyno.errors import UsageError
from pgdyno.stats.body_index import (
    PeriodCounts,
    StatementBody,
    StatementReference,
    body_of,
    capped,
    counts,
    pair_index,
    tail_ratio,
)
from pgdyno.stats.sequential import Design
from pgdyno.stats.statement_deltas import StatementDeltas
from simulation import run_studies

pytestmark = pytest.mark.requirement("R-TUN-01")
SHARES = nst.arrays(np.float64, st.integers(1, 40), elements=st.floats(1e-6, 1e3))


@given(SHARES)
def test_weights_sum_to_one_keep_their_order_and_none_is_above_the_cap(shares):
    weights = capped(shares)
    assert weights.sum() == pytest.approx(1.0)
    assert weights.max() <= max(0.25, 1 / shares.size) + 1e-9
    order = np.argsort(shares, kind="stable")
    assert (np.diff(weights[order]) >= -1e-12).all()


@given(SHARES)
def test_weights_below_the_cap_keep_their_proportions(shares):
    weights = capped(shares)
    free = weights < 0.25 - 1e-6
    if free.sum() > 1 and shares.size > 4:
        assert np.ptp(weights[free] / shares[free]) <= 1e-6 * (weights[free] / shares[free]).max()


def reference(calls, mean_ms, cv, seconds=600.0):
    calls, mean_ms, cv = (np.array(one, dtype=np.float64) for one in (calls, mean_ms, cv))
    return StatementReference(seconds, calls, calls * mean_ms, (cv * mean_ms) ** 2 * np.maximum(calls - 1, 0))


def test_the_body_is_what_a_period_resolves():
    #            resolved, too rare, too ragged, never called
    given_ = reference([6000, 120, 6000, 0], [2, 50, 2, 1], [1.0, 0.1, 3.0, 1.0])
    assert body_of(given_, 25.0).ids.tolist() == [0]
    assert body_of(given_, 25.0).covered == pytest.approx(1 / 2.5)
    assert body_of(given_, 100.0).ids.tolist() == [0, 1, 2], "longer periods resolve more"


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
        StatementDeltas(30.0, np.array([1, 5]), np.array([4.0, 2.0]), np.array([8.0, 72.0]), none, none, none, none), 3
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
    assert tail_ratio(BODY, [period([9, 9, 0], [1, 1, 1])] * 4, b[:4], seed=1) is None
    with pytest.raises(UsageError):
        tail_ratio(BODY, a, b[:3], seed=1)


@settings(max_examples=5, deadline=None)
@given(st.integers(0, 10_000))
def test_a_faster_server_has_an_index_below_one(seed):
    found = simulated_study(SimulatedLoad(), effect=0.7, pairs=8, seed=seed)
    assert np.mean(found.log_ratios) == pytest.approx(math.log(0.7), abs=0.12)


def test_equal_arms_make_few_claims_and_a_tenth_is_found():
    """300 studies of a drifting load: claims stay at the rule's 5 % (six deviations of room), a tenth is found."""
    equal = np.array([simulated_study(SimulatedLoad(), effect=1.0, pairs=48, seed=s).log_ratios for s in range(300)])
    none = run_studies(equal, Design())
    assert none.claims <= 0.05 + 6 * math.sqrt(0.05 * 0.95 / 300)
    assert none.coverage(0.0) >= 0.94 - 6 * math.sqrt(0.05 * 0.95 / 300)
    tenth = run_studies(equal[:60] + math.log(0.9), Design())
    assert tenth.lower.all()
    assert np.median(tenth.pairs) <= 20


def test_the_mix_rules_raw_time_per_call_and_not_the_index():
    simulation = LiveSimulation(SimulatedLoad(), 3)
    assert simulation.reference(10, 30.0).shares.sum() == pytest.approx(1.0)
    found = simulated_study(SimulatedLoad(), effect=1.0, pairs=48, seed=3)
    assert np.std(found.log_ratios) < np.std(found.raw) / 1.5
