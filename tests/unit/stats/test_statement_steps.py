"""Means that wander: what is learnt of it, and which steps are found in it."""

from __future__ import annotations

import math

import numpy as np
import pytest

from pgdyno.stats.regressions import Regressions
from pgdyno.stats.statement_deltas import StatementDeltas
from pgdyno.stats.statement_steps import KEPT, STEP, StatementSteps, bound
from pgdyno.stats.wander import LAGS, Wander, _fitted


def wandering(seed, statements, periods, *, between=0.12, left=0.8):
    """Means in ln that wander by `between` from one period to the next, a row a period."""
    rng = np.random.default_rng(seed)
    deviation = between / math.sqrt(2 * (1 - left))
    state, rows = rng.normal(0, deviation, statements), []
    for _ in range(periods):
        state = left * state + math.sqrt(1 - left**2) * rng.normal(0, deviation, statements)
        rows.append(state)
    return np.array(rows)


def followed(logs, sampled=0.0, weights=None):
    steps = StatementSteps()
    steps.grow(logs.shape[1])
    found = []
    for number, row in enumerate(logs):
        steps.add(row, np.full(row.size, sampled), np.ones(row.size) if weights is None else weights)
        found += [(number, step) for step in steps.found(5.0)]
    return steps, found


@pytest.mark.parametrize("left", [0.0, 0.8])
def test_how_means_wander_is_learnt_from_all(left):
    steps, _ = followed(wandering(1, 60, 400, left=left))
    wander = steps.wander.now()
    assert wander.left == pytest.approx(left, abs=0.05) or (left == 0 and wander.kept.max() < wander.fresh.min())
    whole = np.sqrt(wander.kept + wander.fresh)
    assert np.median(whole) == pytest.approx(0.12 / math.sqrt(2 * (1 - left)), rel=0.2)


def test_a_statement_that_wanders_more_than_the_others_is_known_to():
    logs = wandering(2, 40, 500)
    logs[:, 7] *= 3
    wander = followed(logs)[0].wander.now()
    assert 2 < math.sqrt(wander.kept[7] / np.median(wander.kept)) < 3.5


def test_distances_of_a_known_course_are_fitted_as_they_are():
    lags = np.array(LAGS)
    left, kept, fresh = _fitted(0.01 + 0.04 * (1 - 0.9**lags))
    assert (left, kept, fresh) == pytest.approx((0.9, 0.04, 0.01))


def test_before_anything_is_seen_as_much_is_expected_as_was_measured():
    wander = Wander()
    wander.grow(1)
    assert wander.now().left == 0.8
    assert wander.now().kept[0] == pytest.approx(0.12**2 / 0.4)


@pytest.mark.parametrize("seed", range(3))
def test_twice_as_long_is_found_soon_where_neighbours_differ_by_twelve_percent(seed):
    logs = wandering(10 + seed, 60, 150)
    logs[120:, 5] += math.log(2)
    _, found = followed(logs)
    number, step = found[0]
    assert {one.number for _, one in found} == {5}
    assert 122 <= number <= 135
    assert number - step.age == pytest.approx(120, abs=2)
    assert step.size == pytest.approx(math.log(2), abs=0.35)


def test_a_small_step_is_found_by_its_staying():
    """No single period has it: the evidence of many is added up."""
    steady = np.random.default_rng(3).normal(0, 0.18, (260, 60))
    steady[220:, 4] += 0.4
    numbers = [(number, step.number) for number, step in followed(steady)[1]]
    assert numbers
    assert {number for _, number in numbers} == {4}
    assert numbers[0][0] > 224


def test_what_most_miss_alike_is_taken_off():
    logs = wandering(4, 60, 150) + np.where(np.arange(150) >= 100, 1.0, 0.0)[:, None]
    assert followed(logs)[1] == []


def test_a_rise_over_hours_is_followed():
    logs = wandering(5, 60, 400, between=0.05)
    logs[150:, 3] += math.log(1.5) * np.minimum(1.0, np.arange(250) / 240)
    assert followed(logs)[1] == []


def test_a_step_that_was_accepted_is_the_level_from_then_on():
    logs = wandering(6, 60, 220)
    logs[120:, 5] += 1.2
    steps = StatementSteps()
    steps.grow(60)
    told = []
    for row in logs:
        steps.add(row, np.zeros(60), np.ones(60))
        for step in steps.found(5.0):
            told.append(step.number)
            steps.accept(step)
            assert np.isfinite(steps.levels[step.number]).sum() == step.age + 1
    assert told == [5]


def test_periods_without_calls_leave_out_what_they_would_have_said():
    logs = wandering(7, 60, 150)
    logs[120:, 5] += 1.2
    logs[np.arange(150) % 3 == 1, 5] = np.nan
    (number, step), *_ = followed(logs)[1]
    assert step.number == 5
    assert number <= 132


def test_what_is_forgotten_is_no_past():
    steps, _ = followed(wandering(8, 60, 100))
    steps.forget()
    for row in wandering(9, 60, 30) + 2.0 * (np.arange(60) == 3):
        steps.add(row, np.zeros(60), np.ones(60))
        assert list(steps.found(5.0)) == []
    steps.drop([3])
    assert steps.wander._weights[3] == 0
    assert not np.isfinite(steps.levels[3]).any()
    steps.hold()
    assert steps.levels.shape == (60, KEPT)


def test_the_bound_grows_with_what_is_looked_at():
    assert bound(30, 60.0) == pytest.approx(5.2, abs=0.01)
    assert bound(300, 60.0) > bound(30, 60.0) > bound(30, 600.0)
    assert bound(0, 60.0) == bound(1, 60.0) < bound(2, 60.0)
    assert StatementSteps().least(5.0).size == 0
    steps, _ = followed(wandering(1, 6, 3))
    assert (steps.least(5.0) >= STEP).all()


@pytest.mark.parametrize("seed", range(3))
def test_one_of_many_statements_whose_means_wander_is_named(seed):
    """At 12 % from one period to the next: medians of ten periods on either side named hardly one in three."""
    rng, found, told = np.random.default_rng(seed), Regressions(), []
    logs, none = wandering(20 + seed, 60, 110), np.zeros(60)
    for number, row in enumerate(logs):
        calls = rng.poisson(np.full(60, 400.0)).astype(float)
        ms = calls * 5 * np.exp(row + (math.log(2) if number >= 80 else 0.0) * (np.arange(60) == 9))
        told += [
            (number, one.number)
            for one in found.add(StatementDeltas(60.0, np.arange(60), calls, ms, ms, ms**2 / calls, none, calls, none))
        ]
    assert [name for _, name in told] == [9]
