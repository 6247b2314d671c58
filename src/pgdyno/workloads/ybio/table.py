"""The table of the YBIO shape: every key once, scattered over the table at random, in one pass without a sort."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import psycopg
from numpy.typing import NDArray
from psycopg import sql

from pgdyno.model.loading import LoadedShare
from pgdyno.units import bytes_text
from pgdyno.workloads.dataset import LoadSite, load_error
from pgdyno.workloads.script import packaged_script

MOST_ROWS = 1 << 31
"""The products of the permutation stay within 63 bits up to here."""
BATCH = 100_000
CHUNK = 4096
"""Rows of one segment that lie together before the next segment has its turn: a megabyte or two."""
MOST_SEGMENTS = 50
_PAGE, _SHORT_VARLENA = 8192, 127
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
    """The table: `mykey` 1 to `rows` with an index, `scratch`, and `filler` blanks, in random physical order.

    The keys are cut into `segments` ranges; each has pages of its own, so that a load that is bound to the first keys
    touches as much less of the table. `called` fills it by the procedure `setup` in batches that commit, else by COPY.
    """

    table: str
    rows: int
    filler: int
    segments: int = 1
    called: tuple[str, int, int] | None = None
    """Prefix, number and batch size of the call of `setup`; None for COPY."""

    @property
    def identity(self) -> str:
        """Return the text that determines the data."""
        how = "" if self.called is None else f" setup batch_size={self.called[2]}"
        return f"ybio 2 table={self.table} rows={self.rows} filler={self.filler} segments={self.segments}{how}"

    @property
    def estimated_bytes(self) -> int:
        """Return about how large table and index become."""
        return round(self.rows * row_bytes(self.filler))

    @property
    def analysed(self) -> bool:
        """Return False: the rows come frozen, and without statistics."""
        return False

    def load(self, site: LoadSite) -> None:
        """Install `setup` and `runit`, and make the table by the one or by COPY; tell its size."""
        with site.postgres.connect() as connection:
            connection.execute(procedures().encode())
        if self.called is None:
            self._load_by_copy(site)
        else:
            self._load_by_setup(site, self.called)
        site.progress(f"{self.table}: {size_text(self.sizes(site))}")

    def sizes(self, site: LoadSite) -> tuple[int, int]:
        """Return the bytes of the table and of its indexes, as they are."""
        query = "SELECT pg_table_size(%(name)s) AS heap, pg_indexes_size(%(name)s) AS indexes"
        (row,) = site.postgres.fetch(query, {"name": self.table})
        return int(str(row["heap"])), int(str(row["indexes"]))

    def _load_by_setup(self, site: LoadSite, called: tuple[str, int, int]) -> None:
        prefix, number, batch = called
        site.progress(f"loading {self.table}, {self.rows:,} rows: setup, a commit each {batch:,} rows")
        call = sql.SQL("CALL setup({}, {}, {}, {}, {}, {})").format(
            *map(sql.Literal, (prefix, number, self.rows, batch, self.filler, self.segments))
        )
        with site.postgres.connect() as connection:
            try:
                connection.execute(call)
            except psycopg.Error as error:
                raise load_error(site, self.table, error) from error

    def _load_by_copy(self, site: LoadSite) -> None:
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
                raise load_error(site, self.table, error) from error

    def _copy(
        self, cursor: psycopg.Cursor[dict[str, object]], table: sql.Identifier, progress: Callable[[str], None]
    ) -> None:
        statement = sql.SQL("COPY {} FROM STDIN (FORMAT binary, FREEZE)").format(table)
        done, told = 0, 0
        with cursor.copy(statement) as copy:
            copy.write(_COPY_HEADER)
            for keys, scratch in scattered_keys(self.rows, self.segments):
                copy.write(_copy_rows(keys, scratch))
                done += len(keys)
                percent = 100 * done // self.rows
                if percent > told:
                    told = percent
                    progress(LoadedShare(f"loading {self.table}, {self.rows:,} rows", percent))
            copy.write(_COPY_TRAILER)


def scattered_keys(rows: int, segments: int = 1) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Yield the keys 1 to `rows` in their physical order, in batches, each with its rising `scratch` values.

    Within a segment a key is a permutation of a counter over 2^bits: odd multipliers modulo a power of two and
    xor-shifts are each a bijection, so every key comes exactly once; values past the segment are left out. Consecutive
    keys land on the segment's pages as if these were drawn at random. The segments take turns, `CHUNK` counters each.
    `rows` is at most 2^31. The procedure `setup` computes the same.
    """
    share = -(-rows // segments)
    bits = max(2, (share - 1).bit_length())
    mask, shift = (1 << bits) - 1, bits // 2
    end = 1 << bits if segments == 1 else segments * -(-(1 << bits) // CHUNK) * CHUNK
    for first in range(0, end, BATCH):
        numbers = np.arange(first, min(first + BATCH, end), dtype=np.int64)
        segment = numbers // CHUNK % segments
        keys = counters = numbers if segments == 1 else numbers // CHUNK // segments * CHUNK + numbers % CHUNK
        for multiplier in _MULTIPLIERS:
            keys = (keys * multiplier) & mask
            keys = keys ^ (keys >> shift)
        inside = (counters <= mask) & (keys < share) & (segment * share + keys < rows)
        yield (segment * share + keys + 1)[inside], numbers[inside]


def segments_for(rows: int, touched: int) -> int:
    """Return into how few segments a table is cut so that its first `touched` rows are whole segments, about."""
    return Fraction(touched, rows).limit_denominator(MOST_SEGMENTS).denominator if touched else 1


def row_bytes(filler: int) -> float:
    """Return about how much a row takes in table and index, in bytes: pages of 8 kB, tuples as PostgreSQL aligns them.

    A tuple has 24 bytes of header, two bigint, and the filler with a length word of 1 or 4 bytes; an entry of the
    index 16 bytes; either has a pointer of 4 bytes on its page. Index pages are filled to 90 %.
    """
    content = filler + (1 if filler < _SHORT_VARLENA else 4)
    tuple_bytes = -(-(24 + 16 + content) // 8) * 8 + 4
    return _PAGE / ((_PAGE - 24) // tuple_bytes) + 20 / 0.9


def procedures() -> str:
    """Return the SQL that makes `setup`, `runit` and `benchruns`, for any database."""
    first, second, third = map(str, _MULTIPLIERS)
    words = {"first": first, "second": second, "third": third, "chunk": str(CHUNK), "most_rows": str(MOST_ROWS)}
    return packaged_script("ybio_procedures", **words)


def size_text(sizes: tuple[int, int]) -> str:
    """Return the size report of a table."""
    return f"table {bytes_text(sizes[0])}, index {bytes_text(sizes[1])}"


def _copy_rows(keys: NDArray[np.int64], scratch: NDArray[np.int64]) -> bytes:
    """Return rows of COPY's binary format. The filler is empty: the server pads char(n) with blanks."""
    rows = np.zeros(len(keys), _COPY_ROW)
    rows["columns"], rows["key_bytes"], rows["scratch_bytes"] = 3, 8, 8
    rows["mykey"], rows["scratch"] = keys, scratch
    return rows.tobytes()
