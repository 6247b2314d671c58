"""The plans of what others run: only where planning runs nobody's code, and in a read-only transaction."""

from __future__ import annotations

from collections.abc import Mapping

import psycopg
from psycopg import sql
from psycopg.rows import DictRow

from pgdyno.errors import PgdynoError
from pgdyno.model.record import PlanRecord
from pgdyno.server.planning_code import foreign_code, use_schemas
from pgdyno.server.planning_role import Asking, directly, is_superuser, take_role
from pgdyno.server.postgres import Postgres
from pgdyno.workloads.plan_shape import UNKNOWN_SHAPE
from pgdyno.workloads.statement_plans import PATIENCE, planned, unknown

LOCK_PATIENCE = "200ms"
"""A lock that somebody else waits for is not waited for any longer."""


def others_plans(
    postgres: Postgres,
    dbname: str,
    statements: Mapping[str, str],
    settings: Mapping[str, str] | None = None,
    roles: Mapping[str, int] | None = None,
) -> list[PlanRecord]:
    """Return the generic plan of each statement, texts by the name that it is recorded under, under these settings.

    `statements` are those texts, planned in the database `dbname` of `postgres`. `settings` are set for the session,
    values by name, None for none. `roles` are the OIDs of those that ran them, by the same names: a superuser plans as
    them, and as nobody else where anybody but superusers may make code. One that cannot be had, or whose planning would
    run code of a user, has the shape `unknown` and says why. Nothing is executed; a setting that this role may not set
    leaves all of them unknown. Never raises for what the server does.
    """
    if not statements:
        return []
    known = roles or {}
    found: dict[str, PlanRecord] = {}
    try:
        with postgres.for_load(dbname).connect() as connection:
            # before the first transaction: SET of a session is taken back with the one that it was made in
            connection.execute(sql.SQL("SET statement_timeout = {}").format(sql.Literal(PATIENCE)))
            connection.execute(sql.SQL("SET lock_timeout = {}").format(sql.Literal(LOCK_PATIENCE)))
            connection.execute("SET search_path = pg_catalog, pg_temp")
            connection.execute("SET plan_cache_mode = force_generic_plan")
            for name, value in (settings or {}).items():
                connection.execute("SELECT pg_catalog.set_config(%s, %s, false)", [name, value])
            numbers = {name: number for number, name in enumerate(statements, 1)}
            for role in dict.fromkeys(known.get(name) for name in statements):
                texts = {name: text for name, text in statements.items() if known.get(name) == role}
                found |= _plans_of(connection, role, texts, numbers)
    except (PgdynoError, psycopg.Error) as error:
        return [unknown(name, error) for name in statements]
    return [found[name] for name in statements]


def _plans_of(
    connection: psycopg.Connection[DictRow], role: int | None, texts: Mapping[str, str], numbers: Mapping[str, int]
) -> dict[str, PlanRecord]:
    """Return the plans of one role's statements, in a transaction of their own that is never committed."""
    with connection.transaction():
        ask: Asking | str = directly
        if is_superuser(connection):
            ask = take_role(connection, role)
        else:
            connection.execute("SET TRANSACTION READ ONLY")
        if isinstance(ask, str):
            return {name: PlanRecord(name, UNKNOWN_SHAPE, f"unknown: {ask}") for name in texts}
        found = {}
        for name, text in texts.items():
            with connection.transaction():
                found[name] = _plan(connection, numbers[name], name, text, ask)
                raise psycopg.Rollback
        raise psycopg.Rollback
    return found


def _plan(connection: psycopg.Connection[DictRow], number: int, name: str, statement: str, ask: Asking) -> PlanRecord:
    statement = statement.rstrip("; \n\t")
    why = foreign_code(connection, statement)
    why = f"planning it may run code of a user: {why}" if why else use_schemas(connection, statement)
    if why:
        return PlanRecord(name, UNKNOWN_SHAPE, f"unknown: {why}")
    return planned(connection, number, statement, name=name, ask=ask)
