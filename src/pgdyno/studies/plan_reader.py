"""Reads the TOML tables of a plan strictly, and says of each slip on which line it is. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TypeVar

from pgdyno.errors import UsageError
from pgdyno.model.tables import Table, fields_of, is_version, table_of
from pgdyno.outside.toml_lines import TableLines, TomlLines
from pgdyno.units import parse_quantity

T = TypeVar("T")


class PlanReader:
    """Reads the tables of one text, and says of each slip on which line it is."""

    def __init__(self, source: str) -> None:
        self._source = source

    def fields(self, kind: type[T], table: Table, lines: TableLines, place: str, below: tuple[str, ...] = ()) -> T:
        """Return a table as a dataclass; the tables `below` it are left for others to read."""
        own = {key: value for key, value in table.items() if key not in below}
        for key in own:
            with self.at(lines.of(key), place) as where:
                table_of({key: None}, where, [*kind.__dataclass_fields__, *below])  # type: ignore[attr-defined]
                fields_of(kind, {key: own[key]}, where, (key,))
        with self.at(lines.line, place) as where:
            return kind(**fields_of(kind, own, where))

    @contextmanager
    def at(self, line: int, place: str) -> Iterator[str]:
        """Yield the words for a place, and put them before an error that lacks them."""
        where = f"{self._source}: line {line}{f': {place}' if place else ''}"
        try:
            yield where
        except UsageError as error:
            if not error.message.startswith(where):
                raise UsageError(f"{where}: {error.message}", detail=error.detail, hint=error.hint) from error
            raise

    def seconds(self, text: str, key: str, lines: TableLines, place: str) -> float | None:
        """Return a time such as `5min`, None where none was given."""
        if not text:
            return None
        with self.at(lines.of(key), place):
            hint = "Write it with a unit of time: 30s, 5min, 15h, 3d."
            try:
                found = parse_quantity(text, "s")
            except UsageError as error:
                raise UsageError(f"{key}: {error.message}", hint=hint) from error
            if found < 0 or not text.strip()[-1].isalpha():
                raise UsageError(f'{key} "{text}" is not a time with a unit', hint=hint)
            return found

    def within(self, value: int, key: str, low: int, high: int, lines: TableLines, place: str) -> int:
        """Return a number that lies between two bounds."""
        with self.at(lines.of(key), place):
            if not low <= value <= high:
                raise UsageError(f"{key} {value} is not from {low} to {high}")
        return value

    def percent(
        self, text: str, key: str, low: float, high: float, lines: TableLines, place: str, what: str = "a per cent"
    ) -> float:
        """Return a number such as of `10 %` that lies between two bounds, in per cent."""
        with self.at(lines.of(key), place):
            try:
                found = float(text.strip().removesuffix("%")) if text.strip().endswith("%") else math.nan
            except ValueError:
                found = math.nan
            if not low <= found <= high:
                raise UsageError(
                    f'{key} "{text}" is not {what} from {low:g} % to {high:g} %', hint='Write it as "10 %".'
                )
        return found

    def head(
        self,
        document: Mapping[str, object],
        lines: TomlLines,
        keys: tuple[str, ...],
        needed: tuple[str, ...],
        version: int,
    ) -> None:
        """Refuse unknown and missing keys of the file, and another version of its form."""
        for key in document:
            with self.at(lines.of(key, 0).line if key not in lines.of().keys else lines.of().of(key), ""):
                table_of({key: None}, "the file", keys)
        with self.at(1, ""):
            for key in needed:
                if not document.get(key):
                    raise UsageError(f'"{key}" is missing')
        with self.at(lines.of().of("version"), ""):
            if not is_version(document["version"], version):
                raise UsageError(f"version {document['version']} is not {version}", hint="Upgrade pgdyno.")
