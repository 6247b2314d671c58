"""One reading of the server's cumulative counters, as plain JSON; pg_monitor is enough."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from typing import Any, Literal, LiteralString, cast

import psycopg
from psycopg import sql
from psycopg.rows import DictRow

from pgdyno.errors import ConnectError
from pgdyno.probes.views import load_views, queries_for
from pgdyno.server.extensions import schema_of
from pgdyno.server.own_databases import ANY_NAME
from pgdyno.server.postgres import Postgres, query_error

Snapshot = Mapping[str, Any]
"""`format`, `version_num`, `server`, `databases`, `checkpointer`, `wal`, `io`, `buffers` (rows of views),
`tables` and `tables_t` (database to rows, to seconds since the epoch), `statements`, `failures` (view to reason)."""

FORMAT = 1
TABLES_AT_MOST = 1000
DATABASES_AT_MOST = 50
_STATEMENTS_AT_MOST = 200
_SESSION = (
    "SET application_name = 'pgdyno_observer'",
    "SET statement_timeout = '5s'",
    "SET lock_timeout = '500ms'",
    "SET jit = off",
    "SET work_mem = '32MB'",
    "SET log_min_duration_statement = -1",
    "SET stats_fetch_consistency = none",
)
_CLUSTER = ("evidence_server", "evidence_databases", "checkpointer", "wal", "io")
_SMALL_CACHE = 1 << 30
_OURS = re.compile(
    r"\bAS (?:all_calls|all_fetched|fetched|sessions|has_summary|checkpointer_reset|read_time_ms|full_page_images"
    r"|reset_at)\b"
)
"""Column names of our own queries, which are no part of the load."""
_STATEMENT_COLUMNS: Mapping[str, tuple[str, ...]] = {
    "time_ms": ("total_exec_time", "total_time"),
    "read_ms": ("shared_blk_read_time", "blk_read_time"),
    "calls": ("calls",),
    "rows": ("rows",),
    "blocks_read": ("shared_blks_read",),
    "blocks_hit": ("shared_blks_hit",),
    "temp_read": ("temp_blks_read",),
    "temp_written": ("temp_blks_written",),
    "wal_bytes": ("wal_bytes",),
}
"""What is summed up, and the columns that hold it, newest name first: the extension's version decides."""


def read_snapshot(
    postgres: Postgres, *, edge: Literal["begin", "end"] = "end", databases: Sequence[str] | None = None
) -> Snapshot:
    """Read the counters. `databases` are those whose tables are listed, besides the connected one.

    What listing tables reads is itself counted by the server: at the beginning of a window tables are read first and
    at its end last, in a session of their own, whose counts are complete once it is closed. A view that the role or
    the version refuses is missing, `failures` says why. Raises ConnectError when there is no session.
    """
    failures: dict[str, str] = {}
    found: dict[str, Any] = {"format": FORMAT, "failures": failures}

    def cluster() -> None:
        with opened(postgres) as session:
            found["version_num"] = session.info.server_version
            queries = queries_for(session.info.server_version, load_views_once())
            for view in _CLUSTER:
                if view in queries:
                    name = view.removeprefix("evidence_")
                    _attempt(found, failures, name, partial(_rows, session, queries[view]))
            _attempt(found, failures, "buffers", lambda: _buffers(session))

    def detail() -> None:
        found["tables"], found["tables_t"] = {}, {}
        for number, name in enumerate([None, *(databases or ())][:DATABASES_AT_MOST]):
            if name in found["tables"]:  # the one that the target names
                continue
            try:
                with opened(postgres, name) as session:
                    _detail(session, found, failures, with_statements=number == 0)
            except ConnectError as error:
                failures[f"tables of {name}"] = error.detail or error.message

    for part in (detail, cluster) if edge == "begin" else (cluster, detail):
        part()
    return found


def busiest_databases(postgres: Postgres) -> list[str]:
    """Return the three databases with most blocks asked for; a session may be opened in none of them."""
    rows = postgres.fetch(
        "SELECT s.datname::text AS name FROM pg_stat_database AS s JOIN pg_database AS d ON d.oid = s.datid "
        "WHERE d.datallowconn AND NOT d.datistemplate AND has_database_privilege(d.oid, 'CONNECT') "
        "AND s.datname !~ %s ORDER BY s.blks_hit + s.blks_read DESC, s.datid LIMIT 3",
        [ANY_NAME],
    )
    return [str(row["name"]) for row in rows]


