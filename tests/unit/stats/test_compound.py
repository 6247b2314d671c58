"""Ratios that compound: products, what a measured end leaves open, and that the intervals cover."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgdyno.errors import UsageError
from pgdyno.model.verdict import Interval
from pgdyno.stats.compound import interaction_word, inverse, product, quotient
from pgdyno.stats.paired import t_interval

FIGURES = json.loads((Path(__file__).parents[2] / "data/staircase/figures_2017.json").read_text())
ratios = st.floats(0.2, 5)
widths = st.floats(1.0, 3.0)
intervals = st.builds(lambda r, a, b: Interval(r, r / a, r * b, 0.95), ratios, widths, widths)


@pytest.mark.requirement("R-EXP-04")
def test_the_gains_of_2017_multiply_to_44_percent_and_do_not_add_to_38():
    gains = [step["gain"] for step in FIGURES["steps"]]
    found = product(Interval(1 + gain, 1 + gain, 1 + gain, 0.95) for gain in gains)
    assert round(100 * found.ratio, 1) == 144.1
    assert round(100 * sum(gains)) == 38


def test_no_step_leaves_everything_as_it_was():
    assert product([]).ratio == 1.0
    assert (product([]).lo, product([]).hi) == (1.0, 1.0)


@given(st.lists(intervals, min_size=1, max_size=6))
def test_a_product_is_at_least_as_uncertain_as_each_of_its_steps(steps):
    found = product(steps)
    assert found.lo <= found.ratio <= found.hi
    assert found.ratio == pytest.approx(math.prod(one.ratio for one in steps))
    for one in steps:
        assert found.ratio / found.lo >= one.ratio / one.lo * (1 - 1e-9)
        assert found.hi / found.ratio >= one.hi / one.ratio * (1 - 1e-9)
    sure = math.prod(one.lo for one in steps)
    assert found.lo >= sure * (1 - 1e-9), "independent errors do not all fall the same way"


@given(intervals, intervals)
def test_dividing_undoes_multiplying(a, b):
    assert quotient(product([a, b]), b).ratio == pytest.approx(a.ratio)
    back = inverse(inverse(a))
    assert (back.ratio, back.lo, back.hi) == pytest.approx((a.ratio, a.lo, a.hi))


def test_an_unbounded_step_leaves_the_product_unbounded():
    found = product([Interval(1.1, 0.0, math.inf, 0.9), Interval(1.2, 1.1, 1.3, 0.95)])
    assert (found.lo, found.hi, found.confidence) == (0.0, math.inf, 0.9)
    with pytest.raises(UsageError, match="cannot be compounded"):
        product([Interval(0.0, 0.0, 1.0, 0.95)])


def test_a_product_that_is_no_number_is_refused():
    """It was an OverflowError beyond 1e308, and a ratio of 0 below 1e-323."""
    huge, tiny = Interval(1e200, 1e199, 1e201, 0.95), Interval(1e-200, 1e-201, 1e-199, 0.95)
    for steps, size in (([huge, huge], "large"), ([tiny, tiny], "small")):
        with pytest.raises(UsageError, match=f"the product of 2 ratios is too {size}"):
            product(steps)
    assert product([huge, tiny]).ratio == pytest.approx(1)
    assert product([huge, Interval(1e100, 1e99, 1e107, 0.95)]).hi == math.inf


def test_the_interval_of_a_product_covers_as_often_as_it_says():
    chance, truth, inside, times = np.random.default_rng(7), [0.1, -0.05, 0.3, 0.0], 0, 2000
    for _ in range(times):
        steps = [t_interval(chance.normal(mean, 0.02 * (place + 1), 5 + place), 0.95)
                 for place, mean in enumerate(truth)]  # fmt: skip
        found = product(steps)
        inside += found.lo <= math.exp(sum(truth)) <= found.hi
    assert inside / times >= 0.94


@pytest.mark.requirement("R-EXP-04")
@pytest.mark.parametrize(
    ("lo", "ratio", "hi", "word"),
    [
        (0.95, 1.01, 1.08, "explained"),
        (0.02, 1.31, 79.7, "not resolved"),
        (0.95, 1.05, 1.2, "not resolved"),
        (0.0, 1.0, math.inf, "not resolved"),
        (1.02, 1.1, 1.2, "more"),
        (0.5, 0.7, 0.9, "less"),
    ],
)
def test_a_wide_interval_around_one_explains_nothing(lo, ratio, hi, word):
    assert interaction_word(Interval(ratio, lo, hi, 0.95)) == word


@pytest.mark.parametrize(
    ("lo", "hi", "word"),
    [
        (1.0, 1.05, "explained"),
        (0.95, 1.0, "explained"),
        (0.97, 1.1, "explained"),
        (1 / 1.09, 1.09, "explained"),
        (1 / 1.11, 1.05, "not resolved"),
        (0.97, 1.11, "not resolved"),
    ],
)
def test_a_tenth_to_either_side_is_explained_and_the_bound_itself_claims_nothing(lo, hi, word):
    assert interaction_word(Interval(1.0, lo, hi, 0.95)) == word


def test_bounds_add_in_quadrature_on_the_scale_of_logarithms():
    """Distances of 3 and 4 hundredths below and of 5 and 12 above make 5 and 13."""
    e = math.exp
    found = product([Interval(e(0.1), e(0.07), e(0.15), 0.9), Interval(e(0.2), e(0.16), e(0.32), 0.95)])
    assert (found.ratio, found.lo, found.hi) == pytest.approx((e(0.3), e(0.25), e(0.43)))
    assert found.confidence == 0.9
    assert product([]).confidence == 1.0


def test_a_ratio_upside_down_has_its_bounds_exchanged():
    found = inverse(Interval(2.0, 0.5, 4.0, 0.9))
    assert (found.ratio, found.lo, found.hi, found.confidence) == (0.5, 0.25, 2.0, 0.9)
    open_ = inverse(Interval(2.0, 0.0, math.inf, 0.9))
    assert (open_.lo, open_.hi) == (0.0, math.inf)


@pytest.mark.parametrize(("ratio", "hi", "is_bounded"), [(0, 700, True), (0, 700.5, False), (10, 702, False)])
def test_a_bound_that_no_float_holds_is_infinite(ratio, hi, is_bounded):
    """By logarithms: 1.8e308 is 709.8."""
    found = product([Interval(math.exp(ratio), math.exp(ratio), math.exp(hi), 0.9)])
    assert math.isfinite(found.hi) is is_bounded
