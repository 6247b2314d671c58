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
