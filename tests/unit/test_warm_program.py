"""The program in a fork is the program: its exit codes, its outputs, its environment, and an end when it hangs."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

import quick_accounts
import warm_program
from pgdyno.linux import processes
from pgdyno.owner import hands, runner, worker
from pgdyno.owner.account import Account
from pgdyno.owner.inherited import ProgramKind
from pgdyno.owner.parent import PARENT
from pgdyno.owner.process_image import capture
from pgdyno.undo import watch
from server_image import eventually
from warm_program import RunningPgdyno, RunningText, run_pgdyno

ASKS = """
import pwd, time
from pathlib import Path
from pgdyno.owner import hands
from pgdyno.owner.account import Account

account = Account.of_user(pwd.getpwnam("nobody").pw_uid)
assert hands.hands_for(account).look(Path("/")) is not None
print(hands._WORKERS[account]._process.pid, flush=True)
time.sleep(60)
"""


def test_a_fork_is_a_process_of_its_own(tmp_path: Path) -> None:
    told = run_pgdyno("store", "list", PGDYNO_HOME=str(tmp_path / "one"))
    assert (told.returncode, told.stderr.split(":")[0]) == (0, "the store is empty")
    assert (tmp_path / "one").is_dir()
    refused = run_pgdyno("no-such-verb", PGDYNO_HOME=str(tmp_path / "two"))
    assert refused.returncode == 2
    assert '"no-such-verb" is not a verb' in refused.stderr
    assert not (tmp_path / "two").exists()


def test_one_that_hangs_is_killed_and_the_next_one_runs(tmp_path: Path) -> None:
    with pytest.raises(subprocess.TimeoutExpired):
        run_pgdyno("queue", "run", "--window", "03:00-04:00", timeout_s=0.0001, PGDYNO_HOME=str(tmp_path))
    assert run_pgdyno("--version").returncode == 0


def test_several_at_once_and_one_that_is_ended_by_a_signal(tmp_path: Path) -> None:
    words = ("queue", "run", "--window", "03:00-04:00", "--json")
    with RunningPgdyno(*words, PGDYNO_HOME=str(tmp_path)) as one, RunningPgdyno("--version") as other:
        assert "pgdyno" in other.communicate()[0]
        assert one.poll() is None
        one.send_signal(signal.SIGKILL)
        assert one.wait(30) == -signal.SIGKILL
        one.kill()  # there is nobody any more
    assert other.returncode == 0
    with pytest.raises(RuntimeError), RunningPgdyno(*words, PGDYNO_HOME=str(tmp_path)) as left:
        raise RuntimeError
    assert left.returncode == -signal.SIGKILL


def test_one_that_says_nothing_more_is_not_waited_for(tmp_path: Path) -> None:
    words = ("queue", "run", "--window", "03:00-04:00")
    with RunningPgdyno(*words, PGDYNO_HOME=str(tmp_path)) as one, pytest.raises(subprocess.TimeoutExpired):
        one.communicate(timeout=0.5)
    assert one.returncode == -signal.SIGKILL


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can ask as another account")
def test_another_account_is_not_served(tmp_path: Path) -> None:
    """The address of the process that forks has no mode, and whoever is served is run with our rights."""
    ready, made = tmp_path / "ready", tmp_path / "made"
    text = f"""
import pathlib, sys, time
print(sys.modules["warm_program"].address, flush=True)
while not pathlib.Path({str(ready)!r}).exists():
    time.sleep(0.05)
"""
    with RunningText(text) as running:
        address = running.stdout.readline().strip("\0\n")
        asked = f"""
import json, os, socket
os.setgroups([])
os.setresgid(65534, 65534, 65534)
os.setresuid(65534, 65534, 65534)
door = socket.socket(socket.AF_UNIX)
door.connect("\\0{address}")
request = json.dumps(["text", ["open({str(made)!r}, 'w')"], {{}}, "/"]).encode()
null = os.open("/dev/null", os.O_RDWR)
told, its = socket.socketpair()
try:
    socket.send_fds(door, [len(request).to_bytes(8, "big")], [null, null, null, its.fileno()])
    door.sendall(request)
    its.close()
    door.settimeout(30)
    print("served" if told.recv(8) else "closed")
except OSError as error:
    print("refused")
