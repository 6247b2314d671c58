"""The filter behind steps of statements, against the textbook's matrices, and the bounds of what is told."""

from __future__ import annotations

import math
from typing import Any, cast

import numpy as np
import pytest

from pgdyno.stats import statement_steps
from pgdyno.stats.statement_steps import AGES, KEPT, STEP, StatementStep, StatementSteps, shared
from pgdyno.stats.wander import Wandering

LEFT, KEPT_VARIANCE, FRESH, SAMPLED = 0.8, 0.03, 0.01, 0.004


def filled(statements: int = 1) -> StatementSteps:
    """Return a filter in the midst of its work, with numbers that differ everywhere."""
    steps, rng = StatementSteps(), np.random.default_rng(3)
    steps.grow(statements)
    steps._is_seen[:] = True
    steps._state = rng.normal(1, 0.3, (statements, 2))
    steps._variance = np.tile([0.05, -0.01, 0.02], (statements, 1))
    steps._taken = rng.uniform(0, 0.4, (statements, AGES, 2))
    steps._said = rng.normal(0, 5, (statements, AGES))
    steps._weight = rng.uniform(1, 9, (statements, AGES))
    steps.levels = rng.normal(1, 0.1, (statements, KEPT))
    return steps


def matrix(steps: StatementSteps, number: int = 0) -> np.ndarray:
    level, both, wandering = steps._variance[number]
    return np.array([[level, both], [both, wandering]])


def test_a_period_that_passes_moves_the_state_as_the_model_does() -> None:
    steps, before = filled(2), filled(2)
    level = np.array([0.3, 0.6])
    steps._predict(LEFT, np.full(2, KEPT_VARIANCE), level)
    moves = np.diag([1.0, LEFT])
    for number in range(2):
        new = np.diag([level[number] / statement_steps._LEVEL**2, (1 - LEFT**2) * KEPT_VARIANCE])
        assert matrix(steps, number) == pytest.approx(moves @ matrix(before, number) @ moves.T + new)
        assert steps._state[number] == pytest.approx(moves @ before._state[number])
        assert steps._taken[number, 1:] == pytest.approx(before._taken[number, :-1] @ moves)
        assert steps._taken[number, 0].tolist() == [0.0, 0.0]
        for name in ("_said", "_weight"):
            sums, were = getattr(steps, name)[number], getattr(before, name)[number]
            assert sums.tolist() == [0.0, *were[:-1]]


def test_a_mean_corrects_the_state_and_speaks_for_each_begin_of_a_step() -> None:
    steps, before = filled(2), filled(2)
    rest, misses = FRESH + SAMPLED, np.array([0.4, 9.0])
    of_level, of_both, of_kept = before._variance.T
    variance = of_level + 2 * of_both + of_kept + rest
    steps._update(np.array([True, False]), misses, variance)
    seen = np.ones(2)
    gain = matrix(before) @ seen / (seen @ matrix(before) @ seen + rest)
    assert steps._state[0] == pytest.approx(before._state[0] + gain * 0.4)
    assert matrix(steps) == pytest.approx(matrix(before) - np.outer(gain, gain) * variance[0])
    left = 1 - before._taken[0].sum(axis=1)
    assert steps._said[0] == pytest.approx(before._said[0] + left * 0.4 / variance[0])
    assert steps._weight[0] == pytest.approx(before._weight[0] + left**2 / variance[0])
    assert steps._taken[0] == pytest.approx(before._taken[0] + np.outer(left, gain))
    for name in ("_state", "_variance", "_said", "_weight", "_taken"):
        assert (getattr(steps, name)[1] == getattr(before, name)[1]).all(), "what did not run stays as it was"


def test_a_step_that_is_told_is_in_the_level_with_its_own_doubt() -> None:
    steps, before, age = filled(), filled(), 4
    steps.accept(StatementStep(0, age, 0.5))
    left = np.array([1.0, 0.0]) - before._taken[0, age]
    assert steps._state[0] == pytest.approx(before._state[0] + 0.5 * left)
    assert matrix(steps) == pytest.approx(matrix(before) + np.outer(left, left) / before._weight[0, age])
    assert np.isnan(steps.levels[0]).tolist() == [True] * (KEPT - 1 - age) + [False] * (1 + age)
    assert (steps._taken[0] == [1.0, 0.0]).all()
    assert not steps._said.any()
    assert not steps._weight.any()


