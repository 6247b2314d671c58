"""What cannot come into force is said so, and the server is as before; what may not begin does not begin."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from psycopg import sql

from pgdyno.control import PgCtl
from pgdyno.control.control_record import to_record
from pgdyno.errors import ApplyError, ConnectError, EnvironmentUnsuitable, PgdynoError
from pgdyno.model.configuration import BASELINE, Configuration
from pgdyno.preflight import examine as preflight
from pgdyno.sandbox.sandbox import Sandbox
from pgdyno.server import snapshot
from pgdyno.server.postgres import Postgres
from pgdyno.server.postmaster_lock import postmaster_pid
from pgdyno.server.snapshot import SettingState
from pgdyno.targets.target import Target
from pgdyno.undo.apply import Session
from server_image import eventually

pytestmark = pytest.mark.pg
GOOD = Configuration.of({"work_mem": "7MB"})


def settings_of(target: Target) -> dict[str, SettingState]:
    with target.postgres.connect() as connection:
        return snapshot.read_settings(connection, label="test")


def reload_and_wait(target: Target, name: str, value: str | None) -> None:
    target.postgres.fetch("SELECT pg_reload_conf()")
    eventually(lambda: settings_of(target)[name].setting == value, f"{name} = {value}", step_s=0.05)


@pytest.fixture
def session(sandbox18: Sandbox, tmp_path: Path) -> Iterator[Session]:
    with Session.begin(sandbox18.target(), study="test", undo_root=tmp_path / "undo") as session:
        yield session


def assert_refused(session: Session, target: Target, settings: dict[str, str]) -> ApplyError:
    """Apply on top of a good configuration: it is refused, and the good one is in force and in the file again."""
    session.apply(GOOD)
    before, dropin = settings_of(target), (target.directory or Path()) / "pgdyno.conf"
    data = dropin.read_bytes()
    with pytest.raises(ApplyError) as caught:
        session.apply(Configuration.of(settings))
    assert dropin.read_bytes() == data
    assert snapshot.differences(before, settings_of(target)) == ()
    session.apply(GOOD)
    return caught.value


def test_what_needs_a_restart_is_refused_where_none_may_be_made(
    session: Session, sandbox18: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = sandbox18.target()
    session.apply(GOOD)
    before, server = settings_of(target), postmaster_pid(sandbox18.data_directory)
    with pytest.raises(EnvironmentUnsuitable, match="have to be restarted for shared_buffers"):
        session.apply(Configuration.of({"work_mem": "8MB", "shared_buffers": "200MB"}), restart="never")
    assert postmaster_pid(sandbox18.data_directory) == server
    assert snapshot.differences(before, settings_of(target)) == ()
    monkeypatch.setattr(
        preflight, "check", lambda *_args, **_options: pytest.fail("the way back waits for no judgement")
    )
    assert not session.apply(BASELINE, restart="never").restarted


@pytest.mark.parametrize(
    ("settings", "name", "detail"),
    [
        ({"work_mem": "1kB"}, "work_mem = 1kB", "outside the valid range"),
        ({"work_mem": "much"}, "work_mem = much", "invalid value"),
        ({"no_such_knob": "1"}, "no_such_knob = 1", "unrecognized configuration parameter"),
        ({"random_page_cost": "2", "shared_buffers": "abc"}, "shared_buffers = abc", "invalid value"),
        ({"wal_compression": "brotli"}, "wal_compression = brotli", "invalid value"),
    ],
)
def test_a_rejected_value_is_named_in_the_servers_words(
    session: Session, sandbox18: Sandbox, settings: dict[str, str], name: str, detail: str
) -> None:
    error = assert_refused(session, sandbox18.target(), settings)
    assert f"rejected {name}" in error.message
    assert detail in (error.detail or "")
    assert error.hint


@pytest.mark.requirement("R-SAF-06")
def test_a_rejected_value_cost_no_outage(session: Session, sandbox18: Sandbox) -> None:
    query = "SELECT pg_postmaster_start_time() AS at"
    before = sandbox18.target().postgres.fetch(query)
    assert_refused(session, sandbox18.target(), {"shared_buffers": "abc"})
    assert sandbox18.target().postgres.fetch(query) == before


@pytest.mark.requirement("R-SAF-07")
def test_a_server_that_does_not_start_is_brought_back(session: Session, sandbox18: Sandbox) -> None:
    """A socket is only opened by a real start: no check before it can tell."""
    error = assert_refused(session, sandbox18.target(), {"unix_socket_directories": "/nonexistent"})
    assert "did not come up with" in error.message
    assert "FATAL" in (error.detail or "")


def test_a_knob_that_alter_system_sets_meanwhile_overrides(sandbox18: Sandbox, tmp_path: Path) -> None:
    """What stands in postgresql.auto.conf before a session is set there; what comes later is somebody else's."""
    target = sandbox18.target()
    path = sandbox18.data_directory / "postgresql.auto.conf"
    try:
        with Session.begin(target, study="test", undo_root=tmp_path / "undo") as session:
            target.postgres.execute("ALTER SYSTEM SET maintenance_work_mem = '70MB'")
            reload_and_wait(target, "maintenance_work_mem", "71680")
            auto = path.read_bytes()
            error = assert_refused(session, target, {"maintenance_work_mem": "80MB"})
            assert "postgresql.auto.conf line" in error.message
            assert "ALTER SYSTEM RESET maintenance_work_mem" in (error.hint or "")
            assert path.read_bytes() == auto
            target.postgres.execute("ALTER SYSTEM RESET maintenance_work_mem")
    finally:
        target.postgres.execute("ALTER SYSTEM RESET maintenance_work_mem")
        reload_and_wait(target, "maintenance_work_mem", "65536")


