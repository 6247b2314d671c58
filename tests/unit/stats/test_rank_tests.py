"""The rank test against SciPy's, what dependence does to it, and many tests at once."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from pgdyno.stats.block_bootstrap import counted
from pgdyno.stats.rank_tests import adjusted, rank_test

P_VALUES = st.lists(st.floats(0, 1), min_size=1, max_size=30)


def ranked(a, b, blocks):
    _, (counts_a, counts_b) = counted((a, b), blocks, int(blocks.max()) + 1)
    return rank_test(counts_a, counts_b)


def test_it_is_the_test_of_mann_and_whitney_with_ties():
    random = np.random.default_rng(1)
    a, b = random.integers(0, 30, 200), random.integers(2, 33, 200)
    found = ranked(a, b, np.zeros(200, np.int64))  # one block: the classical variance
    theirs = stats.mannwhitneyu(b, a, alternative="greater", method="asymptotic")
    assert found.chance == pytest.approx(theirs.statistic / 200**2)
    assert found.slower == pytest.approx(theirs.pvalue, rel=1e-6)
    other = stats.mannwhitneyu(b, a, alternative="less", method="asymptotic")
    assert found.faster == pytest.approx(other.pvalue, rel=1e-6)


def test_sessions_that_differ_as_a_whole_are_no_hundred_proofs():
    random = np.random.default_rng(2)
    blocks = np.repeat(np.arange(20), 50)
    a = random.integers(900, 1100, 1000)
    b = a + np.repeat(random.integers(-150, 200, 20), 50)
    alone = ranked(a, b, np.zeros(1000, np.int64))
    assert ranked(a, b, blocks).slower > max(10 * alone.slower, 0.01)


@pytest.mark.parametrize(("a", "b", "expected"), [(5, 5, (1, 1)), (5, 6, (0, 1)), (6, 5, (1, 0))])
def test_values_without_any_scatter(a, b, expected):
    found = ranked(np.full(30, a), np.full(30, b), np.zeros(30, np.int64))
    assert (round(found.slower, 6), round(found.faster, 6)) == expected


@given(P_VALUES)
def test_adjusted_values_are_those_of_benjamini_and_hochberg(values):
    assert adjusted(np.array(values)) == pytest.approx(stats.false_discovery_control(values))


@given(P_VALUES)
def test_adjusting_keeps_the_order_and_never_makes_smaller(values):
    found = adjusted(np.array(values))
    assert (found >= np.array(values) * (1 - 1e-9)).all()
    assert (found <= 1).all()
    assert (np.diff(found[np.argsort(values)]) >= 0).all()


def test_nothing_to_adjust():
    assert adjusted(np.zeros(0)).size == 0


def by_placements(a, b, blocks):
    """Return the variance of the chance, execution by execution: DeLong's placements, summed over blocks."""
    above = (b[:, None] > a) + 0.5 * (b[:, None] == a)
    of_b, of_a, chance = above.mean(axis=1), above.mean(axis=0), above.mean()
    sums = [
        (of_a[blocks == one] - chance).sum() / a.size + (of_b[blocks == one] - chance).sum() / b.size
        for one in np.unique(blocks)
    ]
    return chance, len(sums) / (len(sums) - 1) * np.square(sums).sum()


@pytest.mark.parametrize("size", [9, 10])
def test_ten_blocks_are_enough_to_tell_how_sessions_differ(size):
    random = np.random.default_rng(3)
    blocks = np.repeat(np.arange(size), 40)
    a = random.integers(900, 1100, blocks.size)
    b = a + np.repeat(random.integers(-150, 200, size), 40)
    chance, variance = by_placements(a, b, blocks)
    alone, found = ranked(a, b, np.zeros(blocks.size, np.int64)), ranked(a, b, blocks)
    assert found.chance == pytest.approx(chance)
    if size < 10:
        assert found == alone
        return
    late = (0.5 + 0.5 / a.size**2 - chance) / variance**0.5
    soon = (chance + 0.5 / a.size**2 - 0.5) / variance**0.5
    assert (found.slower, found.faster) == pytest.approx((stats.norm.cdf(late), stats.norm.cdf(soon)))
    assert found.slower > alone.slower


def test_pairing_never_makes_it_narrower():
    """Blocks that are alike scatter less than chance would: the classical variance stands."""
    a = np.tile(np.arange(20), 12)
    blocks = np.repeat(np.arange(12), 20)
    assert ranked(a, a + 1, blocks) == ranked(a, a + 1, np.zeros(a.size, np.int64))
