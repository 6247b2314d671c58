"""The plans of what others run: only where planning runs nobody's code, and in a read-only transaction."""

from __future__ import annotations

from collections.abc import Mapping

import psycopg
from psycopg import sql
from psycopg.rows import DictRow

from pgdyno.errors import PgdynoError
from pgdyno.model.record import PlanRecord
from pgdyno.server.planning_code import foreign_code, use_schemas
from pgdyno.server.postgres import Postgres
from pgdyno.workloads.plan_shape import UNKNOWN_SHAPE
from pgdyno.workloads.statement_plans import PATIENCE, planned, unknown

LOCK_PATIENCE = "200ms"
"""A lock that somebody else waits for is not waited for any longer."""


def others_plans(
    postgres: Postgres, dbname: str, statements: Mapping[str, str], settings: Mapping[str, str] | None = None
) -> list[PlanRecord]:
    """Return the generic plan of each statement, texts by the name that it is recorded under, under these settings.

    One that cannot be had, or whose planning would run code of a user, has the shape `unknown` and says why. Nothing
    is executed; a setting that this role may not set leaves all of them unknown. Never raises for what the server does.
    """
    if not statements:
        return []
    try:
        with postgres.for_load(dbname).connect() as connection:
            # before the first transaction: SET of a session is taken back with the one that it was made in
            connection.execute(sql.SQL("SET statement_timeout = {}").format(sql.Literal(PATIENCE)))
            connection.execute(sql.SQL("SET lock_timeout = {}").format(sql.Literal(LOCK_PATIENCE)))
            connection.execute("SET search_path = pg_catalog, pg_temp")
            connection.execute("SET plan_cache_mode = force_generic_plan")
            for name, value in (settings or {}).items():
                connection.execute("SELECT pg_catalog.set_config(%s, %s, false)", [name, value])
            return [_plan(connection, number, *one) for number, one in enumerate(statements.items(), 1)]
    except (PgdynoError, psycopg.Error) as error:
        return [unknown(name, error) for name in statements]


def _plan(connection: psycopg.Connection[DictRow], number: int, name: str, statement: str) -> PlanRecord:
    connection.execute("BEGIN READ ONLY")
    try:
        statement = statement.rstrip("; \n\t")
        why = foreign_code(connection, statement)
        why = f"planning it may run code of a user: {why}" if why else use_schemas(connection, statement)
        if why:
            return PlanRecord(name, UNKNOWN_SHAPE, f"unknown: {why}")
        return planned(connection, number, statement, name=name)
    finally:
        if not connection.closed:
            connection.execute("ROLLBACK")