def opened(postgres: Postgres, database: str | None = None) -> psycopg.Connection[DictRow]:
    """Open a session that limits itself: it waits for no lock for long, and no statement of it takes long.

    Raises ConnectError, also where the server ends the session at once.
    """
    session = postgres.connect(database)
    for statement in _SESSION:
        try:
            session.execute(statement)
        except psycopg.Error as error:
            if session.broken:
                raise query_error(postgres.label, error) from error
    return session


@dataclass(slots=True)
class ActivitySession:
    """A session that samples pg_stat_activity; every failure is a missing sample."""

    session: psycopg.Connection[DictRow]

    def sample(self) -> list[dict[str, Any]] | None:
        """Return what client sessions do now, by state and wait; None when the server cannot be asked."""
        try:
            queries = queries_for(self.session.info.server_version, load_views_once())
            return _rows(self.session, queries["evidence_activity"])
        except psycopg.Error:
            return None


_VIEWS: list[Any] = []


def load_views_once() -> list[Any]:
    """Return the SQL files, read once a process: they are asked for once a second."""
    if not _VIEWS:
        _VIEWS.extend(load_views())
    return _VIEWS


def _detail(
    session: psycopg.Connection[DictRow], found: dict[str, Any], failures: dict[str, str], *, with_statements: bool
) -> None:
    database = session.info.dbname
    query = queries_for(session.info.server_version, load_views_once())["evidence_tables"]
    rows: dict[str, Any] = {}
    given: dict[str, object] = {"limit": TABLES_AT_MOST, "sizes": True}
    _attempt(rows, failures, "tables", lambda: _rows(session, query, given))
    if "tables" not in rows:  # somebody holds a lock that sizes wait for
        _attempt(rows, failures, "tables", lambda: _rows(session, query, {**given, "sizes": False}))
    if "tables" in rows:
        failures.pop("tables", None)
        for row in rows["tables"]:
            row["indexes"] = json.loads(row["indexes"])
        found["tables"][database] = rows["tables"]
        clock = "SELECT extract(epoch FROM clock_timestamp())::float8 AS t"
        _attempt(found["tables_t"], failures, database, lambda: _rows(session, clock)[0]["t"])
    if with_statements:
        _attempt(found, failures, "statements", lambda: _statements(session))


def _statements(session: psycopg.Connection[DictRow]) -> list[dict[str, Any]]:
    """Read pg_stat_statements by the columns that its own version has. Raises LookupError when it is not there."""
    schema = schema_of(session, "pg_stat_statements")
    if schema is None:
        raise LookupError(f'extension pg_stat_statements is not installed in database "{session.info.dbname}"')
    columns = session.execute(
        "SELECT a.attname FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace "
        "JOIN pg_attribute AS a ON a.attrelid = c.oid "
        "WHERE c.relname = 'pg_stat_statements' AND n.nspname = %s AND a.attnum > 0 AND NOT a.attisdropped",
        [schema],
    ).fetchall()
    there = {str(row["attname"]) for row in columns}
    chosen = {
        meaning: next((name for name in names if name in there), None) for meaning, names in _STATEMENT_COLUMNS.items()
    }
    sums = [
        sql.SQL("sum(s.{})::float8 AS {}").format(sql.Identifier(name), sql.Identifier(meaning))
        for meaning, name in chosen.items()
        if name is not None
    ]
    query = sql.SQL(
        "SELECT s.queryid::text AS queryid, d.datname::text AS database, left(min(s.query), 1000) AS query, {sums}, "
        "sum(sum(s.{time})) OVER ()::float8 AS all_time_ms, sum(sum(s.calls)) OVER ()::float8 AS all_calls "
        # Statements of a database that was dropped say nothing of the server as it is; ours are of our own loads.
        "FROM {schema}.pg_stat_statements AS s JOIN pg_database AS d ON d.oid = s.dbid "
        "WHERE s.queryid IS NOT NULL AND d.datname !~ {own} AND coalesce(s.query !~ {own_named}, true) "
        "GROUP BY s.queryid, d.datname ORDER BY sum(s.{time}) DESC LIMIT {limit}"
    ).format(
        sums=sql.SQL(", ").join(sums),
        time=sql.Identifier(chosen["time_ms"] or "total_exec_time"),
        schema=sql.Identifier(schema),
        limit=sql.Literal(_STATEMENTS_AT_MOST),
        own=sql.Literal(ANY_NAME),
        own_named=sql.Literal(ANY_NAME.strip("^$")),
    )
    rows = [row for row in _rows(session, query) if not _OURS.search(str(row["query"]))]
    for row in rows:
        row["query"] = without_values(str(row["query"]))
    return rows


