"""Reads the TOML tables of a plan strictly, and says of each slip on which line it is. Pure."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn, TypeVar

from pgdyno.errors import UsageError, placed
from pgdyno.model.tables import Table, fields_of, is_version, keys_of, near_hint, table_of, tables_of, toml_of
from pgdyno.outside.toml_lines import TomlLines
from pgdyno.units import parse_quantity

T = TypeVar("T")
Place = tuple[str | int, ...]


class PlanTable:
    """A table of one text, which knows on which line it and its keys are, and what it is called in messages."""

    def __init__(self, source: str, lines: TomlLines, table: object, at: Place = (), called: str = "") -> None:
        self._source, self._file, self._place, self._called = source, lines, at, called
        self._lines = lines.of(*at)
        if not isinstance(table, dict):
            self.refuse("", f"{at[-2]} is not a table", hint=f"Write [{at[-2]}] on a line of its own.")
        self.values: Table = table

    @classmethod
    def of_text(cls, text: str, source: str) -> PlanTable:
        """Return the whole of a file. Raises UsageError that names the source where it is not TOML."""
        return cls(source, TomlLines(text), toml_of(text, source))

    def line(self, key: str = "") -> int:
        """Return the line of a key or of a table below this one; that of the table where it has none."""
        return self._lines.keys.get(key) or self._file.of(*self._place, key, 0).line

    @contextmanager
    def at(self, key: str = "") -> Iterator[str]:
        """Yield the words for the place of a key, and put them before an error that lacks them."""
        where = f"{self._source}: line {self.line(key)}{f': {self._called}' if self._called else ''}"
        try:
            yield where
        except UsageError as error:
            if error.message.startswith(where):
                raise
            with placed(where):
                raise

    def refuse(self, key: str, message: str, hint: str | None = None) -> NoReturn:
        """Raise UsageError with the place of a key."""
        with self.at(key) as where:
            raise UsageError(f"{where}: {message}", hint=hint)

    def get(self, key: str) -> PlanTable | None:
        """Return the table below a key, None where there is none."""
        if key not in self.values:
            return None
        called = f"{self._called}: {key}" if self._called else key
        return PlanTable(self._source, self._file, self.values[key], (*self._place, key, 0), called)

    def needed(self, key: str) -> PlanTable:
        """Return the table below a key."""
        found = self.get(key)
        return self.refuse("", f'"{key}" is missing') if found is None else found

    def tables(self, key: str) -> list[PlanTable]:
        """Return the tables of an array, each called by its name, or by its number."""
        with self.at(key) as where:
            rows = tables_of(self.values, key, where)
        above = f"{self._called}: " if self._called else ""
        found = list[PlanTable]()
        for number, (row, _) in enumerate(rows):
            name = row.get("name")
            is_name = isinstance(name, str) and name.isprintable() and len(name) <= 80
            called = f'{above}{key} "{name}"' if is_name else f"{above}{key} {number + 1}"
            found.append(PlanTable(self._source, self._file, row, (*self._place, key, number), called))
        return found

    def read(self, kind: type[T], below: Collection[str] = ()) -> T:
        """Return the table as a dataclass; the tables `below` it are left for others to read."""
        return kind(**self.fields(kind, (), below))

    def fields(self, kind: type[object], only: Collection[str] = (), below: Collection[str] = ()) -> dict[str, Any]:
        """Return the values of the table by the names of a dataclass's fields; `only` narrows them to some of these."""
        own = {key: value for key, value in self.values.items() if key not in below}
        self.refuse_others([*(only or keys_of(kind)), *below])
        for key in own:
            with self.at(key) as where:
                fields_of(kind, {key: own[key]}, where, (key,))
        with self.at() as where:
            return fields_of(kind, own, where, only)

    def refuse_others(self, keys: Iterable[str]) -> None:
        """Refuse keys that are none of these."""
        known = list(keys)
        for key in self.values:
            with self.at(key) as where:
                table_of({key: None}, where if self._called else f"{where}: the file", known)

    def head(self, keys: Collection[str], needed: Iterable[str], *versions: int) -> int:
        """Refuse unknown and missing keys of a whole file, and another version of its form; return its version."""
        self.refuse_others(keys)
        for key in needed:
            self.require(key)
        version = self.values["version"]
        if not any(is_version(version, known) for known in versions):
            told = " or ".join(map(str, versions))
            self.refuse("version", f"version {version} is not {told}", hint="Upgrade pgdyno.")
        return int(str(version))

    def require(self, key: str) -> None:
        """Refuse a table without this key, or with an empty list of it."""
        if self.values.get(key, []) == []:
            self.refuse("", f'"{key}" is missing')

    def one_of(self, key: str, value: str, words: Iterable[str], what: str) -> None:
        """Refuse a word that is not one of these; `what` says of what kind it would be.

        `value` is what was written under `key`, and `words` are those allowed there. The error names the line and lists
        them.
        """
        if value not in (known := list(words)):
            self.refuse(key, f'there is no {what} "{value}"', hint=near_hint(value, known))

    def seconds(self, key: str) -> float | None:
        """Return a time such as `5min`, None where none was given."""
        text = str(self.values.get(key, ""))
        if not text:
            return None
        hint = "Write it with a unit of time: 30s, 5min, 15h, 3d."
        try:
            found = parse_quantity(text, "s")
        except UsageError as error:
            self.refuse(key, f"{key}: {error.message}", hint=hint)
        if found < 0 or not text.strip()[-1].isalpha():
            self.refuse(key, f'{key} "{text}" is not a time with a unit', hint=hint)
        return found

    def within(self, key: str, value: int, low: int, high: int) -> int:
        """Return `value`, a number from `low` to `high` inclusive. Raises UsageError that names `key` and place."""
        if not low <= value <= high:
            self.refuse(key, f"{key} {value} is not from {low} to {high}")
        return value

    def percent(self, key: str, text: str, low: float, high: float, what: str = "a per cent") -> float:
        """Return the number of a text such as `10 %`, from `low` to `high` per cent; errors call it `what`.

        `text` is what was written under `key`; both bounds are included. Raises UsageError that names the key and its
        place.
        """
        try:
            found = float(text.strip().removesuffix("%")) if text.strip().endswith("%") else math.nan
        except ValueError:
            found = math.nan
        if not low <= found <= high:
            self.refuse(key, f'{key} "{text}" is not {what} from {low:g} % to {high:g} %', hint='Write it as "10 %".')
        return found
