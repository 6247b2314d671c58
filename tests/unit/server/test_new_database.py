"""A database under a passing name: what stands on disk and on the server at each moment, and who takes it away."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import cast

import pytest
from psycopg import sql

from pgdyno.errors import ConnectError, EnvironmentUnsuitable
from pgdyno.linux.identity import ProcessIdentity
from pgdyno.server.new_database import passing_name, unfinished_databases
from pgdyno.server.postgres import Postgres

PASSING = re.compile(r'"(pgdyno_[0-9a-f]{32}_new)"')


class Server:
    """A server that has the databases that it is told to make; `refuses` begins what it does not do."""

    def __init__(self, refuses: str = "nothing") -> None:
        self.names, self.done, self.refuses = set[str](), list[str](), refuses

    def execute(self, query: sql.Composable) -> None:
        text = query.as_string(None)
        self.done.append(text)
        if text.startswith(self.refuses):
            raise EnvironmentUnsuitable("refused")
        names = re.findall(r'"([^"]+)"', text)
        if text.startswith("CREATE"):
            self.names.add(names[0])
        elif text.startswith("DROP"):
            self.names.discard(names[0])
        else:
            self.names = self.names - {names[0]} | {names[1]}

    def fetch(self, query: object, params: Sequence[object]) -> list[dict[str, object]]:
        (wanted,) = params
        return [{"name": name} for name in sorted(self.names & set(cast(list[str], wanted)))]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PGDYNO_HOME", str(tmp_path))
    return tmp_path / "state" / "databases"


def make(server: Server, mark: Exception | None = None) -> None:
    with passing_name(cast(Postgres, server), "shop") as passing:
        server.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(passing)))
        if mark is not None:
            raise mark


def killed(server: Server, home: Path) -> str:
    """Leave what a process leaves that was killed before its database had its name."""
    name = f"pgdyno_{'ab' * 16}_new"
    server.names.add(name)
    home.mkdir(parents=True, exist_ok=True)
    gone = replace(ProcessIdentity.own(), start_ticks=1)
    (home / name).write_text(json.dumps(asdict(gone)))
    return name


def test_its_name_is_on_disk_before_it_and_its_own_comes_last(home: Path) -> None:
    server = Server()
    with passing_name(cast(Postgres, server), "shop") as passing:
        assert PASSING.fullmatch(f'"{passing}"')
        assert [note.name for note in home.iterdir()] == [passing]
        assert server.done == []
        server.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(passing)))
        (one,) = unfinished_databases(cast(Postgres, server))
        assert (one.name, one.maker.is_alive()) == (passing, True)
    assert server.names == {"shop"}
    assert server.done[-1] == f'ALTER DATABASE "{passing}" RENAME TO "shop"'
    assert [*home.iterdir()] == []


@pytest.mark.parametrize("fault", [EnvironmentUnsuitable("no mark"), KeyboardInterrupt()])
def test_what_fails_leaves_neither_database_nor_note(home: Path, fault: Exception) -> None:
    server = Server()
    with pytest.raises(type(fault)):
        make(server, fault)
    assert (server.names, [*home.iterdir()]) == (set(), [])
    taken = Server(refuses="ALTER")
    with pytest.raises(EnvironmentUnsuitable, match="refused"):
        make(taken)
    assert (taken.names, [*home.iterdir()]) == (set(), [])


def test_what_cannot_be_dropped_is_known_afterwards(home: Path) -> None:
    server = Server(refuses="DROP")
    with pytest.raises(ConnectError):
        make(server, ConnectError("the server is away"))
    assert [one.name for one in unfinished_databases(cast(Postgres, server))] == [*server.names]


def test_the_next_one_drops_what_a_killed_process_left_and_nothing_else(home: Path) -> None:
    server = Server()
    left = killed(server, home)
    (home / f"pgdyno_{'cd' * 16}_new").write_text("damaged")
    server.names |= {f"pgdyno_{'cd' * 16}_new", f"pgdyno_{'ef' * 16}_new", "precious"}
    assert [(one.name, one.maker.is_alive()) for one in unfinished_databases(cast(Postgres, server))] == [(left, False)]
    make(server)
    assert server.names == {f"pgdyno_{'cd' * 16}_new", f"pgdyno_{'ef' * 16}_new", "precious", "shop"}
    assert not (home / left).exists()