def test_a_statement_begins_at_its_first_mean_with_what_it_may_have_wandered() -> None:
    steps = filled(3)
    steps._is_seen[:] = [False, True, False]
    steps._begin(np.array([True, False, False]), np.full(3, 2.5), np.full(3, 0.03), np.full(3, 0.014))
    assert steps._state[0].tolist() == [2.5, 0.0]
    assert steps._variance[0].tolist() == pytest.approx([0.044, -0.03, 0.03])
    assert steps._is_seen.tolist() == [True, True, False]
    assert not steps._weight[0].any()
    assert steps._weight[1:].all()


def test_what_is_seen_for_the_first_time_begins_with_the_doubt_of_its_period() -> None:
    steps = filled(1)
    steps._is_seen[:] = False
    steps.wander = cast(Any, _Known(1))
    steps.add(np.array([2.5]), np.array([SAMPLED]), np.ones(1))
    assert steps._state[0].tolist() == [2.5, 0.0]
    assert steps._variance[0] == pytest.approx([KEPT_VARIANCE + FRESH + SAMPLED, -KEPT_VARIANCE, KEPT_VARIANCE])


class _Known:
    """A wander that is known, and hears what it is taught."""

    def __init__(self, statements: int) -> None:
        self.heard: dict[str, Any] = {}
        self.one = Wandering(LEFT, np.full(statements, KEPT_VARIANCE), np.full(statements, FRESH))

    def now(self) -> Wandering:
        return self.one

    def learn_misses(self, misses: Any, variance: Any, sampled: Any, known: Any, wander: object) -> None:
        assert wander is self.one
        self.heard |= {"misses": misses.tolist(), "variance": variance.tolist(), "known": known.tolist()}

    def learn_distances(self, levels: Any, sampled: Any) -> None:
        self.heard |= {"levels": levels[:, -1].tolist(), "sampled": sampled[:, -1].tolist()}


@pytest.mark.parametrize(("statements", "common"), [(4, 0.0), (5, 0.3)])
def test_what_five_statements_share_is_taken_off_each_and_kept(statements: int, common: float) -> None:
    steps = filled(statements)
    steps.wander = cast(Any, _Known(statements))
    steps._common = 0.1
    predicted = filled(statements)
    predicted._predict(LEFT, np.full(statements, KEPT_VARIANCE), steps.wander.now().level)
    expected = predicted._state.sum(axis=1)
    own = np.array([-0.2, -0.1, 0.0, 0.1, 0.2])[:statements]
    steps.add(expected + 0.1 + 0.3 + own, np.full(statements, SAMPLED), np.ones(statements))
    heard = cast(_Known, steps.wander).heard
    assert steps._common == pytest.approx(0.1 + common)
    assert heard["misses"] == pytest.approx((0.3 - common + own).tolist())
    assert heard["levels"] == pytest.approx((expected + 0.3 - common + own).tolist())
    assert heard["sampled"] == [SAMPLED] * statements
    assert heard["known"] == [True] * statements
    of_level, of_both, of_kept = predicted._variance.T
    assert heard["variance"] == pytest.approx((of_level + 2 * of_both + of_kept + FRESH + SAMPLED).tolist())


def test_in_a_period_of_which_nothing_is_known_nobody_is_heard() -> None:
    steps, before = filled(2), filled(2)
    steps.wander = cast(Any, _Known(2))
    steps.hold()
    heard = cast(_Known, steps.wander).heard
    assert heard["known"] == [False, False]
    assert steps.levels.shape == steps._sampled.shape == (2, KEPT)
    assert np.isnan(heard["levels"]).all()
    assert heard["sampled"] == [0.0, 0.0]
    assert steps._said[:, 1:].tolist() == before._said[:, :-1].tolist()


def stepped(size: float, age: int = 5, deviations: float = 10.0) -> StatementSteps:
    """Return a filter whose one statement has a step of that size and age."""
    steps = filled()
    steps._said[:], steps._weight[:] = 0.0, 1.0
    steps._weight[0, age] = (deviations / size) ** 2
    steps._said[0, age] = size * steps._weight[0, age]
    steps.levels[:] = 0.0
    steps.levels[0, KEPT - 1 - age :] = size
    return steps


@pytest.mark.parametrize(
    ("size", "age", "least", "is_found"),
    [
        (0.5, 5, 9.9, True),
        (0.5, 5, 10.0, False),
        (0.5, 5, 10.1, False),
        (-0.5, 5, 9.9, True),
        (STEP * 1.001, 5, 9.9, True),
        (STEP * 0.999, 5, 9.9, False),
        (0.5, 2, 9.9, True),
        (0.5, 1, 9.9, False),  # two periods have it
    ],
)
def test_a_step_is_found_from_a_size_an_age_and_a_certainty_on(
    size: float, age: int, least: float, is_found: bool
) -> None:
    found = list(stepped(size, age).found(least))
    assert [(one.number, one.age) for one in found] == ([(0, age)] if is_found else [])
    assert [one.size for one in found] == pytest.approx([size] if is_found else [])


