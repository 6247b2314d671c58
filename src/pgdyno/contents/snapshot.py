"""A session that reads one snapshot of a database, and nothing that a user of it could have run. Reads only."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import LiteralString

import psycopg
from psycopg import sql
from psycopg.rows import DictRow, tuple_row

from pgdyno.contents.row_hash import SETTINGS
from pgdyno.contents.tables import AskRows, Params, ReadsSnapshot
from pgdyno.server.postgres import Postgres, query_errors

_TABLES_ALONE = """
SELECT set_config(name, 'view, foreign-table', true) FROM pg_settings WHERE name = 'restrict_nonsystem_relation_kind'
"""
_ARE_ALONE = "SELECT coalesce(current_setting('restrict_nonsystem_relation_kind', true), '') <> ''"
_CANCEL_S = 5.0
EVERY_ROW = sql.SQL(" TABLESAMPLE system (100)")
"""Behind a table, for servers that `must_sample`: all of its rows, and of a view an error before any of it is run."""


class _Reading:
    """Asks a session."""

    def __init__(self, label: str, connection: psycopg.Connection[DictRow]) -> None:
        self._label, self._connection = label, connection

    def __call__(self, query: LiteralString | sql.Composed, params: Params = None, /) -> list[tuple[object, ...]]:
        with query_errors(self._label), psycopg.Cursor(self._connection, row_factory=tuple_row) as cursor:
            return cursor.execute(query, params).fetchall()

    def copied(self, query: sql.Composed) -> Iterator[bytes]:
        with query_errors(self._label), self._connection.cursor() as cursor, cursor.copy(query) as copy:
            for row in copy:
                yield bytes(row)

    def end(self) -> None:
        with suppress(psycopg.Error):  # the session is gone
            self._connection.cancel_safe(timeout=_CANCEL_S)


@contextmanager
def snapshot(server: Postgres, max_seconds: float | None = None, shared: str | None = None) -> Iterator[ReadsSnapshot]:
    """Give what asks a session that reads one snapshot, and sees values as the same text as any other.

    Where the server can (13.16, 14.13, 15.8, 16.4, 17), a view that somebody put in the place of a table meanwhile is
    refused: its functions would be run with our rights. Of others `must_sample` is true. Statements are cancelled after
    `max_seconds`; `shared` is a snapshot that another session exported. Raises ConnectError, and EnvironmentUnsuitable
    where the server refuses.
    """
    with server.connect() as connection:
        with connection.cursor() as cursor:
            cursor.execute("BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            if shared is not None:
                cursor.execute(sql.SQL("SET TRANSACTION SNAPSHOT {}").format(sql.Literal(shared)))
            bound = {"statement_timeout": str(int((max_seconds or 0) * 1000))}
            for name, value in (SETTINGS | bound).items():
                cursor.execute(sql.SQL("SET LOCAL {} = {}").format(sql.Identifier(name), sql.Literal(value)))
            cursor.execute(_TABLES_ALONE)
        try:
            yield _Reading(server.label, connection)
        finally:
            if connection.info.transaction_status != psycopg.pq.TransactionStatus.UNKNOWN:
                connection.execute("ROLLBACK")


def must_sample(rows: AskRows) -> bool:
    """Tell whether tables are to be read as a sample of `EVERY_ROW`: the server cannot refuse views by itself."""
    ((are_alone,),) = rows(_ARE_ALONE)
    return not are_alone
