import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgdyno.errors import UsageError
from pgdyno.stats.paired import log_ratios, t_interval


def test_log_ratio_of_b_over_a():
    assert log_ratios([1, 2], [2, 1]).tolist() == pytest.approx([math.log(2), -math.log(2)])


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf])
@pytest.mark.parametrize("arm", ["a", "b"])
def test_log_ratios_refuse_values_that_are_not_positive(bad, arm):
    good = [1.0, 2.0]
    with pytest.raises(UsageError, match=f"arm {arm} in pair 2"):
        log_ratios(**{"a": good, "b": good, arm: [1.0, bad]})


@pytest.mark.parametrize(("a", "b"), [([], []), ([1.0], [1.0, 2.0]), ([[1.0]], [[1.0]])])
def test_log_ratios_refuse_what_is_not_pairs(a, b):
    with pytest.raises(UsageError):
        log_ratios(a, b)


def test_t_interval_of_a_textbook_sample():
    # mean 0.1, sd 0.1, n 4: half-width 3.1824463 * 0.05
    found = t_interval([0.0, 0.2, 0.1 - math.sqrt(0.005), 0.1 + math.sqrt(0.005)])
    assert found.ratio == pytest.approx(math.exp(0.1))
    assert found.hi == pytest.approx(math.exp(0.1 + 3.1824463 * 0.05))
    assert found.lo == pytest.approx(math.exp(0.1 - 3.1824463 * 0.05))


def test_t_interval_covers_at_its_nominal_rate():
    rows = np.random.default_rng(3).standard_normal((4000, 7)) * 0.1 + 0.3
    covered = sum(found.lo <= math.exp(0.3) <= found.hi for found in map(t_interval, rows))
    assert covered / 4000 == pytest.approx(0.95, abs=4 * math.sqrt(0.05 * 0.95 / 4000))


@pytest.mark.parametrize("values", [[], [0.1], [0.1, math.nan]])
def test_t_interval_refuses_too_little(values):
    with pytest.raises(UsageError):
        t_interval(values)


@given(st.lists(st.floats(0.01, 1e6), min_size=2, max_size=20), st.floats(0.01, 100))
def test_t_interval_is_the_inverse_for_swapped_arms(values, factor):
    other = [value * factor * (1 + 0.1 * (i % 3)) for i, value in enumerate(values)]
    forth, back = t_interval(log_ratios(values, other)), t_interval(log_ratios(other, values))
    assert forth.ratio == pytest.approx(1 / back.ratio)
    assert forth.lo == pytest.approx(1 / back.hi)
