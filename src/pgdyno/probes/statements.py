"""What pg_stat_statements counts, read as a live study needs it: without texts, in binary, from one session of ours.

The function materialises all its entries whatever one asks for, so that one reading of all of them costs what a
reading of a few does. Rows come as one record each, which costs the server a little more and this side less than half
(`bench/live_cost.py`, row L11). Nothing is ever reset.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import psycopg
from psycopg import sql
from psycopg.rows import DictRow, tuple_row

from pgdyno.errors import ConnectError, EnvironmentUnsuitable
from pgdyno.probes.observer import FALLBACK_DATABASE, OBSERVER_DATABASE, quieten
from pgdyno.probes.statement_rows import RECORD_OID, PackedRecord, statement_rows
from pgdyno.probes.views import load_views, queries_for
from pgdyno.server.extensions import schema_of
from pgdyno.server.postgres import Postgres, query_error, row_as
from pgdyno.stats.statement_deltas import StatementSnapshot

T = TypeVar("T")
EXTENSION = "pg_stat_statements"
_VIEWS = (
    "live_statements", "live_server", "live_sessions", "live_databases", "live_entries", "live_crossing",
    "live_own_sessions", "live_texts", "live_housework",
)  # fmt: skip
_WHO = (
    "SELECT oid::int8 AS oid, rolname::text AS role, pg_catalog.pg_has_role(oid, 'pg_read_all_stats', 'USAGE') AS sees "
    "FROM pg_catalog.pg_roles WHERE rolname = current_user"
)
_NAMES = (
    "SELECT oid::int8 AS oid, datname::text AS name, true AS is_database FROM pg_catalog.pg_database "
    "UNION ALL SELECT oid::int8, rolname::text, false FROM pg_catalog.pg_roles"
)


@dataclass(frozen=True, slots=True)
class StatementKey:
    """What a statement is known by; a table that is made again, and before 18 a longer IN list, makes another one."""

    database: int
    role: int
    queryid: int
    toplevel: bool


@dataclass(frozen=True, slots=True)
class SessionCounts:
    """Sessions of others `at` one moment by the server's clock; `old` began before the reading did.

    `oldest_s` is how long the longest statement has run, `blocked` are those that wait for a lock in one of more than a
    second, and `begun` says when statements began, the oldest twenty of those that were asked for. `computing` are the
    processes, parallel workers too, that wait for nothing but perhaps a CPU.
    """

    sessions: int
    active: int
    old: int
    oldest_s: float
    at: float = 0.0
    blocked: int = 0
    begun: tuple[float, ...] = ()
    computing: int = 0


@dataclass(frozen=True, slots=True)
class DatabaseTotals:
    """What all databases did so far: transactions, milliseconds that sessions were at work (None before 14), and I/O.

    Bytes of temporary files and of WAL, and blocks read, from disk or the page cache.
    """

    commits: float
    rollbacks: float
    active_ms: float | None
    temp_bytes: float = 0.0
    wal_bytes: float = 0.0
    blocks_read: float = 0.0


@dataclass(frozen=True, slots=True)
class Housework:
    """Checkpoints that began since the statistics were reset, and how many tables are being vacuumed now."""

    checkpoints: int
    vacuums: int


class StatementReader:
    """One session in the first database of ours that has the extension, the target's own first. Not for two threads.

    Statements get a number each at their first sight, which holds until it is released. Those of our own role
    are left out of every column, and only their time is told: our readings are in the statistics, too.
    """

    def __init__(self, postgres: Postgres) -> None:
        self._postgres = postgres
        self._connection: psycopg.Connection[DictRow] | None = None
        self._queries: dict[str, sql.SQL] = {}
        self._own_role = 0
        self.role = ""
        self.sees_all = False
        self.keys: list[StatementKey] = []
        self._numbers: dict[tuple[object, ...], int] = {}
        self._free: list[int] = []
        self._seen: tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]] | None = None
        """Keys of the latest reading in its order, and their numbers: mostly the next one has the same."""

    def open(self) -> str | None:
        """Open the session and return its database; None where no database that we may enter has the extension.

        Raises ConnectError when the server does not answer.
        """
        for database in (None, OBSERVER_DATABASE, FALLBACK_DATABASE):
            try:
                connection = self._postgres.connect(database)
            except ConnectError:
                if database is None:
                    raise
                continue
            if self._take(connection):
                return connection.info.dbname
            connection.close()
        return None

    def adopt(self, keys: Sequence[StatementKey]) -> None:
        """Number statements as an earlier reader did; before anything is read."""
        self.keys, self._seen = list(keys), None
        self._numbers = {(key.database, key.role, key.queryid, key.toplevel): i for i, key in enumerate(keys)}

    def release(self, numbers: Iterable[int]) -> None:
        """Give these numbers to others: of statements that were in no recent reading, the last one included."""
        self._seen = None
        for number in numbers:
            key = self.keys[number]
            if self._numbers.pop((key.database, key.role, key.queryid, key.toplevel), None) is not None:
                self._free.append(number)

    def close(self) -> None:
        """End the session."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def statements(self) -> StatementSnapshot:
        """Read the counters of all statements of others. Raises ConnectError, or EnvironmentUnsuitable when refused."""
        return self._asked(self._statements)

    def sessions(self, since: float, begun: float = math.inf) -> SessionCounts:
        """Count the sessions of others, and of them those that began before `since`.

        Statements are told by when they began, where that is not before `begun`. Errors as `statements`.
        """
        return self._as(SessionCounts, "live_sessions", {"since": since, "begun": begun})

    def crossing(self, after: float, before: float) -> int:
        """Count the statements of others at work that began between two moments of the server's clock."""
        return int(self._row("live_crossing", {"after": after, "before": before})["crossing"])

    def own_sessions(self) -> tuple[int, int]:
        """Count the sessions that are not pgdyno's, and those of them that have the role of ours."""
        row = self._row("live_own_sessions")
        return int(row["sessions"]), int(row["own"])

    def databases(self) -> DatabaseTotals:
        """Return what all databases did. Errors as `statements`."""
        return self._as(DatabaseTotals, "live_databases")

    def housework(self) -> Housework:
        """Return what the server does beside its statements. Errors as `statements`."""
        return self._as(Housework, "live_housework")

    def entries(self) -> int:
        """Return how many entries pg_stat_statements holds, ours and nested ones too. Errors as `statements`."""
        return int(self._row("live_entries")["entries"])

    def texts(self, queryids: Sequence[int]) -> Mapping[int, str]:
        """Return the whole texts of these statements, where they have one. Errors as `statements`."""
        return {int(row["queryid"]): str(row["text"]) for row in self._rows("live_texts", {"ids": list(queryids)})}

    def names(self) -> tuple[Mapping[int, str], Mapping[int, str]]:
        """Return the names of databases and of roles by their oid. Errors as `statements`."""
        rows = self._rows("names")
        databases, roles = (
            {row["oid"]: row["name"] for row in rows if row["is_database"] is of} for of in (True, False)
        )
        return databases, roles

    def _take(self, connection: psycopg.Connection[DictRow]) -> bool:
        try:
            quieten(connection)
            connection.execute("SET application_name = 'pgdyno_live'")
            schema = schema_of(connection, EXTENSION)
            if schema is None:
                return False
            who = connection.execute(_WHO).fetchone()
        except psycopg.Error as error:
            connection.close()
            raise query_error(self._postgres.label, error) from error
        assert who is not None, "whoever has a session is a role"
        self._own_role, self.role, self.sees_all = int(who["oid"]), str(who["role"]), bool(who["sees"])
        name = sql.Identifier(schema).as_string(connection)
        found = queries_for(connection.info.server_version, load_views())
        self._queries = {view: sql.SQL(found[view].replace("{schema}", name)) for view in _VIEWS}
        self._queries["names"] = sql.SQL(_NAMES)
        self._connection = connection
        return True

    def _rows(self, view: str, params: Mapping[str, object] | None = None) -> list[DictRow]:
        return self._asked(lambda connection: connection.execute(self._queries[view], params).fetchall())

    def _row(self, view: str, params: Mapping[str, object] | None = None) -> DictRow:
        (row,) = self._rows(view, params)
        return row

    def _as(self, kind: type[T], view: str, params: Mapping[str, object] | None = None) -> T:
        return row_as(kind, self._row(view, params), self._postgres.label)

    def _asked(self, read: Callable[[psycopg.Connection[DictRow]], T]) -> T:
        if self._connection is None:
            raise ConnectError(f'there is no session with "{self._postgres.label}"')
        try:
            return read(self._connection)
        except psycopg.Error as error:
            if self._connection.broken:
                self.close()
            raise query_error(self._postgres.label, error) from error

    def reopen(self) -> None:
        """Open the session again where it was lost. Errors as `open`; EnvironmentUnsuitable without the extension."""
        if self._connection is None and self.open() is None:
            raise EnvironmentUnsuitable(f'{EXTENSION} is no longer in "{self._postgres.label}"')

    def _statements(self, connection: psycopg.Connection[DictRow]) -> StatementSnapshot:
        before = connection.execute(self._queries["live_server"]).fetchone()
        with connection.cursor(binary=True, row_factory=tuple_row) as cursor:
            cursor.adapters.register_loader(RECORD_OID, PackedRecord)
            rows = cursor.execute(self._queries["live_statements"]).fetchall()
        assert before is not None, "one row, whatever is there"
        found = statement_rows([row[0] for row in rows])
        is_own = found.keys[:, 1] == self._own_role
        numbers = self._numbers_of(found.keys[~is_own])
        order = np.argsort(numbers)
        ids, table = numbers[order], found.counters[:, ~is_own][:, order]
        if (ids[1:] == ids[:-1]).any():
            raise psycopg.DataError("a statement is counted twice")
        return StatementSnapshot(
            at=float(before["at"]),
            started_at=float(before["started_at"]),
            ids=ids,
            calls=table[0],
            exec_ms=table[1],
            sd_ms=table[2],
            plans=table[3],
            plan_ms=table[4],
            rows=table[5],
            since=table[6],
            blocks=table[7],
            dealloc=before["dealloc"],
            reset_at=before["reset_at"],
            own_ms=float(found.counters[[1, 4]][:, is_own].sum()),
            loaded_at=float(before["loaded_at"]),
        )

    def _numbers_of(self, keys: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        if self._seen is not None and np.array_equal(self._seen[0], keys):
            return self._seen[1]
        found = ((database, role, queryid, toplevel != 0) for database, role, queryid, toplevel in keys.tolist())
        numbers = np.array([self._number(key) for key in found], dtype=np.int64)
        self._seen = keys, numbers
        return numbers

    def _number(self, key: tuple[int, int, int, bool]) -> int:
        number = self._numbers.get(key)
        if number is None and self._free:
            number = self._numbers[key] = self._free.pop()
            self.keys[number] = StatementKey(*key)
        elif number is None:
            number = self._numbers[key] = len(self.keys)
            self.keys.append(StatementKey(*key))
        return number
