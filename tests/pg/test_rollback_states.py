"""A rollback after the death of a session: from every state of files and server, and again without harm."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest
from click.testing import CliRunner
from psycopg.rows import DictRow

from pgdyno.cli.rollback import command
from pgdyno.control import PgCtl, sighup
from pgdyno.errors import ConnectError, EnvironmentUnsuitable, RollbackError, UsageError
from pgdyno.linux.identity import ProcessIdentity
from pgdyno.model.configuration import Configuration
from pgdyno.owner.file_image import digest
from pgdyno.routes.dropin import render
from pgdyno.routes.file_route import FileRoute
from pgdyno.sandbox.sandbox import Sandbox
from pgdyno.server import postmaster_lock, snapshot
from pgdyno.server.snapshot import SettingState
from pgdyno.targets.target import Target
from pgdyno.undo import rollback
from pgdyno.undo.apply import Session
from pgdyno.undo.bundle import DATA_RESERVE, UndoBundle
from pgdyno.undo.journal import Journal, read_journal
from pgdyno.undo.rollback import SessionState
from pgdyno.undo.stopped import STOPPING
from server_image import write_as_owner

pytestmark = pytest.mark.pg
RELOADED = Configuration.of({"work_mem": "8MB"})
RESTARTED = Configuration.of({"work_mem": "8MB", "shared_buffers": "64MB", "max_connections": "8"})


def settings_of(target: Target) -> dict[str, SettingState]:
    with target.postgres.connect() as connection:
        return snapshot.read_settings(connection, label="test")


def write_anew(path: Path, content: object) -> None:
    """Write a file of a bundle as if it had been so from the beginning: with its checksum in the journal."""
    path.write_text(json.dumps(content))
    journal = path.parent / "journal.jsonl"
    records = read_journal(journal).records
    journal.unlink()
    anew = Journal.create(journal)
    for record in records:
        sums = record.data.get("sums")
        right = {"sums": {**sums, path.name: digest(path.read_bytes())}} if isinstance(sums, dict) else {}
        anew.append(record.kind, {**record.data, **right})


class Abandoned:
    """A session whose process is dead by all that can be seen, and the server as it was before it."""

    def __init__(self, sandbox: Sandbox, undo_root: Path, trial: Configuration) -> None:
        self.sandbox, self.undo_root, self.target = sandbox, undo_root, sandbox.target()
        self.before = settings_of(self.target)
        self.session = Session.begin(self.target, study="killed", undo_root=undo_root)
        self.session.apply(trial)
        path = self.session.bundle.directory / "manifest.json"
        fields = json.loads(path.read_text())
        fields["owner"]["start_ticks"] = -1
        write_anew(path, fields)
        self.bundle = UndoBundle.open(self.session.bundle.directory)
        self.session._journal = self.bundle.journal()

    @property
    def dropin(self) -> Path:
        return self.sandbox.data_directory / "pgdyno.conf"

    def assert_restored(self) -> None:
        names = {path.name for path in self.sandbox.data_directory.iterdir()}
        assert not {name for name in names if "pgdyno.conf" in name}
        assert snapshot.differences(self.before, settings_of(self.target)) == ()


after_restart = pytest.mark.parametrize("abandoned", [RESTARTED], indirect=True, ids=["after a restart"])


@pytest.fixture(scope="module")
def server(server_home: Path) -> Iterator[Sandbox]:
    sandbox = Sandbox.open_or_create("rollback-states", root=server_home)
    sandbox.start()
    yield sandbox
    sandbox.destroy()


@pytest.fixture
def abandoned(server: Sandbox, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Abandoned]:
    abandoned = Abandoned(server, tmp_path / "state" / "undo", getattr(request, "param", RELOADED))
    yield abandoned
    rollback.rollback(abandoned.bundle)
    abandoned.assert_restored()


@pytest.mark.requirement("R-SAF-02")
def test_what_begins_next_is_refused_and_names_the_way_back(abandoned: Abandoned) -> None:
    with pytest.raises(EnvironmentUnsuitable, match="is still open") as refused:
        Session.begin(abandoned.target, study="next", undo_root=abandoned.undo_root)
    assert "ended without a rollback" in (refused.value.detail or "")
    assert refused.value.hint == f"Run pgdyno rollback {abandoned.session.id} first."


@pytest.mark.requirement("R-SAF-02")
@after_restart
def test_the_server_runs_with_the_trial(abandoned: Abandoned) -> None:
    (info,) = rollback.list_bundles(abandoned.undo_root)
    assert (info.state, info.applied) == (SessionState.ABANDONED, 1)
    restored = rollback.rollback(abandoned.bundle)
    assert restored.is_whole
    assert restored.restarted
    assert restored.files == (str(abandoned.dropin),)
    abandoned.assert_restored()
    assert rollback.rollback(abandoned.bundle).already_closed
    assert rollback.list_bundles(abandoned.undo_root)[0].state is SessionState.CLOSED


def test_files_that_did_not_go_back_are_damage_and_the_reserve_is_given_back_before(
    abandoned: Abandoned, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk has room for the way back; what the way back says that it did is not believed."""
    reserves = [abandoned.bundle.directory / "reserve", abandoned.sandbox.data_directory / DATA_RESERVE]
    assert all(path.exists() for path in reserves)
    left: list[Path] = []

    def put_back(_route: FileRoute) -> tuple[str, ...]:
        left.extend(path for path in reserves if path.exists())
        return ()

    with monkeypatch.context() as broken:
        broken.setattr(FileRoute, "put_back", put_back)
        restored = rollback.rollback(abandoned.bundle)
    assert left == []
    assert any("is not what it was" in line for line in restored.damage)
    assert not restored.is_whole
    assert not abandoned.bundle.is_closed()


