"""What the server says of itself, asked in one session with the rights of pg_monitor.

A fixed number of queries, whatever the databases hold; none takes a lock on a table of a user's, each has a time limit.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import psycopg
from psycopg import sql
from psycopg.rows import DictRow

from pgdyno.capture.secrets import archive_folder, public_setting
from pgdyno.server.postgres import Postgres, query_errors, redact

Rows = list[dict[str, object]]
SETTINGS = sql.SQL("""
SELECT name, setting, unit, vartype, context, source, min_val, max_val, enumvals, boot_val, reset_val,
       sourcefile, sourceline, pending_restart
  FROM pg_catalog.pg_settings WHERE NOT (name = 'search_path' AND source IN ('client', 'session')) ORDER BY name""")
"""Without the search_path that every session of ours has (postgres.py): it says nothing of the server."""
FILE_SETTINGS = sql.SQL("""
SELECT name, setting, sourcefile, sourceline FROM pg_catalog.pg_file_settings
 WHERE applied AND name = ANY(%(names)s) ORDER BY seqno""")
"""Asked only where our own session has values that are not the server's."""
_OF_SESSION = frozenset({"database", "user", "database user", "client", "interactive", "session"})
_OF_EVERY_CLIENT = frozenset(
    {"application_name", "client_encoding", "DateStyle", "IntervalStyle", "TimeZone", "extra_float_digits"}
)
QUERIES: Mapping[str, sql.SQL] = {
    "server": sql.SQL("""
SELECT pg_catalog.version() AS version, pg_catalog.pg_is_in_recovery() AS in_recovery,
       extract(epoch FROM pg_catalog.now() - pg_catalog.pg_postmaster_start_time())::float8 AS uptime_s,
       pg_catalog.current_database()::text AS database,
       (SELECT count(*) FROM pg_catalog.pg_stat_activity WHERE backend_type = 'client backend') AS connections,
       greatest((SELECT count(*) FROM pg_catalog.pg_stat_get_wal_senders() WHERE state IS DISTINCT FROM 'backup'),
                (SELECT count(*) FROM pg_catalog.pg_replication_slots WHERE slot_type = 'physical')) AS standbys,
       (SELECT count(*) FROM pg_catalog.pg_replication_slots) AS slots"""),
    "log": sql.SQL("""
SELECT pg_catalog.pg_current_logfile('stderr') AS stderr, pg_catalog.pg_current_logfile('csvlog') AS csvlog"""),
    # pg_monitor may ask for the current log since 17 only; before, the newest file of the folder is it
    "newest_log": sql.SQL("""
SELECT name FROM pg_catalog.pg_ls_logdir() WHERE pg_catalog.current_setting('logging_collector')::boolean
 ORDER BY modification DESC LIMIT 1"""),
    "overrides": sql.SQL("""
SELECT r.rolname::text AS role, d.datname::text AS database, s.setconfig AS settings
  FROM pg_catalog.pg_db_role_setting s LEFT JOIN pg_catalog.pg_roles r ON r.oid = s.setrole
  LEFT JOIN pg_catalog.pg_database d ON d.oid = s.setdatabase ORDER BY 1, 2"""),
    "extensions": sql.SQL(
        "SELECT extname::text AS name, extversion AS version FROM pg_catalog.pg_extension ORDER BY 1"
    ),
    "available_extensions": sql.SQL("SELECT name::text AS name FROM pg_catalog.pg_available_extensions ORDER BY 1"),
    "databases": sql.SQL("""
SELECT d.datname::text AS name, pg_catalog.age(d.datfrozenxid) AS frozen_xid_age,
       extract(epoch FROM pg_catalog.now() - s.stats_reset)::float8 AS statistics_age_s
  FROM pg_catalog.pg_database d LEFT JOIN pg_catalog.pg_stat_database s ON s.datid = d.oid
 WHERE d.datallowconn ORDER BY 1"""),
    "database_sizes": sql.SQL("""
SELECT d.datname::text AS name, pg_catalog.pg_database_size(d.oid) AS bytes FROM pg_catalog.pg_database d
 WHERE d.datallowconn AND (pg_catalog.has_database_privilege(d.oid, 'CONNECT')
       OR pg_catalog.pg_has_role('pg_read_all_stats', 'USAGE')) ORDER BY 1"""),
    "tablespaces": sql.SQL("""
SELECT spcname::text AS name, pg_catalog.pg_tablespace_location(oid) AS path
  FROM pg_catalog.pg_tablespace ORDER BY 1"""),
    "relations": sql.SQL("""
SELECT count(*) FILTER (WHERE relkind IN ('r', 'p', 'm')) AS tables, count(*) FILTER (WHERE relkind = 'i') AS indexes
  FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
 WHERE n.nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast') AND c.relpersistence <> 't'"""),
    "shared_memory": sql.SQL("SELECT sum(allocated_size)::bigint AS bytes FROM pg_catalog.pg_shmem_allocations"),
}
LIMIT_MS = 1500
"""No single query may take longer: what a huge cluster cannot answer in this time is unknown."""


