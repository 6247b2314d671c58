"""Databases as wholes: clone one from a template, drop one, make the one that pgdyno observes from."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress

import psycopg
from psycopg import sql
from psycopg.rows import DictRow

from pgdyno.server.postgres import Postgres, query_error, query_errors

OBSERVER = "pgdyno_observer"
_WITH_STRATEGY = 150_000


def clone_database(
    postgres: Postgres,
    template: str,
    name: str,
    *,
    sleep: Callable[[float], None] = time.sleep,
    tries: int = 10,
) -> None:
    """Make database `name` a fresh copy of `template`, dropping it first with every session in it.

    The server is that of `postgres`; while somebody else is in the template it is asked again, `tries` times in all,
    with a `sleep` of one second in between. Copies files (STRATEGY FILE_COPY from 15 on, the only way before): a large
    template goes much faster than through WAL. Then a checkpoint, so that none of the copy's writes falls into a
    measurement; without the right to ask for one it is left out. Side effects on the server: DROP DATABASE, CREATE
    DATABASE, up to three checkpoints.
    """
    drop_database(postgres, name)
    with postgres.connect() as connection:
        strategy = " STRATEGY FILE_COPY" if connection.info.server_version >= _WITH_STRATEGY else ""
        query = sql.SQL("CREATE DATABASE {} TEMPLATE {}" + strategy).format(
            sql.Identifier(name), sql.Identifier(template)
        )
        for attempt in range(tries):
            try:
                connection.execute(query)
                break
            except psycopg.errors.ObjectInUse as error:
                # Autovacuum may be in the template; the server itself has waited 5 s for it.
                if attempt == tries - 1:
                    raise query_error(postgres.label, error) from error
                sleep(1.0)
            except psycopg.Error as error:
                raise query_error(postgres.label, error) from error
        _checkpoint(connection)


def drop_database(postgres: Postgres, name: str) -> None:
    """Drop a database and end every session in it; do nothing when there is none. PostgreSQL 13 and later."""
    postgres.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))


def database_exists(postgres: Postgres, name: str) -> bool:
    """Tell whether the server has a database of this name."""
    return bool(postgres.fetch("SELECT 1 AS one FROM pg_database WHERE datname = %s", [name]))


def ensure_observer(postgres: Postgres) -> None:
    """Make the database `pgdyno_observer` with pg_stat_statements, once; the load never touches it."""
    if not database_exists(postgres, OBSERVER):
        postgres.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(OBSERVER)))
    postgres.for_load(OBSERVER).execute("CREATE EXTENSION IF NOT EXISTS pg_stat_statements SCHEMA public")


def _checkpoint(connection: psycopg.Connection[DictRow]) -> None:
    with query_errors(connection.info.host), suppress(psycopg.errors.InsufficientPrivilege):
        connection.execute("CHECKPOINT")
