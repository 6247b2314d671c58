"""Where sequences stand: the last value and whether it was given out already. Reads only."""

from __future__ import annotations

from itertools import islice

from psycopg import sql

from pgdyno.contents.tables import AskRows
from pgdyno.migration.validation.aspects import OF_RELATION, RELATION

_AT_ONCE = 200
_SEQUENCES = f"""
SELECT c.oid::regclass::text, n.nspname::text, c.relname::text, has_sequence_privilege(c.oid, 'SELECT')
FROM {RELATION} WHERE c.relkind = 'S' AND c.relpersistence <> 't' AND {OF_RELATION} ORDER BY 1
"""
_POSITION = "SELECT {number}, last_value, is_called FROM {sequence}"


def standing(rows: AskRows) -> tuple[list[tuple[str, str, int, bool]], list[str]]:
    """Return schema, name and last value of each sequence, whether it was given out, and what may not be read."""
    readable, unread = list[tuple[str, str]](), list[str]()
    for label, schema, name, may_read in rows(_SEQUENCES):
        if may_read:
            readable.append((str(schema), str(name)))
        else:
            unread.append(f"where sequence {label} stands: this role may not read it")
    found, left = list[tuple[str, str, int, bool]](), iter(enumerate(readable))
    while some := list(islice(left, _AT_ONCE)):
        each = [
            sql.SQL(_POSITION).format(number=sql.Literal(number), sequence=sql.Identifier(*name))
            for number, name in some
        ]
        for number, value, is_called in rows(sql.SQL(" UNION ALL ").join(each)):
            found.append((*readable[int(str(number))], int(str(value)), is_called is True))
    return found, unread


def positions(rows: AskRows) -> tuple[dict[str, tuple[str | None, ...]], list[str]]:
    """Return by name where each sequence stands, and those that this role may not read."""
    found, unread = standing(rows)
    return {
        f"{schema}.{name}": (f"{value}{'' if is_called else ', not given out'}",)
        for schema, name, value, is_called in found
    }, unread
