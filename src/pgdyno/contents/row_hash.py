"""SQL for the text of a row and its 64-bit hash: alike on every version, and on machines of other byte order. Pure.

A row's text is made by record_out and not by a cast: the owner of a table can create a cast of its row type to text,
which would be run with the rights of whoever compares.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from psycopg import sql

SETTINGS = {
    "extra_float_digits": "1", "bytea_output": "hex", "datestyle": "ISO, YMD", "intervalstyle": "postgres",
    "timezone": "UTC", "lc_monetary": "C", "row_security": "off",
}  # fmt: skip
"""What values look like as text; with row security off a role that does not see all rows gets an error."""
PROBE = "SELECT pg_catalog.hashtextextended('pgdyno, 64 bits: üñí ☃' COLLATE pg_catalog.\"C\", 0) AS hash"
"""Its answer depends on the byte order of the machine."""


class RowHash(Enum):
    """How the text of a row becomes 64 bits."""

    QUICK = 'pg_catalog.hashtextextended({} COLLATE pg_catalog."C", 0)'
    """PostgreSQL's own; the same for servers that answer `PROBE` alike."""
    PORTABLE = "('x' || pg_catalog.substr(pg_catalog.md5({}), 1, 16))::pg_catalog.bit(64)::pg_catalog.int8"
    """The first half of MD5, some three times slower."""

    def of(self, text: sql.Composed) -> sql.Composed:
        """Return the expression of the hash of a text."""
        return sql.SQL(self.value).format(text)


def row_text(columns: Sequence[str]) -> sql.Composed:
    """Return the expression of the text of these columns of the table that is called t."""
    names = sql.SQL(", ").join(sql.Identifier("t", column) for column in columns)
    return sql.SQL("pg_catalog.textin(pg_catalog.record_out(ROW({})))").format(names)
