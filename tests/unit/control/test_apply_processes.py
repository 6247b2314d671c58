"""Processes that outlive their session, signals that must wait, and how a server is started again."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pgdyno.control import CommandControl, Control, PatroniControl, PgCtl, PgCtlCluster, SystemdControl, control_record
from pgdyno.errors import EnvironmentUnsuitable
from pgdyno.linux.identity import ProcessIdentity, end_process, wait_until
from pgdyno.owner.runner import LocalRunner
from pgdyno.owner.signals import deferred_signals
from pgdyno.server.patroni_api import PatroniApi
from pgdyno.server.postgres import Postgres

STUBBORN = "import signal, sys, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); time.sleep(60)"


@pytest.fixture
def child() -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen([sys.executable, "-c", STUBBORN], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process
        process.kill()


def test_a_process_is_known_again(child: subprocess.Popen[str]) -> None:
    identity = ProcessIdentity.of(child.pid)
    assert identity is not None
    assert identity.is_alive()
    assert ProcessIdentity.of(os.getpid()) == ProcessIdentity.own() != identity
    child.kill()
    assert wait_until(lambda: not identity.is_alive(), timeout_s=30)  # a zombie until it is waited for
    assert ProcessIdentity.of(child.pid) is None


def test_a_stubborn_process_is_ended(child: subprocess.Popen[str]) -> None:
    identity = ProcessIdentity.of(child.pid)
    assert identity is not None
    assert end_process(identity, grace_s=0.2)
    assert child.wait(30) == -signal.SIGKILL
    assert not end_process(identity)


def test_another_process_of_the_same_number_is_left_alone(child: subprocess.Popen[str]) -> None:
    identity = ProcessIdentity.of(child.pid)
    assert identity is not None
    for other in (
        ProcessIdentity(child.pid, identity.start_ticks - 1, identity.boot_id),
        ProcessIdentity(child.pid, identity.start_ticks, "an earlier boot"),
    ):
        assert not other.is_alive()
        assert not end_process(other, grace_s=0.1)
    assert identity.is_alive()


def test_signals_wait_and_are_delivered_once() -> None:
    seen: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, _: seen.append(number))
    try:
        with deferred_signals():
            os.kill(os.getpid(), signal.SIGTERM)
            os.kill(os.getpid(), signal.SIGTERM)
            assert seen == []
        assert seen == [signal.SIGTERM]
        assert signal.getsignal(signal.SIGTERM) is not before
    finally:
        signal.signal(signal.SIGTERM, before)


def test_an_interrupt_comes_after_the_block() -> None:
    steps: list[str] = []

    def interrupted() -> None:
        with deferred_signals():
            os.kill(os.getpid(), signal.SIGINT)
            steps.append("finished")
        steps.append("never")

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert steps == ["finished"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


CONTROLS: list[Control] = [
    PgCtl(
        LocalRunner(),
        Path("/b in"),
        Path("/data"),
        Path("/log"),
        user="postgres",
        options=("-c", "work_mem=1MB"),
        env=(("LD_LIBRARY_PATH", "/lib"),),
    ),
    PgCtlCluster(LocalRunner(), "15", "main", Path("/data"), log_file=Path("/log")),
    CommandControl(("systemctl", "{action}", "postgresql"), LocalRunner(), Postgres("")),
    SystemdControl(LocalRunner(), Postgres(""), "pg.service", Path("/data"), sudo=True, resets_limit=True),
    PatroniControl(PatroniApi(("http://a:8008", "https://b:8008"), Path("/auth"), Path("/ca")), Postgres("")),
]


@pytest.mark.parametrize("control", CONTROLS, ids=lambda control: type(control).__name__)
def test_a_control_is_rebuilt(control: Control) -> None:
    record = control_record.to_record(control)
    again = control_record.from_record(record, runner=LocalRunner(), postgres=Postgres(""))
    assert type(again) is type(control)
    assert control_record.to_record(again) == record


def test_how_a_person_restarts() -> None:
    commands = [control_record.restart_command(control_record.to_record(control)) for control in CONTROLS]
    words = shlex.split(commands[0])
    assert words[:6] == ["runuser", "-u", "postgres", "--", "env", "LD_LIBRARY_PATH=/lib"]
    assert words[words.index("-o") + 1] == "-c work_mem=1MB"
    assert words[-1] == "restart"
    assert commands[1:4] == [
        "pg_ctlcluster 15 main restart -m fast",
        "systemctl restart postgresql",
        "sudo systemctl restart pg.service",
    ]
    assert commands[4].startswith("curl -X POST --user USER --cacert /ca http://a:8008/restart; curl")
    assert control_record.restart_command(None).startswith("#")


def test_no_control_and_a_strange_control() -> None:
    assert control_record.to_record(None) is None
    assert control_record.from_record(None, runner=LocalRunner(), postgres=Postgres("")) is None

    class Strange:
        def start(self) -> None: ...
        def stop(self, mode: str = "fast") -> None: ...
        def restart(self) -> None: ...
        def reload(self) -> None: ...
        def is_running(self) -> bool:
            return True

    with pytest.raises(EnvironmentUnsuitable, match="Strange"):
        control_record.to_record(Strange())
    with pytest.raises(ValueError, match="unknown control"):
        control_record.from_record({"kind": "x", "timeout_s": 1}, runner=LocalRunner(), postgres=Postgres(""))
