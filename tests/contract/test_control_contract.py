"""What every Control must do, on real servers: pg_ctl, pg_ctlcluster, a command, and systemctl (a double of it)."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

import systemctl_double
from agent_line import agent_line
from debian_cluster import debian_cluster
from fix_postgres import NIGHT, find_build
from pgdyno.control import CommandControl, Control, PgCtl, PgCtlCluster, SystemdControl
from pgdyno.errors import RestartError, UsageError
from pgdyno.linux import processes
from pgdyno.owner.runner import LocalRunner
from pgdyno.remote.client import AgentClient
from pgdyno.remote.control import RemoteControl
from pgdyno.sandbox.sandbox import Sandbox
from pgdyno.server import postmaster_lock
from pgdyno.server.postgres import Postgres
from pgdyno.targets.connect import open_target
from systemctl_double import Unit

pytestmark = [pytest.mark.pg, pytest.mark.host]
KINDS: tuple[str, ...] = ("pg_ctl 18", "command 18", "pg_ctlcluster 15", "systemd 15", "agent 15")
if NIGHT:  # the agent has a pg_ctl of 15
    KINDS = (*KINDS, "pg_ctl 15")


@dataclass(frozen=True)
class Subject:
    """A control, its server, and a file of settings that is read last."""

    control: Control
    postgres: Postgres
    data: Path
    settings: Path

    def pid(self) -> int | None:
        return postmaster_lock.postmaster_pid(self.data)


@pytest.fixture(scope="module", params=KINDS)
def subject(
    request: pytest.FixtureRequest, server_home: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Subject]:
    kind, _, version = request.param.partition(" ")
    if kind == "pg_ctlcluster":
        yield from _debian_cluster(server_home)
        return
    bin_dir = find_build("debian-15" if version == "15" else "embedded-18")
    sandbox = Sandbox.open_or_create(f"control-{kind}-{version}", bin_dir=bin_dir, root=server_home)
    sandbox.start()
    target = sandbox.target()
    control = target.control
    assert isinstance(control, PgCtl)
    with pytest.MonkeyPatch.context() as patch, ExitStack() as stack:
        chosen: Control = control
        if kind == "command":
            chosen = _as_command(control, target.postgres)
        elif kind == "systemd":
            chosen = _as_unit(control, target.postgres, tmp_path_factory.mktemp("unit"), patch)
        elif kind == "agent":
            chosen = _as_agent(target.postgres, stack.enter_context(agent_line(server_home)))
        yield Subject(chosen, target.postgres, sandbox.data_directory, sandbox.data_directory / "pgdyno.conf")
    sandbox.destroy()


def _as_unit(control: PgCtl, postgres: Postgres, home: Path, patch: pytest.MonkeyPatch) -> SystemdControl:
    words = [str(control.bin_dir / "pg_ctl")]
    unit = Unit("lab.service", words, control.user, str(control.data_directory), str(control.log_file))
    patch.setenv("PATH", str(systemctl_double.install(home / "double", unit)), prepend=os.pathsep)
    return SystemdControl(LocalRunner(), postgres, unit.name, control.data_directory)


def _as_agent(postgres: Postgres, client: AgentClient) -> RemoteControl:
    client.first_words()
    client.call("open", {"conninfo": postgres.conninfo})
    return RemoteControl(client)


def _as_command(control: PgCtl, postgres: Postgres) -> CommandControl:
    switch = ("setpriv", f"--reuid={control.user}", f"--regid={control.user}", "--clear-groups", "--")
    words = (str(control.bin_dir / "pg_ctl"), "{action}", "-w", "-D", str(control.data_directory))
    log = ("-l", str(control.log_file))
    return CommandControl((*(switch if control.user else ()), *words, *log), LocalRunner(), postgres)


def _debian_cluster(home: Path) -> Iterator[Subject]:
    with debian_cluster(home, "pgdyno") as cluster:
        control = cluster.control(user="postgres")
        control.start()
        yield Subject(control, cluster.postgres(), cluster.data, cluster.config / "conf.d" / "zz-test.conf")


@pytest.fixture(autouse=True)
def _put_back(subject: Subject) -> Iterator[None]:
    subject.control.start()
    yield
    if subject.settings.exists():
        subject.settings.unlink()
        if subject.control.is_running():
            subject.control.reload()  # what needs a restart goes with the next one, and nobody asks for it before


def test_start_and_stop_reach_their_state_from_any_state(subject: Subject) -> None:
    control = subject.control
    assert control.is_running()
    pid = subject.pid()
    control.start()
    assert subject.pid() == pid
    control.stop()
    assert not control.is_running()
    assert subject.pid() is None
    control.stop()
    control.start()
    assert control.is_running()
    assert subject.postgres.fetch("SELECT 1 AS one") == [{"one": 1}]


def test_restart_makes_a_new_server_and_starts_a_dead_one(subject: Subject) -> None:
    pid = subject.pid()
    subject.control.restart()
    assert subject.pid() not in (None, pid)
    assert subject.postgres.fetch("SELECT 1 AS one") == [{"one": 1}]
    subject.control.stop()
    subject.control.restart()
    assert subject.control.is_running()


def test_fast_ends_sessions(subject: Subject) -> None:
    with subject.postgres.connect():
        subject.control.stop("fast")
    assert not subject.control.is_running()


def test_reload_reads_the_files_again_without_a_restart(subject: Subject) -> None:
    pid = subject.pid()
    subject.settings.write_text("work_mem = '7MB'\n")
    subject.settings.chmod(0o644)
    subject.control.reload()

    _until(lambda: subject.postgres.fetch("SHOW work_mem") == [{"work_mem": "7MB"}])
    assert subject.pid() == pid


def test_a_restart_puts_a_setting_in_force(subject: Subject) -> None:
    subject.settings.write_text("shared_buffers = '64MB'\n")
    subject.settings.chmod(0o644)
    subject.control.restart()
    assert subject.postgres.fetch("SHOW shared_buffers") == [{"shared_buffers": "64MB"}]


def test_a_server_that_does_not_start_is_an_error_with_a_way_out(subject: Subject) -> None:
    subject.settings.write_text("shared_buffers = 'many'\n")
    subject.settings.chmod(0o644)
    subject.control.stop()
    with pytest.raises(RestartError) as caught:
        subject.control.start()
    assert caught.value.hint
    assert caught.value.detail
    assert not subject.control.is_running()
    if not isinstance(subject.control, CommandControl):
        assert "shared_buffers" in caught.value.detail


def test_a_killed_server_is_seen_as_down_and_starts_again(subject: Subject) -> None:
    pid = subject.pid()
    assert pid is not None
    os.kill(pid, 9)
    _until(lambda: not processes.processes_in(subject.data))
    assert not subject.control.is_running()
    if isinstance(subject.control, CommandControl | SystemdControl):
        # The user's command is not ours to make cleverer, and systemd itself reaps what it has started.
        _until(lambda: processes.read_stat(pid) is None)
    subject.control.start()
    assert subject.postgres.fetch("SELECT pg_is_in_recovery() AS r") == [{"r": False}]


def test_a_wrong_mode_touches_nothing(subject: Subject) -> None:
    with pytest.raises(UsageError):
        subject.control.stop("gently")
    assert subject.control.is_running()


def test_the_server_outlives_us(subject: Subject) -> None:
    subject.control.restart()
    pid = subject.pid()
    assert pid is not None
    assert os.getsid(pid) != os.getsid(0)


def test_a_real_target_gets_the_control_of_its_kind(subject: Subject) -> None:
    control = open_target(subject.postgres.conninfo).control
    assert isinstance(control, PgCtlCluster if isinstance(subject.control, PgCtlCluster) else PgCtl)
    assert control.is_running()


def _until(condition: Callable[[], bool], tries: int = 1200) -> None:
    for _ in range(tries):
        if condition():
            return
        subprocess.run(["sleep", "0.05"], check=True)
    pytest.fail("the state was not reached")
