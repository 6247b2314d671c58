"""What is read of a server whose load is captured: its rate, its clock, its databases, tables and sequences. By SQL."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import psycopg
from psycopg import sql
from psycopg.rows import DictRow

from pgdyno.errors import ConnectError, PgdynoError
from pgdyno.probes.observer import FALLBACK_DATABASE, OBSERVER_DATABASE, quieten
from pgdyno.server.extensions import schema_of
from pgdyno.server.postgres import Postgres, query_errors
from pgdyno.trace.capture_cost import LoadRate
from pgdyno.trace.capture_record import SourceDatabase, SourceTable

EXTENSION = "pg_stat_statements"
MOST_TABLES = 20_000
"""Of one database: the largest."""
_PATIENCE = ("SET lock_timeout = '2s'", "SET statement_timeout = '60s'")
_TOTALS = """
SELECT extract(epoch FROM clock_timestamp())::float8 AS at, sum(xact_commit + xact_rollback)::float8 AS transactions
  FROM pg_catalog.pg_stat_database
"""
_STATEMENTS = """
SELECT sum(calls)::float8 AS calls, sum(total_exec_time)::float8 AS ms,
       (sum(calls * length(query)) / nullif(sum(calls), 0))::float8 AS characters
  FROM {}.pg_stat_statements(true)
"""
_MOMENT = """
SELECT to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US') || '+00:00' AS at,
       extract(epoch FROM clock_timestamp())::float8 AS epoch,
       (CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_lsn() END)::text AS lsn
"""
_QUIET = "log_min_duration_statement"
"""What our sessions set for themselves: the server's own value of it is the one that they were born with."""
_VALUES = """
SELECT name, setting FROM pg_catalog.pg_settings WHERE name = ANY(%s)
UNION ALL SELECT name, reset_val FROM pg_catalog.pg_settings WHERE name = %s
"""
_DATABASES = """
SELECT datname::text AS name, pg_catalog.pg_encoding_to_char(encoding)::text AS encoding, datallowconn AS open,
       CASE WHEN pg_catalog.has_database_privilege(oid, 'CONNECT')
              OR pg_catalog.pg_has_role('pg_read_all_stats', 'USAGE')
            THEN pg_catalog.pg_database_size(oid) END AS bytes
  FROM pg_catalog.pg_database WHERE NOT datistemplate ORDER BY datname
"""
_TABLES = """
SELECT n.nspname::text AS schema, c.relname::text AS name, c.reltuples::float8 AS rows,
       pg_catalog.pg_total_relation_size(c.oid)::int8 AS bytes
  FROM (SELECT * FROM pg_catalog.pg_class WHERE relkind IN ('r', 'm') AND relpersistence <> 't'
         ORDER BY relpages DESC LIMIT %s) AS c JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
 WHERE n.nspname <> 'information_schema' AND n.nspname NOT LIKE 'pg\\_%%'
 ORDER BY schema, name
"""
_SEQUENCES = """
SELECT schemaname::text AS schema, sequencename::text AS name, last_value AS value
  FROM pg_catalog.pg_sequences WHERE last_value IS NOT NULL
"""


@dataclass(frozen=True, slots=True)
class Moment:
    """The server's clock and position in the WAL; `ahead_s` of ours, give or take half of the round trip."""

    at: str
    lsn: str
    ahead_s: float
    round_trip_s: float


@dataclass(frozen=True, slots=True)
class Contents:
    """Databases, and what is in those that we may enter; `unread` are the others, with the reason."""

    databases: tuple[SourceDatabase, ...]
    tables: tuple[SourceTable, ...]
    sequences: dict[str, int]
    unread: dict[str, str]


@contextmanager
def _session(postgres: Postgres, database: str | None = None) -> Iterator[psycopg.Connection[DictRow]]:
    """Open a session that is in no log, where the role may say so, and known by its name where it is."""
    with postgres.connect(database) as connection, query_errors(postgres.label):
        quieten(connection)
        for statement in _PATIENCE:
            connection.execute(sql.SQL(statement))
        yield connection


