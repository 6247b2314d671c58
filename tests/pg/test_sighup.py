"""A reload without a session: who is answered after it is served by a postmaster that has read its files."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pgdyno.control import sighup
from pgdyno.errors import EnvironmentUnsuitable, RestartError
from pgdyno.linux import processes
from pgdyno.linux.identity import wait_until
from pgdyno.sandbox.sandbox import Sandbox
from pgdyno.server.health import Address

pytestmark = pytest.mark.pg
ROUNDS = 12


def address_of(sandbox: Sandbox) -> Address:
    with sandbox.target().postgres.connect() as connection:
        return Address.of(connection.info.host, connection.info.port)


@contextmanager
def ended(process: subprocess.Popen[bytes]) -> Iterator[subprocess.Popen[bytes]]:
    """End a process when its test ends, however that is."""
    with process:
        try:
            yield process
        finally:
            process.kill()


def state_of(pid: int) -> str:
    stat = processes.read_stat(pid)
    assert stat is not None
    return stat.state


@pytest.fixture
def server(any_postgres: Sandbox) -> Iterator[Sandbox]:
    yield any_postgres
    (any_postgres.data_directory / "pgdyno.conf").unlink(missing_ok=True)
    sighup.reload(any_postgres.data_directory, address_of(any_postgres))


def test_the_next_session_sees_it(server: Sandbox) -> None:
    data, address, postgres = server.data_directory, address_of(server), server.target().postgres
    for number in range(ROUNDS):
        (data / "pgdyno.conf").write_text(f"work_mem = {number + 5}MB\n")
        (data / "pgdyno.conf").chmod(0o644)
        sighup.reload(data, address)
        assert postgres.fetch("SHOW work_mem") == [{"work_mem": f"{number + 5}MB"}]
    assert sighup.status(data) == "ready"
    sighup.require_right(data)


def test_one_that_takes_no_signal_is_told(make_sandbox: Callable[..., Sandbox]) -> None:
    sandbox = make_sandbox("sighup")
    sandbox.start()
    data, address = sandbox.data_directory, address_of(sandbox)
    process = sighup.postmaster(data)
    assert process is not None
    os.kill(process.pid, signal.SIGSTOP)
    assert wait_until(lambda: state_of(process.pid) == "T", timeout_s=30)
    try:
        with pytest.raises(RestartError, match="did not take a signal within"):
            sighup.reload(data, None, timeout_s=0.2)
    finally:
        os.kill(process.pid, signal.SIGCONT)
    sighup.reload(data, address)
    sandbox.stop()
    assert sighup.postmaster(data) is None
    assert sighup.status(data) is None
    with pytest.raises(RestartError, match="no server runs"):
        sighup.reload(data, address)
    with pytest.raises(EnvironmentUnsuitable, match="runs there"):
        sighup.require_right(data)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has processes of two accounts")
def test_a_process_of_another_account_is_not_signalled(server_home: Path) -> None:
    """Whoever owns the directory writes postmaster.pid: a root process that works there could be named in it."""
    data = server_home / "of-another-account"
    data.mkdir()
    with ended(subprocess.Popen(["sleep", "600"], cwd=data)) as bystander:
        (data / "postmaster.pid").write_text(f"{bystander.pid}\n{data}\n1\n5432\n/tmp\n\n0 0\nready\n")
        assert sighup.postmaster(data) is not None
        os.chown(data, 65534, 65534)
        assert sighup.postmaster(data) is None
        assert sighup.status(data) is None
        with pytest.raises(RestartError):
            sighup.reload(data, None)
        assert bystander.poll() is None
