"""A session on another host through a real sshd: it changes and restores there, and also when it is cut."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from psycopg.conninfo import make_conninfo

from fix_sshd import Sshd
from foreign_server import foreign_debian
from pgdyno.errors import ApplyError, ConnectError, EnvironmentUnsuitable
from pgdyno.linux import processes
from pgdyno.model.configuration import Configuration
from pgdyno.preflight.examine import examine
from pgdyno.preflight.result import State
from pgdyno.probes.guards.memory import MemoryReading
from pgdyno.probes.guards.reader import GuardReader
from pgdyno.probes.guards.volumes import VolumesReading
from pgdyno.remote.address import HostAddress
from pgdyno.remote.deploy import HostRequest
from pgdyno.remote.host import RemoteHost, opened_host
from pgdyno.server import snapshot
from pgdyno.server.snapshot import SettingState
from pgdyno.targets.connect import open_target
from pgdyno.targets.inspect import read_facts
from pgdyno.targets.target import Target
from pgdyno.undo import watch_record
from pgdyno.undo.bundle import UndoBundle, bundle_directories
from pgdyno.undo.rollback import SessionState, describe
from pgdyno.undo.watch import Deadlines
from pgdyno.undo.watch_record import WatchdogRole
from server_image import UNHURRIED, eventually

pytestmark = [pytest.mark.host, pytest.mark.pg, pytest.mark.slow]
RELOADED = Configuration.of({"work_mem": "8MB"})
RESTARTED = Configuration.of({"shared_buffers": "48MB", "work_mem": "9MB"})


server = pytest.fixture(foreign_debian)


@pytest.fixture
def host(sshd: Sshd) -> Iterator[RemoteHost]:
    with opened_host(HostRequest(HostAddress.parse(sshd.url))) as made:
        yield made


class Found:
    """How a server was found, and the assertion that it is so again."""

    def __init__(self, server: Target) -> None:
        self.server = server
        self.files, self.settings = self._files(), self._settings()

    def _files(self) -> dict[str, tuple[bytes, int, int, int]]:
        folder = Path(str(self.server.directory)).parent / "etc"
        found = {path: path.stat() for path in folder.iterdir()}
        return {p.name: (p.read_bytes(), s.st_mode, s.st_uid, s.st_mtime_ns) for p, s in found.items()}

    def _settings(self) -> dict[str, SettingState]:
        with self.server.postgres.connect() as connection:
            return snapshot.read_settings(connection, label="found")

    def assert_again(self) -> None:
        assert self._files() == self.files
        assert snapshot.differences(self.settings, self._settings()) == ()


def only_bundle(sshd: Sshd) -> UndoBundle:
    (directory,) = bundle_directories(sshd.undo_root)
    return UndoBundle.open(directory)


def pids_with(word: str) -> list[int]:
    """Return the processes that have this in a word of their argument list."""
    found = []
    for pid in processes.all_pids():
        try:
            line = (processes.PROC / str(pid) / "cmdline").read_bytes()
        except OSError:
            continue
        if pid != os.getpid() and os.fsencode(word) in line:
            found.append(pid)
    return found


def kill_all(*words: str) -> None:
    """Kill every process that has one of these words in its argument list, none of which sees another one's end."""
    pids = {pid for word in words for pid in pids_with(word)}
    for sign in (signal.SIGSTOP, signal.SIGKILL):
        for pid in pids:
            with suppress(ProcessLookupError):  # the end of one may be that of another
                os.kill(pid, sign)


