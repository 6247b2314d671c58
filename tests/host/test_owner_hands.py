"""The hands of a server's account: its rights and no more, whatever becomes of the process that lends them."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import fix_postgres
from pgdyno.errors import EnvironmentUnsuitable, UsageError
from pgdyno.linux import processes
from pgdyno.owner import worker
from pgdyno.owner.account import Account
from pgdyno.owner.durable import Attributes
from pgdyno.owner.hands import Hands, hands_for, open_with_their_rights
from pgdyno.server import postmaster_lock
from pgdyno.trace.logs import look
from server_image import eventually

pytestmark = [
    pytest.mark.pg,
    pytest.mark.host,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root has rights to lose"),
]


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
    ours = workers_of(hands)
    assert ours
    for pid in ours:
        os.kill(pid, signal.SIGKILL)
    assert hands.may_write(folder)


def test_a_worker_for_looks_gives_way_to_one_for_all_tasks(theirs: tuple[Hands, Path]) -> None:
    hands, folder = theirs
    for pid in workers_of(hands):
        os.kill(pid, signal.SIGKILL)
    assert hands.names(folder) == []
    (looks,) = workers_of(hands)
    assert worker.LOOKING_BOOT in words_of(looks)
    assert hands.look(folder / "a") is None
    assert workers_of(hands) == [looks], "a second look needs no other one"
    hands.replace(folder / "a", b"one", Attributes(hands.account.uid, hands.account.gid, 0o600))
    (does_all,) = workers_of(hands)
    assert worker.BOOT in words_of(does_all)
    assert not Path(f"/proc/{looks}").exists()
    assert hands.read(folder / "a") == b"one"
    assert workers_of(hands) == [does_all]


def words_of(pid: int) -> list[str]:
    return (processes.PROC / str(pid) / "cmdline").read_bytes().decode().split("\0")


def workers_of(hands: Hands) -> list[int]:
    """Return the workers of this process, not those of the tests beside it, which lend the same account's hands."""
    children = processes.children_of(os.getpid())
    return [child.pid for child in children if processes.account_of(child.pid) == hands.account.uid]


@pytest.mark.parametrize("before", [True, False], ids=["before the answer is read", "behind its header"])
def test_an_answer_that_an_interrupt_left_unread_is_not_the_next_ones(
    theirs: tuple[Hands, Path], monkeypatch: pytest.MonkeyPatch, *, before: bool
) -> None:
    """Ctrl-C while a worker is asked: what it says then belongs to no question any more."""
    hands, folder = theirs
    own = Attributes(hands.account.uid, hands.account.gid, 0o600)
    hands.replace(folder / "a", b"one", own)
    hands.replace(folder / "b", b"other", own)
    real = worker.receive

    def interrupted(channel: socket.socket, most: int) -> object:
        if not before:
            channel.recv(worker.LENGTHS.size)
        raise KeyboardInterrupt

    monkeypatch.setattr(worker, "receive", interrupted)
    with pytest.raises(KeyboardInterrupt):
        hands.read(folder / "a")
    monkeypatch.setattr(worker, "receive", real)
    assert hands.read(folder / "b") == b"other"
    opened = hands.open_lock(folder / "lock")
    os.close(opened)


def test_a_log_is_read_with_the_rights_of_who_could_put_another_file_there(
    theirs: tuple[Hands, Path], victim: Path
) -> None:
    hands, folder = theirs
    (folder / "log.csv").write_text("theirs")
    os.chown(folder / "log.csv", hands.account.uid, hands.account.gid)
    (folder / "link.csv").symlink_to(folder / "log.csv")
    (folder / "secret.csv").symlink_to(victim / "pgdyno.conf")
    (folder / "away").symlink_to(victim)
    for name in ("log.csv", "link.csv"):
        with open_with_their_rights(folder / name) as file:
            assert file.read() == b"theirs"
    for name in ("secret.csv", "away/pgdyno.conf"):
        with pytest.raises(UsageError, match="cannot be read") as refused:
            look(folder / name)
        assert "Permission denied" in str(refused.value.detail)
    os.mkfifo(folder / "pipe.csv")
    with pytest.raises(UsageError, match="cannot be read"):
        look(folder / "pipe.csv")


def test_a_worker_cannot_be_looked_into_or_have_more_rights_again(theirs: tuple[Hands, Path]) -> None:
    hands, folder = theirs
    found: list[int] = []

    def is_at_work() -> bool:
        """See the worker; another test of this account may have killed it, and the next question starts one."""
        hands.may_write(folder)
        found[:] = workers_of(hands)
        return bool(found)

    eventually(is_at_work, "a worker with the account's identity")
    status = (processes.PROC / str(found[0]) / "status").read_text()
    uids = next(line for line in status.splitlines() if line.startswith("Uid:")).split()[1:]
    assert set(uids) == {str(hands.account.uid)}
    assert "NoNewPrivs:\t1" in status
    assert next(line for line in status.splitlines() if line.startswith("CapEff:")).split()[1].strip("0") == ""
    assert (processes.PROC / str(found[0]) / "environ").stat().st_uid == 0, "not dumpable, so nobody's processes see it"


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
            assert postmaster_lock.postmaster_pid(data) is None
            assert processes.processes_in(data) == []
        finally:
            ours.kill()
            ours.wait()
        (data / "postmaster.pid").unlink()
        (data / "postmaster.pid").symlink_to("/etc/shadow")
        with pytest.raises(EnvironmentUnsuitable):
            postmaster_lock.postmaster_pid(data)
        (data / "postmaster.pid").unlink()
        os.mkfifo(data / "postmaster.pid")
        with pytest.raises(EnvironmentUnsuitable):
            postmaster_lock.postmaster_pid(data)
    finally:
        shutil.rmtree(data.parent)
