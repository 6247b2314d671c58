"""A study reads all settings several times a period: what has not changed is not checked again, and a lie is told."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest

from pgdyno.errors import ConnectError, EnvironmentUnsuitable
from pgdyno.model.facts import Unknown
from pgdyno.preflight.reading_server import read_server
from pgdyno.routes.file_check import FileLine, FileReading
from pgdyno.server import postgres
from pgdyno.server.postgres import Postgres
from pgdyno.server.role_settings import Override
from pgdyno.server.snapshot import SettingState, differences, read_settings
from pgdyno.studies.live.others import files_and_overrides

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


class CountedServer:
    """A server that counts its sessions and answers by what a query asks for; an error is raised."""

    label = "db1"

    def __init__(self, **answers: list[dict[str, object]] | psycopg.Error) -> None:
        self.sessions = 0
        self.answers = answers

    @contextmanager
    def connect(self) -> Iterator[CountedServer]:
        self.sessions += 1
        yield self

    def execute(self, query: str) -> Answering:
        answer = next(answer for name, answer in self.answers.items() if name in query)
        if isinstance(answer, psycopg.Error):
            raise answer
        return Answering(*answer)


OVERRIDES: list[dict[str, object]] = [{"role": None, "database": "shop", "setting": "jit=off"}]


def test_what_others_have_set_is_one_look_of_one_session() -> None:
    server: Any = CountedServer(pg_file_settings=[], pg_db_role_setting=OVERRIDES, pg_settings=[ROW])
    files, overrides = files_and_overrides(server)
    assert (files.lines, files.settings["DateStyle"].setting) == ((), "ISO, DMY")
    assert overrides == (Override(None, "shop", "jit", "off"),)
    assert server.sessions == 1


@pytest.mark.parametrize("refused", [False, True])
def test_the_preflight_s_look_at_the_server_is_one_session(refused: bool) -> None:
    me: dict[str, object] = {"in_recovery": False, "role": "dba", "database": "shop", "io_methods": ["sync"]}
    size: Any = psycopg.errors.InsufficientPrivilege("no") if refused else [{"size": 7}]
    parts = {"pg_is_in_recovery": [me], "pg_stat_replication": [{"who": "db2"}], "pg_db_role_setting": OVERRIDES}
    server: Any = CountedServer(**parts, pg_ls_waldir=size)
    found = read_server(server)
    assert (found.role, found.database, found.standbys, found.io_methods) == ("dba", "shop", ("db2",), ("sync",))
    assert found.overrides == (Override(None, "shop", "jit", "off"),)
    assert isinstance(found.wal_bytes, Unknown) if refused else found.wal_bytes == 7
    assert server.sessions == 1
    server.answers["pg_ls_waldir"] = psycopg.errors.AdminShutdown("bye")
    with pytest.raises(ConnectError):
        read_server(server)