def test_a_session_reloads_restarts_and_restores(sshd: Sshd, host: RemoteHost, server: Target) -> None:
    found, target = Found(server), host.target(server.postgres.conninfo)
    with host.begin(study="remote", watch=Deadlines()) as session:
        reloaded = session.apply(RELOADED)
        assert (reloaded.restarted, reloaded.values) == (False, {"work_mem": "8192"})
        restarted = session.apply(RESTARTED, databases=["postgres"])
        assert restarted.restarted
        assert target.postgres.fetch("SHOW shared_buffers") == [{"shared_buffers": "48MB"}]
        assert target.postgres.fetch("SHOW work_mem", dbname="template1") == [{"work_mem": "9MB"}]
        session.expect("a load", 60.0)
        (info,) = host.sessions()
        assert (info.directory.name, info.state, info.applied) == (session.id, SessionState.RUNNING, 2)
        assert only_bundle(sshd).manifest.owner.pid != os.getpid()
    assert [info.state for info in host.sessions()] == [SessionState.CLOSED]
    assert session.rollback().already_closed
    found.assert_again()


def test_a_change_stays_and_is_taken_back_by_its_id(host: RemoteHost, server: Target) -> None:
    found, target = Found(server), host.target(server.postgres.conninfo)
    with host.begin(study="apply", watch=UNHURRIED) as session:
        session.apply(RESTARTED)
        session.keep()
    time.sleep(2.0)  # a watchdog that did not leave would restore now
    assert target.postgres.fetch("SHOW shared_buffers") == [{"shared_buffers": "48MB"}]
    assert [info.state for info in host.sessions()] == [SessionState.KEPT]
    assert host.roll_back(session.id).is_whole
    assert [info.state for info in host.sessions()] == [SessionState.CLOSED]
    found.assert_again()


def test_facts_and_errors_are_those_of_the_host(host: RemoteHost, server: Target) -> None:
    target = host.target(server.postgres.conninfo)
    there, here = read_facts(target), read_facts(server)
    assert (there.server, there.settings) == (here.server, here.settings)
    assert there.environment_hash() == here.environment_hash()
    with host.begin(study="refused", watch=Deadlines()) as session:
        with pytest.raises(ApplyError, match="work_mem"):
            session.apply(Configuration.of({"work_mem": "many"}))
        with opened_host(host.request) as other:
            other.target(server.postgres.conninfo)
            with pytest.raises(EnvironmentUnsuitable, match=f"{session.id} .* still open"):
                other.begin(study="second", watch=Deadlines())


def test_readings_tell_the_server_from_the_rest(host: RemoteHost, server: Target) -> None:
    target = host.target(server.postgres.conninfo)
    before = host.read_host()
    target.postgres.fetch("SELECT count(*) FROM generate_series(1, 2000000)")
    after = host.read_host()
    assert after.texts.failures.keys() <= {"pressure/cpu", "pressure/memory", "pressure/io"}
    assert before.server_cpu_s is not None
    assert after.server_cpu_s is not None
    assert after.server_cpu_s > before.server_cpu_s
    assert after.own_cpu_s >= before.own_cpu_s > 0


def test_guards_and_preflight_look_at_the_host(host: RemoteHost, server: Target) -> None:
    target = host.target(server.postgres.conninfo)
    reader = GuardReader(target)
    tick = reader.read(1.0)
    reader.close()
    assert isinstance(tick.memory, MemoryReading)
    assert isinstance(tick.volumes, VolumesReading)
    assert str(tick.volumes.data.path) == str(server.directory)
    assert tick.memory.bound <= int(str(host.facts().host.ram_bytes))
    huge = Configuration.of({"shared_buffers": "900GB", "work_mem": "8MB"})
    found = {result.check: result for result in examine(target, huge)}
    assert found.keys() == {result.check for result in examine(open_target(server.postgres.conninfo), huge)}
    assert State.REFUSED in {result.state for result in found.values()}


def test_a_cut_connection_restores(sshd: Sshd, server: Target) -> None:
    found = Found(server)
    with opened_host(HostRequest(HostAddress.parse(sshd.url))) as host:
        host.target(server.postgres.conninfo)
        with host.begin(study="cut", watch=UNHURRIED) as session:
            session.apply(RESTARTED)
            kill_all(f"ControlPath={host.connection.folder}")
            with pytest.raises(ConnectError):
                session.apply(RELOADED)
            bundle = only_bundle(sshd)
            eventually(bundle.is_closed, "the agent restores when its line is cut")
            assert describe(bundle.directory).closed_by == "session"
            found.assert_again()
            assert session.rollback().already_closed  # over a new connection
    eventually(lambda: not pids_with(str(sshd.home)), "agent and watchdogs leave")


