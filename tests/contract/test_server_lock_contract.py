"""The lock that keeps two sessions from one server: of the data directory, of the cluster, and of both together."""

from __future__ import annotations

import json
import os
import shutil
import signal
import stat
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from psycopg.conninfo import make_conninfo
from tuner_process import await_line, tuner_of

from pgdyno.errors import EnvironmentUnsuitable, ExitCode
from pgdyno.linux.identity import ProcessIdentity
from pgdyno.model.configuration import Configuration
from pgdyno.sandbox.sandbox import Sandbox
from pgdyno.server.postgres import Postgres
from pgdyno.targets.connect_routes import open_sql_only
from pgdyno.targets.target import Target
from pgdyno.undo import one_session, server_lock
from pgdyno.undo.apply import Session
from pgdyno.undo.bundle import CLOSED, UndoBundle, bundle_directories
from pgdyno.undo.rollback import forget, rollback
from pgdyno.undo.server_lock import NAME, Holder, ServerInUse, ServerLock

pytestmark = pytest.mark.pg
NEVER: Callable[[Holder], bool] = lambda _: False  # noqa: E731
EIGHT = Configuration.of({"work_mem": "8MB"})
DEAD = ProcessIdentity(pid=1, start_ticks=-1, boot_id="an earlier boot")


@pytest.fixture(scope="module")
def server(server_home: Path) -> Iterator[Sandbox]:
    """One server for all: each test leaves it as it was, but for roles and databases of its own."""
    sandbox = Sandbox.open_or_create("locked", root=server_home)
    sandbox.start()
    yield sandbox
    sandbox.destroy()


@dataclass
class Accounts:
    """Two state folders, as those of root and of postgres, and a server that both may change by some route."""

    mine: Path
    theirs: Path
    target: Callable[[], Target]
    directory: Path

    def begin(self, root: Path) -> Session:
        return Session.begin(self.target(), study="s", undo_root=root)


@pytest.fixture(params=["file", "advisory"])
def accounts(request: pytest.FixtureRequest, server: Sandbox, tmp_path: Path) -> Accounts:
    def target() -> Target:
        return server.target() if request.param == "file" else open_sql_only(server.target().postgres.conninfo)

    return Accounts(tmp_path / "mine", tmp_path / "theirs", target, server.data_directory)


def test_a_second_session_of_another_account_is_refused_and_the_first_goes_on(accounts: Accounts) -> None:
    with accounts.begin(accounts.mine) as first:
        first.apply(EIGHT)
        with pytest.raises(EnvironmentUnsuitable, match="open") as refused:
            accounts.begin(accounts.theirs)
        assert refused.value.exit_code is ExitCode.UNSUITABLE
        assert first.id in f"{refused.value.message} {refused.value.detail}"
        assert not list(bundle_directories(accounts.theirs))
        with pytest.raises(EnvironmentUnsuitable, match="open"):
            one_session.refuse_while_open(accounts.target(), accounts.theirs)
        first.apply(Configuration.of({"work_mem": "9MB"}))
        assert accounts.target().postgres.fetch("SHOW work_mem") == [{"work_mem": "9MB"}]
    one_session.refuse_while_open(accounts.target(), accounts.theirs)
    with accounts.begin(accounts.theirs) as second:
        second.apply(EIGHT)
    assert not (accounts.directory / NAME).exists()


def test_a_restart_keeps_the_server_ours(server: Sandbox, tmp_path: Path) -> None:
    target = open_sql_only(server.target().postgres.conninfo)
    with Session.begin(target, study="s", undo_root=tmp_path / "mine") as session:
        server.stop()
        server.start()
        session.apply(EIGHT)
        with pytest.raises(ServerInUse):
            Session.begin(target, study="s", undo_root=tmp_path / "theirs")


def test_the_routes_see_each_other(server: Sandbox, tmp_path: Path) -> None:
    by_sql = open_sql_only(server.target().postgres.conninfo)
    with (
        Session.begin(server.target(), study="s", undo_root=tmp_path / "mine") as by_file,
        pytest.raises(ServerInUse) as refused,
    ):
        Session.begin(by_sql, study="s", undo_root=tmp_path / "theirs")
    assert by_file.id in f"{refused.value.message} {refused.value.detail}"
    with Session.begin(by_sql, study="s", undo_root=tmp_path / "mine"), pytest.raises(ServerInUse):
        Session.begin(server.target(), study="s", undo_root=tmp_path / "theirs")
    assert not (server.data_directory / NAME).exists()


