"""The watchdog of a session that came by a password: files go back without one; where SQL must do it, it has it."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest
from tuner_process import await_line, newest

from fix_postgres import NIGHT, find_build, public_dir
from locked_server import PASSWORD, LockedServer, TunerOn, locked_cluster, locked_server, set_password
from pgdyno.cli.rollback import _story, _table
from pgdyno.control import PgCtl
from pgdyno.errors import EnvironmentUnsuitable, RollbackError
from pgdyno.linux import processes
from pgdyno.model.configuration import Configuration
from pgdyno.server import snapshot
from pgdyno.server.postgres import Postgres
from pgdyno.targets.connect import open_target
from pgdyno.targets.connect_routes import open_sql_only
from pgdyno.undo import kernel_route, watch_record
from pgdyno.undo.apply import Session
from pgdyno.undo.bundle import UndoBundle
from pgdyno.undo.restart_need import RETURN
from pgdyno.undo.rollback import SessionState, describe, rollback
from pgdyno.undo.watch_record import WatchdogRole
from server_image import UNHURRIED, eventually, files_of

pytestmark = [pytest.mark.pg, pytest.mark.slow]
BEATS = replace(UNHURRIED, heartbeat_s=10)
"""Shorter than a test can wait for, and longer than a busy machine keeps a process from beating."""
RELOADED = {"work_mem": "9MB"}
RESTARTED = {"shared_buffers": "48MB", "work_mem": "9MB"}
GRANTS = (
    "GRANT pg_read_all_settings TO plain",
    "GRANT EXECUTE ON FUNCTION pg_reload_conf() TO plain",
    "GRANT SELECT ON pg_file_settings TO plain",
    "GRANT EXECUTE ON FUNCTION pg_show_all_file_settings() TO plain",
    "GRANT ALTER SYSTEM ON PARAMETER work_mem TO plain",
)


@pytest.fixture(scope="module", params=["embedded-18", "debian-15"] if NIGHT else ["embedded-18"])
def locked(request: pytest.FixtureRequest) -> Iterator[LockedServer]:
    with locked_server(find_build(request.param), public_dir()) as server:
        yield server


class Before:
    """The server as it was, and the assertion that it is so again."""

    def __init__(self, server: LockedServer, undo_root: Path) -> None:
        self.server, self.undo_root = server, undo_root
        self.files, self.settings = self.configuration(), server.settings()
        self.starts = server.starts()

    def configuration(self) -> dict[str, tuple[str, int, int, int]]:
        return files_of(self.server.data) | files_of(self.server.config)

    def tuner(self, configuration: dict[str, str], **more: Any) -> TunerOn:
        given = {"dsn": self.server.dsn, "undo_root": self.undo_root, "watch": UNHURRIED, **more}
        return TunerOn(configurations=[configuration], **given)

    def assert_restored(self) -> UndoBundle:
        bundle = newest(self.undo_root)
        eventually(bundle.is_closed, "the session is closed")
        assert _but_for_rewritten(self.configuration()) == _but_for_rewritten(self.files)
        assert snapshot.differences(self.settings, self.server.settings()) == ()
        eventually(lambda: not any(watchdogs_of(bundle.directory)), "the watchdogs leave")
        return bundle


def _but_for_rewritten(files: dict[str, tuple[str, int, int, int]]) -> dict[str, tuple[str, int, int, int]]:
    """Leave out the time of the file that ALTER SYSTEM writes anew, and the rules that a test changes."""
    auto = "postgresql.auto.conf"
    return {name: image for name, image in files.items() if name != "pg_hba.conf"} | {auto: (files[auto][0], 0, 0, 0)}


def watchdogs_of(bundle: Path) -> list[int]:
    """Return the processes whose arguments name the bundle."""
    return [pid for pid in processes.all_pids() if os.fsencode(bundle) in arguments_of(pid)]


def arguments_of(pid: int) -> list[bytes]:
    try:
        return (processes.PROC / str(pid) / "cmdline").read_bytes().split(b"\0")
    except OSError:
        return []


def returns_of(bundle: UndoBundle) -> int:
    """Return how often the way back started the server."""
    return sum(record.kind == RETURN for record in bundle.reading().records)


@pytest.fixture
def before(locked: LockedServer, tmp_path: Path) -> Before:
    return Before(locked, tmp_path / "undo")


@pytest.fixture
def forgotten(locked: LockedServer) -> Iterator[Callable[[], None]]:
    """Change the role's password, so that nobody of the session can log in any more."""
    yield lambda: locked.admin.execute("ALTER ROLE tuner PASSWORD 'another'")
    set_password(locked.admin)


