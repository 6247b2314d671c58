"""How even a throughput is from second to second."""

from math import sqrt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgdyno.report.run_details import CAVEAT
from pgdyno.trial.run_evidence import smoothness


@pytest.mark.requirement("R-MON-09")
def test_smoothness_is_the_coefficient_of_variation_of_whole_seconds():
    """The mean is 10, and the squares of the differences are 0, 0, 100, 100 and 0."""
    found = smoothness([10, 10, 0, 20, 10])
    assert found.cv == pytest.approx(sqrt(200 / 4) / 10)
    assert (found.seconds, found.least, found.most, found.empty) == (5, 0, 20, 1)
    assert "proves nothing for a single user" in CAVEAT


def test_five_seconds_are_the_fewest_and_a_load_without_transactions_has_none():
    assert smoothness([1, 2, 3, 4]) is None
    assert smoothness([1, 2, 3, 4, 5]) is not None
    assert smoothness([0] * 9) is None
    assert smoothness([]) is None


def test_empty_seconds_are_those_without_any_transaction():
    assert smoothness([0, 0, 1, 2, 0, 3]).empty == 3
    assert smoothness([1, 1, 1, 1, 1]).empty == 0
    assert smoothness([1, 1, 1, 1, 1]).cv == 0


@pytest.mark.requirement("R-MON-09")
@given(st.lists(st.floats(1, 1e6), min_size=5, max_size=50), st.floats(0.01, 100))
def test_smoothness_does_not_depend_on_the_unit(counts, factor):
    scaled = smoothness([count * factor for count in counts])
    assert scaled.cv == pytest.approx(smoothness(counts).cv, rel=1e-6, abs=1e-9)


@given(st.lists(st.floats(1, 1e6), min_size=5, max_size=50), st.randoms())
def test_smoothness_does_not_depend_on_the_order(counts, chance):
    shuffled = list(counts)
    chance.shuffle(shuffled)
    assert smoothness(shuffled).cv == pytest.approx(smoothness(counts).cv, rel=1e-6, abs=1e-9)
