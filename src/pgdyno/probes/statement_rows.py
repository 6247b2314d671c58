"""Rows of pg_stat_statements as the server sends them, each one record in binary, all taken apart at once. Pure.

One object a row instead of twelve, and columns cut out of one buffer: with 5,000 statements every two seconds making
Python objects was most of what a live study costs here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import psycopg
from psycopg.abc import Buffer
from psycopg.adapt import Loader
from psycopg.pq import Format

RECORD_OID = 2249
MOST_COUNTED = 1e19
"""More than a bigint holds."""
SINCE = 6
"""The counter that is a moment, unknown before 17."""
COUNTERS = 8
_INT8, _BOOL, _FLOAT8 = (20, ">i8"), (16, ">u1"), (701, ">f8")
_COLUMNS = (_INT8, _INT8, _INT8, _BOOL, *(_FLOAT8,) * COUNTERS)
"""Type and bytes of: database, role, queryid, toplevel, and the counters."""
_KEYS = len(_COLUMNS) - COUNTERS
_ROW = np.dtype(
    [
        ("columns", ">i4"),
        *(
            (f"{name}{place}", kind)
            for place, (_, value) in enumerate(_COLUMNS)
            for name, kind in (("type", ">u4"), ("length", ">i4"), ("value", value))
        ),
    ]
)
"""What record_send writes: the number of columns, then type, length and bytes of each."""


class PackedRecord(Loader):
    """Leave a record as it came."""

    format = Format.BINARY

    def load(self, data: Buffer) -> bytes:
        """Return the bytes."""
        return bytes(data)


@dataclass(frozen=True, slots=True, eq=False)
class StatementRows:
    """Keys, a row each of database, role, queryid and toplevel as int64, and the counters, a row for each column."""

    keys: npt.NDArray[np.int64]
    counters: npt.NDArray[np.float64]


def statement_rows(records: Sequence[bytes]) -> StatementRows:
    """Take records apart. Raises DataError for others, and for what counts nothing: whoever owns a server may lie."""
    packed = b"".join(records)
    if len(packed) != len(records) * _ROW.itemsize:
        raise psycopg.DataError("a row of pg_stat_statements has unknown counters")
    table = np.frombuffer(packed, dtype=_ROW)
    is_as_asked = bool((table["columns"] == len(_COLUMNS)).all())
    for place, (oid, value) in enumerate(_COLUMNS):
        is_as_asked &= bool((table[f"type{place}"] == oid).all())
        is_as_asked &= bool((table[f"length{place}"] == np.dtype(value).itemsize).all())
    if not is_as_asked:
        raise psycopg.DataError("a row of pg_stat_statements has other columns than it was asked for")
    keys, counters = np.empty((len(records), _KEYS), dtype=np.int64), np.empty((COUNTERS, len(records)))
    for place in range(_KEYS):
        keys[:, place] = table[f"value{place}"]
    for place in range(COUNTERS):
        counters[place] = table[f"value{_KEYS + place}"]
    counted = np.delete(counters, SINCE, axis=0)
    if not bool(np.all((counted >= 0) & (counted <= MOST_COUNTED))):
        raise psycopg.DataError("a counter of pg_stat_statements is no count")
    return StatementRows(keys, counters)