def test_a_step_of_two_periods_is_not_found_though_most_of_what_is_known_has_it() -> None:
    steps = stepped(0.5, 1)
    steps.levels[0, -5:-3] = np.nan
    assert steps._is_there(0, 1, 0.5)
    assert list(steps.found(0.5)) == []


def test_a_step_of_thirty_percent_itself_is_found() -> None:
    steps = stepped(STEP)
    steps._weight[0, 5], steps._said[0, 5] = 4.0, 4.0 * STEP
    (found,) = steps.found(0.5)
    assert (found.age, found.size) == (5, STEP)


def test_what_comes_just_before_a_step_is_its_past_and_not_the_step() -> None:
    steps, begin = stepped(0.5), KEPT - 1 - 5
    steps.levels[0, begin - 4 : begin] = 0.5
    assert steps._is_there(0, 5, 0.5)
    steps.levels[0, begin - 6 : begin] = 0.5
    assert not steps._is_there(0, 5, 0.5)


@pytest.mark.parametrize(("known_after", "known_before", "is_there"), [(3, 3, True), (2, 10, False), (5, 2, False)])
def test_three_periods_are_known_on_either_side(known_after: int, known_before: int, is_there: bool) -> None:
    steps, age = stepped(0.5), 5
    begin = KEPT - 1 - age
    steps.levels[0, : begin - known_before] = np.nan
    steps.levels[0, -5:] = np.nan
    steps.levels[0, KEPT - known_after :] = 0.5
    assert steps._is_there(0, age, 0.5) is is_there


@pytest.mark.parametrize(
    ("size", "now", "is_there"),
    [(0.8, 0.41, True), (0.8, 0.39, False), (0.8, -0.8, False), (0.3, 0.27, True), (0.3, 0.25, False)],
)
def test_half_of_a_step_is_there_still_and_thirty_percent_at_least(size: float, now: float, is_there: bool) -> None:
    for sign in (1, -1):
        steps = stepped(sign * size)
        steps.levels[0, -5:] = sign * now
        assert steps._is_there(0, 5, sign * size) is is_there


def test_only_the_ten_periods_before_a_step_are_its_past() -> None:
    steps = stepped(0.5)
    steps.levels[0, : KEPT - 1 - 5 - 10] = 0.5
    assert steps._is_there(0, 5, 0.5)
    steps.levels[0, KEPT - 1 - 5 - 10 : KEPT - 1 - 5 - 4] = 0.5
    assert not steps._is_there(0, 5, 0.5)


def test_the_least_step_is_by_the_clearest_age() -> None:
    steps = filled(2)
    steps._weight[:] = 4.0
    steps._weight[0, 7] = 100.0
    steps._weight[1] = 0.0
    assert steps.least(5.0).tolist() == [0.5, math.inf]
    assert steps.least(0.01)[0] == STEP


def test_who_is_dropped_or_forgotten_has_no_past() -> None:
    steps = filled(3)
    steps.drop([1])
    assert steps._is_seen.tolist() == [True, False, True]
    assert np.isnan(steps.levels[1]).all()
    assert not steps._weight[1].any()
    assert not np.isnan(steps.levels[[0, 2]]).any()
    steps._common = 3.0
    steps.forget()
    assert (steps._is_seen.any(), steps._common) == (False, 0.0)
    assert np.isnan(steps.levels).all()


@pytest.mark.parametrize(
    ("values", "weights", "expected"),
    [
        ([5.0], [9.0], 5.0),
        ([3.0, 1.0, 2.0], [1.0, 1.0, 1.0], 2.0),
        ([1.0, 2.0, 3.0, 4.0], [1.0] * 4, 2.0),
        ([1.0, 2.0, 3.0, 4.0], [1.0, 1.0, 1.0, 16.0], 3.0),  # it counts as half of the others together
        ([1.0, 2.0, 3.0], [9.0, 1.0, 4.0], 2.0),  # by roots, of which none is more than half of the rest
    ],
)
def test_what_is_shared_is_a_median_of_which_none_is_most(
    values: list[float], weights: list[float], expected: float
) -> None:
    assert shared(np.array(values), np.array(weights)) == expected
