"""How statements wander, by hand: the prior, what one period teaches, and the course that fits."""

from __future__ import annotations

import numpy as np
import pytest

from pgdyno.stats.wander import LAGS, Wander, Wandering, _fitted

PRIOR = [0.12**2 * (1 - 0.8**lag) / 0.2 for lag in LAGS]


def test_before_anything_is_seen_neighbours_are_twelve_percent_apart_and_four_fifths_are_left():
    wander = Wander()
    assert wander._squares.tolist() == pytest.approx([5 * one for one in PRIOR])
    assert wander._counts.tolist() == [5.0] * len(LAGS)
    wander.grow(2)
    now = wander.now()
    assert now.left == 0.8
    assert now.kept.tolist() == pytest.approx([0.12**2 / 2 / 0.2] * 2)
    assert now.fresh.tolist() == pytest.approx([0.0] * 2, abs=1e-12)


def test_the_level_of_many_periods_has_what_is_kept_over_and_over():
    found = Wandering(0.5, np.array([1.0, 2.0]), np.array([0.25, 0.0]))
    assert found.level.tolist() == [3.25, 6.0]


def test_one_statement_s_own_counts_beside_forty_periods_of_all():
    wander = Wander()
    wander.grow(3)
    wander._fit = (0.7, 0.03, 0.01)
    wander._own, wander._weights = np.array([8.0, 0.0, 0.0]), np.array([60.0, 0.0, 1e9])
    usual = (8.0 + 40 * 0.04) / (60.0 + 1e9 + 40)
    own = [(8.0 + 40 * usual) / 100.0, max(usual, 0.05**2), 0.05**2]
    now = wander.now()
    assert now.left == 0.7
    assert now.kept.tolist() == pytest.approx([0.75 * one for one in own])
    assert now.fresh.tolist() == pytest.approx([0.25 * one for one in own])


def taught(wander: Wander, levels: np.ndarray, sampled: np.ndarray) -> tuple[list[float], list[float]]:
    """Return the squares and counts after one period, statement by statement."""
    squares, counts = wander._squares.copy(), wander._counts.copy()
    for place, lag in enumerate(LAGS):
        if levels.shape[1] <= lag:
            continue
        total = weight = 0.0
        for level, noise in zip(levels, sampled, strict=True):
            apart, left = level[-1] - level[-1 - lag], noise[-1] + noise[-1 - lag]
            if np.isfinite(apart):
                clear = 0.0025 / (0.0025 + left)
                total += clear * (min(apart**2, 9 * (squares[place] / counts[place] + left)) - left)
                weight += clear
        if weight:
            share = max(1.0, weight)
            squares[place] = max(
                0.998 * squares[place] + total / share, (0.998 * counts[place] + weight / share) / 1600
            )
            counts[place] = 0.998 * counts[place] + weight / share
    return squares.tolist(), counts.tolist()


NOTHING = [[np.nan] * 5]
TAUGHT = {
    "two statements": ([[0.0, 0.1, 0.0, 0.3, 0.1], [1.0, 1.2, 1.1, 1.0, 1.1]], 0.001),
    "far out": ([[0.0, 0.0, 0.0, 0.0, 9.0]], 0.002),
    "one unknown": ([[0.0, 0.1, np.nan, 0.3, 0.1], [1.0, 1.2, 1.1, np.nan, 1.1]], 0.0),
    "few calls": ([[0.0, 0.1, 0.0, 0.3, 0.1], [0.0, 0.1, 0.0, 0.3, 0.2]], 0.4),
    "short": ([[0.0, 0.1]], 0.001),
    "nothing": (NOTHING, 0.001),
}


@pytest.mark.parametrize("name", TAUGHT)
def test_a_period_teaches_how_far_means_are_from_where_they_were(name):
    given, noise = TAUGHT[name]
    levels = np.array(given)
    sampled = noise * (1 + np.arange(levels.size).reshape(levels.shape) / 10)
    wander = Wander()
    squares, counts = taught(wander, levels, sampled)
    wander.learn_distances(levels, sampled)
    assert wander._squares.tolist() == pytest.approx(squares)
    assert wander._counts.tolist() == pytest.approx(counts)


def test_a_load_that_stands_still_is_taken_to_move_a_little():
    wander, still = Wander(), np.zeros((1, 20))
    wander._squares[:], wander._counts[:] = 0.0, 500.0
    wander.learn_distances(still, still)
    assert wander._counts.tolist() == pytest.approx([500.0] * len(LAGS)), "no more periods than so many are remembered"
    assert (wander._squares / wander._counts).tolist() == pytest.approx([0.05**2 / 4] * len(LAGS))


def test_what_is_learnt_is_used_at_once_at_first_and_later_every_ten_periods():
    wander, used = Wander(), []
    levels = np.zeros((1, 2))
    for period in range(1, 91):
        wander._fit = (0.0, 0.0, 0.0)
        wander.learn_distances(levels, levels)
        if wander._fit != (0.0, 0.0, 0.0):
            used.append(period)
    assert used == [*range(1, 60), 60, 70, 80, 90]
    assert wander._fit == _fitted(wander._squares / wander._counts / 2)


def test_a_miss_counts_by_how_much_of_it_is_the_statement_s_own():
    wander = Wander()
    wander.grow(4)
    wander._own[:], wander._weights[:] = 2.0, 3.0
    before = Wandering(0.8, np.full(4, 0.03), np.array([0.01, 0.01, 0.03, 0.01]))
    variance, sampled = np.array([0.04, 0.04, 0.08, 0.04]), np.array([0.01, 0.0, 0.06, 0.02])
    misses, known = np.array([0.1, 9.0, -0.2, 0.5]), np.array([True, True, True, False])
    wander.learn_misses(misses, variance, sampled, known, before)
    for number, (whole, square) in enumerate(((0.04, 0.01), (0.04, 9 * 0.04), (0.06, 0.04))):
        own = variance[number] - sampled[number]
        weight = (own / variance[number]) ** 2
        assert wander._weights[number] == pytest.approx(0.998 * 3 + weight)
        assert wander._own[number] == pytest.approx(0.998 * 2 + weight * whole * (square - sampled[number]) / own)
    assert (wander._own[3], wander._weights[3]) == (2.0, 3.0)
    wander.drop([0, 2])
    assert [wander._own[number] == 0 for number in range(4)] == [True, False, True, False]
    assert [wander._weights[number] == 0 for number in range(4)] == [True, False, True, False]
    wander.grow(1)
    assert (wander._own.size, wander._own[4], wander._weights[4]) == (5, 0.0, 0.0)


@pytest.mark.parametrize("left", [0.3, 0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.93, 0.96, 0.98])
@pytest.mark.parametrize("fresh", [0.0, 0.02])
def test_the_course_that_distances_follow_is_found(left, fresh):
    halves = 0.05 * (1 - left ** np.array(LAGS)) + fresh
    assert _fitted(halves) == pytest.approx((left, 0.05, fresh), abs=1e-9)


def test_what_does_not_wander_is_new_in_every_period():
    found = _fitted(np.full(len(LAGS), 0.04))
    assert found == pytest.approx((0.0, 0.04, 0.0))
    assert _fitted(np.zeros(len(LAGS)))[0] == 0.0
