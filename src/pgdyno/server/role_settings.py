"""What ALTER ROLE and ALTER DATABASE set (`pg_db_role_setting`), and the statements for people."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import psycopg
from psycopg.rows import DictRow

from pgdyno.server.effectiveness import quoted
from pgdyno.server.postgres import Postgres, query_errors

_OVERRIDES = """
SELECT CASE WHEN setrole <> 0 THEN pg_catalog.pg_get_userbyid(setrole)::text END AS role,
       (SELECT datname::text FROM pg_catalog.pg_database WHERE oid = setdatabase) AS database,
       unnest(setconfig) AS setting
  FROM pg_catalog.pg_db_role_setting
 ORDER BY role NULLS FIRST, database NULLS FIRST, setting
"""
_SELF = "SELECT current_user::text AS role, pg_catalog.current_database()::text AS database"


@dataclass(frozen=True, slots=True)
class Override:
    """A setting that ALTER ROLE or ALTER DATABASE made; a role or database of None is every one."""

    role: str | None
    database: str | None
    name: str
    value: str


def read_overrides(postgres: Postgres) -> tuple[str, str, tuple[Override, ...]]:
    """Return our role, our database, and the settings of all roles and databases. No effect on the server."""
    with postgres.connect() as connection, query_errors(postgres.label):
        (row,) = connection.execute(_SELF).fetchall()
        return str(row["role"]), str(row["database"]), all_overrides(connection)


def all_overrides(connection: psycopg.Connection[DictRow]) -> tuple[Override, ...]:
    """Return the settings of all roles and databases, in one order. Raises psycopg.Error. No effect on the server."""
    return tuple(map(_override, connection.execute(_OVERRIDES).fetchall()))


def _override(row: Mapping[str, object]) -> Override:
    name, _, value = str(row["setting"]).partition("=")
    role, database = row["role"], row["database"]
    return Override(None if role is None else str(role), None if database is None else str(database), name, value)


def statement(override: Override) -> str:
    """Return the statement that made the setting, for people."""
    return f"{subject(override)} SET {override.name} = {override.value}"


def reset(override: Override) -> str:
    """Return the statement that takes the setting away."""
    return f"{subject(override)} RESET {override.name}"


def subject(override: Override) -> str:
    """Return whose setting it is, as the statement that made it begins."""
    if override.role is None and override.database is not None:
        return f"ALTER DATABASE {quoted(override.database)}"
    role = "ALTER ROLE ALL" if override.role is None else f"ALTER ROLE {quoted(override.role)}"
    return role if override.database is None else f"{role} IN DATABASE {quoted(override.database)}"
