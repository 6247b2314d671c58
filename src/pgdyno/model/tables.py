"""Read the tables of files that people write, TOML or JSON, into our dataclasses. Pure.

The fields of a dataclass are the keys of a table. A slip is refused with its place, key and value: nothing that was
typed is passed over.
"""

from __future__ import annotations

import math
import types
from collections.abc import Collection, Iterable, Mapping
from dataclasses import MISSING, is_dataclass
from difflib import get_close_matches
from enum import Enum
from typing import Any, NoReturn, TypeVar, Union, cast

from pgdyno.errors import UsageError, placed
from pgdyno.model.shapes import Annotation, JsonMember, members_of, taken_apart
from pgdyno.outside.documents import load_toml

T = TypeVar("T")
Table = Mapping[str, object]
_KINDS = {dict: "a table", list: "an array", str: "text", bool: "true or false", int: "a number", float: "a number"}
_LISTS = {str: "text", int: "whole numbers", float: "numbers"}


def toml_of(text: str, source: str) -> Table:
    """Return a TOML document. Raises UsageError that names the source."""
    try:
        document: Table = load_toml(text)
    except ValueError as error:
        raise UsageError(f"{source}: not TOML: {error}") from error
    return document


def read_table(kind: type[T], table: object, where: str) -> T:
    """Return a table as a dataclass. Raises UsageError."""
    return kind(**fields_of(kind, table, where))


def keys_of(kind: type[object]) -> list[str]:
    """Return the keys that a table of this dataclass may have."""
    return [one.key for one in members_of(cast(Annotation, kind))]


def fields_of(kind: type[object], table: object, where: str, only: Collection[str] = ()) -> dict[str, Any]:
    """Return the values of a table by the names of the fields; `only` narrows them to some of the dataclass.

    `kind` is the dataclass, `table` a parsed document's table, `where` the place that errors begin with; an empty
    `only` means all fields. Raises UsageError on what is no table, on a key that is no field, on a value of another
    type, and where one without a default is missing.
    """
    known = {one.key: one for one in members_of(cast(Annotation, kind)) if not only or one.name in only}
    given = table_of(table, where, known)
    missing = next((one.key for one in known.values() if one.default is MISSING and one.key not in given), None)
    if missing is not None:
        raise UsageError(f'{where}: "{missing}" is missing')
    return {known[key].name: _value(known[key], value, where) for key, value in given.items()}


def table_of(table: object, where: str, keys: Iterable[str]) -> Table:
    """Return a table that has no other keys than these. Raises UsageError."""
    if not isinstance(table, dict):
        raise UsageError(f"{where} is not a table")
    names = list(keys)
    for key in table:
        if key not in names:
            raise UsageError(f'{where}: unknown key "{key}"', hint=near_hint(key, names))
    return table


def tables_of(table: Table, key: str, where: str) -> list[tuple[Table, str]]:
    """Return the tables of an array of tables, each with its place: its name, or its number. Raises UsageError."""
    rows = table.get(key, [])
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise UsageError(f"{where}: {key} is not a list of tables", hint=f"Write each as [[{key}]].")
    return [
        (row, f'{where}: {key} "{row["name"]}"' if isinstance(row.get("name"), str) else f"{where}: {key} {number}")
        for number, row in enumerate(rows, 1)
    ]


def is_version(found: object, known: int) -> bool:
    """Tell whether this is the version of a document's form: `true` equals 1 and is no version."""
    return type(found) is int and found == known


def near_hint(word: str, names: Iterable[str]) -> str:
    """Return a hint with the name that comes nearest, and all of them."""
    known = list(names)
    near = get_close_matches(word, known, n=1)
    return f"{f'Did you mean {near[0]}? ' if near else ''}There are {', '.join(known)}."


def one_of(value: str, words: Iterable[str], key: str, where: str) -> str:
    """Return a word that is one of these. Raises UsageError that begins with `where`, the place of `key`.

    `value` is what was written under `key`, `words` are the ones allowed there, all of which the error lists.
    """
    known = list(words)
    if value not in known:
        raise UsageError(f'{where}: {key} "{value}" is not one of {", ".join(known)}')
    return value


def _value(field: JsonMember, value: object, where: str) -> object:
    hint, key = field.hint, field.key
    origin, parts = taken_apart(hint)
    if origin in (Union, types.UnionType):
        if value is None and type(None) in parts:
            return None
        hints = [part for part in parts if part is not type(None)]
        if len(hints) > 1:
            return value if type(value) in hints else _refuse(value, str, key, where)
        hint = hints[0]
        origin, parts = taken_apart(hint)
    if origin is tuple:
        return _row(parts[0], value, key, where)
    if origin is not None and issubclass(origin, Mapping):
        return _texts(parts[1], value, key, where)
    if hasattr(hint, "FORM"):
        with placed(f"{where}: {key}"):
            return hint.of_form(_plain(hint.FORM, value, key, where))
    if is_dataclass(hint):
        return read_table(cast(Annotation, hint), value, f"{where}: {key}")
    if issubclass(hint, Enum):
        return hint(one_of(str(_plain(str, value, key, where)), (one.value for one in hint), key, where))
    return _plain(hint, value, key, where)


def _row(hint: Annotation, value: object, key: str, where: str) -> tuple[object, ...]:
    if is_dataclass(hint):
        return tuple(
            read_table(cast(Annotation, hint), row, place) for row, place in tables_of({key: value}, key, where)
        )
    if not isinstance(value, list):
        _refuse(value, list, key, where)
    if not all(_fits(hint, one) for one in value):
        raise UsageError(f'{where}: "{key}" is not a list of {_LISTS[hint]}')
    return tuple(value)


def _texts(hint: Annotation, value: object, key: str, where: str) -> dict[str, object]:
    if not isinstance(value, dict):
        _refuse(value, dict, key, where)
    for name, one in value.items():
        if not isinstance(one, str if hint is str else str | int | float):
            raise UsageError(f'{where}: {name} in "{key}" is not text', hint=f'Write {name} = "{one}".')
    return value


def _plain(kind: type, value: object, key: str, where: str) -> object:
    if not _fits(kind, value):
        _refuse(value, kind, key, where)
    return float(value) if kind is float and isinstance(value, int) else value


def _fits(kind: type, value: object) -> bool:
    if kind is float:
        return type(value) is int or (type(value) is float and math.isfinite(value))
    return type(value) is kind  # not isinstance: true is not a number


def _refuse(value: object, kind: type, key: str, where: str) -> NoReturn:
    found = _KINDS.get(type(value), type(value).__name__)
    wanted = "a whole number" if kind is int else _KINDS[kind]
    raise UsageError(f'{where}: "{key}" is {found if found != wanted else repr(value)} and not {wanted}')
