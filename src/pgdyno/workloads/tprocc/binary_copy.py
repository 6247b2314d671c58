"""Rows of COPY's binary format, made column by column without a loop over rows. Pure.

A column is its values as bytes, one row of a matrix each, and the length of each value where they differ: -1 is NULL.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

HEADER = b"PGCOPY\n\xff\r\n\x00" + bytes(8)
TRAILER = b"\xff\xff"
Int64s = NDArray[np.int64]
Bytes = NDArray[np.uint8]


@dataclass(frozen=True, slots=True, eq=False)
class CopyColumn:
    """Values of one column: a row of `cells` each, cut to `lengths` where that is not None."""

    cells: Bytes
    lengths: Int64s | None = None


def integers(values: Int64s, width: int = 4) -> CopyColumn:
    """Return a column of smallint (2), integer (4), or bigint and timestamptz (8)."""
    return CopyColumn(_bytes(values.astype(f">i{width}"), width))


def nullable(column: CopyColumn, known: NDArray[np.bool_]) -> CopyColumn:
    """Return the column with NULL wherever `known` is false."""
    width = column.cells.shape[1]
    lengths = np.full(len(known), width, np.int64) if column.lengths is None else column.lengths
    return CopyColumn(column.cells, np.where(known, lengths, -1))


def money(cents: Int64s) -> CopyColumn:
    """Return a column of numeric with two digits after the point, at most 99,999,999.99 either way."""
    whole, rest = np.divmod(np.abs(cents), 100)
    sign = np.where(cents < 0, 0x4000, 0)
    return _numeric(weight=1, scale=2, sign=sign, digits=[whole // 10_000, whole % 10_000, rest * 100])


def fraction(ten_thousandths: Int64s) -> CopyColumn:
    """Return a column of numeric below 1 with four digits after the point."""
    return _numeric(weight=-1, scale=4, sign=np.zeros_like(ten_thousandths), digits=[ten_thousandths])


def texts(cells: Bytes, lengths: Int64s | None = None) -> CopyColumn:
    """Return a column of text from ASCII bytes."""
    return CopyColumn(np.ascontiguousarray(cells), lengths)


def constant(word: bytes, count: int) -> CopyColumn:
    """Return a column that has the same text in every row."""
    return CopyColumn(np.broadcast_to(np.frombuffer(word, np.uint8), (count, len(word))))


def encode(columns: Sequence[CopyColumn]) -> bytes:
    """Return the rows of these columns, in COPY's binary format without header and trailer."""
    count, widths = len(columns[0].cells), [column.cells.shape[1] for column in columns]
    rows = np.empty((count, 2 + sum(4 + width for width in widths)), np.uint8)
    rows[:, :2] = _bytes(np.array([len(columns)], ">i2"), 2)
    # One matrix for all, and a mask of its bytes only where lengths differ: putting parts together took twice as long.
    present = None if all(column.lengths is None for column in columns) else np.ones(rows.shape, np.bool_)
    place = 2
    for column, width in zip(columns, widths, strict=True):
        begin, end = place + 4, place + 4 + width
        lengths = np.array([width]) if column.lengths is None else column.lengths
        rows[:, place:begin] = _bytes(lengths.astype(">i4"), 4)
        rows[:, begin:end] = column.cells
        if present is not None and column.lengths is not None:
            np.less(np.arange(width), column.lengths[:, None], out=present[:, begin:end])
        place = end
    return rows.tobytes() if present is None else rows[present].tobytes()


def _numeric(*, weight: int, scale: int, sign: Int64s, digits: Sequence[Int64s]) -> CopyColumn:
    count = len(sign)
    fields = [np.full(count, len(digits)), np.full(count, weight), sign, np.full(count, scale), *digits]
    return CopyColumn(_bytes(np.stack(fields, axis=1).astype(">i2"), 2 * len(fields)))


def _bytes(values: NDArray[np.generic], width: int) -> Bytes:
    return np.ascontiguousarray(values).view(np.uint8).reshape(-1, width)