def read_moment(postgres: Postgres, clock: Callable[[], float] = time.time) -> Moment:
    """Read the server's clock, beside ours, and its position in the WAL."""
    with _session(postgres) as connection:
        before = clock()
        row = connection.execute(_MOMENT).fetchone()
        after = clock()
    assert row is not None
    return Moment(str(row["at"]), str(row["lsn"]), float(row["epoch"]) - (before + after) / 2, after - before)


def read_values(postgres: Postgres, names: Iterable[str]) -> dict[str, str]:
    """Return these settings as a new session of another name would have them: ours is not logged."""
    asked = [name for name in names if name != _QUIET]
    with _session(postgres) as connection:
        rows = connection.execute(_VALUES, [asked, _QUIET]).fetchall()
    return {str(row["name"]): str(row["setting"]) for row in rows}


def read_rate(postgres: Postgres, seconds: float, sleep: Callable[[float], None] = time.sleep) -> LoadRate:
    """Watch the load for so long; by its statements where a database that we may enter counts them."""
    with _counting(postgres) as (connection, schema):
        statements = None if schema is None else sql.SQL(_STATEMENTS).format(sql.Identifier(schema))

        def read() -> tuple[Mapping[str, float], Mapping[str, float | None] | None]:
            found = None if statements is None else connection.execute(statements).fetchone()
            totals = connection.execute(_TOTALS).fetchone()
            assert totals is not None
            return totals, found

        first, first_told = read()
        sleep(seconds)
        last, last_told = read()
    lasted = max(last["at"] - first["at"], 1e-3)
    transactions = max(0.0, last["transactions"] - first["transactions"]) / lasted
    calls = _difference(first_told, last_told, "calls")
    if calls is None:
        return LoadRate(lasted, transactions)
    spent, text = _difference(first_told, last_told, "ms"), None if last_told is None else last_told["characters"]
    return LoadRate(lasted, transactions, calls / lasted, spent / calls if calls and spent is not None else None, text)


def _difference(
    first: Mapping[str, float | None] | None, last: Mapping[str, float | None] | None, name: str
) -> float | None:
    """Return what a counter has grown by; None where it is not there, or was reset."""
    before, after = (None if row is None else row[name] for row in (first, last))
    return after - before if before is not None and after is not None and after >= before else None


@contextmanager
def _counting(postgres: Postgres) -> Iterator[tuple[psycopg.Connection[DictRow], str | None]]:
    """Open a session where pg_stat_statements is, else where the target says; yield its schema."""
    for database in (OBSERVER_DATABASE, FALLBACK_DATABASE):
        try:
            with _session(postgres, database) as connection:
                schema = schema_of(connection, EXTENSION)
                if schema is not None:
                    yield connection, schema
                    return
        except ConnectError:
            continue
    with _session(postgres) as connection:
        yield connection, schema_of(connection, EXTENSION)


def read_contents(postgres: Postgres, *, tables: bool = True) -> Contents:
    """Read databases, tables and the last values of sequences, one database after another; waits for no lock."""
    with _session(postgres) as connection:
        rows = connection.execute(_DATABASES).fetchall()
    found, sequences, unread = list[SourceTable](), dict[str, int](), dict[str, str]()
    for row in rows:
        name = str(row["name"])
        if not row["open"] or name == OBSERVER_DATABASE:
            continue
        try:
            with _session(postgres, name) as connection:
                sequences |= _sequences(name, connection.execute(_SEQUENCES).fetchall())
                if tables:
                    found += _tables(name, connection.execute(_TABLES, [MOST_TABLES]).fetchall())
        except PgdynoError as error:
            unread[name] = error.one_line
    return Contents(tuple(map(_database, rows)), tuple(found), sequences, unread)


def _database(row: Mapping[str, object]) -> SourceDatabase:
    size = row["bytes"]
    return SourceDatabase(str(row["name"]), str(row["encoding"]), size if isinstance(size, int) else None)


def _tables(database: str, rows: Sequence[DictRow]) -> list[SourceTable]:
    # a table that is dropped while its size is asked for has none
    return [SourceTable(database, r["schema"], r["name"], int(r["bytes"] or 0), float(r["rows"])) for r in rows]


def _sequences(database: str, rows: Sequence[DictRow]) -> dict[str, int]:
    return {f"{database}.{row['schema']}.{row['name']}": int(row["value"]) for row in rows}
