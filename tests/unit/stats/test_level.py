"""The level of repeated runs: against values by hand, and against the model written down in another way."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pgdyno.stats import level
from pgdyno.stats.level import STILL, WALKS, WILD, find_level

FEW = st.lists(st.floats(-5, 5), min_size=2, max_size=9).filter(lambda values: max(values) - min(values) > 0.01)
GAPS = st.lists(st.floats(0.5, 20), min_size=8, max_size=8)


def times_of(gaps, size):
    """Return ascending times with these seconds between them."""
    return np.concatenate([[1000.0], 1000.0 + np.cumsum(gaps)])[:size]


def penalised(times, values, walk):
    """Return the level as the smooth curve that it is: squares of noise and of steps, each in its own variance.

    The time between two runs is in units of their mean, as `WALKS` is.
    """
    size = len(values)
    gaps = np.diff(times) / ((times[-1] - times[0]) / (len(times) - 1))
    steps = np.diff(np.eye(size), axis=0)
    stiffness = steps.T @ np.diag(1 / (walk * gaps)) @ steps
    return np.linalg.solve(np.eye(size) + stiffness, values)


def likelihood(times, values, walk):
    """Return how likely the differences of neighbours are, whatever the level and the noise: the restricted one."""
    size = len(values)
    gaps = np.diff(times) / ((times[-1] - times[0]) / (size - 1))
    steps = np.diff(np.eye(size), axis=0)
    spread = steps @ steps.T + walk * np.diag(gaps)
    differences = np.diff(values)
    squares = differences @ np.linalg.solve(spread, differences)
    return -0.5 * np.linalg.slogdet(spread)[1] - 0.5 * (size - 1) * np.log(squares)


def by_hand(times, values):
    """Return the level by curves and differences: no covariance of the level itself is used."""
    logs = np.array([likelihood(times, values, walk) for walk in WALKS])
    share = np.exp(logs - logs.max()) * [0.5] + np.zeros(WALKS.size)
    share[1:] /= 6
    share /= share.sum()
    curves = [np.full(len(values), np.mean(values)), *(penalised(times, values, walk) for walk in WALKS[1:])]
    return share @ np.array(curves)


def drawn_in(values):
    """Return the runs as they were drawn in: at one moment the level is their mean, and `apart` tells each."""
    found, size = find_level([7.0] * len(values), values), len(values)
    others = np.array(values) - found.apart
    return size * found.values[0] - (size - 1) * others


def test_one_run_is_its_own_level_and_says_nothing_of_noise():
    found = find_level([12.0], [3.5])
    assert (list(found.times), list(found.values), list(found.apart)) == ([12.0], [3.5], [0.0])
    assert list(found.at([0.0, 12.0, 99.0])) == [3.5, 3.5, 3.5]


@pytest.mark.parametrize(("a", "b"), [(0.0, 1.0), (2.0, -4.0), (1.0, 1.0)])
def test_two_runs_cannot_say_whether_the_level_moved(a, b):
    """Each walk explains a difference as well as the next, so what was believed before stands.

    The noise of a walk w is d / (2 + w), and its weight 1/12; standing still has 1/2 and the noise d / 2.
    """
    share = 0.5 / 2 + (1 / 2.03 + 1 / 2.1 + 1 / 2.3 + 1 / 3 + 1 / 5 + 1 / 12) / 12
    assert share == pytest.approx(0.418354, abs=1e-6)
    found = find_level([0.0, 60.0], [a, b])
    assert found.values == pytest.approx([a + share * (b - a), b - share * (b - a)])
    assert found.apart == pytest.approx([a - b, b - a]), "one run is all that is known of the other"


def test_runs_at_one_moment_have_their_mean_as_level():
    found = find_level([5.0, 5.0, 5.0], [1.0, 2.0, 6.0])
    assert found.values == pytest.approx([3, 3, 3])
    assert found.apart == pytest.approx([1 - 4, 2 - 3.5, 6 - 1.5]), "each against the mean of the others"


@settings(deadline=None)
@given(FEW, GAPS)
def test_the_level_is_that_of_the_model_written_down_another_way(values, gaps):
    times = times_of(gaps, len(values))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(level, "_tamed", lambda seen: seen)
        assert find_level(times, values).values == pytest.approx(by_hand(times, np.array(values)), abs=1e-6)


@settings(deadline=None)
@given(FEW.filter(lambda values: len(values) >= 3), GAPS, st.sampled_from([0.03, 0.3, 3.0]), st.data())
def test_each_run_lies_apart_from_what_the_others_predict_of_its_time(values, gaps, walk, data):
    """With one walk alone: the others' level between its neighbours is a line, and outside of them held."""
    times, seen = times_of(gaps, len(values)), np.array(values)
    place = data.draw(st.integers(0, len(values) - 1))
    others = np.delete(np.arange(len(values)), place)
    of_all = (times[-1] - times[0]) / (len(times) - 1)
    of_others = (times[others][-1] - times[others][0]) / (len(others) - 1)
    curve = penalised(times[others], seen[others], walk * of_others / of_all)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(level, "_tamed", lambda runs: runs)
        patch.setattr(level, "WALKS", np.array([0.0, walk]))
        patch.setattr(level, "STILL", 0.0)
        found = find_level(times, values)
    assert found.apart[place] == pytest.approx(seen[place] - np.interp(times[place], times[others], curve), abs=1e-6)


