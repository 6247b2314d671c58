"""The table of the YBIO shape: every key once, scattered over the table at random, in one pass without a sort."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import psycopg
from numpy.typing import NDArray
from psycopg import sql

from pgdyno.target.postgres import query_error
from pgdyno.workloads.dataset import TOLD_EVERY_PCT, LoadSite

MOST_ROWS = 1 << 31
"""The products of the permutation stay within 63 bits up to here."""
BATCH = 100_000
_MULTIPLIERS = (1540483477, 1779033703, 668265263)
_COPY_HEADER = b"PGCOPY\n\xff\r\n\x00" + bytes(8)
_COPY_TRAILER = b"\xff\xff"
_COPY_ROW = np.dtype(
    [
        *(("columns", ">i2"), ("key_bytes", ">i4"), ("mykey", ">i8")),
        *(("scratch_bytes", ">i4"), ("scratch", ">i8"), ("filler_bytes", ">i4")),
    ]
)


@dataclass(frozen=True, slots=True)
class YbioTable:
    """The table: `mykey` 1 to `rows` with an index, `scratch`, and `filler` blanks, in random physical order."""

    table: str
    rows: int
    filler: int

    @property
    def identity(self) -> str:
        """Return the text that determines the data."""
        return f"ybio table={self.table} rows={self.rows} filler={self.filler}"

    def load(self, site: LoadSite) -> None:
        """Create and fill the table in one transaction, by COPY with FREEZE, then build the index.

        YBIO commits each batch; here the whole database is dropped when a load is interrupted, and FREEZE wants the
        table's own transaction: a third of the WAL, and nothing left for VACUUM to write.
        """
        table = sql.Identifier(self.table)
        columns = sql.SQL("mykey bigint NOT NULL, scratch bigint NOT NULL, filler char({})").format(self.filler)
        with site.postgres.connect() as connection:
            try:
                with connection.transaction():
                    connection.execute(sql.SQL("CREATE TABLE {} ({})").format(table, columns))
                    self._copy(connection.cursor(), table, site.progress)
                site.progress(f"loading {self.table}: index on mykey")
                connection.execute("SET maintenance_work_mem = '256MB'")
                connection.execute(sql.SQL("CREATE INDEX ON {} (mykey)").format(table))
            except psycopg.Error as error:
                raise query_error(site.target.postgres.label, error) from error

    def _copy(
        self, cursor: psycopg.Cursor[dict[str, object]], table: sql.Identifier, progress: Callable[[str], None]
    ) -> None:
        statement = sql.SQL("COPY {} FROM STDIN (FORMAT binary, FREEZE)").format(table)
        done, told = 0, 0
        with cursor.copy(statement) as copy:
            copy.write(_COPY_HEADER)
            for keys, scratch in scattered_keys(self.rows):
                copy.write(_copy_rows(keys, scratch))
                done += len(keys)
                percent = 100 * done // self.rows
                if percent // TOLD_EVERY_PCT > told // TOLD_EVERY_PCT:
                    told = percent
                    progress(f"loading {self.table}, {self.rows:,} rows: {percent} %")
            copy.write(_COPY_TRAILER)


def scattered_keys(rows: int) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Yield the keys 1 to `rows` in their physical order, in batches, each with its rising `scratch` values.

    A key is a permutation of a counter over 2^bits: odd multipliers modulo a power of two and xor-shifts are each a
    bijection, so every key comes exactly once; values past `rows` are left out. Consecutive keys land on pages as if
    these were drawn at random. `rows` is at most 2^31.
    """
    bits = max(2, (rows - 1).bit_length())
    mask, shift = (1 << bits) - 1, bits // 2
    for first in range(0, 1 << bits, BATCH):
        numbers = np.arange(first, min(first + BATCH, 1 << bits), dtype=np.int64)
        keys = numbers
        for multiplier in _MULTIPLIERS:
            keys = (keys * multiplier) & mask
            keys = keys ^ (keys >> shift)
        inside = keys < rows
        yield keys[inside] + 1, numbers[inside]


def _copy_rows(keys: NDArray[np.int64], scratch: NDArray[np.int64]) -> bytes:
    """Return rows of COPY's binary format. The filler is empty: the server pads char(n) with blanks."""
    rows = np.zeros(len(keys), _COPY_ROW)
    rows["columns"], rows["key_bytes"], rows["scratch_bytes"] = 3, 8, 8
    rows["mykey"], rows["scratch"] = keys, scratch
    return rows.tobytes()
