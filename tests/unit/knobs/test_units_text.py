"""Byte counts and other numbers for people."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgdyno import units
from pgdyno.units import bytes_rate_text, bytes_text, digits_text, rate_text


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
    assert digits_text(4949.2, 4) == "4,949"
    assert digits_text(math.inf) == "inf"
    assert digits_text(1.4381e44, 4) == "1.438e+44", "forty digits are no figure, and cut a line of a chart"
    assert digits_text(9.96e11) == "996,000,000,000"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "less than 1"), (0.83, "less than 1"), (1.0, "1 to 2"), (2.0, "2 to 5"), (47.1, "20 to 50"),
        (49.7, "20 to 50"), (50.0, "50 to 100"), (812.0, "500 to 1,000"), (999.99, "500 to 1,000"),
        (1000.0, "1,000 to 2,000"), (123_456.0, "100,000 to 200,000"),
    ],
)  # fmt: skip
def test_a_rate_is_written_as_a_range(value: float, text: str) -> None:
    assert rate_text(value) == text


@given(st.floats(0.0, 1e12))
def test_a_rate_lies_in_its_range_and_its_neighbour_mostly_in_the_same(value: float) -> None:
    low, _, high = rate_text(value).replace("less than", "0 to").replace(",", "").partition(" to ")
    assert float(low) * (1 - 1e-9) <= value <= float(high)
    assert float(high) <= 2.5 * float(low) or float(high) == 1


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "less than 1 B"), (1.0, "1 B to 2 B"), (700.0, "500 B to 1 kB"), (1023.9, "500 B to 1 kB"),
        (1024.0, "1 kB to 2 kB"), (7.3 * 2**20, "5 MB to 10 MB"), (1010.0 * 2**20, "500 MB to 1 GB"),
        (3.0 * 2**40, "2 TB to 5 TB"),
    ],
)  # fmt: skip
def test_bytes_a_second_are_written_as_a_range(value: float, text: str) -> None:
    assert bytes_rate_text(value) == text


def test_texts_of_advice_write_no_rate_to_a_digit() -> None:
    package = Path(units.__file__).parent
    files = [*(package / "advisor").rglob("*.py"), *(package / "probes/evidence").rglob("*.py")]
    exact = re.compile(r"\{[^{}]*:[,.\d]*[fg]\}[^\"{}]*( a second|/s\b| times a minute)")
    assert len(files) > 60
    assert [(file.name, found[0]) for file in files for found in exact.finditer(file.read_text())] == []