def test_the_server_is_down(abandoned: Abandoned) -> None:
    """A clean shutdown that is not ours is left: the files are put back, and a sandbox is stopped between commands."""
    abandoned.sandbox.stop()
    restored = rollback.rollback(abandoned.bundle)
    assert restored.is_whole
    assert restored.left_down
    assert not restored.restarted
    assert "the sandbox is stopped, as it is between commands" in restored.notes[-1]
    assert abandoned.bundle.is_closed()
    assert postmaster_lock.postmaster_pid(abandoned.sandbox.data_directory) is None
    abandoned.sandbox.start()
    abandoned.assert_restored()


@pytest.mark.parametrize("journalled", [True, False], ids=["by us", "immediately, which looks like a crash"])
def test_a_server_that_we_stopped_or_that_crashed_is_started(abandoned: Abandoned, journalled: bool) -> None:
    if journalled:
        abandoned.bundle.journal().append(STOPPING)
    abandoned.sandbox.stop("fast" if journalled else "immediate")
    assert rollback.rollback(abandoned.bundle).restarted
    abandoned.assert_restored()


def test_the_server_goes_down_while_it_is_put_back(abandoned: Abandoned, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stop that the dead session had asked for comes into effect after the server was seen to be up."""
    real, calls = sighup.reload, []

    def reload(*words: Any, **named: Any) -> None:
        calls.append(words)
        abandoned.sandbox.crash()
        real(*words, **named)

    monkeypatch.setattr(sighup, "reload", reload)
    restored = rollback.rollback(abandoned.bundle)
    assert calls
    assert restored.is_whole
    assert restored.restarted
    abandoned.assert_restored()


def test_the_server_was_killed_too(abandoned: Abandoned) -> None:
    abandoned.sandbox.crash()
    assert rollback.rollback(abandoned.bundle).is_whole
    abandoned.assert_restored()


@after_restart
def test_the_server_takes_no_more_sessions(abandoned: Abandoned) -> None:
    sessions: list[psycopg.Connection[DictRow]] = []
    deadline = time.monotonic() + 30
    try:
        while len(sessions) < 8:  # one that has just been closed may still have its place
            assert time.monotonic() < deadline, f"{len(sessions)} sessions"
            with suppress(ConnectError):
                sessions.append(abandoned.target.postgres.connect())
        assert rollback.rollback(abandoned.bundle).is_whole
    finally:
        for session in sessions:
            session.close()
    abandoned.assert_restored()


def test_the_drop_in_is_torn_and_a_temporary_file_lies_about(abandoned: Abandoned) -> None:
    abandoned.dropin.write_bytes(abandoned.dropin.read_bytes()[:-7])
    (abandoned.dropin.parent / ".pgdyno.conf.pgdyno-tmp").write_bytes(b"shared_b")
    abandoned.sandbox.stop("immediate")
    assert rollback.rollback(abandoned.bundle).is_whole
    abandoned.assert_restored()


def test_a_server_that_cannot_start_with_the_trial(abandoned: Abandoned) -> None:
    nonsense = Configuration.of({"shared_buffers": "nonsense"})
    abandoned.bundle.journal().append("intent", {"settings": dict(nonsense)})
    abandoned.dropin.write_bytes(render(nonsense, session=abandoned.bundle.id))
    abandoned.sandbox.crash()
    assert rollback.rollback(abandoned.bundle).restarted
    abandoned.assert_restored()


def test_only_a_reload_when_no_restart_is_needed(server: Sandbox, tmp_path: Path) -> None:
    session = Session.begin(server.target(), study="reload", undo_root=tmp_path / "undo")
    session.apply(Configuration.of({"work_mem": "8MB"}))
    restored = rollback.rollback(session.bundle)
    assert restored.is_whole
    assert not restored.restarted


def test_the_journal_is_torn(abandoned: Abandoned) -> None:
    path = abandoned.bundle.directory / "journal.jsonl"
    path.write_bytes(path.read_bytes()[:-5])
    assert rollback.rollback(abandoned.bundle).is_whole
    assert abandoned.bundle.is_closed()


def test_the_journal_is_damaged(abandoned: Abandoned) -> None:
    path = abandoned.bundle.directory / "journal.jsonl"
    path.write_bytes(b"#" + path.read_bytes()[1:])
    restored = rollback.rollback(abandoned.bundle)
    assert "journal was damaged" in restored.damage[0]
    abandoned.assert_restored()
    assert rollback.rollback(abandoned.bundle).is_whole


def test_a_copy_in_the_bundle_is_damaged(server: Sandbox, tmp_path: Path) -> None:
    """Nothing is written from a bundle that is not what it was."""
    dropin = server.data_directory / "pgdyno.conf"
    write_as_owner(dropin, "work_mem = '4MB'\n")
    server.target().postgres.fetch("SELECT pg_reload_conf()")
    while settings_of(server.target())["work_mem"].source != "configuration file":
        pass
    session = Session.begin(server.target(), study="damaged", undo_root=tmp_path / "undo")
    session.apply(Configuration.of({"work_mem": "8MB"}))
    copy, trial = session.bundle.directory / "files" / "0", dropin.read_bytes()
    good = copy.read_bytes()
    copy.write_bytes(b"fsync = off\n")
    with pytest.raises(RollbackError, match="is damaged"):
        session.rollback()
    assert dropin.read_bytes() == trial
    copy.write_bytes(good)
    assert session.rollback().is_whole
    dropin.unlink()
    server.target().postgres.fetch("SELECT pg_reload_conf()")
    while settings_of(server.target())["work_mem"].source != "default":
        pass


def test_a_driver_that_was_left_running_is_ended(abandoned: Abandoned) -> None:
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as driver:
        abandoned.session.record_process(driver.pid, "pgbench")
        abandoned.session.record_process(2**22 + 1, "gone")
        restored = rollback.rollback(abandoned.bundle)
        assert restored.ended == (f"pgbench {driver.pid}",)
        assert driver.wait(30) == -signal.SIGTERM


def test_a_session_that_runs_is_left_alone(abandoned: Abandoned) -> None:
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as other:
        owner = ProcessIdentity.of(other.pid)
        assert owner is not None
        running = UndoBundle(abandoned.bundle.directory, replace(abandoned.bundle.manifest, owner=owner))
        with pytest.raises(UsageError, match=f"still running as process {other.pid}"):
            rollback.rollback(running)
        assert abandoned.dropin.exists()
        other.kill()


def test_a_data_directory_that_is_gone(abandoned: Abandoned, tmp_path: Path) -> None:
    gone = UndoBundle(
        abandoned.bundle.directory, replace(abandoned.bundle.manifest, data_directory=str(tmp_path / "no"))
    )
    with pytest.raises(RollbackError, match="does not exist") as caught:
        rollback.rollback(gone)
    assert "--forget" in (caught.value.hint or "")
    assert abandoned.dropin.exists()


@after_restart
def test_a_second_signal_does_not_interrupt_it(abandoned: Abandoned, monkeypatch: pytest.MonkeyPatch) -> None:
    real_restart = PgCtl.restart

    def restart(control: PgCtl) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        real_restart(control)

    monkeypatch.setattr(PgCtl, "restart", restart)
    with pytest.raises(KeyboardInterrupt):
        rollback.rollback(abandoned.bundle)
    assert abandoned.bundle.is_closed()
    abandoned.assert_restored()


def invoke(*words: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(command, list(words), standalone_mode=False)
    if result.exception is not None:
        raise result.exception
    return int(result.return_value), result.stdout, result.stderr


def test_the_command(abandoned: Abandoned, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGDYNO_HOME", str(abandoned.undo_root.parent.parent))
    code, listed, _ = invoke("--list")
    assert code == 0
    assert abandoned.bundle.id in listed
    assert "abandoned" in listed
    assert json.loads(invoke("--list", "--json")[1])["sessions"][0]["state"] == "abandoned"
    text = abandoned.dropin.read_bytes()
    code, dry, _ = invoke("--dry-run")
    assert code == 0
    assert abandoned.dropin.read_bytes() == text
    assert abandoned.bundle.id in json.loads(invoke("--dry-run", "--json")[1])["plans"][0]["session"]
    code, story, plan = invoke()
    assert code == 0
    assert plan == dry
    assert "-work_mem = '8MB'" in plan
    assert f"--- {abandoned.dropin}" in plan
    assert "settings of this session: work_mem" in plan
    assert "a reload, no restart" in plan
    assert "files and settings are as they were found" in story
    assert invoke()[1] == "nothing to roll back\n"
    _, story, plan = invoke(abandoned.bundle.id)
    assert "nothing to do" in story
    assert plan == "", "no outage is announced where there is nothing to do"
    (again,) = json.loads(invoke(abandoned.bundle.id[:8], "--json")[1])["restored"]
    assert again["already_closed"]
    assert again["whole"]
    with pytest.raises(UsageError, match='"nosuch" is not a session'):
        invoke("nosuch")


def test_the_command_reports_damage(abandoned: Abandoned, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGDYNO_HOME", str(abandoned.undo_root.parent.parent))
    path = abandoned.bundle.directory / "settings.json"
    rows = json.loads(path.read_text())
    changed = [row | ({"setting": "5MB"} if row["name"] == "work_mem" else {}) for row in rows]
    write_anew(path, changed)
    code, story, _ = invoke("--last")
    assert code == 5
    assert "work_mem: was 5MB" in story
    assert "--forget" in story
    assert invoke(abandoned.bundle.id, "--forget")[0] == 0
    assert invoke()[1] == "nothing to roll back\n"
    write_anew(path, rows)
