"""A worker that outlives its process of root's writes nothing behind the back of who restores the server."""

from __future__ import annotations

import os
import pwd
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pgdyno.errors import RollbackError
from pgdyno.linux import processes
from pgdyno.owner import worker
from pgdyno.owner.account import Account
from pgdyno.owner.hands import hands_for
from pgdyno.owner.orphans import end_orphans
from small_volume import volume

pytestmark = [
    pytest.mark.host,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root has workers"),
]
WRITER = """
import sys
from pathlib import Path
from pgdyno.owner.durable import Attributes
from pgdyno.owner.account import Account
from pgdyno.owner.hands import hands_for

account = Account.of_user(int(sys.argv[1]))
hands, own = hands_for(account), Attributes(account.uid, account.gid, 0o600)
number = 0
while True:
    number += 1
    hands.replace(Path(sys.argv[2]), b"trial %d" % number, own)
    print(number, flush=True)
"""


@pytest.fixture
def account() -> Account:
    """An account that owns a server."""
    return Account.of_user(pwd.getpwnam("nobody").pw_uid)


@contextmanager
def writing(account: Account, file: Path) -> Iterator[subprocess.Popen[str]]:
    """Have a process of root's write a file again and again with the account's rights, until the block ends."""
    words = [sys.executable, "-c", WRITER, str(account.uid), str(file)]
    writer = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    assert writer.stdout is not None
    try:
        assert writer.stdout.readline(), "it does not write"
        yield writer
    finally:
        writer.kill()
        writer.communicate()


def workers_of(writer: subprocess.Popen[str]) -> list[int]:
    """Return the workers that this process has started, also when it is gone."""
    found = []
    for pid in processes.all_pids():
        try:
            words = (processes.PROC / str(pid) / "cmdline").read_bytes().decode(errors="replace").split("\0")
        except OSError:
            continue
        if worker.BOOT in words and words[-2] == str(writer.pid) and processes.alive(pid):
            found.append(pid)
    return found


def until(holds: object, seconds: float = 60.0) -> None:
    """Wait for a condition."""
    assert callable(holds)
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "it did not come true"
        time.sleep(0.02)


@pytest.mark.parametrize("stopped", [False, True], ids=["at work", "stopped by its account"])
def test_a_worker_dies_with_its_process(account: Account, *, stopped: bool) -> None:
    with volume(64 << 20) as mounted:
        os.chown(mounted, account.uid, account.gid)
        with writing(account, mounted / "conf") as writer:
            (pid,) = workers_of(writer)
            if stopped:
                os.kill(pid, signal.SIGSTOP)
            writer.kill()
            writer.wait()
            until(lambda: not processes.alive(pid))
            before = (mounted / "conf").read_bytes()
            time.sleep(0.3)
            assert (mounted / "conf").read_bytes() == before


def test_nothing_is_put_back_while_a_worker_waits_for_a_disk_that_hangs(account: Account) -> None:
    """A frozen file system keeps a process that was killed: its last call is carried out when the disk is back."""
    with volume(64 << 20) as mounted:
        os.chown(mounted, account.uid, account.gid)
        with writing(account, mounted / "conf") as writer:
            (pid,) = workers_of(writer)
            if subprocess.run(["fsfreeze", "--freeze", str(mounted)], check=False).returncode != 0:
                pytest.skip("this machine does not let a file system be frozen")
            try:
                until(lambda: (stat := processes.read_stat(pid)) is not None and stat.state == "D")
                writer.kill()
                writer.wait()
                with pytest.raises(RollbackError, match=f"process {pid} of a pgdyno that was killed still works"):
                    end_orphans(account, wait_s=0.5)
            finally:
                subprocess.run(["fsfreeze", "--unfreeze", str(mounted)], check=True)
            end_orphans(account)
            assert not workers_of(writer)


def test_the_workers_of_the_living_are_left_alone(account: Account) -> None:
    hands = hands_for(account)
    with volume(64 << 20) as mounted:
        os.chown(mounted, account.uid, account.gid)
        with writing(account, mounted / "conf") as writer:
            theirs = workers_of(writer)
            end_orphans(account)
            assert hands.may_write(mounted)
            assert workers_of(writer) == theirs
