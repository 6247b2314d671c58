"""Put what host, server and load recorded on one clock: the second that a figure is about. Pure.

A histogram row of second s holds what ended in [s, s + 1). A sample row at t holds for the interval that ends at t, and
rows are taken at whole seconds of the same clock, a little late: a row at about s + 1 is about second s.
"""

from __future__ import annotations

from collections.abc import Iterable

from pgdyno.model.sample_tables import TABLES
from pgdyno.model.samples import SampleRow

HALF = 0.5
"""A row that is later than this after a whole second is about the next one: nothing is aligned worse than by 1 s."""


def second_of(t: float) -> int:
    """Return the whole second that a sample row at `t` is about."""
    return int((t + HALF) // 1) - 1


def by_second(rows: Iterable[SampleRow], table: str, column: str) -> dict[int, float]:
    """Return a column's numbers by the second they are about; a later row of the same second wins."""
    place = TABLES[table].column_names().index(column) - 1
    found: dict[int, float] = {}
    for row in rows:
        if row.table == table and isinstance(value := row.values[place], int | float):
            found[second_of(row.t)] = float(value)
    return found
