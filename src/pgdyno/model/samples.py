"""The sample tables: one row a second (or an event) of host, server and load, joined by run id.

One definition, used by the probes that fill them, the store that keeps them and the reports that read them. Every
table has `run_id` and `t` (seconds since the epoch, of this machine's clock) before its own columns; a column that
a machine or a version does not have holds NULL, never 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

SampleValue = float | int | str | None
Kind = Literal["float", "int", "text"]


@dataclass(frozen=True, slots=True)
class Column:
    """A column: `unit` as in `MB/s`, `%`, `count`; `doc` says what it means and where it is read."""

    name: str
    kind: Kind
    unit: str
    doc: str
    key: bool = False
    """True for a column that tells the rows of one second apart, such as the device."""


@dataclass(frozen=True, slots=True)
class SampleTable:
    """A sample table. Rows are tuples in the order of `columns`, after `t`."""

    name: str
    doc: str
    columns: tuple[Column, ...]

    def column_names(self) -> tuple[str, ...]:
        """Return `t` and the names of the columns, in order."""
        return ("t", *(column.name for column in self.columns))


@dataclass(frozen=True, slots=True)
class SampleRow:
    """One row for one table: the time and the values, in the order of the table's columns."""

    table: str
    t: float
    values: tuple[SampleValue, ...]


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened at one moment: a checkpoint, a restart, a reload, a disturbed second.

    `kind` is a word for the lane of the flight recorder; `text` is for people.
    """

    t: float
    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class HistogramRow:
    """The latencies of one script in one second of one load generator: an HdrHistogram that adds over rows.

    `second` counts from the epoch; `blob` is the V2 compressed encoding in microseconds; `total_us` is the exact sum.
    Under an open loop (`LoadPlan.rate`) latency counts from the intended start, so schedule lag is inside it.
    """

    second: int
    instance: int
    script: str
    count: int
    total_us: int
    failed: int
    retried: int
    skipped: int
    blob: bytes
