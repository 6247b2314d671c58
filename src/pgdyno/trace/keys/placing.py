"""Statements that committed by themselves, found by their time: the simple protocol logs them without a transaction id.

A commit is a statement's where it lies within the statement's time, no other one on the same table does, and no other
statement on that table has it within its own. Whatever is less certain is left out. Pure.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

SLACK_US = 1000
"""A log tells the end of a statement in whole milliseconds."""


class TimedInsert(NamedTuple):
    """A statement that inserts into a table and was its whole transaction; in us since 1970."""

    place: int
    table: str
    begin: int
    end: int


def placed(
    inserts: Sequence[TimedInsert], commits: Mapping[str, Sequence[tuple[int, int]]]
) -> Iterator[tuple[int, int]]:
    """Give the place of a statement and the number of the commit that is its own; commits by table as (us, number)."""
    found = list[tuple[int, int]]()
    for one in inserts:
        ordered = commits.get(one.table, ())
        begin = bisect_left(ordered, (one.begin - SLACK_US, -1))
        end = bisect_right(ordered, (one.end + SLACK_US, 1 << 62))
        found += [(one.place, number) for _, number in ordered[begin:end]]
    places, numbers = Counter(place for place, _ in found), Counter(number for _, number in found)
    yield from ((place, number) for place, number in found if places[place] == numbers[number] == 1)