"""
        done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=False, timeout=60)
        ready.touch()
    assert done.stdout.strip() in ("closed", "refused"), done.stderr
    assert not made.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has workers")
def test_a_worker_is_a_fork_with_the_other_account_and_ends_with_who_asks() -> None:
    with RunningText(ASKS) as asks:
        pid = int(asks.stdout.readline())
        assert processes.account_of(pid) == pwd.getpwnam("nobody").pw_uid
        words = (processes.PROC / str(pid) / "cmdline").read_bytes().decode().split("\0")
        stat = processes.read_stat(pid)
        assert worker.BOOT in words
        assert stat is not None
        assert words[-2] == str(stat.parent), "a rollback of another test would end it as one that was left"
        assert stat.parent == processes.read_stat(asks.pid).parent, "a fork of the process that forks"
        asks.kill()
        eventually(lambda: not processes.alive(pid), "it ends")


@pytest.fixture
def sleeps() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "600"]) as process:
        yield process
        process.kill()


def forked(kind: type[warm_program._Fork], pid: int) -> warm_program._Fork:
    """Return a fork of which the process that forks was killed after it had told the number."""
    fork = cast(Any, object.__new__(kind))
    fork.args, fork.returncode, fork.pid = ("--version",), None, pid
    fork._told, its = socket.socketpair()
    its.close()
    return cast("warm_program._Fork", fork)


def test_an_end_that_nobody_can_tell_is_no_success(sleeps: subprocess.Popen[bytes]) -> None:
    fork = forked(warm_program._Fork, sleeps.pid)
    for ask in (fork.wait, fork.poll):
        with pytest.raises(ConnectionError, match="the process that forks is gone"):
            ask()
    assert fork.returncode is None
    fork.kill()
    assert sleeps.wait(30) == -signal.SIGKILL, "it is ended all the same"


def test_pgdyno_waits_for_its_watchdogs_and_workers_without_the_process_that_forks(
    sleeps: subprocess.Popen[bytes],
) -> None:
    fork = forked(warm_program._Standby, sleeps.pid)
    assert fork.poll() is None
    with pytest.raises(subprocess.TimeoutExpired):
        fork.wait(0.01)
    fork.kill()
    assert fork.wait(30) == 1
    fork.kill()  # there is nobody any more


def test_watchdogs_and_workers_are_real_where_the_process_that_forks_was_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that a test has changed is to be restored also by what outlives the run of pytest."""
    begun: list[str] = []
    monkeypatch.delenv(warm_program.REAL_WORKERS, raising=False)
    monkeypatch.setattr(watch, "spawn", lambda *_: begun.append("watchdog"))
    monkeypatch.setattr(hands._Worker, "_start", lambda _: begun.append("worker"))
    monkeypatch.setattr(runner, "_popen", lambda *_: begun.append("verb") or subprocess.Popen("true"))
    warm_program.use_forks()  # what it sets is taken back as well
    ours, its = socket.socketpair()
    its.close()
    with ours:
        monkeypatch.setattr(warm_program, "_warm", lambda: ours)
        watch.spawn(tmp_path, {})
        hands._Worker._start(cast(Any, SimpleNamespace(_account=Account(65534, 65534, ()))))
        started(tmp_path, "--version").wait(30)
    assert begun == ["watchdog", "worker", "verb"]


def started(folder: Path, *words: str, **environment: str) -> runner.Process:
    argv, out, errors = [sys.executable, "-m", "pgdyno", *words], folder / "out", folder / "errors"
    ours = ProgramKind.OURSELVES
    return runner.LocalRunner().start(argv, env=environment, cwd=folder, stdout=out, stderr=errors, kind=ours)


def test_a_verb_of_a_runner_is_seen_as_one_and_is_told_to_end_with_it(
    tmp_path: Path, sleeps: subprocess.Popen[bytes]
) -> None:
    words = ("queue", "run", "--window", "03:00-04:00", "--json")
    home = {"PGDYNO_HOME": str(tmp_path / "home")}
    verb = started(tmp_path, *words, **home, **{PARENT: str(sleeps.pid)})
    eventually(lambda: os.getsid(verb.pid) == verb.pid, "it has a session of its own")
    seen = Path(f"/proc/{verb.pid}/cmdline")
    eventually(lambda: b"\0-m\0pgdyno\0queue\0run\0" in seen.read_bytes(), "it is seen with its words")
    eventually(lambda: (tmp_path / "errors").read_text() != "", "it is at work")
    assert verb.poll() is None
    sleeps.kill()
    sleeps.wait(30)
    verb.wait(60)
    late = started(tmp_path, *words, **home, **{PARENT: str(sleeps.pid)})
    assert late.wait(60) != 0
    assert "is gone" in (tmp_path / "errors").read_text()


def test_what_puts_on_an_image_becomes_the_program(tmp_path: Path) -> None:
    image = replace(capture(os.getpid()), environment={"PWD": str(tmp_path), "ONE": "1"})
    done = runner.LocalRunner().run(["/bin/sh", "-c", "echo $ONE $(pwd); exit 3"], image=image, check=False)
    assert (done.returncode, done.stdout) == (3, f"1 {tmp_path}\n")
    missing = runner.LocalRunner().run([str(tmp_path / "missing")], image=image, check=False)
    assert missing.returncode == 127
    assert "No such file" in missing.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="only root begins programs of other accounts")
def test_a_program_of_another_account_is_begun_with_its_rights_alone(tmp_path: Path) -> None:
    nobody, mark = (
        pwd.getpwnam("nobody"),
        ("-c", "grep -E '^(Uid|Gid|Groups|Cap(Prm|Eff)|NoNewPrivs)' /proc/self/status"),
    )
    told = set()
    for groups in ([], [1, 2]):
        for real in (True, False):
            with pytest.MonkeyPatch.context() as patch:
                if real:
                    patch.setenv(quick_accounts.REAL_PROGRAMS, "1")
                done = subprocess.run(
                    ["/bin/sh", *mark], user=nobody.pw_uid, group=nobody.pw_gid, extra_groups=groups, check=True,
                    stdout=subprocess.PIPE, text=True,
                )  # fmt: skip
            told.add((tuple(groups), done.stdout))
            assert done.args == ["/bin/sh", *mark]
    assert len(told) == 2, told
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    shutil.copy("/bin/true", closed)
    for program, error in ((closed / "true", PermissionError), (Path("/usr/bin/no-such-program"), FileNotFoundError)):
        with pytest.raises(error):
            subprocess.run([str(program)], user=nobody.pw_uid, group=nobody.pw_gid, extra_groups=[], check=True)
