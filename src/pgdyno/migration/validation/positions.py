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
_POSITION = "SELECT {name}, last_value::text || CASE WHEN is_called THEN '' ELSE ', not given out' END FROM {sequence}"


def positions(rows: AskRows) -> tuple[dict[str, tuple[str | None, ...]], list[str]]:
    """Return by name where each sequence stands, and those that this role may not read."""
    readable, unread = list[tuple[str, str, str]](), list[str]()
    for label, schema, name, may_read in rows(_SEQUENCES):
        if may_read:
            readable.append((str(label), str(schema), str(name)))
        else:
            unread.append(f"where sequence {label} stands: this role may not read it")
    found, left = dict[str, tuple[str | None, ...]](), iter(readable)
    while some := list(islice(left, _AT_ONCE)):
        each = [
            sql.SQL(_POSITION).format(name=sql.Literal(label), sequence=sql.Identifier(schema, name))
            for label, schema, name in some
        ]
        found |= {str(label): (str(at),) for label, at in rows(sql.SQL(" UNION ALL ").join(each))}
    return found, unread
