"""What two databases hold, compared: A is what is expected, B what was found."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from pgdyno.errors import ExitCode
from pgdyno.units import plural


class RowIs(StrEnum):
    """How a row of B stands to that of A with the same key."""

    MISSING = "missing"
    EXTRA = "extra"
    CHANGED = "changed"


@dataclass(frozen=True, slots=True)
class DifferentRow:
    """A row that differs: its key as PostgreSQL writes a row, and the columns that differ where it is in both."""

    key: str
    what: RowIs
    columns: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """Return the row in words."""
        return f"{self.key} {self.what}" + (f": {', '.join(self.columns)}" if self.columns else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class TableDifference:
    """A table that differs. `examples` are its first rows; counts are of all rows unless `is_at_least`."""

    table: str
    rows_a: int
    rows_b: int
    missing: int
    extra: int
    changed: int
    is_at_least: bool = False
    """So many rows differ that not all of them were looked at."""
    examples: tuple[DifferentRow, ...] = ()
    note: str = ""
    """Why rows cannot be named, where they cannot."""

    @property
    def rows(self) -> int:
        """Return how many rows differ."""
        return self.missing + self.extra + self.changed

    @property
    def counted(self) -> str:
        """Return how many rows differ, and how."""
        kinds = ((self.missing, "missing"), (self.extra, "extra"), (self.changed, "changed"))
        return ", ".join(f"{number:,} {word}" for number, word in kinds if number)

    @property
    def sentence(self) -> str:
        """Return the difference in words."""
        words = f"{self.table}: {'at least ' if self.is_at_least else ''}{self.rows:,} of {self.rows_a:,} rows "
        differ, note = "differs" if self.rows == 1 else "differ", f"; {self.note}" if self.note else ""
        return f"{words}{differ} ({self.counted}){note}"


@dataclass(frozen=True, slots=True)
class SequenceDifference:
    """A sequence that stands elsewhere; None where it gave out no value yet."""

    sequence: str
    value_a: int | None
    value_b: int | None

    @property
    def sentence(self) -> str:
        """Return the difference in words."""
        return f"sequence {self.sequence}: {_value(self.value_a)} expected, {_value(self.value_b)} found"


@dataclass(frozen=True, slots=True, kw_only=True)
class ContentsComparison:
    """Two databases compared. `unlike` says of tables why they could not be compared: other columns, or on one side."""

    database: str
    tables: int
    """How many were compared."""
    rows: int
    """How many rows of A they have."""
    different: tuple[TableDifference, ...] = ()
    sequences: tuple[SequenceDifference, ...] = ()
    unlike: tuple[str, ...] = ()

    @property
    def is_same(self) -> bool:
        """Return whether nothing differs."""
        return not (self.different or self.sequences or self.unlike)

    @property
    def exit_code(self) -> ExitCode:
        """Return "findings" where something differs."""
        return ExitCode.OK if self.is_same else ExitCode.FINDINGS

    def lines(self) -> Iterator[str]:
        """Return what was found in words, a line each."""
        counted = f"{plural(self.tables, 'table')} with {plural(self.rows, 'row')}"
        yield f"database {self.database}: {counted} compared, " + ("no difference" if self.is_same else "not the same")
        yield from self.unlike
        for one in self.different:
            yield one.sentence
            yield from (f"  {row.text}" for row in one.examples)
            if one.rows > len(one.examples) > 0:
                yield f"  and {one.rows - len(one.examples):,} more"
        yield from (one.sentence for one in self.sequences)


def _value(value: int | None) -> str:
    return "no value given out" if value is None else f"{value:,}"
