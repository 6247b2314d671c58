"""What is read of a server each second: when its session is lost or interrupted in the middle of a reading."""

from __future__ import annotations

import socket
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest
from psycopg import pq

from pgdyno.server import prepared_reads
from pgdyno.server.prepared_reads import PreparedReads


class Session:
    """A session by libpq whose server says what a test decides on."""

    socket = 0

    def __init__(self, *said: object) -> None:
        self.said, self.sent, self.is_closed = list(said), [], False
        self.pgconn = self

    def __getattr__(self, name: str) -> Any:
        return lambda *given: self.sent.append((name, *given))

    def flush(self) -> int:
        return 0

    def is_busy(self) -> int:
        return 0

    def get_result(self) -> Any:
        one = self.said.pop(0)
        if isinstance(one, BaseException):
            raise one
        return None if one is None else SimpleNamespace(status=one)

    def close(self) -> None:
        self.is_closed = True


@pytest.mark.parametrize(
    ("said", "raised"),
    [
        ([pq.ExecStatus.COMMAND_OK, None, None], psycopg.OperationalError),
        ([psycopg.OperationalError("gone")], psycopg.OperationalError),
        ([pq.ExecStatus.COMMAND_OK, KeyboardInterrupt()], KeyboardInterrupt),
    ],
)
def test_a_reading_that_ends_in_the_middle_ends_its_session(said: list[object], raised: type[BaseException]) -> None:
    session = Session(*said)
    with pytest.raises(raised):
        PreparedReads(session).read({"one": "SELECT %(database)s"}, "x")  # type: ignore[arg-type]  # stands for it
    assert session.is_closed


class Narrow(Session):
    """A session of a socket with room, of which libpq says once that it had none."""

    def __init__(self, ours: socket.socket, *said: object) -> None:
        super().__init__(*said)
        self.socket, self.flushes = ours.fileno(), 2

    def flush(self) -> int:
        self.flushes -= 1
        return int(self.flushes > 0)


@pytest.mark.timeout(20)
def test_queries_that_the_socket_does_not_take_at_once_are_sent_on() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        session = Narrow(ours, psycopg.OperationalError("gone"))
        with pytest.raises(psycopg.OperationalError, match="gone"):
            PreparedReads(session).read({"one": "SELECT 1"}, "x")  # type: ignore[arg-type]  # stands for it
    assert session.flushes == 0


def test_a_query_that_fails_leaves_its_session(monkeypatch: pytest.MonkeyPatch) -> None:
    ok, bad, late = pq.ExecStatus.COMMAND_OK, pq.ExecStatus.FATAL_ERROR, pq.ExecStatus.PIPELINE_ABORTED
    monkeypatch.setattr(prepared_reads, "error_from_result", lambda _: psycopg.errors.DivisionByZero("1 / 0"))
    end = pq.ExecStatus.PIPELINE_SYNC
    session = Session(ok, None, bad, None, late, None, late, None, end, None)
    with pytest.raises(psycopg.errors.DivisionByZero):
        PreparedReads(session).read({"one": "SELECT 1 / 0", "two": "SELECT %(database)s LIKE 'a%%'"}, "x")  # type: ignore[arg-type]  # stands for it
    assert not session.is_closed
    assert [what for what, *_ in session.sent][-1] == "exit_pipeline_mode"
    asked = [(what, *given) for what, *given in session.sent if what.startswith("send")]
    assert [what[2] for what in asked] == [b"SELECT 1 / 0", None, b"SELECT $1 LIKE 'a%'", [b"x"]]


def test_what_the_server_has_prepared_is_not_prepared_again_where_a_reading_fails(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A query that times out each second would fill the memory of the server's session."""
    ok, bad, late = pq.ExecStatus.COMMAND_OK, pq.ExecStatus.FATAL_ERROR, pq.ExecStatus.PIPELINE_ABORTED
    monkeypatch.setattr(prepared_reads, "error_from_result", lambda _: psycopg.errors.QueryCanceled("timeout"))
    end = pq.ExecStatus.PIPELINE_SYNC
    first = (ok, None, bad, None, late, None, late, None, end, None)
    session = Session(*first, bad, None, late, None, late, None, end, None)
    reads = PreparedReads(session)  # type: ignore[arg-type]  # stands for it
    for _ in range(2):
        with pytest.raises(psycopg.errors.QueryCanceled):
            reads.read({"one": "SELECT 1", "two": "SELECT 2"}, "x")
    asked = [(what, given[0]) for what, *given in session.sent if what.startswith("send")]
    assert asked[4:] == [
        ("send_query_prepared", b"pgdyno_1"), ("send_prepare", b"pgdyno_3"), ("send_query_prepared", b"pgdyno_3"),
    ]  # fmt: skip