def _buffers(session: psycopg.Connection[DictRow]) -> list[dict[str, Any]]:
    """Ask pg_buffercache how full the cache is, cheaply from 16 on. Raises LookupError when it is not there."""
    row = session.execute(
        "SELECT setting::int8 * 8192 AS bytes FROM pg_settings WHERE name = 'shared_buffers'"
    ).fetchone()
    summary = schema_of(session, "pg_buffercache", "pg_buffercache_summary")
    place = summary or schema_of(session, "pg_buffercache")
    if row is None or place is None:
        raise LookupError(f'extension pg_buffercache is not installed in database "{session.info.dbname}"')
    schema = sql.Identifier(place)
    if summary:
        asked = sql.SQL(
            "SELECT buffers_used::int8 AS used, buffers_unused::int8 AS unused FROM {}.pg_buffercache_summary()"
        )
        return _rows(session, asked.format(schema))
    if row["bytes"] > _SMALL_CACHE:
        raise LookupError("pg_buffercache would take too long for a cache of this size; 16 has a summary of it")
    asked = sql.SQL(
        "SELECT count(relfilenode)::int8 AS used, (count(*) - count(relfilenode))::int8 AS unused "
        "FROM {}.pg_buffercache"
    )
    return _rows(session, asked.format(schema))


def _rows(
    session: psycopg.Connection[DictRow], query: str | sql.Composed, params: Mapping[str, object] | None = None
) -> list[dict[str, Any]]:
    rows = session.execute(cast(LiteralString, query), params).fetchall()
    return [{name: _plain(value) for name, value in row.items()} for row in rows]


def _attempt(into: dict[str, Any], failures: dict[str, str], name: str, read: Callable[[], object]) -> None:
    try:
        into[name] = read()
    except LookupError as error:
        failures[name] = str(error.args[0])
    except psycopg.Error as error:
        lost = query_error("the server", error)
        if isinstance(lost, ConnectError):
            raise lost from error
        failures[name] = error.diag.message_primary or str(error).strip()


def _plain(value: object) -> object:
    return float(value) if isinstance(value, Decimal) else value


_TOKENS = re.compile(
    r"""
    (?P<comment> --[^\n]* | /\*.*?(?:\*/|$) )
  | (?P<escaped> \b[eE]'(?:[^'\\]|\\.|'')*(?:'|$) )
  | (?P<string> (?:\b[bBxXnN]|\b[uU]&)?'(?:[^']|'')*(?:'|$) )
  | (?P<dollar> \$(?P<tag>[A-Za-z_]\w*)?\$.*?(?:\$(?P=tag)\$|$) )
  | (?P<bare> \$\$.*?(?:\$\$|$) )
  | (?P<name> "(?:[^"]|"")*(?:"|$) | \$\d+ | [A-Za-z_]\w* )
  | (?P<number> \d[\w.]* | \.\d+ )
    """,
    re.VERBOSE | re.DOTALL,
)


def without_values(query: str) -> str:
    """Return a statement with `?` for every constant, without comments, on one line.

    pg_stat_statements replaces the constants of queries, but not those of utility statements (ALTER ROLE ... PASSWORD).
    A text that was cut inside of a constant loses the constant too.
    """
    return " ".join(_TOKENS.sub(_replace, query).split())


def _replace(match: re.Match[str]) -> str:
    if match["comment"] is not None:
        return " "
    return match[0] if match["name"] is not None else "?"