def read_server(postgres: Postgres) -> tuple[dict[str, str], dict[str, str]]:
    """Return the rows of every query by key, secrets left out, and reasons for those that failed.

    Raises ConnectError when there is no session, or it is lost before the limits of its queries are in force. Side
    effect on the server: none but a read-only session.
    """
    texts: dict[str, str] = {}
    missing: dict[str, str] = {}
    with postgres.connect() as connection, query_errors(postgres.label):
        _read(connection, texts, missing)
    if _key("file_settings") in texts:
        rows = json.loads(texts[_key("file_settings")])
        texts[_key("file_settings")] = _text(
            [{**row, "setting": public_setting(str(row["name"]), row["setting"])} for row in rows]
        )
    if _key("overrides") in texts:
        rows = json.loads(texts[_key("overrides")])
        texts[_key("overrides")] = _text([{**row, "settings": _public_list(row["settings"])} for row in rows])
    return texts, missing


def _read(connection: psycopg.Connection[DictRow], texts: dict[str, str], missing: dict[str, str]) -> None:
    # First of all: the limits below would show among the settings.
    settings = _ask(connection, "settings", SETTINGS, texts, missing)
    if settings is not None:
        texts[_key("settings")] = _text([_public_row(row) for row in settings])
        own = [str(row["name"]) for row in settings if is_of_session(str(row["name"]), str(row["source"]))]
        if own:
            _ask(connection, "file_settings", FILE_SETTINGS, texts, missing, {"names": own})
        folders = _archive_folders(connection, settings)
        texts[_key("archive")] = _text([{"folder": folder} for folder in folders])
    connection.execute("SET default_transaction_read_only = on")
    connection.execute(sql.SQL("SET statement_timeout = {}").format(sql.Literal(LIMIT_MS)))
    connection.execute("SET lock_timeout = 100")
    for name, query in QUERIES.items():
        _ask(connection, name, query, texts, missing)


def is_of_session(name: str, source: str) -> bool:
    """Tell whether a row of pg_settings is what our role, database or connection made of it, and not the server's."""
    return source in _OF_SESSION and name not in _OF_EVERY_CLIENT


def _ask(
    connection: psycopg.Connection[DictRow],
    name: str,
    query: sql.SQL,
    texts: dict[str, str],
    missing: dict[str, str],
    params: Mapping[str, object] | None = None,
) -> Rows | None:
    try:
        rows = list(connection.execute(query, params).fetchall())
    except psycopg.Error as error:
        if connection.closed:
            missing[_key(name)] = "the session was lost"
        else:
            missing[_key(name)] = redact(error.diag.message_primary or str(error)).strip()
        return None
    texts[_key(name)] = _text(rows)
    return rows


def _key(name: str) -> str:
    return f"postgres/{name}.json"


def _text(rows: Sequence[object]) -> str:
    """Return JSON with a line for each row: indented, it is written by Python at ten times the cost."""
    lines = ",\n".join(json.dumps(row, default=str) for row in rows)
    return f"[\n{lines}\n]\n"


def _public_row(row: dict[str, object]) -> dict[str, object]:
    name = str(row["name"])
    hidden = {
        field: public_setting(name, None if row[field] is None else str(row[field]))
        for field in ("setting", "boot_val", "reset_val")
    }
    # A capture of ten thousand lines is read by people too: what is empty is left out.
    return {key: value for key, value in {**row, **hidden}.items() if value is not None and value is not False}


def _public_list(settings: object) -> list[str]:
    pairs = [str(pair).partition("=") for pair in settings] if isinstance(settings, list) else []
    return [f"{name}={public_setting(name, value) or ''}" for name, _, value in pairs]


def _archive_folders(connection: psycopg.Connection[DictRow], rows: Rows) -> list[str]:
    """Return the folders that WAL is archived to, by archive_command or by the library basic_archive (15 and later)."""
    settings = {str(row["name"]): str(row["setting"]) for row in rows}
    if "basic_archive" not in settings.get("archive_library", "") or settings.get("archive_mode") == "off":
        folder = archive_folder(settings.get("archive_command", ""))
        return [folder] if folder else []
    # The archiver alone loads the library, so that pg_settings of a session does not have what the file says of it.
    asked = connection.execute("SELECT current_setting('basic_archive.archive_directory', true) AS folder")
    return [str(row["folder"]) for row in asked if row["folder"]]
