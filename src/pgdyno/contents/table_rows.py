"""One table on two sides: a checksum for each bucket of keys, then the rows of the buckets that differ.

The whole table is read once, and a second time only where it differs. Two rows that differ have the same hash once in
2^64.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import LiteralString, TypeAlias, TypeVar

from psycopg import sql

from pgdyno.contents.buckets import buckets_of, number_of
from pgdyno.contents.row_hash import RowHash, hashed_text, row_text
from pgdyno.contents.snapshot import must_sample
from pgdyno.contents.tables import AskRows, Params, ReadsSnapshot, StoredTable
from pgdyno.model.results.parts.contents import DifferentRow, RowIs, TableDifference

T = TypeVar("T")
Found: TypeAlias = list[tuple[object, ...]]
_MOST_ROWS = 300_000
"""AskRows of one table that are looked at one by one."""
_SPAN = "SELECT min({number}), max({number}) FROM {source}"
_BUCKETS = "SELECT {bucket}, count(*), sum({row_hash})::text FROM {source} GROUP BY 1"
_NAMED = "SELECT {key}, {row_hash} FROM {rows}"
_COUNTED = "SELECT {row_hash}, count(*) FROM {rows} GROUP BY 1"
_COLUMNS = "SELECT {key}, {hashes} FROM {rows} AND {key} = ANY ({keys})"


@dataclass(frozen=True, slots=True)
class TwoSides:
    """A session on each side, both in their snapshots, and the hash that both make alike."""

    a: ReadsSnapshot
    b: ReadsSnapshot
    row_hash: RowHash

    def ask(self, query: LiteralString | sql.Composed, params: Params = None) -> tuple[Found, Found]:
        """Return the rows of both sides, which are asked at the same time."""
        return self.both(lambda rows: rows(query, params))

    def both(self, ask: Callable[[ReadsSnapshot], T]) -> tuple[T, T]:
        """Return what both sides say, asked at the same time."""
        with ThreadPoolExecutor(1) as beside:
            other = beside.submit(ask, self.b)
            return ask(self.a), other.result()

    def end(self) -> None:
        """Cancel what both sides run; from another thread than the one that asks."""
        self.a.end()
        self.b.end()


def compare_table(sides: TwoSides, table: StoredTable, *, examples: int) -> tuple[int, TableDifference | None]:
    """Return how many rows A has, and how B differs; None where it holds the same rows.

    Reads the table once; where it differs, also the buckets that do. At most `examples` rows are named; none where
    naming them would run code of others.
    """
    if table.code:
        return _compare_copies(sides, table)
    is_sampled = any(sides.both(must_sample))
    parts = buckets_of(table, sides.row_hash, None if is_sampled else _span(sides, table), is_sampled=is_sampled)
    whole = sides.row_hash.of(hashed_text(table.names))
    first, second = (
        {int(str(bucket)): (int(str(count)), total) for bucket, count, total in rows}
        for rows in sides.ask(sql.SQL(_BUCKETS).format(bucket=parts.bucket, row_hash=whole, source=parts.source))
    )
    rows_a, rows_b = (sum(count for count, _ in side.values()) for side in (first, second))
    differing = sorted(bucket for bucket in first.keys() | second.keys() if first.get(bucket) != second.get(bucket))
    if not differing:
        return rows_a, None
    chosen, looked = list[int](), 0
    for bucket in differing:
        if chosen and looked >= _MOST_ROWS:
            break
        looked += max(side.get(bucket, (0, None))[0] for side in (first, second))
        chosen.append(bucket)
    rows, found = parts.within(chosen), list[DifferentRow]()
    if table.key:
        found = _by_key(*sides.ask(sql.SQL(_NAMED).format(key=row_text(table.key), row_hash=whole, rows=rows)))
        counts = Counter(row.what for row in found)
    else:
        counts = _by_count(*sides.ask(sql.SQL(_COUNTED).format(row_hash=whole, rows=rows)))
    return rows_a, TableDifference(
        table=table.text,
        rows_a=rows_a,
        rows_b=rows_b,
        missing=counts[RowIs.MISSING],
        extra=counts[RowIs.EXTRA],
        changed=counts[RowIs.CHANGED],
        is_at_least=len(chosen) < len(differing),
        examples=_with_columns(sides, table, rows, found[:examples]),
        note="" if table.key else "it has no primary key by which its rows could be named",
    )


def _compare_copies(sides: TwoSides, table: StoredTable) -> tuple[int, TableDifference | None]:
    generated = frozenset[str]().union(*sides.both(lambda rows: generated_columns(rows, table)))
    columns = [name for name in table.names if name not in generated]
    (rows_a, a), (rows_b, b) = sides.both(lambda rows: copied_rows(rows, table, columns))
    if (rows_a, a) == (rows_b, b):
        return rows_a, None
    return rows_a, TableDifference(
        table=table.text,
        rows_a=rows_a,
        rows_b=rows_b,
        missing=max(rows_a - rows_b, 0),
        extra=max(rows_b - rows_a, 0),
        changed=int(rows_a == rows_b),
        is_at_least=True,
        note=f"none is named, because that would run function {table.code} with the rights of this role",
    )


def _span(sides: TwoSides, table: StoredTable) -> tuple[int, int] | None:
    """Return the least and the greatest number of the key on both sides, None where it has none."""
    number = number_of(table)
    if number is None:
        return None
    source = sql.SQL("ONLY {} AS t").format(sql.Identifier(table.schema, table.name))
    sides_found = sides.ask(sql.SQL(_SPAN).format(number=sql.Identifier("t", number), source=source))
    ends = [int(str(end)) for (row,) in sides_found for end in row if end is not None]
    return (min(ends), max(ends)) if ends else (0, 0)


def _by_key(first: Found, second: Found) -> list[DifferentRow]:
    found = list[DifferentRow]()
    left, right = ({row[0]: row[1] for row in side} for side in (first, second))
    for key in sorted(left.keys() | right.keys(), key=str):
        if key not in right:
            what = RowIs.MISSING
        elif key not in left:
            what = RowIs.EXTRA
        elif left[key] != right[key]:
            what = RowIs.CHANGED
        else:
            continue
        found.append(DifferentRow(str(key), what))
    return found


def _by_count(first: Found, second: Found) -> Counter[RowIs]:
    left, right = (Counter({row_hash: int(str(count)) for row_hash, count in side}) for side in (first, second))
    return Counter({RowIs.MISSING: (left - right).total(), RowIs.EXTRA: (right - left).total()})


def _with_columns(
    sides: TwoSides, table: StoredTable, rows: sql.Composed, found: list[DifferentRow]
) -> tuple[DifferentRow, ...]:
    """Return what was found with the columns that differ, where a row is on both sides."""
    changed = [row.key for row in found if row.what is RowIs.CHANGED]
    others = [name for name in table.names if name not in table.key]
    if not changed or not others:
        return tuple(found)
    query = sql.SQL(_COLUMNS).format(
        key=row_text(table.key),
        hashes=sql.SQL(", ").join(sides.row_hash.of(hashed_text([name])) for name in others),
        rows=rows,
        keys=changed,
    )
    first, second = ({key: hashes for key, *hashes in side} for side in sides.ask(query))
    return tuple(
        DifferentRow(
            row.key,
            row.what,
            tuple(name for name, a, b in zip(others, first[row.key], second[row.key], strict=True) if a != b),
        )
        if row.key in first and row.key in second
        else row
        for row in found
    )


_GENERATED = """
SELECT attname FROM pg_attribute JOIN pg_class AS c ON c.oid = attrelid JOIN pg_namespace AS n ON n.oid = relnamespace
WHERE nspname = %s AND relname = %s AND attgenerated <> '' AND NOT attisdropped
"""
_DIGEST_BYTES = 16


def generated_columns(rows: AskRows, table: StoredTable) -> frozenset[str]:
    """Return the columns that follow from others, which COPY leaves out."""
    return frozenset(str(name) for (name,) in rows(_GENERATED, [table.schema, table.name]))


def copied_rows(rows: ReadsSnapshot, table: StoredTable, columns: Sequence[str]) -> tuple[int, int]:
    """Return how many rows a table has, and the sum of their hashes: the same for the same rows in any order.

    COPY plans nothing, and so runs no function of whoever owns the table. It costs more: the rows come over the
    network, and are hashed here.
    """
    names = sql.SQL(" ({})").format(sql.SQL(", ").join(map(sql.Identifier, columns))) if columns else sql.SQL("")
    query = sql.SQL("COPY {}{} TO STDOUT").format(sql.Identifier(table.schema, table.name), names)
    count = total = 0
    for row in rows.copied(query):
        count += 1
        total += int.from_bytes(hashlib.blake2b(row, digest_size=_DIGEST_BYTES).digest())
    return count, total % (1 << 8 * _DIGEST_BYTES)
