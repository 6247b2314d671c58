"""Byte counts and other numbers for people."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgdyno.units import bytes_text, digits_text


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1 << 20, "1 MB"), (1010 << 20, "0.986 GB"), (188 << 30, "188 GB")],
)
def test_three_digits_and_a_unit(count, text):
    assert bytes_text(count) == text


@given(st.integers(0, 1 << 49))
def test_never_in_powers_of_ten(count):
    assert "e" not in bytes_text(count)


def test_large_numbers_are_written_in_full_and_small_ones_to_three_digits() -> None:
    found = [digits_text(value) for value in (10_000.0, 10_873.0, 316.1, 0.00353, 1e-5)]
    assert found == ["10,000", "10,900", "316", "0.00353", "1e-05"]
    assert digits_text(31_614.0, 4) == "31,610"
    assert digits_text(math.inf) == "inf"
    assert digits_text(1.4381e44, 4) == "1.438e+44", "forty digits are no figure, and cut a line of a chart"
    assert digits_text(9.96e11) == "996,000,000,000"