@pytest.mark.parametrize(("configuration", "starts"), [(RELOADED, 0), (RESTARTED, 2)])
def test_killed_in_a_configuration(before: Before, configuration: dict[str, str], starts: int) -> None:
    with before.tuner(configuration).applied() as tuner:
        tuner.kill()
        bundle = before.assert_restored()
    assert before.server.starts() == before.starts + starts
    assert "not compared" not in (describe(bundle.directory).closed_by or "")


@pytest.mark.parametrize(("configuration", "starts"), [(RELOADED, 0), (RESTARTED, 2)])
def test_killed_after_the_password_was_changed(
    before: Before, forgotten: Callable[[], None], configuration: dict[str, str], starts: int
) -> None:
    """Without any way to log in: reloaded or restarted by what the journal says, once, and without a wait."""
    with before.tuner(configuration).applied() as tuner:
        forgotten()
        tuner.kill()
        bundle = before.assert_restored()
    assert before.server.starts() == before.starts + starts
    closed_by = describe(bundle.directory).closed_by or ""
    assert "settings not compared" in closed_by
    assert "password authentication failed" in closed_by
    assert PASSWORD not in closed_by


@pytest.fixture
def rejected(locked: LockedServer) -> Iterator[Callable[[], None]]:
    """Have the server reject the tuner from its next start on."""
    rules = locked.data / "pg_hba.conf"
    admitted = rules.read_text()
    yield lambda: rules.write_text(admitted.replace("scram-sha-256", "reject")) and None
    rules.write_text(admitted)
    locked.control.reload()


def test_killed_with_the_server_down_and_no_way_to_log_in(before: Before, rejected: Callable[[], None]) -> None:
    with before.tuner(RESTARTED, hold=False).running() as tuner:
        await_line(tuner, "begun")
        rejected()
        eventually(lambda: before.server.pid() is None, "the session has stopped the server", step_s=0.001)
        tuner.kill()
        bundle = before.assert_restored()
    assert "pg_hba.conf rejects" in (describe(bundle.directory).closed_by or "")
    assert returns_of(bundle) == 1, words_of(bundle)
    # The session's own pg_ctl may have been about to start it.
    assert before.server.starts() - before.starts in (1, 2)


def test_a_try_that_never_came_to_its_restart_costs_none(before: Before, forgotten: Callable[[], None]) -> None:
    """The session itself ends here, because it can log in no more."""
    with before.tuner(RESTARTED).running() as tuner:
        await_line(tuner, "begun")
        forgotten()
        bundle = before.assert_restored()
    assert "settings not compared" in (describe(bundle.directory).closed_by or "")
    assert before.server.starts() == before.starts


