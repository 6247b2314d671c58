"""SQL for the text of a row and its 64-bit hash: alike on every version, and on machines of other byte order. Pure.

A row's text is made by output functions and not by a cast: the owner of a table can create a cast of its row type to
text, which would be run with the rights of whoever compares. What is hashed is joined by concat_ws, which takes two
thirds of the time of record_out: that quotes every value.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from psycopg import sql

SETTINGS = {
    "extra_float_digits": "1", "bytea_output": "hex", "datestyle": "ISO, YMD", "intervalstyle": "postgres",
    "timezone": "UTC", "lc_monetary": "C", "row_security": "off", "constraint_exclusion": "off",
}  # fmt: skip
"""What values look like as text; with row security off a role that does not see all rows gets an error. To exclude by
constraints the planner would run what is in them."""
PROBE = "SELECT pg_catalog.hashtextextended('pgdyno, 64 bits: üñí ☃' COLLATE pg_catalog.\"C\", 0) AS hash"
"""Its answer depends on the byte order of the machine."""


_ARGUMENTS = 90
"""Fewer than the 100 that a function takes."""


class RowHash(Enum):
    """How the text of a row becomes 64 bits."""

    QUICK = 'pg_catalog.hashtextextended({} COLLATE pg_catalog."C", 0)'
    """PostgreSQL's own; the same for servers that answer `PROBE` alike."""
    PORTABLE = "('x' || pg_catalog.substr(pg_catalog.md5({}), 1, 16))::pg_catalog.bit(64)::pg_catalog.int8"
    """The first half of MD5, some three times slower."""

    def of(self, text: sql.Composed) -> sql.Composed:
        """Return the expression of the hash of a text."""
        return sql.SQL(self.value).format(text)


def hashed_text(columns: Sequence[str]) -> sql.Composed:
    """Return the expression of the text that is hashed for these columns of t: values, and before them which are NULL.

    Two rows have the same text where a value holds the separator and ends elsewhere, at that very character.
    """
    parts = [_joined(columns[at : at + _ARGUMENTS]) for at in range(0, len(columns), _ARGUMENTS)]
    if len(parts) == 1:
        return parts[0]
    return sql.SQL("pg_catalog.concat({}, '')").format(sql.SQL(f", {_SEPARATOR}, ").join(parts) or sql.SQL("''"))


_SEPARATOR = "E'\\x1f'"
_JOINED = f"""
pg_catalog.concat_ws({_SEPARATOR}, CASE WHEN pg_catalog.num_nulls({{names}}) > 0
                     THEN pg_catalog.concat({_SEPARATOR}, {{nulls}}) END, {{names}})
"""


def _joined(columns: Sequence[str]) -> sql.Composed:
    names = [sql.Identifier("t", column) for column in columns]
    nulls = [sql.SQL("{} IS NOT DISTINCT FROM NULL").format(name) for name in names]
    return sql.SQL(_JOINED.strip()).format(names=sql.SQL(", ").join(names), nulls=sql.SQL(", ").join(nulls))


def row_text(columns: Sequence[str]) -> sql.Composed:
    """Return the expression of the text of these columns of the table that is called t."""
    names = sql.SQL(", ").join(sql.Identifier("t", column) for column in columns)
    return sql.SQL("pg_catalog.textin(pg_catalog.record_out(ROW({})))").format(names)
