"""A study reads all settings several times a period: what has not changed is not checked again, and a lie is told."""

from __future__ import annotations

from typing import Any

import pytest

from pgdyno.errors import EnvironmentUnsuitable
from pgdyno.routes.file_check import FileLine, FileReading
from pgdyno.server import postgres
from pgdyno.server.postgres import Postgres
from pgdyno.server.snapshot import SettingState, differences, read_settings

ROW: dict[str, object] = {
    "name": "DateStyle", "setting": "ISO, DMY", "boot_val": "ISO, MDY", "unit": None, "vartype": "string",
    "context": "user", "category": "Client Connection Defaults", "source": "configuration file",
    "sourcefile": "/data/postgresql.conf", "sourceline": 7, "pending_restart": False,
}  # fmt: skip


class Answering:
    """A session whose server answers with these rows."""

    def __init__(self, *rows: dict[str, object]) -> None:
        self.rows = rows

    def execute(self, _query: str) -> Answering:
        return self

    def fetchall(self) -> list[dict[str, object]]:
        return [dict(row) for row in self.rows]


def reading(*rows: dict[str, object]) -> dict[str, SettingState]:
    session: Any = Answering(*rows)
    return read_settings(session, label="db1")


def test_what_is_as_before_is_the_same_object_and_what_has_changed_is_told() -> None:
    before, after = reading(ROW), reading(ROW)
    assert before["DateStyle"] is after["DateStyle"]
    assert differences(before, after) == ()
    moved = reading({**ROW, "setting": "SQL, DMY"})
    assert [one.name for one in differences(before, moved)] == ["DateStyle"]
    assert moved["DateStyle"].setting == "SQL, DMY"


@pytest.mark.parametrize("changed", [{"setting": 4}, {"setting": ["ISO"]}, {"sourceline": "seven"}])
def test_a_row_that_is_no_setting_is_refused_each_time(changed: dict[str, object]) -> None:
    reading(ROW)
    for _ in range(2):
        with pytest.raises(EnvironmentUnsuitable, match="does not answer as PostgreSQL"):
            reading({**ROW, **changed})


@pytest.mark.parametrize("name", ["DateStyle", "datestyle", "DATESTYLE"])
def test_a_line_is_that_of_its_setting_however_it_is_written(name: str) -> None:
    line = FileLine("/data/postgresql.conf", 7, name, "ISO, DMY", applied=True, error=None)
    assert FileReading((line,), reading(ROW)).unread() == []
    assert FileReading((line,), reading({**ROW, "setting": "SQL, DMY"})).unread() != []


def test_the_name_of_a_server_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Postgres("host=db1 user=dba dbname=app")
    label = server.label
    monkeypatch.setattr(postgres.pq.Conninfo, "get_defaults", lambda: pytest.fail("asked again"))
    assert server.label == label == "dba@db1:5432/app"
