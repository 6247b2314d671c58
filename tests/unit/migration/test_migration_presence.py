"""What is asked of a source that somebody changes meanwhile, and of a target that has what users made."""

from __future__ import annotations

from typing import cast

import pytest
from psycopg import sql

from pgdyno.errors import EnvironmentUnsuitable
from pgdyno.migration.movers.presence import constraint_name, has_rows, relation_name
from pgdyno.server.postgres import Postgres


class Server:
    """Answers each query with the same rows, and keeps what was asked."""

    def __init__(self, *rows: dict[str, object]) -> None:
        self._rows, self.asked = list(rows), list[str]()

    def fetch(self, query: object, params: object = None) -> list[dict[str, object]]:
        self.asked.append(query.as_string(None) if isinstance(query, sql.Composable) else str(query))
        return self._rows


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
