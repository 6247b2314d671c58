"""A template that is a copy of a user's database has its name only once it has our mark."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest
from psycopg import sql

from pgdyno.server.own_databases import MARK, DatabaseState
from pgdyno.server.postgres import Postgres
from pgdyno.workloads import template


class Ended(Exception):
    """Ends the making where the data would be loaded."""


class Server:
    """Keeps what is run, and in which database."""

    def __init__(self) -> None:
        self.done = list[tuple[str, str | None]]()

    def execute(self, query: str | sql.Composed, params: object = None, dbname: str | None = None) -> None:
        self.done.append((query if isinstance(query, str) else query.as_string(None), dbname))


def test_a_copy_is_marked_before_it_has_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGDYNO_HOME", str(tmp_path))
    monkeypatch.setattr(template, "owned_state", lambda postgres, name: DatabaseState.ABSENT)
    monkeypatch.setattr(
        template, "clone_database", lambda postgres, origin, name: server.done.append((f"COPY {origin}", name))
    )
    server = Server()

    def load() -> None:
        raise Ended

    with pytest.raises(Ended):
        template.make_template(
            cast(Postgres, server), "ours", workload="replay", load=load, progress=lambda _: None, origin="shop"
        )
    (copied, passing), (mark, marked), (_, told), (renamed, _) = server.done
    assert (copied, mark) == ("COPY shop", MARK)
    assert passing == marked == told != "ours"
    assert renamed == f'ALTER DATABASE "{passing}" RENAME TO "ours"'
