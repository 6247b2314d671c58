"""Planning as the role that a statement is of, so that no code that planning runs can take another one.

A function of that role's in our own temporary schema, SECURITY DEFINER, asks for the plan: in such a function the
server refuses SET ROLE and SET SESSION AUTHORIZATION. The transaction that it is made in is read-only from then on,
and is never committed: nothing of it stays, and nothing that a hostile function leaves behind, such as a trigger of
the transaction's end, ever runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import psycopg
from psycopg import sql
from psycopg.rows import DictRow

Asking = Callable[[psycopg.Connection[DictRow], Sequence[sql.Composed]], list[str]]
"""Sends queries, the last of which is EXPLAIN, and returns its lines."""
_ROLE = "SELECT rolname::text AS name, rolsuper AS is_super FROM pg_catalog.pg_roles WHERE oid = %(role)s"
_MAKERS = """
SELECT rolname::text AS name FROM pg_catalog.pg_roles r
WHERE oid >= 16384 AND NOT rolsuper AND rolname <> current_user AND (
    pg_catalog.has_database_privilege(r.oid, pg_catalog.current_database(), 'CREATE')
    OR EXISTS (SELECT FROM pg_catalog.pg_namespace n WHERE pg_catalog.has_schema_privilege(r.oid, n.oid, 'CREATE'))
    OR EXISTS (SELECT FROM pg_catalog.pg_shdepend d JOIN pg_catalog.pg_database b ON b.oid = d.dbid
               WHERE datname = pg_catalog.current_database() AND refclassid = 'pg_catalog.pg_authid'::regclass
               AND refobjid = r.oid AND deptype = 'o'))
LIMIT 1
"""
_ON_DDL = """
SELECT evtname::text AS name, r.rolname::text AS owner FROM pg_catalog.pg_event_trigger
JOIN pg_catalog.pg_proc f ON f.oid = evtfoid JOIN pg_catalog.pg_roles r ON r.oid = proowner
WHERE evtenabled <> 'D' AND evtevent <> 'login' AND NOT rolsuper
LIMIT 1
"""
"""What would run with our rights when a function is made."""
_FUNCTION = """
CREATE FUNCTION pg_temp.pgdyno_plan(texts text[]) RETURNS SETOF text LANGUAGE plpgsql SECURITY DEFINER AS $body$
DECLARE last int := pg_catalog.array_length(texts, 1);
BEGIN
    FOR number IN 1 .. last - 1 LOOP EXECUTE texts[number]; END LOOP;
    RETURN QUERY EXECUTE texts[last];
END $body$
"""
_ASK = 'SELECT line AS "QUERY PLAN" FROM pg_temp.pgdyno_plan(%s) AS line'


def is_superuser(connection: psycopg.Connection[DictRow]) -> bool:
    """Tell whether the session has every right there is."""
    return connection.info.parameter_status("is_superuser") == "on"


def take_role(connection: psycopg.Connection[DictRow], role: int | None) -> Asking | str:
    """Return how to ask for plans as this role in the open transaction, which is read-only then, or why one cannot.

    Where a role is not known, has every right itself or cannot be taken, plans are had by our own rights, and only if
    nobody but superusers may have code in this database. Raises psycopg.Error.
    """
    row = connection.execute(_ROLE, {"role": role or 0}).fetchone()
    trigger = connection.execute(_ON_DDL).fetchone()
    ask: Asking = directly
    if row is not None and not row["is_super"] and trigger is None:
        connection.execute(_FUNCTION)
        owner = sql.SQL("ALTER FUNCTION pg_temp.pgdyno_plan(text[]) OWNER TO {}")
        connection.execute(owner.format(sql.Identifier(str(row["name"]))))
        ask = _as_role
    elif (maker := connection.execute(_MAKERS).fetchone()) is not None:
        why = "its role is not known"
        if row is not None and row["is_super"]:
            why = f'its role "{row["name"]}" has every right'
        elif row is not None and trigger is not None:
            why = f'event trigger "{trigger["name"]}" would run a function of role "{trigger["owner"]}"'
        return f'{why}, and role "{maker["name"]}" may make functions here'
    connection.execute("SET TRANSACTION READ ONLY")
    return ask


def directly(connection: psycopg.Connection[DictRow], queries: Sequence[sql.Composed]) -> list[str]:
    """Run the queries with the session's own rights and return what the last one tells, line by line.

    Raises psycopg.Error.
    """
    for query in queries[:-1]:
        connection.execute(query)
    return [str(row["QUERY PLAN"]) for row in connection.execute(queries[-1])]


def _as_role(connection: psycopg.Connection[DictRow], queries: Sequence[sql.Composed]) -> list[str]:
    """Run the queries as the role that was taken."""
    texts = [one.as_string(connection) for one in queries]
    return [str(row["QUERY PLAN"]) for row in connection.execute(_ASK, [texts])]
