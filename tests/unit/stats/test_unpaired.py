"""The ratio of runs that are no pairs: Welch's interval on logarithms."""

from math import exp, inf, log, nan, sqrt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgdyno.errors import UsageError
from pgdyno.stats.paired import ratio_interval

RUNS = st.lists(st.floats(1, 1e6), min_size=2, max_size=9)


def exps(*logs):
    return [exp(one) for one in logs]


def test_welchs_interval_as_in_a_textbook():
    """Both sides have the variance 1 and three runs: an error of the root of 2/3, and four degrees of freedom."""
    found = ratio_interval(exps(1, 2, 3), exps(0, 1, 2))
    assert found.ratio == pytest.approx(exp(1))
    assert found.lo == pytest.approx(exp(1 - 2.7764451 * sqrt(2 / 3)))
    assert found.hi == pytest.approx(exp(1 + 2.7764451 * sqrt(2 / 3)))
    assert found.confidence == 0.95


@pytest.mark.parametrize(("confidence", "quantile"), [(0.95, 4.302653), (0.9, 2.919986)])
def test_sides_of_other_sizes_and_scatters_each_count_for_their_own(confidence, quantile):
    """Variances 2 and 3/2 of 2 and 3 runs: the squared error is 1 + 1/2, and the freedom 9/4 : (1/1 + 1/4 : 2) = 2."""
    found = ratio_interval(exps(2, 4), exps(-sqrt(1.5), 0, sqrt(1.5)), confidence)
    assert found.ratio == pytest.approx(exp(3))
    assert found.hi == pytest.approx(exp(3 + quantile * sqrt(1.5)))
    assert found.lo == pytest.approx(exp(3 - quantile * sqrt(1.5)))
    assert found.confidence == confidence


def test_a_side_that_does_not_scatter_leaves_the_other_sides_freedom():
    found = ratio_interval(exps(2, 4), exps(1, 1, 1))
    assert found.ratio == pytest.approx(exp(2))
    assert log(found.hi / found.ratio) == pytest.approx(12.706205)


def test_sides_that_do_not_scatter_have_a_ratio_without_a_width():
    found = ratio_interval([6.0, 6.0], [2.0, 2.0])
    assert (found.lo, found.ratio, found.hi) == pytest.approx((3, 3, 3))


def test_one_run_of_a_side_has_no_interval():
    assert ratio_interval([1.0], [1.0, 2.0]) is None
    assert ratio_interval([1.0, 2.0], [1.0]) is None
    assert ratio_interval([1.0, 2.0], [1.0, 2.0]) is not None


@pytest.mark.parametrize("value", [0.0, -1.0, inf, nan])
def test_a_value_of_either_side_that_is_no_figure_is_named(value):
    for a, b in (([1.0, value], [1.0, 2.0]), ([1.0, 2.0], [1.0, value])):
        with pytest.raises(UsageError, match=f"{value} is not a positive number"):
            ratio_interval(a, b)


@given(RUNS, RUNS)
def test_an_interval_holds_its_ratio_and_turns_round_with_its_sides(a, b):
    there, back = ratio_interval(a, b), ratio_interval(b, a)
    assert there.lo <= there.ratio <= there.hi
    assert there.ratio * back.ratio == pytest.approx(1)
    assert log(there.hi / there.ratio) == pytest.approx(log(back.hi / back.ratio), abs=1e-9)


@given(RUNS, RUNS, st.floats(0.5, 0.99))
def test_more_confidence_makes_it_wider(a, b, confidence):
    narrow, wide = ratio_interval(a, b, confidence), ratio_interval(a, b, confidence + 0.009)
    assert narrow.hi <= wide.hi
    assert narrow.lo >= wide.lo
