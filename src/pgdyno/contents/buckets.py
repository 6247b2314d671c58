"""Parts of a table that are compared as one: ranges of a whole number in its key, else of the hash of its key. Pure.

By ranges the rows of a part that differs are found by the key's index; by hashes the table is read once more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from psycopg import sql

from pgdyno.contents.row_hash import RowHash, hashed_text
from pgdyno.contents.snapshot import EVERY_ROW
from pgdyno.contents.tables import StoredTable

_ROWS_A_BUCKET = 256
_MOST_BITS = 16
_NUMBERS = frozenset({"smallint", "integer", "bigint"})


@dataclass(frozen=True, slots=True)
class Buckets:
    """How a table is parted: by `shift` bits of `number`, a column of its key, or by the hash of all of its key.

    One that `is_sampled` is read as `EVERY_ROW`, without an index, and so by hashes.
    """

    table: StoredTable
    row_hash: RowHash
    number: str | None
    shift: int
    bits: int
    is_sampled: bool = False

    @property
    def bucket(self) -> sql.Composed:
        """Return the expression of the bucket of a row of the table that is called t."""
        if self.number is not None:
            return sql.SQL("({}::pg_catalog.int8 >> {})").format(sql.Identifier("t", self.number), self.shift)
        key = self.table.key or self.table.names
        return sql.SQL("({} & {})").format(self.row_hash.of(hashed_text(key)), (1 << self.bits) - 1)

    @property
    def source(self) -> sql.Composed:
        """Return the table as t, to stand after FROM."""
        table = sql.SQL("ONLY {} AS t").format(sql.Identifier(self.table.schema, self.table.name))
        return table + EVERY_ROW if self.is_sampled else table

    def within(self, buckets: Sequence[int]) -> sql.Composed:
        """Return the rows of these buckets, in order, as t: to stand after FROM, and a condition may follow."""
        if self.number is None:
            return sql.SQL("{} WHERE {} = ANY ({}::pg_catalog.int8[])").format(self.source, self.bucket, list(buckets))
        lows, highs = list[int](), list[int]()
        for bucket in buckets:
            low = bucket << self.shift
            if highs and highs[-1] == low - 1:
                highs[-1] = low + (1 << self.shift) - 1
            else:
                lows.append(low)
                highs.append(low + (1 << self.shift) - 1)
        return sql.SQL(
            "{}, unnest({}::pg_catalog.int8[], {}::pg_catalog.int8[]) AS r (low, high)"
            " WHERE {} BETWEEN r.low AND r.high"
        ).format(self.source, lows, highs, sql.Identifier("t", self.number))


def number_of(table: StoredTable) -> str | None:
    """Return the first column of the key if it is a whole number: its index finds ranges of it."""
    types = dict(table.columns)
    return table.key[0] if table.key and types[table.key[0]] in _NUMBERS else None


def buckets_of(
    table: StoredTable, row_hash: RowHash, span: tuple[int, int] | None, *, is_sampled: bool = False
) -> Buckets:
    """Return how a table is parted; `span` is the least and greatest value of its number on both sides, if any.

    By hashes of the key, which `row_hash` makes, where `span` is None or the `table` `is_sampled`: that is read as
    `EVERY_ROW`, without an index.
    """
    bits = min(_MOST_BITS, (max(table.rows, 0) // _ROWS_A_BUCKET).bit_length())
    if span is None or is_sampled:
        return Buckets(table, row_hash, None, 0, bits, is_sampled)
    return Buckets(table, row_hash, number_of(table), max(0, (span[1] - span[0]).bit_length() - bits), bits)
