"""A server that ends our session while it is inspected: its words, not a defect of ours."""

from __future__ import annotations

from contextlib import contextmanager

import psycopg
import pytest

from pgdyno.capture.server_queries import read_server
from pgdyno.errors import ConnectError


class EndedSession:
    """Answers queries with nothing, until a statement that begins so."""

    closed = False

    def __init__(self, last: str) -> None:
        self.last = last

    def execute(self, query, params=None):
        if isinstance(query, str) and query.startswith(self.last):
            raise psycopg.errors.AdminShutdown("terminating connection due to administrator command")
        return self

    def fetchall(self):
        return []

    def __iter__(self):
        return iter(())


class EndingServer:
    label = "shop"

    def __init__(self, last: str) -> None:
        self.last = last

    @contextmanager
    def connect(self):
        yield EndedSession(self.last)


@pytest.mark.parametrize("last", ["SET default_transaction", "SET lock_timeout"])
def test_a_session_that_ends_between_two_queries_is_told_as_lost(last):
    with pytest.raises(ConnectError, match='the session with "shop" was lost'):
        read_server(EndingServer(last))
