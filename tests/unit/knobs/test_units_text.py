"""Byte counts for people."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgdyno.units import bytes_text


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1 << 20, "1 MB"), (1010 << 20, "0.986 GB"), (188 << 30, "188 GB")],
)
def test_three_digits_and_a_unit(count, text):
    assert bytes_text(count) == text


@given(st.integers(0, 1 << 49))
def test_never_in_powers_of_ten(count):
    assert "e" not in bytes_text(count)
