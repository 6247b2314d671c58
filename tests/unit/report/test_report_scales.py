"""Bounds and ticks of axes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pgdyno.report.scales import log_bounds, nice_bounds, ticks, zero_based

positive = st.floats(1e-6, 1e9)
anything = st.floats(-1e9, 1e9)


@given(st.lists(anything, min_size=1))
def test_nice_bounds_hold_every_value(values: list[float]) -> None:
    lo, hi = nice_bounds(values)
    slack = 1e-6 * (hi - lo)
    assert lo < hi
    assert lo - slack <= min(values)
    assert max(values) <= hi + slack


@given(st.lists(positive, min_size=1))
def test_log_bounds_hold_every_value(values: list[float]) -> None:
    lo, hi = log_bounds(values)
    assert 0 < lo < hi
    assert lo <= min(values) * 1.001
    assert max(values) <= hi * 1.001


@given(positive, positive)
def test_a_log_axis_has_ticks_inside_its_bounds(a: float, b: float) -> None:
    lo, hi = log_bounds([a, b])
    found = ticks(lo, hi, "log")
    assert found
    assert all(lo * 0.99 <= tick <= hi * 1.01 for tick in found)


@given(anything, st.floats(1e-3, 1e9))
def test_a_linear_axis_has_some_ticks_but_not_many(lo: float, span: float) -> None:
    low, high = nice_bounds([lo, lo + span])
    assert 2 <= len(ticks(low, high, "linear")) <= 12


def test_known_bounds() -> None:
    assert nice_bounds([0.98, 3.35]) == (0.5, 3.5)
    assert zero_based([3.0, None, 92.0]) == (0.0, 100.0)
    assert zero_based([None]) == (0.0, 1.0)
    assert log_bounds([1.7, 44.0]) == (1.0, 50.0)
    assert ticks(1.0, 50.0, "log") == (1.0, 2.0, 5.0, 10.0, 20.0, 50.0)
    assert ticks(0.0, 100.0, "linear") == (0.0, 25.0, 50.0, 75.0, 100.0)