@pytest.mark.parametrize(
    ("subject", "words"),
    [
        ("DATABASE {database}", "ALTER DATABASE pgdyno_observer SET work_mem = 6MB"),
        ("ROLE {role}", "ALTER ROLE postgres SET work_mem = 6MB"),
        ("ROLE {role} IN DATABASE {database}", "ALTER ROLE postgres IN DATABASE pgdyno_observer SET"),
    ],
)
def test_an_override_of_role_or_database(sandbox18: Sandbox, tmp_path: Path, subject: str, words: str) -> None:
    target = sandbox18.target()
    (who,) = target.postgres.fetch("SELECT current_user::text AS role, current_database()::text AS database")
    names = {key: sql.Identifier(str(value)) for key, value in who.items()}
    target.postgres.execute(sql.SQL("ALTER " + subject + " SET work_mem = '6MB'").format(**names))
    try:
        with Session.begin(target, study="test", undo_root=tmp_path / "undo") as session:
            with pytest.raises(ApplyError) as caught:
                session.apply(Configuration.of({"work_mem": "8MB"}))
            assert "work_mem = 8MB is overridden by" in caught.value.message
            assert words in caught.value.message
            session.apply(BASELINE)
    finally:
        target.postgres.execute(sql.SQL("ALTER " + subject + " RESET work_mem").format(**names))


def test_an_override_in_the_loads_database_only(session: Session, sandbox18: Sandbox) -> None:
    postgres = sandbox18.target().postgres
    postgres.execute("CREATE DATABASE overriding")
    try:
        postgres.execute("ALTER DATABASE overriding SET work_mem = '6MB'")
        session.apply(Configuration.of({"work_mem": "8MB"}))
        with pytest.raises(ApplyError, match="ALTER DATABASE overriding SET work_mem = 6MB"):
            session.apply(Configuration.of({"work_mem": "9MB"}), databases=["overriding"])
    finally:
        postgres.execute("DROP DATABASE overriding")


def test_an_option_of_the_postmaster_overrides(make_sandbox: Callable[..., Sandbox], tmp_path: Path) -> None:
    sandbox = make_sandbox("command-line")
    sandbox.start()
    control = sandbox.target().control
    assert isinstance(control, PgCtl)
    control = replace(control, options=("-c", "work_mem=6MB"))
    control.restart()
    target = replace(sandbox.target(), control=control)
    with Session.begin(target, study="test", undo_root=tmp_path / "undo") as session:
        assert session.bundle.manifest.control == to_record(control)
        with pytest.raises(ApplyError, match="overridden by the argument -c work_mem=6MB of the server"):
            session.apply(Configuration.of({"work_mem": "8MB"}), restart="always")
        session.apply(BASELINE, restart="always")


def test_a_later_line_of_the_main_file_overrides(make_sandbox: Callable[..., Sandbox], tmp_path: Path) -> None:
    sandbox = make_sandbox("later-line")
    with (sandbox.data_directory / "postgresql.conf").open("a") as main:
        main.write("work_mem = 6MB\n")
    sandbox.start()
    with (
        Session.begin(sandbox.target(), study="test", undo_root=tmp_path / "undo") as session,
        pytest.raises(ApplyError, match=r"overridden by .*postgresql\.conf line") as caught,
    ):
        session.apply(Configuration.of({"work_mem": "8MB"}))
    assert caught.value.detail == "That line sets 6MB."


def begin_error(target: Target, undo_root: Path) -> PgdynoError:
    with pytest.raises(PgdynoError) as caught:
        Session.begin(target, study="test", undo_root=undo_root)
    assert caught.value.hint
    return caught.value


