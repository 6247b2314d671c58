"""The observer's own session with the server: reads every view, survives restarts, gives up on what is refused."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field

import psycopg
from psycopg import sql
from psycopg.rows import DictRow
from psycopg.types.numeric import FloatLoader

from pgdyno.errors import ConnectError
from pgdyno.probes.network_path import is_network, round_trip_s
from pgdyno.probes.views import ViewRow, ViewsReading, load_views, queries_for
from pgdyno.server.extensions import schema_of
from pgdyno.server.postgres import Postgres
from pgdyno.server.prepared_reads import PreparedReads

# A pipeline whose session was lost warns of it on stderr where nobody listens; here it is part of the reading.
logging.getLogger("psycopg").addHandler(logging.NullHandler())

OBSERVER_DATABASE = "pgdyno_observer"
FALLBACK_DATABASE = "postgres"
_TICK_VIEWS = ("server", "database", "checkpointer", "wal", "io", "locks", "activity", "replication")
_SESSION = (
    "SET application_name = 'pgdyno_observer'",
    "SET statement_timeout = '5s'",
    "SET lock_timeout = '1s'",
    "SET jit = off",
    "SET log_min_duration_statement = -1",
    "SET stats_fetch_consistency = none",
)
"""What our session sets for itself; each is left out where the version or the role does not allow it."""


@dataclass(slots=True)
class Observer:
    """One session, opened when it is first needed and again after it was lost.

    It sits in `database` (`fallback` where that does not exist), never in the load's own, so that it is not part of
    what it counts. It only reads. Prepared statements, autocommit.

    All views of a reading go in one round trip (pipeline mode, libpq 14), see `bench/sampling.py --cpu`. When one of
    them fails, each is read again by itself, to find which.
    """

    postgres: Postgres
    load_database: str
    database: str = OBSERVER_DATABASE
    fallback: str = FALLBACK_DATABASE
    in_one_trip: bool = True
    _connection: psycopg.Connection[DictRow] | None = None
    _queries: dict[str, str] = field(default_factory=dict)
    _refused: set[str] = field(default_factory=set)
    _reads: PreparedReads | None = None
    _cursors: dict[str, psycopg.Cursor[DictRow]] = field(default_factory=dict)
    """By view, of this session: for what was not read in one trip."""

    def read(self, t: float, views: Sequence[str] = _TICK_VIEWS) -> ViewsReading:
        """Read the views now. Never raises for what the server does: failures are part of the reading."""
        failures: dict[str, str] = {}
        found: dict[str, list[ViewRow]] = {}
        try:
            connection = self._session()
            wanted = [view for view in views if view in self._queries and view not in self._refused]
            if not self._read_together(connection, wanted, found):
                for view in wanted:
                    self._read_view(connection, view, found, failures)
        except (ConnectError, psycopg.Error) as error:
            self.close()
            detail = error.detail if isinstance(error, ConnectError) else None
            return ViewsReading(t, {}, {"server": (detail or str(error)).strip()})
        return ViewsReading(t, found, failures)

    def is_network(self) -> bool | None:
        """Tell whether the session leaves this machine; None when there is no session."""
        return None if self._connection is None else is_network(self._connection)

    def round_trip_s(self) -> float | None:
        """Return how long the server takes to answer nothing; None when there is no session."""
        try:
            return None if self._connection is None else round_trip_s(self._connection)
        except psycopg.Error:
            return None  # the next reading finds the session lost, and says so

    def close(self) -> None:
        """End the session; the next reading opens another."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _read_together(
        self, connection: psycopg.Connection[DictRow], views: Sequence[str], found: dict[str, list[ViewRow]]
    ) -> bool:
        """Read all views in one round trip; False, and nothing read, when one of them failed."""
        if not self.in_one_trip or self._reads is None:
            return False
        try:
            told = self._reads.read({view: self._queries[view] for view in views}, self.load_database)
            found.update({view: list(rows) for view, rows in told.items()})
        except psycopg.Error:
            if connection.broken or connection.closed:
                raise
            return False
        return True

    def _execute(self, connection: psycopg.Connection[DictRow], view: str) -> psycopg.Cursor[DictRow]:
        cursor = self._cursors.get(view)
        if cursor is None:
            cursor = self._cursors[view] = connection.cursor()
        return cursor.execute(self._queries[view], {"database": self.load_database}, prepare=True)

    def _read_view(
        self,
        connection: psycopg.Connection[DictRow],
        view: str,
        found: dict[str, list[ViewRow]],
        failures: dict[str, str],
    ) -> None:
        try:
            found[view] = list(self._execute(connection, view).fetchall())
        except psycopg.Error as error:
            if connection.broken or connection.closed:
                raise
            failures[view] = str(error).strip()
            if not isinstance(error, psycopg.errors.QueryCanceled):
                self._refused.add(view)

    def _session(self) -> psycopg.Connection[DictRow]:
        if self._connection is not None and not self._connection.broken:
            return self._connection
        connection = self._connect()
        quieten(connection)
        connection.adapters.register_loader("numeric", FloatLoader)  # as the store keeps it, without Decimal in between
        self._queries = queries_for(connection.info.server_version, load_views())
        schema = sql.Identifier(schema_of(connection, "pg_stat_statements") or "pg_catalog").as_string(connection)
        self._queries["statements"] = self._queries["statements"].replace("{schema}", schema)
        self._refused.clear()
        self._cursors.clear()
        self._reads = PreparedReads(connection) if psycopg.Pipeline.is_supported() else None
        self._connection = connection
        return connection

    def _connect(self) -> psycopg.Connection[DictRow]:
        try:
            return self.postgres.connect(self.database)
        except ConnectError as error:
            # In whatever language: a server that answers names the database that it lacks, or that we may not enter.
            if self.database not in (error.detail or ""):
                raise
            return self.postgres.connect(self.fallback)


def quieten(connection: psycopg.Connection[DictRow]) -> None:
    """Let a session of ours be told from others, never wait long, and be in no log. Raises psycopg.Error when lost."""
    for statement in _SESSION:
        try:
            connection.execute(statement)
        except psycopg.Error:
            if connection.broken:
                raise
