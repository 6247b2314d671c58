"""A change that was accepted stays after its session, and its bundle still restores the server, byte for byte."""

from __future__ import annotations

import time

import pytest

from pgdyno.errors import RollbackError
from pgdyno.model.configuration import Configuration
from pgdyno.server import snapshot
from pgdyno.targets.connect_routes import open_sql_only
from pgdyno.undo.apply import Session
from pgdyno.undo.bundle import UndoBundle
from pgdyno.undo.rollback import LocalSessions, SessionState, describe
from pgdyno.undo.watch import Deadlines

pytestmark = pytest.mark.pg


def files_of(sandbox):
    return {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in sandbox.data_directory.glob("*.conf")}


def settings_of(target):
    with target.postgres.connect() as connection:
        return snapshot.read_settings(connection, label="test")


def kept(target, undo_root, settings, *, watch=None):
    with Session.begin(target, study="apply", undo_root=undo_root, watch=watch) as session:
        session.apply(Configuration.of(settings))
        session.keep()
    return session.id


@pytest.mark.requirement("R-ADV-07", "R-SAF-02")
def test_it_stays_and_rolls_back_byte_for_byte(make_sandbox, tmp_path):
    sandbox = make_sandbox("keep")
    sandbox.start()
    target, undo_root = sandbox.target(), tmp_path / "undo"
    files, settings = files_of(sandbox), settings_of(target)
    name = kept(target, undo_root, {"work_mem": "8MB"}, watch=Deadlines())
    time.sleep(1.5)  # a watchdog that did not leave would restore now
    assert settings_of(target)["work_mem"].setting == "8192"
    assert describe(undo_root / name).state is SessionState.KEPT
    target.control.restart()
    assert settings_of(target)["work_mem"].setting == "8192"
    assert not (sandbox.data_directory / "pgdyno.reserve").exists()
    sessions = LocalSessions(undo_root)
    assert sessions.roll_back(name).is_whole
    assert files_of(sandbox) == files
    assert snapshot.differences(settings, settings_of(target)) == ()
    assert describe(undo_root / name).state is SessionState.CLOSED
    assert sessions.roll_back(name).already_closed


def test_a_trial_builds_on_what_was_kept_and_leaves_it(make_sandbox, tmp_path):
    sandbox = make_sandbox("keep-trial")
    sandbox.start()
    target, undo_root = sandbox.target(), tmp_path / "undo"
    first = kept(target, undo_root, {"work_mem": "8MB"})
    files = files_of(sandbox)
    with Session.begin(target, study="trial", undo_root=undo_root) as session:
        session.apply(Configuration.of({"random_page_cost": "1.1"}))
        assert settings_of(target)["work_mem"].setting == "8192"
    assert files_of(sandbox) == files
    second = kept(target, undo_root, {"random_page_cost": "1.1"})
    with pytest.raises(RollbackError, match="cannot be rolled back before"):
        LocalSessions(undo_root).roll_back(first)
    assert LocalSessions(undo_root).roll_back(second).is_whole
    assert files_of(sandbox) == files
    assert LocalSessions(undo_root).roll_back(first).is_whole
    assert settings_of(target)["work_mem"].setting == "4096"


def test_an_edit_by_others_stays_when_the_change_is_taken_back(make_sandbox, tmp_path):
    sandbox = make_sandbox("keep-edit")
    sandbox.start()
    name = kept(sandbox.target(), tmp_path / "undo", {"work_mem": "8MB"})
    dropin = sandbox.data_directory / "pgdyno.conf"
    dropin.write_bytes(dropin.read_bytes() + b"random_page_cost = 1.5 # a DBA was here\n")
    restored = LocalSessions(tmp_path / "undo").roll_back(name)
    assert restored.is_whole
    assert "was edited by somebody else since" in restored.notes[0]
    assert dropin.read_bytes() == b"random_page_cost = 1.5 # a DBA was here\n"
    now = settings_of(sandbox.target())
    assert (now["work_mem"].setting, now["random_page_cost"].setting) == ("4096", "1.5")
    assert LocalSessions(tmp_path / "undo").roll_back(name).already_closed


def test_a_change_that_cannot_be_told_from_an_edit_is_not_taken_back(make_sandbox, tmp_path):
    sandbox = make_sandbox("keep-rewritten")
    sandbox.start()
    name = kept(sandbox.target(), tmp_path / "undo", {"work_mem": "8MB"})
    dropin = sandbox.data_directory / "pgdyno.conf"
    dropin.write_bytes(b"work_mem = 16MB\n")
    with pytest.raises(RollbackError, match="whose the line of work_mem is cannot be told"):
        LocalSessions(tmp_path / "undo").roll_back(name)
    assert dropin.read_bytes() == b"work_mem = 16MB\n"
    LocalSessions(tmp_path / "undo").forget(name)
    assert describe(tmp_path / "undo" / name).state is SessionState.CLOSED
    assert LocalSessions(tmp_path / "undo").roll_back(name).already_closed


def test_by_alter_system_too(make_sandbox, tmp_path):
    sandbox = make_sandbox("keep-sql")
    sandbox.start()
    target = open_sql_only(sandbox.target().postgres.conninfo)
    files = {name: data for name, (data, _) in files_of(sandbox).items()}
    name = kept(target, tmp_path / "undo", {"work_mem": "8MB"})
    assert settings_of(target)["work_mem"].setting == "8192"
    assert LocalSessions(tmp_path / "undo").roll_back(name).is_whole
    assert {name: data for name, (data, _) in files_of(sandbox).items()} == files
    assert UndoBundle.open(tmp_path / "undo" / name).kept() is None
