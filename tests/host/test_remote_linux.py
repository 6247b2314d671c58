"""Linux knobs of another host: an agent of root's sets them there and puts them back, also when the line is cut."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
from dataclasses import replace
from pathlib import Path

import pytest
from state import State, state_of
from test_remote_session import Found, kill_all, only_bundle

from fix_sshd import Sshd
from foreign_server import foreign_debian
from pgdyno.errors import ApplyError, ConnectError
from pgdyno.model.configuration import BASELINE, Configuration
from pgdyno.remote.address import HostAddress
from pgdyno.remote.deploy import HostRequest
from pgdyno.remote.host import opened_host
from pgdyno.targets.inspect import read_facts
from pgdyno.targets.target import Target
from pgdyno.undo.rollback import describe
from pgdyno.undo.watch import Deadlines
from server_image import UNHURRIED, eventually

pytestmark = [
    pytest.mark.host,
    pytest.mark.pg,
    pytest.mark.slow,
    pytest.mark.alone,
    pytest.mark.skipif(os.geteuid() != 0, reason="kernel values are root's to write"),
]
BACKGROUND, HUGE = "vm.dirty_background_bytes", "transparent_hugepage.enabled"
KNOBS = (BACKGROUND, HUGE)
JOINT = Configuration.of({BACKGROUND: "67108864", HUGE: "never", "work_mem": "8MB"})
RESTARTED = Configuration.of({**JOINT, "shared_buffers": "48MB"})


server = pytest.fixture(foreign_debian)


@pytest.fixture
def sshd(bare_sshd: Sshd) -> Sshd:
    """Give a host whose user may be root."""
    return bare_sshd


def as_user(sshd: Sshd, user: str) -> HostRequest:
    shutil.chown(sshd.home, user, pwd.getpwnam(user).pw_gid)  # root keeps no bundles in a folder of somebody else's
    return HostRequest(HostAddress.parse(replace(sshd, user=user).url))


def everything(server: Target) -> State:
    """Return files, settings, every value of vm and the queues of all disks."""
    data = Path(str(server.directory))
    return state_of(data, data.parent)


def moved(before: State, server: Target) -> list[str]:
    """Return what differs but for the files of pgdyno's own, which are there while a session is open."""
    return [line for line in before.differences(everything(server)) if not line.startswith("file pgdyno")]


def assert_in_force() -> None:
    assert Path("/proc/sys/vm/dirty_background_bytes").read_text().strip() == JOINT[BACKGROUND]
    assert "[never]" in Path("/sys/kernel/mm/transparent_hugepage/enabled").read_text()


def test_linux_knobs_come_into_force_there_and_go_back(sshd: Sshd, server: Target) -> None:
    found, before = Found(server), everything(server)
    with opened_host(as_user(sshd, "root")) as host:
        target = host.target(server.postgres.conninfo)
        assert read_facts(target).kernel.keys() >= set(KNOBS)
        with host.begin(study="linux", watch=Deadlines(), kernel=KNOBS) as session:
            applied = session.apply(JOINT)
            assert applied.values == {BACKGROUND: "67108864", HUGE: "never", "work_mem": "8192"}
            assert_in_force()
            assert session.apply(BASELINE).values == {}
            assert moved(before, server) == [], "the baseline is the host as it was found"
            session.apply(RESTARTED)
            assert_in_force()
    found.assert_again()
    assert before.differences(everything(server)) == []


def test_a_cut_connection_puts_linux_knobs_back_too(sshd: Sshd, server: Target) -> None:
    found, before = Found(server), everything(server)
    with opened_host(as_user(sshd, "root")) as host:
        host.target(server.postgres.conninfo)
        with host.begin(study="cut", watch=UNHURRIED, kernel=KNOBS) as session:
            session.apply(RESTARTED)
            assert_in_force()
            kill_all(f"ControlPath={host.connection.folder}")
            with pytest.raises(ConnectError):
                session.apply(JOINT)
            bundle = only_bundle(sshd)
            eventually(bundle.is_closed, "the agent restores when its line is cut")
            assert describe(bundle.directory).closed_by == "session"
            found.assert_again()
            assert before.differences(everything(server)) == []
            assert session.rollback().already_closed
    assert before.differences(everything(server)) == []


def test_an_agent_killed_in_a_configuration_leaves_them_to_its_watchdog(sshd: Sshd, server: Target) -> None:
    found, before = Found(server), everything(server)
    with opened_host(as_user(sshd, "root")) as host:
        host.target(server.postgres.conninfo)
        with host.begin(study="killed", watch=UNHURRIED, kernel=KNOBS) as session:
            session.apply(JOINT)
            assert_in_force()
            bundle = only_bundle(sshd)
            os.kill(bundle.manifest.owner.pid, signal.SIGKILL)
            eventually(bundle.is_closed, "closed by the watchdog")
            assert "watchdog" in (describe(bundle.directory).closed_by or "")
            assert before.differences(everything(server)) == []
    found.assert_again()


def test_a_user_without_the_right_is_told_and_changes_nothing(sshd: Sshd, server: Target) -> None:
    before = everything(server)
    with opened_host(as_user(sshd, "postgres")) as host:
        host.target(server.postgres.conninfo)
        with host.begin(study="refused", watch=UNHURRIED, kernel=KNOBS) as session:
            with pytest.raises(ApplyError, match="did not come into force") as caught:
                session.apply(JOINT)
            assert "Permission denied" in (caught.value.detail or "")
            assert moved(before, server) == []
    assert before.differences(everything(server)) == []
