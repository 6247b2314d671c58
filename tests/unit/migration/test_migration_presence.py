"""What is asked of a source that somebody changes meanwhile, and of a target that has what users made."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import cast

import pytest
from psycopg import sql

from pgdyno.errors import EnvironmentUnsuitable
from pgdyno.migration.movers.presence import (
    StoredName,
    constraint_name,
    empty_tables,
    has_rows,
    relation_name,
    stored_tables,
)
from pgdyno.server.postgres import Postgres


class Server:
    """Answers each query with the same rows, and keeps what was asked."""

    label = "a server of the tests"

    def __init__(self, *rows: dict[str, object]) -> None:
        self._rows, self.asked = list(rows), list[str]()

    def fetch(self, query: object, params: object = None) -> list[dict[str, object]]:
        self.asked.append(query.as_string(None) if isinstance(query, sql.Composable) else str(query))
        return self._rows

    @contextmanager
    def connect(self) -> Iterator[Server]:
        yield self

    def execute(self, query: object, params: object = None) -> None:
        self.fetch(query, params)


def postgres(server: Server) -> Postgres:
    return cast(Postgres, server)


def test_what_was_dropped_on_the_source_since_the_dump_is_told() -> None:
    for ask in (relation_name, constraint_name):
        with pytest.raises(EnvironmentUnsuitable, match="no longer has the object with oid 16386"):
            ask(postgres(Server()), 16386)


def test_a_view_in_the_place_of_a_table_is_not_read() -> None:
    server = Server()
    assert not has_rows(postgres(server), "sales", "orders")
    assert not any('"sales"."orders"' in text for text in server.asked)
    there = Server({"found": True})
    assert has_rows(postgres(there), "sales", "orders")
    assert '"sales"."orders"' in there.asked[-1]


def test_two_tables_that_are_spelled_alike_are_both_moved() -> None:
    rows = [{"schema": "a", "name": "b.c", "bytes": 1}, {"schema": "a.b", "name": "c", "bytes": 2}]
    found = stored_tables(postgres(Server(*rows)))
    assert [(one.schema, one.name) for one in found.values()] == [("a", "b.c"), ("a.b", "c")]


def test_a_table_is_emptied_without_the_triggers_of_its_owner() -> None:
    quiet, loud = StoredName("sales", "quiet", 1), StoredName("sales", "loud", 1)
    server = Server()
    empty_tables(postgres(server), [quiet, loud])
    assert "session_replication_role', 'replica'" in server.asked[-2]
    assert server.asked[-1] == 'TRUNCATE "sales"."quiet", "sales"."loud"'
    fired = Server({"schema": "sales", "name": "loud", "found": True})
    with pytest.raises(EnvironmentUnsuitable, match=r'"sales\.loud" is not emptied'):
        empty_tables(postgres(fired), [quiet, loud])
    assert not any("TRUNCATE" in text.replace("for TRUNCATE", "") for text in fired.asked)