@settings(deadline=None)
@given(FEW, GAPS, st.floats(-50, 50), st.floats(0.1, 10))
def test_units_of_figures_and_of_time_do_not_matter_and_neither_does_its_direction(values, gaps, shift, factor):
    times, seen = times_of(gaps, len(values)), np.array(values)
    found = find_level(times, seen)
    for other, change in (
        (find_level(times, shift + factor * seen), lambda one: shift + factor * one),
        (find_level(factor * times + shift, seen), lambda one: one),
    ):
        assert other.values == pytest.approx(change(found.values), abs=1e-6)
    back = find_level(-times[::-1], seen[::-1])
    if len(values) in (2, 3, 5):  # of an even number the four nearest lie more on one side
        assert back.values[::-1] == pytest.approx(found.values, abs=1e-6)


def test_a_level_that_stands_still_adds_no_noise_and_one_that_moves_is_followed():
    chance = np.random.default_rng(7)
    noise = chance.normal(0, 0.01, 60)
    times = np.arange(60) * 30.0
    still = find_level(times, noise)
    assert np.abs(still.values - noise.mean()).max() < 0.003
    moved = find_level(times, noise + np.where(times < 900, 0.0, 0.2))
    assert np.abs(moved.values[:25] - noise[:30].mean()).max() < 0.02
    assert np.abs(moved.values[35:] - 0.2 - noise[30:].mean()).max() < 0.02


def test_equal_runs_have_their_value_and_no_noise():
    found = find_level([0.0, 1.0, 2.0, 3.0, 4.0], [2.5] * 5)
    assert found.values == pytest.approx([2.5] * 5)
    assert found.apart == pytest.approx([0] * 5, abs=1e-12)


def test_between_two_runs_the_level_is_a_line_and_outside_it_is_held():
    found = find_level([10.0, 20.0], [0.0, 1.0])
    low, high = found.values
    assert found.at([0.0, 10.0, 12.5, 20.0, 30.0]) == pytest.approx([low, low, low + (high - low) / 4, high, high])


def test_of_three_runs_nobody_can_say_which_is_wild():
    assert drawn_in([0.0, 1.0, 100.0]) == pytest.approx([0, 1, 100])


def test_a_wild_run_of_four_is_drawn_in_to_four_typical_distances():
    """From the medians of the other three, 2 2 1 1, they lie 2 1 1 99 away: 1.5 is the median of that."""
    reach = 4 * 1.4826 * 1.5
    assert drawn_in([0.0, 1.0, 2.0, 100.0]) == pytest.approx([0, 1, 2, 1 + reach])
    found = find_level([7.0] * 4, [0.0, 1.0, 2.0, 100.0])
    assert found.apart[3] == pytest.approx(99), "it is as far from the others as it was seen"


@pytest.mark.parametrize(("wild", "around"), [(1030.0, 30), (-1000.0, 30)])
def test_neighbours_are_the_four_nearest_in_order(wild, around):
    """The medians of the seven runs' neighbours are told one by one; at the ends all four are on one side."""
    runs = [0.0, 10.0, 20.0, wild, 40.0, 50.0, 60.0]
    neighbours = [(1, 2, 3, 4), (0, 2, 3, 4), (0, 1, 3, 4), (1, 2, 4, 5), (2, 3, 5, 6), (2, 3, 4, 6), (2, 3, 4, 5)]
    medians = [np.median([runs[one] for one in four]) for four in neighbours]
    assert medians[3] == around
    reach = WILD * 1.4826 * np.median(np.abs(np.array(runs) - medians))
    expected = list(runs)
    expected[3] = around + np.sign(wild) * reach
    assert drawn_in(runs) == pytest.approx(expected)


def test_the_models_are_those_that_are_told():
    assert list(WALKS) == [0.0, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0]
    assert (STILL, WILD) == (0.5, 4.0)


@pytest.mark.parametrize("unit", [1e-9, 1e9])
def test_two_hundred_runs_in_any_unit_are_followed_where_no_float_holds_how_likely_they_are(unit):
    rising = unit * np.arange(200.0)
    assert find_level(np.arange(200.0), rising).values[20:-20] == pytest.approx(rising[20:-20], rel=1e-3)
