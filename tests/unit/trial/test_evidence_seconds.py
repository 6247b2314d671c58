"""Which seconds of a run tell how even it was: those that lie wholly in its window."""

from __future__ import annotations

import pytest

from pgdyno.model.samples import HistogramRow
from pgdyno.trial.run_evidence import _per_second


def rows(seconds: range, count: int) -> list[HistogramRow]:
    return [HistogramRow(second, 0, "s", count, 1, 1, 1, 1, b"") for second in seconds]


@pytest.mark.parametrize(
    ("begin", "end", "whole"),
    [(10.4, 15.7, range(11, 15)), (10.0, 15.0, range(10, 15)), (10.1, 10.9, range(0)), (10.9, 12.0, range(11, 12))],
)
def test_a_second_that_the_window_cuts_is_left_out(begin: float, end: float, whole: range) -> None:
    """The begin of a window would look like a stall, whatever the load did."""
    assert _per_second(rows(range(20), 100), begin, end) == dict.fromkeys(whole, 100.0)


def test_a_second_without_any_transaction_counts_and_those_of_all_generators_add_up() -> None:
    given = [*rows(range(10, 12), 7), *rows(range(10, 11), 5)]
    assert _per_second(given, 10.0, 13.0) == {10: 12.0, 11: 7.0, 12: 0.0}
