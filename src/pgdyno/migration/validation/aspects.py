"""What of a database is compared by the system's catalogue: one query an aspect, each row an object. Pure.

Queries read the system's catalogues alone, by its own functions: nothing that a user of the database made is run.
Names are those of the system (`regclass`, `quote_ident`), with their schema, so that both sides spell them alike.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import LiteralString


@dataclass(frozen=True, slots=True, kw_only=True)
class Aspect:
    """A topic and its query: the first column names an object, the others are its `values`, by these names.

    A value of SQL NULL is one that this version does not have: it is not compared. What a value says without a name
    has an empty one. `since` is the first version that has the catalogue. `is_shared` are things of the whole server,
    of which a target may have more than the source.
    """

    topic: str
    values: tuple[str, ...] = ("",)
    query: LiteralString
    since: int = 130_000
    is_shared: bool = False
    needs: str = ""
    """A catalogue that not everybody may read."""


def of_users(schema: LiteralString, catalogue: LiteralString, oid: LiteralString) -> LiteralString:
    """Return the condition that an object is a user's: of no schema of the system, and of no extension."""
    return (
        f"{schema} NOT IN ('pg_catalog', 'information_schema') AND {schema} !~ '^pg_(toast|temp)'"
        f" AND NOT EXISTS (SELECT FROM pg_depend AS e WHERE e.classid = '{catalogue}'::regclass"
        f" AND e.objid = {oid} AND e.deptype = 'e')"
    )


RELATION = "pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace"
OF_RELATION = of_users("n.nspname", "pg_class", "c.oid")
