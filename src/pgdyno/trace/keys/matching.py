"""Which INSERT of a transaction made which of its keys, and where in the answer each of them comes back. Pure.

A commit order has the keys of a transaction table by table, in the order in which its rows were made, without the
statements. Where the texts say how many rows each INSERT makes, or one alone does not, the keys fall to them in order.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from pgdyno.errors import UsageError
from pgdyno.model.shapes import shaped
from pgdyno.outside.documents import load_json
from pgdyno.trace.keys.mentions import ALL, Insertion, Mention, key_text
from pgdyno.trace.schema import KeyLink, KeyTable

KeyColumn: TypeAlias = tuple[str, str]
"""A table and a column."""
KeysTold = tuple[tuple[str, Mapping[str, str | None]], ...]
NO_INSERT = "no INSERT of the trace made them: a function, a trigger or a partition's own name"
UNCERTAIN = "several INSERTs of the transaction may have made them"
NOT_RETURNED = "their INSERT does not return them"
UNREAD = "an INSERT of the transaction is too long to be read"
SEVERAL_TABLES = "tables of this name are in several schemas"
_SAVEPOINT = re.compile(r'\s*savepoint\s+("(?:[^"]|"")+"|\w+)', re.IGNORECASE)
_BACK = re.compile(
    r'\s*rollback\s+(?:(?:work|transaction)\s+)?to\s+(?:savepoint\s+)?("(?:[^"]|"")+"|\w+)', re.IGNORECASE
)


class KeyedRow(NamedTuple):
    """What of a trace's row matters here; those of one transaction come together, in their order."""

    session: int
    seq: int
    tx: int
    database: str
    sql: str
    is_failed: bool
    keys: str | None


class MadeKey(NamedTuple):
    """A key that the server made, and where the answer of its INSERT has it: which row, which field, from 0.

    The field is -1 where the INSERT does not return it.
    """

    session: int
    seq: int
    database: str
    table: str
    column: str
    value: str
    row: int
    field: int


@dataclass(frozen=True, slots=True)
class KeyNames:
    """Tables, their columns, and which columns hold keys of which others."""

    tables: tuple[KeyTable, ...]
    links: tuple[KeyLink, ...]

    @property
    def columns(self) -> frozenset[tuple[str, tuple[str, ...]]]:
        """Return the columns of each table whose name says which it is."""
        counts = Counter(one.name for one in self.tables)
        return frozenset((one.name, one.columns) for one in self.tables if counts[one.name] == 1)

    def roots(self) -> Mapping[KeyColumn, KeyColumn]:
        """Return for each column that holds keys the one that they were made for, itself included."""
        counts = Counter(one.name for one in self.tables)
        found = {(one.name, name): (one.name, name)
                 for one in self.tables if counts[one.name] == 1 for name in one.generated}  # fmt: skip
        for _ in self.links:  # a link may lead to another one
            for link in self.links:
                key = (link.key_table, link.key_column)
                if key in found:
                    found.setdefault((link.table, link.column), found[key])
        return found


def keys_in(told: str) -> KeysTold:
    """Return the keys of a row: tables with their columns, as the commit order of a capture has them.

    Raises UsageError on anything else: a trace may be a stranger's.
    """
    try:
        return shaped(KeysTold, load_json(told), "what a transaction made")
    except ValueError as error:
        raise UsageError(
            "the keys in the trace cannot be read", detail=str(error), hint="Make the trace anew: pgdyno trace build."
        ) from error


