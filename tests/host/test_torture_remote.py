"""Kills on a host that is reached by ssh: agent, its watchdog, the connection, the server, at random instants."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress

import pytest
import state

from fix_sshd import Sshd
from foreign_server import foreign_debian
from host.test_remote_session import Found, eventually, kill_all, only_bundle, pids_with
from pgdyno.errors import PgdynoError
from pgdyno.linux.identity import ProcessIdentity
from pgdyno.model.configuration import Configuration
from pgdyno.remote.address import HostAddress
from pgdyno.remote.deploy import HostRequest
from pgdyno.remote.host import RemoteHost, opened_host
from pgdyno.targets.target import Target
from pgdyno.undo import watch_record
from pgdyno.undo.bundle import UndoBundle, bundle_directories
from pgdyno.undo.watch import Deadlines
from pgdyno.undo.watch_record import WatchdogRole

pytestmark = [pytest.mark.host, pytest.mark.pg, pytest.mark.slow, pytest.mark.timeout(1800)]
KILLS = int(os.environ.get("PGDYNO_TEST_REMOTE_KILLS", "3"))
QUICK = Deadlines(heartbeat_s=3, health_s=3, grace_s=1)
CONFIGURATIONS = ({"work_mem": "8MB"}, {"shared_buffers": "48MB", "work_mem": "9MB"}, {})

server = pytest.fixture(foreign_debian)
Blow = Callable[[RemoteHost, UndoBundle], None]


def _agent(_host: RemoteHost, bundle: UndoBundle) -> None:
    _strike(bundle.manifest.owner, signal.SIGKILL)


def _agent_hangs(_host: RemoteHost, bundle: UndoBundle) -> None:
    _strike(bundle.manifest.owner, signal.SIGSTOP)


def _strike(process: ProcessIdentity, number: signal.Signals) -> None:
    """Signal a process, unless a machine that stood still for longer than QUICK had the watchdog end it before."""
    with suppress(ProcessLookupError):
        os.kill(process.pid, number)


def _watchdog_then_agent(host: RemoteHost, bundle: UndoBundle) -> None:
    first = watch_record.identity(bundle.directory, WatchdogRole.FIRST)
    if first is not None:
        _strike(first, signal.SIGKILL)
    _agent(host, bundle)


def _connection(host: RemoteHost, _bundle: UndoBundle) -> None:
    kill_all(f"ControlPath={host.connection.folder}")


def _connection_and_agent(host: RemoteHost, bundle: UndoBundle) -> None:
    _connection(host, bundle)
    _agent(host, bundle)


BLOWS: dict[str, Blow] = {
    "agent hangs": _agent_hangs,
    "watchdog then agent": _watchdog_then_agent,
    "connection and agent": _connection_and_agent,
    "agent": _agent,
    "connection": _connection,
}
"""In a push the first three; test_remote_session.py has a killed agent and a cut connection, in a known moment."""


@pytest.mark.parametrize("number", range(KILLS))
def test_a_host_comes_back_from_every_kill(sshd: Sshd, server: Target, number: int) -> None:
    draw = random.Random(40 + number)
    name = list(BLOWS)[number % len(BLOWS)]
    found, data = Found(server), server.directory
    assert data is not None
    process = state.process_of(data)
    with opened_host(HostRequest(HostAddress.parse(sshd.url))) as host:
        host.target(server.postgres.conninfo)
        session = host.begin(study="torture", watch=QUICK)

        def tune() -> None:
            with suppress(PgdynoError):
                while True:
                    for settings in CONFIGURATIONS:
                        session.apply(Configuration.of(settings))

        tuner = threading.Thread(target=tune)
        tuner.start()
        time.sleep(draw.uniform(0, 3))
        bundle = only_bundle(sshd)
        BLOWS[name](host, bundle)
        eventually(bundle.is_closed, f"{name}: closed: {watch_record.last_words(bundle.directory)}")
        tuner.join(60)
        assert not tuner.is_alive(), "the tuner hangs"
        found.assert_again()
        assert session.rollback().already_closed
    assert len(bundle_directories(sshd.undo_root)) == 1
    eventually(lambda: not pids_with(str(sshd.home)), "agent and watchdogs leave")
    assert state.State(process).differences(state.State(state.process_of(data))) == [], name