def test_an_attempt_that_failed_after_its_restart_is_repeated_without_one(
    before: Before, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = Session.begin(open_target(before.server.dsn), study="x", undo_root=before.undo_root)
    session.apply(Configuration.of(RESTARTED))
    undo_md = (session.bundle.directory / "UNDO.md").read_text()
    assert f"PGPASSWORD=... pgdyno rollback {session.id}" in undo_md
    assert PASSWORD not in undo_md
    started, calls, real = before.server.starts(), [], kernel_route.put_back

    def put_back(bundle: UndoBundle) -> tuple[list[str], list[str]]:
        calls.append(bundle)
        if len(calls) == 2:  # the one behind the restart
            raise OSError("a disk that is away")
        return real(bundle)

    monkeypatch.setattr(kernel_route, "put_back", put_back)
    with pytest.raises(RollbackError, match="away"):
        rollback(session.bundle)
    assert before.server.starts() == started + 1
    left = replace(describe(session.bundle.directory), state=SessionState.ABANDONED)
    assert f"PGPASSWORD=... pgdyno rollback {session.id}" in _table([left])
    restored = rollback(session.bundle)
    assert restored.is_whole
    assert "settings not compared" in _story(session.bundle.directory, restored)
    assert not restored.restarted
    assert "no password supplied" in (restored.not_compared or "")
    assert before.server.starts() == started + 1
    before.assert_restored()


@pytest.mark.host
def test_a_debian_cluster(tmp_path: Path) -> None:
    """pg_ctlcluster starts, stops and waits without a session too."""
    home = public_dir()
    with locked_cluster(home) as server:
        before = Before(server, tmp_path / "undo")
        with before.tuner(RESTARTED).applied() as tuner:
            server.admin.execute("ALTER ROLE tuner PASSWORD 'another'")
            tuner.kill()
            bundle = before.assert_restored()
        assert bundle.manifest.control is not None
        assert bundle.manifest.control["kind"] == "pg_ctlcluster"
        assert server.starts() == before.starts + 2
        set_password(server.admin)
        with before.tuner(RESTARTED, hold=False).running() as tuner:
            await_line(tuner, "begun")
            eventually(lambda: server.pid() is None, "the session has stopped the server", step_s=0.001)
            tuner.kill()
            assert returns_of(before.assert_restored()) == 1
    home.rmdir()


def test_killed_while_every_connection_is_taken(before: Before) -> None:
    """What came by a reload goes by a reload: nobody's session is ended to find a free one."""
    with before.tuner(RELOADED).applied() as tuner, contextlib.ExitStack() as stack:
        with pytest.raises(psycopg.OperationalError, match="too many clients"):
            take_every_slot(before.server, stack)
        tuner.kill()
        bundle = newest(before.undo_root)
        eventually(bundle.is_closed, "the session is closed")
    assert "settings not compared" in (describe(bundle.directory).closed_by or "")
    assert before.server.starts() == before.starts
    before.assert_restored()


def take_every_slot(server: LockedServer, stack: contextlib.ExitStack) -> None:
    while True:
        stack.enter_context(psycopg.connect(server.admin.conninfo))


@pytest.mark.requirement("R-SAF-10")
@pytest.mark.parametrize(
    ("way", "sql_only"),
    [(way, sql_only) for way in ("dsn", "variable", "file") for sql_only in (False, True)]
    if NIGHT
    else [("dsn", True), ("variable", False), ("file", True)],
)
def test_no_password_in_sight(before: Before, tmp_path: Path, way: str, sql_only: bool) -> None:
    dsn, environment = before.server.bare_dsn, {}
    if way == "dsn":
        dsn = before.server.dsn
    elif way == "variable":
        environment = {"PGPASSWORD": PASSWORD}
    else:
        passfile = tmp_path / "pgpass"
        passfile.write_text(f"127.0.0.1:*:*:tuner:{PASSWORD.replace(chr(92), 2 * chr(92))}\n")
        passfile.chmod(0o600)
        environment = {"PGPASSFILE": str(passfile)}
    secret = PASSWORD.encode()
    how = {"dsn": dsn, "environment": environment, "sql_only": sql_only, "from_the_start": True}
    with before.tuner(RELOADED, **how).applied() as tuner:
        (tmp_path / "pgpass").unlink(missing_ok=True)
        bundle = newest(before.undo_root)
        pids = watchdogs_of(bundle.directory)
        assert len(pids) == 2
        for pid in pids:
            assert secret not in (processes.PROC / str(pid) / "cmdline").read_bytes()
            assert secret not in (processes.PROC / str(pid) / "environ").read_bytes()
            os.kill(pid, signal.SIGKILL)  # who takes their place must have it too
            eventually(lambda: len(watchdogs_of(bundle.directory)) >= 2, "two again")
        eventually(lambda: both_signed_in(bundle), "the new ones are at work")
        tuner.kill()
        before.assert_restored()
    for path in before.undo_root.rglob("*"):
        assert path.is_dir() or secret not in path.read_bytes(), path
    if sql_only:
        assert not (before.server.data / "pgdyno.conf").exists()
        assert "not compared" not in (describe(bundle.directory).closed_by or "")


def both_signed_in(bundle: UndoBundle) -> bool:
    found = [watch_record.identity(bundle.directory, role) for role in WatchdogRole]
    return len({who.pid for who in found if who is not None and who.is_alive()}) == len(WatchdogRole)


def test_by_sql_alone_a_restart_by_command(before: Before) -> None:
    control = before.server.control
    assert isinstance(control, PgCtl)
    words = [str(control.bin_dir / "pg_ctl"), "restart", "-w", "-D", str(control.data_directory)]
    switch = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups", "--"] if control.user else []
    command = [*switch, *words, "-l", str(control.log_file)]
    with before.tuner(RESTARTED, sql_only=True, restart_command=command).applied() as tuner:
        tuner.kill()
        before.assert_restored()
    assert before.server.starts() == before.starts + 2


def test_no_session_by_sql_alone_that_the_watchdog_could_not_end(
    before: Before, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = open_sql_only(before.server.dsn)
    monkeypatch.setattr(Postgres, "secrets", lambda _: ({}, True))
    with pytest.raises(EnvironmentUnsuitable, match="the watchdog could not restore the server") as caught:
        Session.begin(target, study="x", undo_root=before.undo_root, watch=UNHURRIED)
    assert "no password supplied" in (caught.value.detail or "")
    assert "Nothing was changed" in (caught.value.hint or "")
    before.assert_restored()


def test_no_session_whose_watchdog_may_not_reload(before: Before) -> None:
    admin = before.server.admin
    admin.execute("CREATE ROLE plain LOGIN PASSWORD 'plain'")
    try:
        for grant in GRANTS:
            admin.execute(grant)  # type: ignore[arg-type]  # literals of this file
        target = open_sql_only(before.server.bare_dsn.replace("tuner", "plain") + " password=plain")
        admin.execute("REVOKE EXECUTE ON FUNCTION pg_reload_conf() FROM plain")
        with pytest.raises(EnvironmentUnsuitable, match="may not reload the configuration") as caught:
            Session.begin(target, study="x", undo_root=before.undo_root, watch=UNHURRIED)
        assert "GRANT EXECUTE ON FUNCTION pg_reload_conf()" in (caught.value.hint or "")
        before.assert_restored()
    finally:
        admin.execute("DROP OWNED BY plain")
        admin.execute("DROP ROLE plain")


@pytest.mark.parametrize("stays", [False, True])
def test_a_data_directory_that_is_away_for_a_while(before: Before, stays: bool) -> None:
    """A disk that is not mounted leaves an empty folder; a rename leaves none. Nothing is written there meanwhile."""
    data = before.server.data
    with before.tuner(RELOADED).applied() as tuner:
        bundle = newest(before.undo_root)
        data.rename(data.with_name("away"))
        if stays:
            data.mkdir()
        tuner.kill()
        eventually(lambda: words_of(bundle).count("not restored yet") == 1, "it cannot be restored now")
        time.sleep(6)  # several attempts: not one log line each
        assert words_of(bundle).count("not restored yet") == 1
        if stays:
            data.rmdir()
        data.with_name("away").rename(data)
        before.assert_restored()
    assert "left to" not in words_of(bundle)


def test_an_undo_folder_that_is_away_for_a_while(before: Before) -> None:
    with before.tuner(RELOADED, watch=BEATS).applied() as tuner:
        bundle = newest(before.undo_root)
        away = before.undo_root.with_name("away")
        before.undo_root.rename(away)
        time.sleep(BEATS.heartbeat_s + 2)
        assert tuner.poll() is None  # no beat can be seen, and none is demanded
        tuner.kill()
        eventually(lambda: b"acting" in (away / bundle.id / watch_record.LOG).read_bytes(), "it acts")
        time.sleep(2)
        away.rename(before.undo_root)
        before.assert_restored()
    assert "left to" not in words_of(bundle)


def words_of(bundle: UndoBundle) -> str:
    return watch_record.last_words(bundle.directory) or ""