def test_a_killed_agent_is_made_good_by_its_watchdog(sshd: Sshd, host: RemoteHost, server: Target) -> None:
    found = Found(server)
    host.target(server.postgres.conninfo)
    with host.begin(study="killed", watch=UNHURRIED) as session:
        session.apply(RESTARTED)
        bundle = only_bundle(sshd)
        os.kill(bundle.manifest.owner.pid, signal.SIGKILL)
        eventually(bundle.is_closed, f"closed: {watch_record.last_words(bundle.directory)}")
        assert "watchdog" in (describe(bundle.directory).closed_by or "")
        found.assert_again()
    watchers = [watch_record.identity(bundle.directory, role) for role in WatchdogRole]
    eventually(lambda: not any(one is not None and one.is_alive() for one in watchers), "the watchdogs leave")


def test_agent_and_watchdogs_killed_wait_for_a_rollback(sshd: Sshd, host: RemoteHost, server: Target) -> None:
    found = Found(server)
    host.target(server.postgres.conninfo)
    host.begin(study="all", watch=UNHURRIED).apply(RELOADED)
    bundle = only_bundle(sshd)
    kill_all(str(sshd.home / "cache"), str(bundle.directory))
    eventually(lambda: not bundle.manifest.owner.is_alive(), "the agent is gone")
    with opened_host(host.request) as again:
        again.target(server.postgres.conninfo)
        eventually(lambda: again.abandoned() == [bundle.id], "nobody restores it any more")
        assert again.roll_back(bundle.id).is_whole
        assert again.abandoned() == []
    found.assert_again()


def test_a_password_reaches_the_server_the_tunnel_and_the_watchdog(
    sshd: Sshd, server: Target, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The password is in the tuner's own file alone, under the host's name there."""
    server.postgres.execute("CREATE ROLE keeper SUPERUSER LOGIN PASSWORD 'pass:word'")
    hba = Path(str(server.directory)) / "pg_hba.conf"
    hba.write_text("local all keeper scram-sha-256\n" + hba.read_text())
    server.postgres.fetch("SELECT pg_reload_conf()")
    found = Found(server)
    file = tmp_path / "pgpass"
    file.write_text("127.0.0.1:54329:*:keeper:pass\\:word\n")
    file.chmod(0o600)
    monkeypatch.setenv("PGPASSFILE", str(file))
    with opened_host(HostRequest(HostAddress.parse(sshd.url))) as host:
        target = host.target(make_conninfo(server.postgres.conninfo, user="keeper"))
        assert target.postgres.fetch("SELECT current_user AS who") == [{"who": "keeper"}]
        with host.begin(study="password", watch=UNHURRIED) as session:
            session.apply(RESTARTED)
            bundle = only_bundle(sshd)
            os.kill(bundle.manifest.owner.pid, signal.SIGKILL)
            eventually(bundle.is_closed, f"closed: {watch_record.last_words(bundle.directory)}")
    found.assert_again()


def test_no_argument_list_holds_the_password(host: RemoteHost, server: Target) -> None:
    secret = f"secret-{os.urandom(8).hex()}"
    target = host.target(f"{server.postgres.conninfo} password={secret}")
    with host.begin(study="secret", watch=Deadlines()):
        assert target.postgres.parameters["password"] == secret
        assert target.postgres.fetch("SELECT 1 AS one") == [{"one": 1}]
        assert pids_with(secret) == []
        assert secret not in repr(target) + target.name
        assert all(secret not in file.read_text(errors="replace") for file in only_files(host))


def only_files(host: RemoteHost) -> list[Path]:
    (info,) = host.sessions()
    return [path for path in info.directory.rglob("*") if path.is_file()]
