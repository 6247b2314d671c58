"""A value that is not of its type is an error of psycopg's, whichever way the rows are fetched."""

from __future__ import annotations

from collections.abc import Callable

import psycopg
import pytest
from psycopg.rows import DictRow

from lying_server import FLOAT8, INT4, JSON, NUMERIC, TEXT, TIMESTAMPTZ, lying_server
from pgdyno.errors import ConnectError, EnvironmentUnsuitable
from pgdyno.targets.connect import look

WAYS: dict[str, Callable[[psycopg.Cursor[DictRow]], object]] = {
    "one": lambda cursor: cursor.fetchone(),
    "many": lambda cursor: cursor.fetchmany(2),
    "all": lambda cursor: cursor.fetchall(),
    "each": list,
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("oid", "value"),
    [
        (INT4, b"1e400"),
        (INT4, b"9" * 5000),
        (FLOAT8, b"[red]"),
        (NUMERIC, b"\x1b"),
        (TIMESTAMPTZ, b"x"),
        (JSON, b"[" * 100_000),
        (TEXT, b"\xff\xfe"),
    ],
)
def test_a_value_that_is_not_of_its_type_is_the_servers_error(way: str, oid: int, value: bytes) -> None:
    with lying_server({"one": (oid, value)}) as server, server.connect() as connection:
        cursor = connection.execute("SELECT 1 AS one")
        with pytest.raises(psycopg.DataError):
            WAYS[way](cursor)


def test_it_is_told_as_an_answer_that_is_none() -> None:
    with (
        lying_server({"one": (INT4, b"\x1b]0;x\x07")}) as server,
        pytest.raises(EnvironmentUnsuitable, match="does not answer as PostgreSQL"),
    ):
        server.fetch("SELECT 1 AS one")


@pytest.mark.parametrize("started", [(INT4, None), (TEXT, b"soon")])
def test_a_server_that_answers_unlike_postgresql_is_told_so(started: tuple[int, bytes | None]) -> None:
    row = {
        "version_num": (INT4, b"180000"),
        "pid": (INT4, b"0"),
        "started_at": started,
        "data_directory": (TEXT, b"/etc"),
        "config_file": (TEXT, b"/etc/passwd"),
    }
    with lying_server(row) as server, pytest.raises(ConnectError, match="does not answer as PostgreSQL"):
        look(server)


def test_who_answers_from_another_process_than_was_told_is_a_pooler() -> None:
    """The server of these tests tells of none."""
    row = {"version_num": (INT4, b"180000"), "pid": (INT4, b"4711")}
    with lying_server(row) as server, pytest.raises(EnvironmentUnsuitable, match="is a connection pooler"):
        look(server)