def made_keys(
    transaction: Sequence[KeyedRow], keys: Iterable[tuple[str, Mapping[str, str | None]]], names: KeyNames,
    without: Counter[str],
) -> Iterator[MadeKey]:  # fmt: skip
    """Give the keys of one transaction by their INSERT; `without` counts by reason those that no answer brings back.

    `transaction` has its rows in their order. `keys`, as `keys_in` returns them, has an entry for each row that was
    made: its table and its values by column, names as the server quotes them. `names` has the tables of the source.
    """
    columns = dict(names.columns)
    by_table = dict[str, list[Mapping[str, str | None]]]()
    for qualified, values in keys:
        by_table.setdefault(plain_name(qualified), []).append(values)
    has_unread = any(_is_unread_insert(row, names) for row in transaction)
    for table, rows in by_table.items():
        count = sum(value is not None for values in rows for value in values.values())
        made = [(row, one) for row, one in _inserts(transaction, names) if one.table == table]
        sizes = [one.rows for _, one in made]
        open_, known = sizes.count(None), sum(size or 0 for size in sizes)
        if sum(one.name == table for one in names.tables) > 1:
            without[SEVERAL_TABLES] += count
        elif has_unread:
            without[UNREAD] += count
        elif not made or (not open_ and known < len(rows)):
            without[NO_INSERT] += count
        elif open_ > 1 or known > len(rows) or (not open_ and known != len(rows)):
            without[UNCERTAIN] += count
        else:
            rest, at = len(rows) - known, 0
            for row, one in made:
                size = rest if one.rows is None else one.rows
                yield from _returned(row, one, rows[at : at + size], table, columns.get(table, ()), without)
                at += size


def _is_unread_insert(row: KeyedRow, names: KeyNames) -> bool:
    return not row.is_failed and "insert" in row.sql.lower() and key_text(row.sql, names.columns).is_unread


def _inserts(transaction: Sequence[KeyedRow], names: KeyNames) -> list[tuple[KeyedRow, Insertion]]:
    """Return the INSERTs whose rows were committed, in their order."""
    found, points = list[tuple[KeyedRow, Insertion]](), dict[str, int]()
    for row in transaction:
        if row.is_failed:
            continue
        if point := _SAVEPOINT.match(row.sql):
            points[point[1].lower()] = len(found)
        elif back := _BACK.match(row.sql):
            del found[points.get(back[1].lower(), len(found)) :]
        else:
            text = key_text(row.sql, names.columns)
            hidden = [Insertion(one.table, None, ()) for one in text.inserts]
            found.extend((row, one) for one in (text.inserts if text.is_single else hidden))
    return found


def _returned(
    row: KeyedRow, insert: Insertion, rows: Sequence[Mapping[str, str | None]], table: str,
    columns: tuple[str, ...], without: Counter[str],
) -> Iterator[MadeKey]:  # fmt: skip
    fields = _fields(insert, columns)
    for number, values in enumerate(rows):
        for quoted, value in values.items():
            column = plain_name(quoted)
            if value is None:
                continue
            if column not in fields:
                without[NOT_RETURNED] += 1
            yield MadeKey(row.session, row.seq, row.database, table, column, value, number, fields.get(column, -1))


def _fields(insert: Insertion, columns: tuple[str, ...]) -> dict[str, int]:
    """Return the number of the field of each column that is returned, as far as it is known."""
    found, at = dict[str, int](), 0
    for name in insert.returned:
        if name == ALL and not columns:
            break
        for one in columns if name == ALL else (name,):
            if one is not None:
                found.setdefault(one, at)
            at += 1
    return found


def root_of(mention: Mention, roots: Mapping[KeyColumn, KeyColumn]) -> KeyColumn | None:
    """Return whose keys a mentioned column holds; None where it holds none, or nobody can tell which."""
    found = {roots[table, mention.column] for table in mention.tables if (table, mention.column) in roots}
    return found.pop() if len(found) == 1 else None


def plain_name(quoted: str) -> str:
    """Return the last part of a name that the server quoted, without its quotes."""
    if quoted.endswith('"'):
        begin = quoted.rfind('"', 0, -1)
        while begin > 0 and quoted[begin - 1] == '"':
            begin = quoted.rfind('"', 0, begin - 1)
        return quoted[begin + 1 : -1].replace('""', '"')
    return quoted.rpartition(".")[2]
