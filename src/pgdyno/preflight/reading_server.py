"""What the server knows that the preflight needs: standbys, overrides, the size of its WAL. By SQL."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import psycopg
from psycopg.rows import DictRow

from pgdyno.errors import ConnectError
from pgdyno.model.facts import Unknown
from pgdyno.server.postgres import Postgres, query_error, query_errors
from pgdyno.server.role_settings import Override, all_overrides

_STANDBYS = """
SELECT coalesce(nullif(s.application_name, ''), 'walsender') || coalesce(' at ' || host(s.client_addr), '') AS who
  FROM pg_catalog.pg_stat_replication s
 WHERE s.state IS DISTINCT FROM 'backup'
   AND NOT EXISTS (SELECT 1 FROM pg_catalog.pg_replication_slots l
                    WHERE l.active_pid = s.pid AND l.slot_type = 'logical')
 UNION ALL
SELECT 'slot ' || slot_name FROM pg_catalog.pg_replication_slots WHERE slot_type = 'physical' AND NOT active
 ORDER BY 1
"""
_SELF = """
SELECT pg_catalog.pg_is_in_recovery() AS in_recovery, current_user::text AS role,
       pg_catalog.current_database()::text AS database,
       (SELECT enumvals FROM pg_catalog.pg_settings WHERE name = 'io_method') AS io_methods
"""
_WAL = "SELECT coalesce(sum(size), 0)::int8 AS size FROM pg_catalog.pg_ls_waldir()"


@dataclass(frozen=True, slots=True)
class ServerReading:
    """`role` and `database` are ours, `overrides` those of all roles and databases, `wal_bytes` what lies in pg_wal.

    `standbys` names what is attached: walsenders of standbys, and physical slots that wait for one. `io_methods` is
    empty before 18.
    """

    in_recovery: bool
    standbys: tuple[str, ...]
    io_methods: tuple[str, ...]
    wal_bytes: int | Unknown
    role: str = ""
    database: str = ""
    overrides: tuple[Override, ...] = ()


def read_server(postgres: Postgres) -> ServerReading:
    """Read it; `pg_monitor` is enough for all of it. Raises ConnectError. No effect on the server."""
    with postgres.connect() as connection, query_errors(postgres.label):
        (row,) = connection.execute(_SELF).fetchall()
        standbys = connection.execute(_STANDBYS).fetchall()
        return ServerReading(
            in_recovery=bool(row["in_recovery"]),
            standbys=tuple(str(standby["who"]) for standby in standbys),
            io_methods=tuple(cast(Sequence[str], row["io_methods"] or ())),
            wal_bytes=_wal_bytes(connection, postgres.label),
            role=str(row["role"]),
            database=str(row["database"]),
            overrides=all_overrides(connection),
        )


def _wal_bytes(connection: psycopg.Connection[DictRow], label: str) -> int | Unknown:
    try:
        (row,) = connection.execute(_WAL).fetchall()
    except psycopg.Error as refused:
        error = query_error(label, refused)
        if isinstance(error, ConnectError):
            raise error from refused
        return Unknown(f"{error.message}; GRANT pg_monitor lets a role see it")
    return int(str(row["size"]))
