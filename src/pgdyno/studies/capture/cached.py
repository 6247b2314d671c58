"""What the source has in shared buffers, relation by relation, by pg_buffercache where that is there. Reads only."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import psycopg
from psycopg import sql

from pgdyno.errors import ConnectError, PgdynoError
from pgdyno.server.extensions import schema_of
from pgdyno.server.postgres import Postgres, query_error
from pgdyno.trace.schema import CachedRelation

MOST_BUFFERS = 2 << 20
"""16 GB: the view of pg_buffercache takes memory of the source for each buffer."""
MOST_RELATIONS = 20_000
"""Those with most pages."""
_PATIENCE = "SET statement_timeout = '60s'"
_ROOM = "SELECT setting::int8 AS blocks FROM pg_catalog.pg_settings WHERE name = 'shared_buffers'"
_BUFFERS = """
SELECT d.datname::text AS database, b.relfilenode::int8 AS file, pg_catalog.count(*) AS blocks
  FROM {}.pg_buffercache AS b JOIN pg_catalog.pg_database AS d ON d.oid = b.reldatabase
 WHERE b.relforknumber = 0 GROUP BY 1, 2 ORDER BY 3 DESC LIMIT %s
"""
_RELATIONS = """
SELECT n.nspname::text AS schema, c.relname::text AS name, pg_catalog.pg_relation_filenode(c.oid)::int8 AS file,
       pg_catalog.pg_relation_size(c.oid) / pg_catalog.current_setting('block_size')::int8 AS blocks
  FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
 WHERE c.relkind IN ('r', 'm', 'i') AND c.relpersistence <> 't'
   AND n.nspname <> 'information_schema' AND n.nspname NOT LIKE 'pg\\_%%'
   AND pg_catalog.pg_relation_filenode(c.oid)::int8 = ANY (%s)
"""


def read_cached(postgres: Postgres, databases: Iterable[str]) -> tuple[tuple[CachedRelation, ...], str]:
    """Return the relations of which pages are in shared buffers, and why that is not known, empty where it is.

    The extension must be in the database that `postgres` names or in one of `databases`, and the role may use it.
    """
    places, why = (str(postgres.parameters.get("dbname", "")) or None, *databases), "no database has pg_buffercache"
    for place in dict.fromkeys(places):
        try:
            found = _buffers(postgres, place)
        except ConnectError as error:
            why = error.one_line
            continue
        except (PgdynoError, psycopg.Error) as error:
            return (), error.one_line if isinstance(error, PgdynoError) else _reason(postgres, error)
        if isinstance(found, str):
            return (), found
        if found is not None:
            return _named(postgres, found)
    return (), why


def _buffers(postgres: Postgres, database: str | None) -> Mapping[str, Mapping[int, int]] | str | None:
    """Return blocks by file by database, why they are not asked for, or None where the extension is not there."""
    with postgres.connect(database) as session:
        session.execute(_PATIENCE)
        schema, room = schema_of(session, "pg_buffercache"), session.execute(_ROOM).fetchone()
        if schema is None:
            return None
        if room is None or int(room["blocks"]) > MOST_BUFFERS:
            return "shared buffers are too large for pg_buffercache beside a load: above 16 GB it is not asked"
        rows = session.execute(sql.SQL(_BUFFERS).format(sql.Identifier(schema)), [MOST_RELATIONS]).fetchall()
    found = dict[str, dict[int, int]]()
    for row in rows:
        found.setdefault(str(row["database"]), {})[int(row["file"])] = int(row["blocks"])
    return found


def _named(postgres: Postgres, found: Mapping[str, Mapping[int, int]]) -> tuple[tuple[CachedRelation, ...], str]:
    relations, unread = list[CachedRelation](), list[str]()
    for database, files in sorted(found.items()):
        try:
            with postgres.connect(database) as session:
                session.execute(_PATIENCE)
                rows = session.execute(_RELATIONS, [list(files)]).fetchall()
        except (PgdynoError, psycopg.Error) as error:
            unread.append(error.one_line if isinstance(error, PgdynoError) else _reason(postgres, error))
            continue
        relations += [
            CachedRelation(database, row["schema"], row["name"], files[row["file"]], int(row["blocks"] or 0))
            for row in rows
        ]
    relations.sort(key=lambda one: (-one.cached, one.database, one.schema, one.name))
    return tuple(relations), "; ".join(unread)


def _reason(postgres: Postgres, error: psycopg.Error) -> str:
    return query_error(postgres.label, error).one_line
