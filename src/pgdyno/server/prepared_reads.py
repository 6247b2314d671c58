"""Prepared statements of one session that are read again and again, all in one round trip and without cursors.

For what is asked of a server each second while it is measured: a reading costs half of what cursors in a pipeline do.
"""

from __future__ import annotations

import select
from collections.abc import Iterable, Mapping

import psycopg
from psycopg import abc, adapt, pq
from psycopg.errors import error_from_result
from psycopg.rows import DictRow

from pgdyno.server.wary_cursor import wary

_PARAMETER = "%(database)s"
_DONE = (pq.ExecStatus.COMMAND_OK, pq.ExecStatus.TUPLES_OK)


class PreparedReads:
    """Reads through `connection`, which nothing else may use meanwhile. Needs pipelines (libpq 14)."""

    def __init__(self, connection: psycopg.Connection[DictRow]) -> None:
        self._connection = connection
        self._session = connection.pgconn
        self._statements: dict[str, bytes] = {}
        """By query, what the server has prepared; a reading that failed has, too."""
        self._loaders: dict[str, tuple[abc.Transformer, list[str]]] = {}
        """By query: what makes values of its columns, and their names."""
        self._count = 0
        self._ready = select.poll()
        self._ready.register(self._session.socket, select.POLLIN)

    def read(self, queries: Mapping[str, str], database: str) -> dict[str, list[DictRow]]:
        """Return the rows of each query, whose one parameter, where it has it, is the database.

        Raises psycopg.Error when any of them fails. The session goes on unless it is lost; whatever interrupts a
        reading ends it.
        """
        try:
            results = self._exchange(queries.values(), database.encode())
        except BaseException:
            self._connection.close()  # it is in the middle of a pipeline
            raise
        for result in results:
            if result.status not in _DONE:
                raise error_from_result(result)
        told = [one for one in results if one.status == pq.ExecStatus.TUPLES_OK]
        return {name: self._loaded(query, one) for (name, query), one in zip(queries.items(), told, strict=True)}

    def _exchange(self, queries: Iterable[str], database: bytes) -> list[pq.abc.PGresult]:
        """Return what the server says to each message, and know what it has prepared."""
        session, sent = self._session, list[tuple[str, bytes]]()
        session.enter_pipeline_mode()
        for query in queries:
            statement = self._statements.get(query)
            if statement is None:
                self._count += 1
                statement = f"pgdyno_{self._count}".encode()
                session.send_prepare(statement, query.replace(_PARAMETER, "$1").replace("%%", "%").encode())
                sent.append((query, statement))
            session.send_query_prepared(statement, [database] if _PARAMETER in query else None)
            sent.append((query, statement))
        session.pipeline_sync()
        while session.flush():  # more than the socket takes at once
            self._wait_for_room()
        results = [self._next() for _ in sent]
        while session.get_result() is not None:  # the end of the pipeline
            pass
        session.exit_pipeline_mode()
        done = zip(sent, results, strict=True)
        self._statements |= {query: name for (query, name), one in done if one.status == pq.ExecStatus.COMMAND_OK}
        return results

    def _next(self) -> pq.abc.PGresult:
        """Wait for the one result of the next statement. Raises psycopg.OperationalError when the session is lost."""
        found: pq.abc.PGresult | None = None
        while True:
            while self._session.is_busy():
                self._wait()
            result = self._session.get_result()
            if result is not None:
                found = result
            elif found is not None:
                return found
            else:
                raise psycopg.OperationalError("the server closed the connection unexpectedly")

    def _wait(self) -> None:
        self._ready.poll()
        self._session.consume_input()

    def _wait_for_room(self) -> None:
        """Wait until there is room to send, or the server wants to be heard first."""
        room = select.poll()
        room.register(self._session.socket, select.POLLIN | select.POLLOUT)
        room.poll()
        self._session.consume_input()

    def _loaded(self, query: str, result: pq.abc.PGresult) -> list[DictRow]:
        known = self._loaders.get(query)
        transformer, names = known or (adapt.Transformer(self._connection), [])
        transformer.set_pgresult(result, set_loaders=known is None)
        if known is None:
            names += [(result.fname(number) or b"").decode() for number in range(result.nfields)]
            self._loaders[query] = transformer, names
        with wary():
            return transformer.load_rows(0, result.ntuples, lambda values: dict(zip(names, values, strict=True)))
