"""The order of commits during a capture, by one temporary logical slot that lives and dies with our session.

`test_decoding` needs no publication, so that the catalog of the source is not changed; it belongs to PostgreSQL's
contrib modules. A logical slot sees one database, that of --target. The slot holds back WAL: guard `slots` watches it.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psycopg
from psycopg import sql
from psycopg.rows import DictRow

from pgdyno.errors import EnvironmentUnsuitable
from pgdyno.outputs import open_new
from pgdyno.probes.observer import quieten
from pgdyno.server.postgres import Postgres
from pgdyno.trace.commit_lines import HEAD, CommitLines
from pgdyno.trace.keys.matching import plain_name
from pgdyno.trace.schema import KeyLink, KeyTable
from pgdyno.units import plural

PLUGIN = "test_decoding"
_AT_ONCE = 20_000
"""Changes: some more, since a transaction comes whole."""
_SESSION = (
    "SET statement_timeout = '60s'",
    "SET TimeZone = 'UTC'",
    "SET DateStyle = 'ISO'",
    "SET client_connection_check_interval = '10s'",
    "SET tcp_keepalives_idle = 30",
    "SET tcp_keepalives_interval = 10",
    "SET tcp_keepalives_count = 3",
)
"""A slot must not outlive us, also where our machine goes away: the server then sees within a minute that we are."""
_MAKE = "SELECT pg_catalog.pg_create_logical_replication_slot(%s, %s, true)"
_GENERATED = """
SELECT quote_ident(n.nspname) || '.' || quote_ident(c.relname) AS "table",
       array_agg(quote_ident(a.attname)) AS columns
  FROM pg_catalog.pg_attribute AS a JOIN pg_catalog.pg_class AS c ON c.oid = a.attrelid
  JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
 WHERE c.relkind IN ('r', 'p') AND a.attnum > 0 AND NOT a.attisdropped AND c.oid >= 16384
   AND (a.attidentity <> ''
        OR (a.atthasdef AND a.attgenerated = ''
            AND (EXISTS (SELECT 1 FROM pg_catalog.pg_index AS i
                          WHERE i.indrelid = c.oid AND i.indisprimary AND a.attnum = ANY (i.indkey))
                 OR EXISTS (SELECT 1 FROM pg_catalog.pg_attrdef AS d
                             WHERE d.adrelid = c.oid AND d.adnum = a.attnum
                               AND pg_catalog.pg_get_expr(d.adbin, d.adrelid) LIKE 'nextval(%%'))))
 GROUP BY 1
"""
_LINKS = """
SELECT c.relname::text AS "table", own.attname::text AS "column",
       k.relname::text AS key_table, other.attname::text AS key_column
  FROM pg_catalog.pg_constraint AS f
  CROSS JOIN LATERAL unnest(f.conkey, f.confkey) AS pair (mine, theirs)
  JOIN pg_catalog.pg_class AS c ON c.oid = f.conrelid JOIN pg_catalog.pg_class AS k ON k.oid = f.confrelid
  JOIN pg_catalog.pg_attribute AS own ON own.attrelid = f.conrelid AND own.attnum = pair.mine
  JOIN pg_catalog.pg_attribute AS other ON other.attrelid = f.confrelid AND other.attnum = pair.theirs
 WHERE f.contype = 'f' AND f.conparentid = 0 ORDER BY 1, 2, 3, 4
"""
_SHAPES = """
SELECT c.relname::text AS name, quote_ident(n.nspname) || '.' || quote_ident(c.relname) AS "table",
       array_agg(a.attname::text ORDER BY a.attnum) AS columns
  FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
  JOIN pg_catalog.pg_attribute AS a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
 WHERE c.relkind IN ('r', 'p') AND c.oid >= 16384
   AND (quote_ident(n.nspname) || '.' || quote_ident(c.relname) = ANY (%s) OR c.relname::text = ANY (%s))
 GROUP BY 1, 2 ORDER BY 2
"""
_CHANGES = """
SELECT lsn::text AS lsn, data FROM pg_catalog.pg_logical_slot_get_changes(
    %s, NULL, %s, 'include-timestamp', 'on', 'include-xids', 'on', 'skip-empty-xacts', 'off')
 WHERE data LIKE 'COMMIT %%' OR split_part(data, ': INSERT:', 1) = ANY (%s)
