"""Blocks, counts and intervals of the bootstrap, each by hand."""

from __future__ import annotations

import numpy as np
import pytest

from pgdyno.stats.block_bootstrap import DependentBlocks, counted, drawn, make_blocks, quantile_ratios, share_interval


@pytest.mark.parametrize(("sessions", "count", "made_of"), [
    (39, 40, "slices of time"), (40, 40, "sessions"), (200, 200, "sessions"), (201, 200, "sessions"),
])  # fmt: skip
def test_forty_sessions_are_blocks_and_neighbours_are_joined_above_two_hundred(sessions, count, made_of):
    found = make_blocks(7 * np.arange(sessions) + 3, np.arange(sessions) + 1)
    assert (found.count, found.made_of) == (count, made_of)
    if made_of == "sessions":
        assert found.of.tolist() == [place * count // sessions for place in range(sessions)]
    else:
        assert found.of.tolist() == [(place + 1) * 40 // 40 for place in range(sessions)], "the last is due at 39"


def test_no_row_is_in_no_block():
    none = np.zeros(0, np.int64)
    found = make_blocks(none, none)
    assert (found.of.size, found.count) == (0, 40)


def test_as_many_blocks_are_drawn_as_there_are_each_as_likely():
    found = drawn(4, seed=1, resamples=3)
    assert found.tolist() == np.random.default_rng(1).multinomial(4, [0.25] * 4, size=3).tolist()
    assert drawn(4, seed=1).shape == (400, 4)


def test_values_are_counted_by_side_and_block():
    centres, (a, b) = counted((np.array([5, 7, 5]), np.array([7, 9, 9])), np.array([0, 1, 1]), 3)
    assert centres.tolist() == [5, 7, 9]
    assert a.tolist() == [[1, 0, 0], [1, 1, 0], [0, 0, 0]]
    assert b.tolist() == [[0, 1, 0], [0, 0, 2], [0, 0, 0]]


def test_a_thousand_values_are_levels_and_more_are_counted_in_bins_of_half_a_percent():
    seen = np.array([0, 1, 2, 3000, 3001])
    for size, levels, counts in (
        (1000, seen, [200] * 5),
        (1001, np.exp(np.rint(200 * np.log([1, 2, 3000])) / 200), [401, 200, 400]),
    ):
        centres, (of_one,) = counted([np.resize(seen, size)], np.zeros(size, np.int64), 1)
        assert centres == pytest.approx(levels, rel=1e-12)
        assert of_one.tolist() == [counts]
    alone = np.arange(1001) + np.where(np.arange(1001) == 1000, 9000, 5)
    assert counted([alone], np.zeros(1001, np.int64), 1)[1][0][0, -1] == 1, "a bin of one value is one, too"


ONE_EACH = np.eye(10, dtype=np.float32)
"""Ten resamples of ten blocks: each draws one block alone."""


def test_the_interval_holds_95_percent_of_the_resamples_or_as_many_as_are_asked_for():
    """Block n has one execution of 1 under A and one of n under B: the ratios of the resamples are 1 to 10."""
    values = np.arange(1.0, 11.0)
    a = np.zeros((10, 10), np.float32)
    a[:, 0] = 1
    assert quantile_ratios(values, a, ONE_EACH, ONE_EACH, [0.5]) == [pytest.approx((1.225, 9.775))]
    assert quantile_ratios(values, a, ONE_EACH, ONE_EACH, [0.5], confidence=0.5) == [pytest.approx((3.25, 7.75))]
    assert quantile_ratios(values, ONE_EACH, a, ONE_EACH, [0.5], 0.0) == [pytest.approx((11 / 60, 11 / 60))]


@pytest.mark.parametrize(("of_a", "of_b", "is_known"), [(10, 10, True), (9, 10, False), (10, 9, False)])
def test_an_interval_needs_ten_blocks_of_either_side(of_a, of_b, is_known):
    sides = [np.ones((12, 1), np.float32) * (np.arange(12)[:, None] < known) for known in (of_a, of_b)]
    found = quantile_ratios(np.array([8.0]), *sides, np.ones((4, 12), np.float32), [0.5, 0.9])
    assert found == ([(1.0, 1.0)] * 2 if is_known else [None] * 2)


@pytest.mark.parametrize(("share", "value"), [(0.25, 10), (0.26, 20), (0.5, 20), (0.51, 40), (1.0, 40)])
def test_a_quantile_is_the_first_level_that_the_share_does_not_pass(share, value):
    """Of 10, 20, 40 and 40; B has 10 alone."""
    a, b = (np.tile(np.array(row, np.float32), (10, 1)) for row in ([1, 1, 2], [1, 0, 0]))
    assert quantile_ratios(np.array([10.0, 20.0, 40.0]), a, b, np.ones((3, 10), np.float32), [share]) == [
        pytest.approx((10 / value, 10 / value))
    ]


@pytest.mark.parametrize(("drawn_of", "confidence", "ends"), [
    ([(2, 0), (1, 1), (0, 2)], 0.95, (0.5125, 0.9875)), ([(2, 0), (1, 1), (0, 2)], 0.5, (0.625, 0.875)),
    ([(0, 0), (2, 0), (1, 1), (0, 2)], 0.5, (0.625, 0.875)), ([(0, 2)], 0.95, (0.75, 1.0)),
    ([(2, 0)], 0.95, (0.5, 0.75)),
])  # fmt: skip
def test_the_interval_of_a_share_is_of_drawn_blocks_and_has_the_share_within(drawn_of, confidence, ends):
    """Half of the first block is good and all of the second; a resample that drew neither tells nothing."""
    blocks = DependentBlocks(np.array([0, 0, 1, 1], np.int32), 2, "sessions")
    found = share_interval(np.array([1, 0, 1, 1]), blocks, np.array(drawn_of, np.float32), confidence)
    assert found == pytest.approx((0.75, *ends))
    if confidence == 0.95:
        assert share_interval(np.array([1, 0, 1, 1]), blocks, np.array(drawn_of, np.float32)) == found