def test_edits_that_are_not_in_force_refuse_a_session(make_sandbox: Callable[..., Sandbox], tmp_path: Path) -> None:
    sandbox = make_sandbox("edited")
    sandbox.start()
    target, main = sandbox.target(), sandbox.data_directory / "postgresql.conf"
    original = main.read_text()
    for edit in ("work_mem = 6MB\n", "shared_buffers = 64MB\n", "no_such_knob = 1\n", "this is no setting\n"):
        main.write_text(original + edit)
        error = begin_error(target, tmp_path / "undo")
        assert "not in force" in error.message
        assert "postgresql.conf line" in (error.detail or "")
    main.write_text(original + "shared_buffers = 64MB\n")
    target.postgres.fetch("SELECT pg_reload_conf()")
    eventually(lambda: settings_of(target)["shared_buffers"].pending_restart, "it waits for a restart", step_s=0.05)
    assert "waits for a restart" in (begin_error(target, tmp_path / "undo").detail or "")
    main.write_text(original)
    target.postgres.fetch("SELECT pg_reload_conf()")
    eventually(lambda: not settings_of(target)["shared_buffers"].pending_restart, "nothing waits", step_s=0.05)
    assert not [path for path in (tmp_path / "undo").iterdir() if path.name != ".lock"]
    Session.begin(target, study="test", undo_root=tmp_path / "undo").rollback()


def test_a_second_session_is_refused(session: Session, sandbox18: Sandbox, tmp_path: Path) -> None:
    for settings in (BASELINE, GOOD):
        session.apply(settings)
        error = begin_error(sandbox18.target(), tmp_path / "undo")
        assert session.id in error.message
        assert str(os.getpid()) in (error.detail or "")


def test_a_damaged_bundle_is_in_the_way_only_while_its_session_is_open(sandbox18: Sandbox, tmp_path: Path) -> None:
    def begun() -> Session:
        return Session.begin(sandbox18.target(), study="test", undo_root=tmp_path / "undo")

    with begun() as ended:
        pass
    (ended.bundle.directory / "manifest.json").write_text("{")
    opened = begun()
    manifest = opened.bundle.directory / "manifest.json"
    whole = manifest.read_bytes()
    manifest.write_text("{")
    with pytest.raises(EnvironmentUnsuitable, match="is open, and cannot be read") as caught:
        begun()
    assert f"pgdyno rollback {opened.id} --forget" in str(caught.value.hint)
    manifest.write_bytes(whole)
    assert opened.rollback().is_whole


def test_a_leftover_of_another_users_session_is_refused(session: Session, sandbox18: Sandbox, tmp_path: Path) -> None:
    session.apply(GOOD)
    error = begin_error(sandbox18.target(), tmp_path / "other")
    assert f"session {session.id}" in error.message
    assert "is still open" in error.message
    (sandbox18.data_directory / "pgdyno.lock").unlink()  # as of a session of an earlier pgdyno
    error = begin_error(sandbox18.target(), tmp_path / "other")
    assert f"left over from session {session.id}" in error.message


def test_a_dead_server_is_one_clear_error(make_sandbox: Callable[..., Sandbox], tmp_path: Path) -> None:
    error = begin_error(make_sandbox("dead").target(), tmp_path / "undo")
    assert isinstance(error, ConnectError)


def test_a_role_without_rights_is_told_which(sandbox18: Sandbox, tmp_path: Path) -> None:
    target = sandbox18.target()
    target.postgres.execute("CREATE ROLE plain LOGIN")
    try:
        plain = replace(target, postgres=Postgres(f"{target.postgres.conninfo} user=plain password=s3cret"))
        assert "GRANT" in (begin_error(plain, tmp_path / "undo").hint or "")
        target.postgres.execute("GRANT pg_read_all_settings TO plain")
        assert "pg_file_settings" in begin_error(plain, tmp_path / "undo").message
    finally:
        target.postgres.execute("DROP ROLE plain")


def test_a_password_is_not_kept(sandbox18: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = sandbox18.target()
    monkeypatch.setenv("PGPASSWORD", "s3cret-of-the-environment")
    target = replace(target, postgres=Postgres(f"{target.postgres.conninfo} password=s3cret-of-the-string"))
    with Session.begin(target, study="test", undo_root=tmp_path / "undo") as session:
        session.apply(GOOD)
        for path in session.bundle.directory.rglob("*"):
            assert path.is_dir() or b"s3cret" not in path.read_bytes()
        monkeypatch.delenv("PGPASSWORD")
        assert Postgres(session.bundle.manifest.conninfo).fetch("SELECT 1 AS one") == [{"one": 1}]


def test_another_machines_server_is_refused(make_sandbox: Callable[..., Sandbox], tmp_path: Path) -> None:
    """A server whose data directory is not that of the process that serves us, as through a tunnel.

    Once a minute a postmaster looks for its lock file and ends without it: a server of this test alone, just started.
    """
    sandbox = make_sandbox("elsewhere")
    sandbox.start()
    target = sandbox.target()
    pid_file = sandbox.data_directory / "postmaster.pid"
    hidden = sandbox.data_directory / "postmaster.hidden"
    pid_file.rename(hidden)
    try:
        assert "are not on this machine" in begin_error(target, tmp_path / "undo").message
    finally:
        hidden.rename(pid_file)


def test_an_undo_folder_that_cannot_be_written(sandbox18: Sandbox, tmp_path: Path) -> None:
    (tmp_path / "undo").write_text("a file where the folder should be")
    error = begin_error(sandbox18.target(), tmp_path / "undo")
    assert isinstance(error, EnvironmentUnsuitable)
    assert str(tmp_path / "undo") in error.message