def test_the_advisory_lock_is_seen_from_every_database(server: Sandbox) -> None:
    postgres = server.target().postgres
    postgres.execute("CREATE DATABASE elsewhere")
    held = one_session.AdvisoryLock.take(postgres.for_load("elsewhere"))
    with pytest.raises(ServerInUse, match="another session"):
        one_session.AdvisoryLock.take(postgres)
    held.release()
    held.release()
    one_session.AdvisoryLock.take(postgres).release()


@pytest.mark.parametrize("look", [lambda to: one_session.AdvisoryLock.take(to).release(), one_session.refuse_advisory])
def test_one_session_follows_another_whose_end_the_server_has_not_seen_yet(
    server: Sandbox, look: Callable[[Postgres], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a busy machine: a session that was closed has the lock until its server process gets a CPU."""
    monkeypatch.setattr(one_session, "LEAVING_S", 60.0)
    postgres = server.target().postgres
    held = one_session.AdvisoryLock.take(postgres)
    pid = held._connection.info.backend_pid
    os.kill(pid, signal.SIGSTOP)
    later = threading.Timer(0.3, os.kill, (pid, signal.SIGCONT))
    later.start()
    try:
        held.release()
        look(postgres)
    finally:
        later.join()


def test_a_session_that_was_killed_is_not_over_for_others_until_it_was_put_back(
    server: Sandbox, tmp_path: Path
) -> None:
    with tuner_of(server, tmp_path / "mine", hold=True) as tuner:
        await_line(tuner, "applied")
        with pytest.raises(ServerInUse, match="still open") as refused:
            Session.begin(server.target(), study="s", undo_root=tmp_path / "theirs")
        assert f"Process {tuner.pid} of user" in str(refused.value.detail)
        tuner.kill()
    (bundle,) = bundle_directories(tmp_path / "mine")
    with pytest.raises(ServerInUse, match="still open") as refused:
        Session.begin(server.target(), study="s", undo_root=tmp_path / "theirs")
    assert f"pgdyno rollback {bundle.name} as " in str(refused.value.hint)
    assert "ended without a rollback" in str(refused.value.detail)
    assert rollback(UndoBundle.open(bundle)).is_whole
    assert not (server.data_directory / NAME).exists()
    Session.begin(server.target(), study="s", undo_root=tmp_path / "theirs").rollback()


def test_an_old_session_is_not_put_back_into_the_measurement_of_another_one(server: Sandbox, tmp_path: Path) -> None:
    """A change that was kept, and a session whose lock was taken away by hand."""
    kept = Session.begin(server.target(), study="s", undo_root=tmp_path / "mine")
    kept.apply(EIGHT)
    kept.keep()
    assert not (server.data_directory / NAME).exists()
    open_one = Session.begin(server.target(), study="s", undo_root=tmp_path / "theirs")
    with pytest.raises(ServerInUse, match=open_one.id):
        rollback(kept.bundle, kept=True)
    assert open_one.rollback().is_whole
    assert rollback(kept.bundle, kept=True).is_whole
    assert not (server.data_directory / NAME).exists()


@pytest.mark.parametrize("route", ["sql", "file"])
def test_a_dead_session_of_sql_is_put_back_after_one_that_began_in_between(
    server: Sandbox, tmp_path: Path, route: str
) -> None:
    """Its lock died with it. Two undos at once would each leave the other's values as somebody else's."""
    by_sql = open_sql_only(server.target().postgres.conninfo)
    session = Session.begin(by_sql, study="s", undo_root=tmp_path / "mine")
    session.apply(EIGHT)
    session._held.let_go()  # as the kernel does for a process that is gone
    dead = UndoBundle(session.bundle.directory, replace(session.bundle.manifest, owner=DEAD))
    target = by_sql if route == "sql" else server.target()
    # Two accounts' sessions of one study and one second would have one name, and by its name a dead one knows its lock.
    with Session.begin(target, study="between", undo_root=tmp_path / "theirs") as between:
        between.apply(Configuration.of({"work_mem": "9MB"}))
        with pytest.raises(ServerInUse, match="another session") as refused:
            rollback(dead)
        assert between.id in str(refused.value.detail)
    assert rollback(dead).is_whole
    assert by_sql.postgres.fetch("SHOW work_mem") == [{"work_mem": "4MB"}]


def test_a_session_whose_own_lock_has_not_ended_is_put_back(server: Sandbox, tmp_path: Path) -> None:
    """As of a tuner on a host that is gone: the server notices that hours later."""
    by_sql = open_sql_only(server.target().postgres.conninfo)
    session = Session.begin(by_sql, study="s", undo_root=tmp_path / "mine")
    session.apply(EIGHT)
    assert rollback(UndoBundle(session.bundle.directory, replace(session.bundle.manifest, owner=DEAD))).is_whole
    session.rollback()


def test_a_database_user_who_holds_the_lock_keeps_no_server_from_being_put_back(
    server: Sandbox, tmp_path: Path
) -> None:
    by_sql = open_sql_only(server.target().postgres.conninfo)
    session = Session.begin(by_sql, study="s", undo_root=tmp_path / "mine")
    session.apply(EIGHT)
    dead = UndoBundle(session.bundle.directory, replace(session.bundle.manifest, owner=DEAD))
    by_sql.postgres.execute("CREATE ROLE nuisance LOGIN")
    by_sql.postgres.execute("CREATE DATABASE playground")
    as_nuisance = Postgres(make_conninfo(by_sql.postgres.conninfo, user="nuisance", dbname="playground"))
    with as_nuisance.connect() as held:
        held.execute("SELECT pg_advisory_lock(%s, %s)", one_session.KEYS)
        held.execute("SELECT set_config('application_name', 'pgdyno another', false)")
        session._held.let_go()
        assert rollback(dead).is_whole
        with pytest.raises(ServerInUse, match="another session") as refused:
            Session.begin(by_sql, study="t", undo_root=tmp_path / "mine")
        assert "role nuisance" in str(refused.value.detail)


def test_forgetting_a_session_frees_the_server(server: Sandbox, tmp_path: Path) -> None:
    session = Session.begin(server.target(), study="s", undo_root=tmp_path / "mine")
    session.keep()
    forget(session.bundle.directory)
    Session.begin(server.target(), study="s", undo_root=tmp_path / "theirs").rollback()


def holder_of(directory: Path, session: str = "one", bundle: str = "/nowhere/one") -> bytes:
    own = server_lock.ProcessIdentity.own()
    return Holder(session, "postgres", bundle, directory.stat().st_ino, own).to_bytes()


@pytest.fixture
def folder(pgdyno_home: Path) -> Path:
    """A data directory that its owner can reach: below the tests' own folder only root could."""
    (pgdyno_home / "data").mkdir(mode=0o700)
    return pgdyno_home / "data"


def test_a_lock_that_names_nobody_was_never_more(folder: Path) -> None:
    """A kill between the making of the file and its first word: nothing was changed, and nobody has to mend it."""
    ServerLock.take(folder, is_over=NEVER).let_go()
    (folder / NAME).write_bytes(holder_of(folder)[:40])
    lock = ServerLock.take(folder, is_over=NEVER)
    with pytest.raises(ServerInUse, match="just beginning"):
        ServerLock.take(folder, is_over=NEVER)
    lock.release()
    assert list(folder.iterdir()) == []


def test_a_lock_whose_process_is_gone_holds_until_its_session_is_over(folder: Path) -> None:
    (folder / NAME).write_bytes(holder_of(folder))
    with pytest.raises(ServerInUse, match="session one"):
        ServerLock.take(folder, is_over=NEVER)
    with pytest.raises(ServerInUse, match="session one"):
        server_lock.refuse_open(folder, is_over=NEVER)
    ServerLock.take(folder, is_over=lambda holder: holder.session == "one").release()
    assert not (folder / NAME).exists()


def test_the_lock_of_a_copied_directory_binds_nobody(folder: Path) -> None:
    """As pg_basebackup makes one in mid-session."""
    (folder / NAME).write_bytes(holder_of(folder))
    copy = folder.with_name("standby")
    shutil.copytree(folder, copy)
    server_lock.refuse_open(copy, is_over=NEVER)
    ServerLock.take(copy, is_over=NEVER).release()


def test_a_lock_of_ones_own_folder_is_over_when_its_bundle_is_closed_or_gone(folder: Path, tmp_path: Path) -> None:
    undo = tmp_path / "undo"
    is_over = server_lock.is_over_for(undo)
    mine = Holder.from_bytes(holder_of(folder, bundle=str(undo / "one")))
    theirs = Holder.from_bytes(holder_of(folder, bundle="/home/else/undo/one"))
    assert mine is not None
    assert theirs is not None
    assert is_over(mine)
    assert not is_over(theirs)
    (undo / "one").mkdir(parents=True)
    assert not is_over(mine)  # unreadable: it may be open


@pytest.mark.parametrize(("mode", "expected"), [(0o700, 0o600), (0o750, 0o640)])
def test_whoever_reads_the_directory_reads_the_lock(folder: Path, mode: int, expected: int) -> None:
    """pg_basebackup ends with an error at a file that the server's owner cannot read."""
    folder.chmod(mode)
    if os.geteuid() == 0:
        os.chown(folder, 65534, 65534)
    lock = ServerLock.take(folder, is_over=NEVER)
    status = (folder / NAME).stat()
    assert stat.S_IMODE(status.st_mode) == expected
    assert (status.st_uid, status.st_gid) == (folder.stat().st_uid, folder.stat().st_gid)
    lock.release()


@pytest.mark.parametrize("kind", ["link", "hard link", "fifo", "folder", "dangling"])
def test_what_is_no_plain_file_is_neither_followed_nor_changed(folder: Path, tmp_path: Path, kind: str) -> None:
    victim = folder.parent / "victim"  # on one file system, for the hard link
    victim.write_text("keep me")
    victim.chmod(0o644)
    place = folder / NAME
    if kind == "link":
        place.symlink_to(victim)
    elif kind == "hard link":
        place.hardlink_to(victim)
    elif kind == "fifo":
        os.mkfifo(place)
    elif kind == "folder":
        place.mkdir()
    else:
        place.symlink_to(tmp_path / "made")
    before = victim.stat()
    with pytest.raises(EnvironmentUnsuitable, match="cannot be taken"):
        ServerLock.take(folder, is_over=NEVER)
    assert server_lock.look(folder) is None
    assert victim.read_text() == "keep me"
    assert (victim.stat().st_mode, victim.stat().st_uid) == (before.st_mode, before.st_uid)
    assert not (tmp_path / "made").exists()


def test_a_folder_that_is_gone_keeps_nobody_from_ending(folder: Path) -> None:
    lock = ServerLock.take(folder, is_over=NEVER)
    shutil.rmtree(folder)
    lock.release()
    lock.release()
    assert server_lock.look(folder) is None


@given(data=st.binary(max_size=200) | st.recursive(st.none() | st.integers() | st.text(), st.lists).map(
    lambda value: json.dumps(value).encode()))  # fmt: skip
def test_whatever_stands_in_a_lock_is_read_without_an_error(data: bytes) -> None:
    assert Holder.from_bytes(data) is None


@given(
    field=st.sampled_from(["session", "user", "boot_id", "bundle", "pid"]),
    value=st.sampled_from(["\x1b[31mred", "a\nb", "", "-x", [], {}, "é" * 300]),
)
def test_words_that_could_fool_a_terminal_name_nobody(field: str, value: object) -> None:
    fields = json.loads(holder_of(Path("/")))
    fields[field] = value
    found = Holder.from_bytes(json.dumps(fields).encode())
    assert found is None or (field == "bundle" and found.bundle.isprintable()), (field, value)


def test_a_closed_bundle_whose_lock_stayed_is_cleared_by_a_rollback(server: Sandbox, tmp_path: Path) -> None:
    """A kill between the last line of the journal and the removal of the lock."""
    session = Session.begin(server.target(), study="s", undo_root=tmp_path / "mine")
    session.bundle.journal().append(CLOSED, {"by": "test"})
    assert (server.data_directory / NAME).exists()
    session._held.let_go()  # type: ignore[union-attr]  # as the kernel does for a process that is gone
    session.bundle.release_reserve()
    assert rollback(session.bundle).already_closed
    assert not (server.data_directory / NAME).exists()


def test_by_sql_alone_a_directory_that_is_not_at_hand_is_seen_through_the_server(
    server: Sandbox, tmp_path: Path
) -> None:
    """As an account that may not enter the data directory, whose role may read files by SQL."""
    by_sql = replace(open_sql_only(server.target().postgres.conninfo), directory=None)
    with Session.begin(by_sql, study="s", undo_root=tmp_path / "mine") as session:
        assert not (server.data_directory / NAME).exists()
        session.apply(EIGHT)
    with (
        Session.begin(server.target(), study="s", undo_root=tmp_path / "theirs") as by_file,
        pytest.raises(ServerInUse) as refused,
    ):
        Session.begin(by_sql, study="s", undo_root=tmp_path / "mine")
    assert by_file.id in str(refused.value.detail)
