"""SQLSTATEs of errors that show only when a statement runs, by the server's own English messages. Pure.

pgbench prints no SQLSTATE, and a user's statement is not run again to ask for it. The server writes each of these
messages with one code; a function of a user's may raise the same words with another, hence "by its message".
"""

from __future__ import annotations

import re

_STATES = {
    "21000": r"more than one row returned by a subquery used as an expression"
    r"|ON CONFLICT DO UPDATE command cannot affect row a second time",
    "22001": r"value too long for type ",
    "22003": r"(?:smallint|integer|bigint|money) out of range|value \".*\" is out of range for type |"
    r"value (?:out of range: .*|overflows numeric format)|numeric field overflow",
    "22004": r"null value cannot be assigned to variable \"",
    "22008": r"(?:timestamp|date|interval) out of range|date/time field value out of range: ",
    "22007": r"invalid input syntax for type (?:timestamp|date|time|interval)",
    "2201E": r"cannot take logarithm of ",
    "2201F": r"cannot take square root of a negative number",
    "22012": r"division by zero",
    "22P02": r"invalid input syntax for type |invalid input value for enum ",
    "23502": r"null value in column \".*\" .*violates not-null constraint",
    "23503": r"(?:insert or update|update or delete) on table \".*\" violates foreign key constraint \"",
    "23505": r"duplicate key value violates unique constraint \"",
    "23514": r"new row for relation \".*\" violates check constraint \"|no partition of relation \".*\" found for row",
    "23P01": r"conflicting key value violates exclusion constraint \"",
    "25006": r"cannot execute .* in a read-only transaction",
    "25P02": r"current transaction is aborted, commands ignored until end of transaction block",
    "40001": r"could not serialize access due to ",
    "40P01": r"deadlock detected",
    "42501": r"permission denied for ",
    "55P03": r"could not obtain lock on ",
    "P0002": r"query returned no rows",
    "P0003": r"query returned more than one row",
    "55000": r"(?:currval of sequence \".*\"|lastval) is not yet defined in this session",
}
"""The first that matches counts: that of dates comes before that of other types."""


def state_of(message: str) -> str | None:
    """Return the SQLSTATE that the server writes with this message; None for any other."""
    return next((state for state, pattern in _STATES.items() if re.match(pattern, message)), None)
