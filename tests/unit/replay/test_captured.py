"""What a trace asks of a target."""

from __future__ import annotations

from pathlib import Path

from pgdyno.replay.captured import asked_of
from pgdyno.trace.parquet import write_rows
from pgdyno.trace.schema import TRACE


def test_roles_and_databases_of_sessions_that_are_not_opened_are_not_asked_for(tmp_path: Path) -> None:
    opened = {"user": "app", "database": "shop"}
    ours = {"user": "dba", "database": "pgdyno_observer", "refused": "pgdyno's own session"}
    rows = [
        {"session": number, "seq": 0, "kind": "connect", "due_us": number, "implied": False, **who}
        for number, who in enumerate((ours, opened))
    ]
    write_rows(tmp_path / "a.parquet", TRACE, ([row.get(one.name) for one in TRACE] for row in rows))
    asked = asked_of(tmp_path / "a.parquet")
    assert (asked.users, asked.databases) == (("app",), ("shop",))
