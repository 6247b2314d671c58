"""A server that a killed rehearsal left in its folder: found, proved to be its own, and ended by whoever comes next."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from pgdyno.cli.cleanup import command
from pgdyno.linux.identity import ProcessIdentity
from pgdyno.migration import left_behind
from pgdyno.migration.left_behind import LeftRecord, all_left, write_down
from pgdyno.sandbox.sandbox import Sandbox
from pgdyno.server.postgres import Postgres
from pgdyno.studies.migrate.run import take_left_away

pytestmark = pytest.mark.pg


@pytest.fixture
def server(server_home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Sandbox]:
    """A server whose data directory stands for one of the clusters of a rehearsal."""
    sandbox = Sandbox.open_or_create("left", root=server_home)
    sandbox.start()
    monkeypatch.setattr(left_behind, "CLUSTERS", (sandbox.data_directory.name,))
    yield sandbox
    sandbox.destroy()


def leave(server: Sandbox) -> LeftRecord:
    """Write down what a process left that has ended."""
    ended = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    owner = ProcessIdentity.of(ended.pid)
    ended.communicate(b"")
    record = LeftRecord(study="a-study", folder=str(server.data_directory.parent), owner=owner)
    path = write_down(record)
    path.write_text(json.dumps(asdict(record)))
    return record


def cleaned(*words: str) -> str:
    done = CliRunner().invoke(command, [*words, "--only", "migration"], standalone_mode=False, catch_exceptions=False)
    return done.stdout


@pytest.mark.usefixtures("pgdyno_home")
def test_a_server_of_a_killed_rehearsal_is_listed_and_ended(server: Sandbox) -> None:
    record = leave(server)
    assert f"a server runs in {server.data_directory}" in cleaned("--dry-run")
    assert server.target().postgres.answers()
    assert "dropped a-study" in cleaned("--yes")
    assert record.servers() == ()
    assert [*all_left()] == []


@pytest.mark.usefixtures("pgdyno_home")
def test_the_next_rehearsal_ends_it_and_says_so_but_none_of_one_that_runs(server: Sandbox) -> None:
    write_down(LeftRecord(study="a-study", folder=str(server.data_directory.parent)))
    said = list[str]()
    take_left_away(said.append)
    assert said == []
    assert "stays: the rehearsal runs" in cleaned("--dry-run")
    leave(server)
    take_left_away(said.append)
    assert said == [
        f"left by rehearsal a-study, which was killed, and removed: a server runs in {server.data_directory}"
    ]
    assert not server.target().postgres.answers()


@pytest.mark.usefixtures("pgdyno_home")
def test_a_folder_that_no_server_works_in_is_nobody_s_and_no_password_is_written_down(tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "postmaster.pid").write_text("1\n")  # of another program
    record = LeftRecord(study="s", folder=str(tmp_path))
    assert record.found() == ()
    secret = left_behind.without_secrets(Postgres("host=a password=geheim user=b"))
    path = write_down(replace(record, source=secret))
    assert "geheim" not in path.read_text()
    assert "host=a" in path.read_text()