"""


class CommitOrder:
    """One slot and the file that its commits go to. `lost` says why they are not whole; None while they are."""

    def __init__(
        self, connection: psycopg.Connection[DictRow], slot: str, path: Path, announce: Callable[[str], None]
    ) -> None:
        self._connection, self._slot, self._path, self._announce = connection, slot, path, announce
        tables = connection.execute(_GENERATED).fetchall()
        self._lines = CommitLines({str(row["table"]): frozenset(row["columns"]) for row in tables})
        links = connection.execute(_LINKS).fetchall()
        self.key_links = tuple(KeyLink(**{name: str(value) for name, value in row.items()}) for row in links)
        self.key_tables = tuple(
            KeyTable(
                str(row["name"]), tuple(row["columns"]),
                tuple(plain_name(one) for one in sorted(self._lines.wanted.get(str(row["table"]), ()))),
            )
            for row in connection.execute(
                _SHAPES, [list(self._lines.wanted), [one.table for one in self.key_links]]
            ).fetchall()
        )  # fmt: skip
        self._inserts = [f"table {name}" for name in self._lines.wanted]
        self._file = open_new(path)
        self.lost: str | None = None
        self.commits = 0
        self._write([HEAD])

    @classmethod
    def open(cls, postgres: Postgres, capture: str, path: Path, announce: Callable[[str], None]) -> CommitOrder:
        """Make the slot; waits for the transactions that are open now. Raises EnvironmentUnsuitable with the reason.

        The slot is of the database that `postgres` connects to. `capture` is the id that names it, `path` the file for
        the order, which must not exist yet. `announce` is told where the order is lost later.
        """
        connection = postgres.connect()
        try:
            quieten(connection)
            for statement in _SESSION:
                with suppress(psycopg.errors.UndefinedObject, psycopg.errors.InvalidParameterValue):
                    connection.execute(sql.SQL(statement))
            slot = f"pgdyno_{capture.replace('-', '_')}"
            connection.execute(_MAKE, [slot, PLUGIN])
            return cls(connection, slot, path, announce)
        except psycopg.Error as error:
            connection.close()
            raise _no_slot(postgres.label, error) from error
        except BaseException:
            connection.close()
            raise

    @property
    def words(self) -> str:
        """Return what came of it, once it is over."""
        if self.lost is None:
            return f"{plural(self.commits, 'commit')} in their order"
        return f"no commit order is kept: after {plural(self.commits, 'commit')} it was lost"

    def drain(self) -> None:
        """Take what has committed since, up to now. What goes wrong is kept in `lost` and told: the capture goes on."""
        while self.lost is None and self._take():
            pass

    def close(self) -> None:
        """End the session, and the slot with it. Idempotent."""
        self._connection.close()
        self._file.close()

    def _take(self) -> int:
        try:
            rows = self._connection.execute(_CHANGES, [self._slot, _AT_ONCE, self._inserts]).fetchall()
            taken = [self._lines.take(str(row["lsn"]), str(row["data"])) for row in rows]
            found = [one.row() for one in taken if one is not None]
            self._write(found)
        except (psycopg.Error, OSError, ValueError) as error:
            self.lost = " ".join(str(error).split()) or type(error).__name__
            self._announce(f"the commit order is lost, and its slot dropped: {self.lost}")
            self.close()
            return 0
        except BaseException:  # the slot may have gone on without us
            self.lost = self.lost or "interrupted while it was read"
            raise
        self.commits += len(found)
        return len(found)

    def _write(self, rows: list[tuple[str, ...]]) -> None:
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows(rows)
        self._file.write(text.getvalue().encode())
        self._file.flush()


def _no_slot(label: str, error: psycopg.Error) -> EnvironmentUnsuitable:
    reason = error.diag.message_primary or " ".join(str(error).split())
    if isinstance(error, (psycopg.errors.QueryCanceled, psycopg.errors.LockNotAvailable)):  # whichever limit is nearer
        reason = "a transaction that was open before did not end within a minute"
        hint = "See pg_stat_activity for the oldest xact_start, or capture without --commit-order."
    elif isinstance(error, psycopg.errors.UndefinedFile):
        hint = f"Install PostgreSQL's contrib modules on the server ({PLUGIN}), or capture without --commit-order."
    else:
        hint = "Capture without --commit-order, or fix what the server names."
    return EnvironmentUnsuitable(
        f'"{label}" cannot create a logical slot: {reason}', hint=f"Nothing was changed. {hint}"
    )
