"""How many sessions a snapshot of the counters opens."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from pgdyno.probes.evidence import snapshot as evidence_snapshot
from pgdyno.server.postgres import Postgres


def test_tables_of_the_database_that_the_target_names_take_one_session(monkeypatch: pytest.MonkeyPatch) -> None:
    sessions: list[str | None] = []

    class Session:
        def __init__(self, dbname: str) -> None:
            self.info = SimpleNamespace(dbname=dbname, server_version=180_000)

        def execute(self, query: object, params: object = None) -> SimpleNamespace:
            rows = [] if params else [{"t": 5.0}]  # no tables; the clock
            return SimpleNamespace(fetchall=lambda: rows, fetchone=lambda: None)

        def __enter__(self) -> Session:
            return self

        def __exit__(self, *_: object) -> None: ...

    def opened(_: object, database: str | None = None) -> Session:
        sessions.append(database)
        return Session(database or "app")

    monkeypatch.setattr(evidence_snapshot, "opened", opened)
    found = evidence_snapshot.read_snapshot(cast(Postgres, object()), databases=["shop", "app", "logs"])
    assert sessions == [None, None, "shop", "logs"], "one of the cluster, one of each database"
    assert found["tables"] == {"app": [], "shop": [], "logs": []}
    assert found["tables_t"] == {"app": 5.0, "shop": 5.0, "logs": 5.0}
