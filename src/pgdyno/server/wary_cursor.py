"""Rows of a server that nobody knows: a value that is not of its type is psycopg's error, as all that a server does."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from psycopg.rows import DictRow


class WaryCursor(psycopg.Cursor[DictRow]):
    """A cursor that raises DataError where what was sent cannot be read as what it was said to be."""

    def fetchone(self) -> DictRow | None:
        """Return the next row."""
        with wary():
            return super().fetchone()

    def fetchmany(self, size: int = 0) -> list[DictRow]:
        """Return the next rows."""
        with wary():
            return super().fetchmany(size)

    def fetchall(self) -> list[DictRow]:
        """Return the rows that are left."""
        with wary():
            return super().fetchall()

    def __next__(self) -> DictRow:
        with wary():
            return super().__next__()


@contextmanager
def wary() -> Iterator[None]:
    """Raise DataError for a value in the block that is not of its type."""
    try:
        yield
    except (ValueError, ArithmeticError, RecursionError, struct.error) as error:
        raise psycopg.DataError(f"the server sent a value that is not of its type: {error}"[:200]) from error
