"""A configuration that was applied is in force, on real servers, and the server is itself again afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from pgdyno.errors import EnvironmentUnsuitable, SessionTakenOver
from pgdyno.model.configuration import BASELINE, Configuration
from pgdyno.sandbox.sandbox import Sandbox
from pgdyno.server import snapshot
from pgdyno.server.snapshot import SettingState
from pgdyno.targets.target import Target
from pgdyno.undo.apply import Session
from server_image import eventually, write_as_owner

pytestmark = pytest.mark.pg


def settings_of(target: Target) -> dict[str, SettingState]:
    with target.postgres.connect() as connection:
        return snapshot.read_settings(connection, label="test")


def files_of(sandbox: Sandbox) -> dict[str, tuple[bytes, int, int, int]]:
    found = {}
    for path in sandbox.data_directory.glob("*.conf"):
        status = path.stat()
        found[path.name] = (path.read_bytes(), status.st_mtime_ns, status.st_uid, status.st_mode)
    return found


@pytest.fixture
def session(sandbox18: Sandbox, tmp_path: Path) -> Iterator[Session]:
    before, files = settings_of(sandbox18.target()), files_of(sandbox18)
    with Session.begin(sandbox18.target(), study="test", undo_root=tmp_path / "undo") as session:
        yield session
    assert snapshot.differences(before, settings_of(sandbox18.target())) == ()
    assert files_of(sandbox18) == files


def test_reload_for_what_a_reload_can_do(session: Session, sandbox18: Sandbox) -> None:
    applied = session.apply(Configuration.of({"work_mem": "8MB", "random_page_cost": "1.1"}))
    assert not applied.restarted
    assert applied.values == {"work_mem": "8192", "random_page_cost": "1.1"}
    dropin = sandbox18.data_directory / "pgdyno.conf"
    assert settings_of(sandbox18.target())["work_mem"].sourcefile == str(dropin)
    main = (sandbox18.data_directory / "postgresql.conf").stat()
    assert (dropin.stat().st_uid, dropin.stat().st_mode) == (main.st_uid, main.st_mode)


def test_restart_for_what_needs_one_and_for_taking_it_back(session: Session) -> None:
    assert session.apply(Configuration.of({"shared_buffers": "64MB"})).restarted
    assert not session.apply(Configuration.of({"shared_buffers": "64MB", "work_mem": "8MB"})).restarted
    assert session.apply(BASELINE).restarted
    assert not session.apply(BASELINE).restarted


def test_always_restarts_when_asked(session: Session, sandbox18: Sandbox) -> None:
    query = "SELECT pg_postmaster_start_time() AS at"
    before = sandbox18.target().postgres.fetch(query)
    assert session.apply(BASELINE, restart="always").restarted
    assert sandbox18.target().postgres.fetch(query) != before


def test_the_fingerprint_names_what_is_in_force(session: Session, sandbox18: Sandbox) -> None:
    base = session.apply(BASELINE).fingerprint
    assert snapshot.fingerprint_of(sandbox18.target().postgres) == base
    changed = session.apply(Configuration.of({"work_mem": "8MB"})).fingerprint
    assert changed != base
    assert session.apply(Configuration.of({"work_mem": "8192kB"})).fingerprint == changed
    assert session.apply(BASELINE).fingerprint == base


def test_special_values_and_switches(session: Session) -> None:
    asked = {
        "wal_buffers": "-1",
        "wal_compression": "on",
        "autovacuum_work_mem": "-1",
        "jit": "off",
        "temp_buffers": "9MB",
    }
    applied = session.apply(Configuration.of(asked))
    assert int(applied.values["wal_buffers"]) > 0
    assert applied.values["wal_compression"] == "pglz"
    assert (applied.values["autovacuum_work_mem"], applied.values["jit"]) == ("-1", "off")


def test_the_journal_tells_the_story(session: Session) -> None:
    session.apply(Configuration.of({"work_mem": "8MB"}))
    assert [record.kind for record in session.bundle.reading().records] == ["begun", "intent", "in force"]
    restored = session.rollback()
    assert restored.is_whole
    assert session.bundle.is_closed()
    assert session.rollback().already_closed
    with pytest.raises(SessionTakenOver, match="restored"):
        session.apply(BASELINE)


def test_a_drop_in_that_was_there_stays_below_the_trial(sandbox18: Sandbox, tmp_path: Path) -> None:
    dropin = sandbox18.data_directory / "pgdyno.conf"
    write_as_owner(dropin, "work_mem = '5MB'\nmaintenance_work_mem = '65MB'\n")
    target = sandbox18.target()
    try:
        target.postgres.fetch("SELECT pg_reload_conf()")
        eventually(lambda: settings_of(target)["work_mem"].setting == "5120", "work_mem as in the file", step_s=0.05)
        before = settings_of(target)
        with Session.begin(target, study="test", undo_root=tmp_path / "undo") as session:
            session.apply(Configuration.of({"work_mem": "8MB"}))
            assert settings_of(target)["work_mem"].setting == "8192"
            assert settings_of(target)["maintenance_work_mem"].setting == str(65 * 1024)
            session.apply(BASELINE)
            assert snapshot.differences(before, settings_of(target)) == ()
        assert dropin.read_text().startswith("work_mem = '5MB'")
        assert snapshot.differences(before, settings_of(target)) == ()
    finally:
        dropin.unlink()
        target.postgres.fetch("SELECT pg_reload_conf()")
        eventually(lambda: settings_of(target)["work_mem"].setting == "4096", "work_mem as before", step_s=0.05)


def test_every_build(any_postgres: Sandbox, tmp_path: Path) -> None:
    target = any_postgres.target()
    before, files = settings_of(target), files_of(any_postgres)
    with Session.begin(target, study="test", undo_root=tmp_path / "undo") as session:
        assert not session.apply(Configuration.of({"work_mem": "8MB", "wal_compression": "on"})).restarted
        assert session.apply(Configuration.of({"shared_buffers": "32MB", "wal_buffers": "-1"})).restarted
    assert snapshot.differences(before, settings_of(target)) == ()
    assert files_of(any_postgres) == files


def test_without_a_way_to_restart(sandbox18: Sandbox, tmp_path: Path) -> None:
    target = replace(sandbox18.target(), control=None)
    with Session.begin(target, study="test", undo_root=tmp_path / "undo") as session:
        with pytest.raises(EnvironmentUnsuitable, match="have to be restarted for shared_buffers"):
            session.apply(Configuration.of({"shared_buffers": "64MB"}))
        assert not session.apply(Configuration.of({"work_mem": "8MB"})).restarted
        assert session.rollback().is_whole
