"""The databases that pgdyno makes on a server for its loads: their names, the mark inside, and how one is dropped.

A database of ours has a name by `NAME` and carries the table `pgdyno_workload.origin`. A clone inherits the table, and
a copy of a user's database has another name until it has the table (`new_database.py`): there is no moment at which a
database of ours is unmarked but for the first instant of a template, when it is empty.
Nothing else is ever dropped. A look runs nothing that the owner of a database may have put into it: with a
superuser's rights pgdyno looks into databases that anybody may have made.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import psycopg
from psycopg import sql
from psycopg.rows import DictRow

from pgdyno.errors import EnvironmentUnsuitable, PgdynoError
from pgdyno.server.databases import drop_database
from pgdyno.server.postgres import Postgres, query_errors

NAME = "^pgdyno_[0-9a-f]{16}_(template|load)$"
"""What our names look like, as a regular expression of PostgreSQL and of Python alike."""
ANY_NAME = "^pgdyno_([0-9a-f]{16}_(template|load)|[0-9a-f]{32}_new)$"
"""These, and the names of databases that are being made, or were when we were killed (`new_database.py`)."""
MARK = """
CREATE SCHEMA pgdyno_workload;
CREATE TABLE pgdyno_workload.origin (workload text NOT NULL, complete_at timestamptz, kept_at timestamptz);
"""
_INVALID = "SELECT datconnlimit = -2 AS invalid FROM pg_database WHERE datname = %s"
"""Whether it is what a DROP DATABASE left that was killed: it takes no session and can be dropped.

From 15.4 and 16 on; DATCONNLIMIT_INVALID_DB of pg_database.h.
"""
_LOOK = """
SELECT EXISTS (SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
                WHERE n.nspname = 'pgdyno_workload' AND c.relname = 'origin' AND c.relkind = 'r'
                  AND NOT c.relrowsecurity) AS marked,
       NOT EXISTS (SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
                   WHERE n.nspname !~ '^pg_' AND n.nspname <> 'information_schema') AS empty
"""
# Older versions made the table without kept_at.
_ORIGIN = """
SELECT o.workload::text AS workload, o.complete_at IS NOT NULL AS complete,
       to_jsonb(o) ->> 'kept_at' IS NOT NULL AS kept
  FROM ONLY pgdyno_workload.origin AS o
"""
_KEEP = """
ALTER TABLE pgdyno_workload.origin ADD COLUMN IF NOT EXISTS kept_at timestamptz;
UPDATE pgdyno_workload.origin SET kept_at = clock_timestamp();
"""
_LIST = """
SELECT d.datname::text AS name,
       CASE WHEN pg_catalog.has_database_privilege(d.oid, 'CONNECT')
              OR pg_catalog.pg_has_role('pg_read_all_stats', 'MEMBER')
            THEN pg_catalog.pg_database_size(d.oid) END AS bytes,
       (SELECT pg_catalog.count(*) FROM pg_catalog.pg_stat_activity a WHERE a.datid = d.oid) AS sessions
  FROM pg_catalog.pg_database d
 WHERE d.datname ~ %s
 ORDER BY d.datname
"""


class DatabaseState(StrEnum):
    """What a database of one of our names is."""

    ABSENT = "absent"
    COMPLETE = "complete"
    UNFINISHED = "unfinished"
    """Ours, but its load was interrupted."""
    FOREIGN = "foreign"
    """Not made by us: never to be touched."""


@dataclass(frozen=True, slots=True)
class DatabaseMark:
    """What a database is; `workload` is empty where it does not say, `kept` that a study was told to keep it."""

    state: DatabaseState
    workload: str = ""
    kept: bool = False


@dataclass(frozen=True, slots=True)
class OwnDatabase:
    """A database of one of our names on a server. `bytes` is None where the role may not ask.

    `look` is None where the role may open no session in it, and `reason` says why. `sessions` are open in it.
    """

    name: str
    bytes: int | None
    sessions: int
    look: DatabaseMark | None
    reason: str = ""


def look_into(postgres: Postgres, name: str) -> DatabaseMark:
    """Look what the database of this name is. Opens a session in it; changes nothing. Errors as `Postgres.connect`."""
    rows = postgres.fetch(_INVALID, [name])
    if not rows:
        return DatabaseMark(DatabaseState.ABSENT)
    if rows[0]["invalid"]:
        return DatabaseMark(DatabaseState.UNFINISHED)
    with postgres.connect(name) as session, query_errors(postgres.label):
        return _look(session)


def _look(session: psycopg.Connection[DictRow]) -> DatabaseMark:
    found = session.execute(_LOOK).fetchone()
    assert found is not None, "a query without FROM gives one row"
    if not found["marked"]:
        return DatabaseMark(DatabaseState.UNFINISHED if found["empty"] else DatabaseState.FOREIGN)
    row = session.execute(_ORIGIN).fetchone()
    if row is None:
        return DatabaseMark(DatabaseState.UNFINISHED)
    state = DatabaseState.COMPLETE if row["complete"] else DatabaseState.UNFINISHED
    return DatabaseMark(state, str(row["workload"]), bool(row["kept"]))


def own_databases(postgres: Postgres) -> list[OwnDatabase]:
    """Return the databases of our names on a server, by name; those of strangers among them are FOREIGN."""
    found = []
    for row in postgres.fetch(_LIST, [NAME]):
        name, size = str(row["name"]), row["bytes"]
        look, reason = None, ""
        try:
            look = look_into(postgres, name)
        except PgdynoError as error:
            reason = error.detail or error.message
        sessions = int(str(row["sessions"]))
        found.append(OwnDatabase(name, None if size is None else int(str(size)), sessions, look, reason))
    return found


def owned_state(postgres: Postgres, name: str) -> DatabaseState:
    """Return the state of the database. Raise EnvironmentUnsuitable when it was not made by us."""
    state = look_into(postgres, name).state
    if state is DatabaseState.FOREIGN:
        raise EnvironmentUnsuitable(
            f'database "{name}" exists and was not made by pgdyno',
            detail="It has tables, but no pgdyno_workload.origin.",
            hint="Rename that database: pgdyno does not touch what it did not make.",
        )
    return state


def drop_owned(postgres: Postgres, name: str) -> bool:
    """Drop a database of ours with every session in it; return whether there was one. Refuses one that is not ours."""
    if owned_state(postgres, name) is DatabaseState.ABSENT:
        return False
    drop_database(postgres, name)
    return True


def drop_unused(postgres: Postgres, name: str) -> bool:
    """Drop a database of ours in which nobody has a session; as `drop_owned`. Raises where somebody has one."""
    if owned_state(postgres, name) is DatabaseState.ABSENT:
        return False
    postgres.execute(sql.SQL("DROP DATABASE IF EXISTS {}").format(sql.Identifier(name)))
    return True


def mark_kept(postgres: Postgres, name: str) -> None:
    """Note in a database of ours that its study was told to keep it; nothing where it is not there."""
    if owned_state(postgres, name) is DatabaseState.COMPLETE:
        postgres.execute(_KEEP, dbname=name)
