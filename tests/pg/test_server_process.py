"""After a restart of ours the server is the process that it was, also when the tuner is killed."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from tuner_process import await_line, newest, tuner_of

from debian_cluster import debian_cluster
from fix_postgres import ONE_BUILD, find_build, public_dir
from foreign_server import running_foreign_server
from marked_process import MARKS, SECRETS, another_process, environments, secrets_in, seen, start_marked
from pgdyno.control import PgCtl, PgCtlCluster
from pgdyno.errors import EnvironmentUnsuitable
from pgdyno.linux.cpu import CpuGroup
from pgdyno.model.configuration import Configuration
from pgdyno.sandbox.sandbox import Sandbox
from pgdyno.targets.connect import open_target
from pgdyno.targets.target import Target
from pgdyno.undo import server_process, watch_record
from pgdyno.undo.apply import Session
from pgdyno.undo.rollback import describe, rollback
from public_library import as_user, copy_library, environment_of, python_of
from server_image import UNHURRIED, eventually

pytestmark = [
    pytest.mark.pg,
    pytest.mark.host,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can become as another process was, and back"),
]
RESTARTING = Configuration.of({"max_connections": "42", "work_mem": "9MB"})
REAL_TUNERS = True
NICE = os.getpriority(os.PRIO_PROCESS, 0)
"""Of this run, which may itself have been begun by `nice`."""


@dataclass(frozen=True)
class Server:
    """A server with marks, as a sandbox or as a foreign one."""

    held: Target
    data: Path

    def target(self) -> Target:
        return self.held

    @property
    def data_directory(self) -> Path:
        return self.data


@pytest.fixture
def cgroup() -> Iterator[Path | None]:
    made = CpuGroup.create(f"marked-{os.getpid()}")
    yield made.path if isinstance(made, CpuGroup) else None
    if isinstance(made, CpuGroup):
        eventually(made.remove, "the group is empty")


@pytest.fixture
def foreign(cgroup: Path | None) -> Iterator[Server]:
    root = public_dir()
    with running_foreign_server(find_build("debian-15"), root) as target:
        control = target.control
        assert isinstance(control, PgCtl)
        control.stop()
        start_marked(control, cgroup=cgroup)
        yield Server(target, control.data_directory)
    shutil.rmtree(root)


@pytest.fixture(params=ONE_BUILD)
def server(request: pytest.FixtureRequest, server_home: Path, cgroup: Path | None) -> Iterator[Server]:
    if request.param == "debian-15":
        yield request.getfixturevalue("foreign")
        return
    sandbox = Sandbox.open_or_create(f"marked-{request.param}", bin_dir=find_build(request.param), root=server_home)
    sandbox.start()
    target = sandbox.target()
    assert isinstance(target.control, PgCtl)
    target.control.stop()
    start_marked(target.control, cgroup=cgroup)
    yield Server(target, sandbox.data_directory)
    sandbox.destroy()


def test_a_session_leaves_the_process_as_it_was(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = seen(server.data)
    assert f"MARK_OF_THE_DBA={MARKS['MARK_OF_THE_DBA']}" in before["environ"]  # type: ignore[operator]
    with another_process(monkeypatch):
        with Session.begin(server.held, study="x", undo_root=tmp_path / "undo") as session:
            first = session.apply(RESTARTING)
            assert first.restarted
            assert seen(server.data) == before, "in the middle of the session"
            assert secrets_in(environments(server.data)) == []
        assert seen(server.data) == before
        assert secrets_in(environments(server.data)) == []
    image = session.bundle.process_image()
    assert image is not None
    assert "one two=three" not in repr(image)
    kept = session.bundle.directory / "process.json"
    assert kept.stat().st_mode & 0o777 == 0o600
    for path in kept.parent.rglob("*"):
        assert path == kept or not path.is_file() or b"one two=three" not in path.read_bytes(), path


@pytest.mark.slow
@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM])
def test_a_tuner_that_is_killed(
    server: Server, end: signal.Signals, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SIGKILL: the watchdog starts the server. It has the tuner's environment and priorities, the server has not."""
    before = seen(server.data)
    settings = [dict(RESTARTING)]
    tuning = tuner_of(server, tmp_path / "undo", watch=UNHURRIED, configurations=settings, hold=True)
    with another_process(monkeypatch), tuning as tuner:
        await_line(tuner, "applied")
        assert seen(server.data) == before
        tuner.send_signal(end)
        bundle = newest(tmp_path / "undo")
        eventually(bundle.is_closed, f"closed: {watch_record.last_words(bundle.directory)}")
    assert seen(server.data) == before
    assert secrets_in(environments(server.data), watch_record.last_words(bundle.directory) or "") == []
    assert "watchdog" in (describe(bundle.directory).closed_by or "")


def test_a_rollback_from_another_shell(foreign: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = seen(foreign.data)
    session = Session.begin(foreign.held, study="x", undo_root=tmp_path / "undo")
    session.apply(RESTARTING)
    control = foreign.held.control
    assert control is not None
    control.stop("immediate")  # and whoever rolls back has to start it
    with another_process(monkeypatch):
        restored = rollback(session.bundle)
    assert restored.is_whole
    assert seen(foreign.data) == before


def test_a_start_of_ours_that_differs_is_damage_and_shows_no_value(
    foreign: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_process.Before, "like", lambda before, control: control)  # as it was done once
    session = Session.begin(foreign.held, study="x", undo_root=tmp_path / "undo")
    session.apply(RESTARTING)
    restored = session.rollback()
    assert not restored.is_whole
    text = "\n".join(restored.damage)
    for words in (
        f"nice value {NICE} instead of {NICE - 3}",
        "limit NOFILE",
        "without the variables MARK_OF_THE_DBA, PGDATESTYLE",
    ):
        assert words in text
    assert "one two" not in text
    assert not session.rollback().is_whole, "a second look finds it as well"


def test_what_a_person_started_is_told_and_is_theirs(
    foreign: Server, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    session = Session.begin(foreign.held, study="x", undo_root=tmp_path / "undo")
    session.apply(Configuration.of({"work_mem": "9MB"}))
    control = foreign.held.control
    assert control is not None
    control.restart()
    restored = session.rollback()
    assert restored.damage == ()
    assert restored.settings_differences == ()
    assert any("DateStyle" in str(note) for note in restored.notes), "of PGDATESTYLE, and no deed of ours"
    assert f"nice value {NICE} instead of {NICE - 3}" in caplog.text
    assert "MARK_OF_THE_DBA" in caplog.text
    assert "one two" not in caplog.text


def test_what_a_person_started_is_what_comes_back(
    foreign: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A person gave the server another environment and limit meanwhile: our next restart does not take that away."""
    session = Session.begin(foreign.held, study="x", undo_root=tmp_path / "undo")
    session.apply(Configuration.of({"work_mem": "9MB"}))
    control = foreign.held.control
    assert isinstance(control, PgCtl)
    control.stop()
    monkeypatch.setitem(MARKS, "MARK_OF_THE_DBA", "of today")
    start_marked(control, as_root=False)
    person = seen(foreign.data)
    session.apply(RESTARTING)
    assert seen(foreign.data) == person
    session.apply(Configuration.of({}))
    with another_process(monkeypatch):
        assert session.rollback().is_whole
    assert seen(foreign.data) == person


def test_what_cannot_be_had_again_is_told_and_no_restart_is_made(
    foreign: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Here a scheduling class that no process can give itself back; an owner has more of that kind, see below."""
    taken = server_process.capture

    def odd(pid: int) -> object:
        image = taken(pid)
        return replace(image, values={**image.values, "scheduling policy and priority": [6, 0]})

    monkeypatch.setattr(server_process, "capture", odd)
    before = seen(foreign.data)
    with Session.begin(foreign.held, study="x", undo_root=tmp_path / "undo") as session:
        assert "is not restarted by this session" in caplog.text
        session.apply(Configuration.of({"work_mem": "9MB"}))
        with pytest.raises(EnvironmentUnsuitable, match="could not be started again as the process") as caught:
            session.apply(RESTARTING)
    assert caught.value.detail == "It would come back with scheduling policy and priority 0,0 instead of 6,0."
    assert "--restart-command" in (caught.value.hint or "")
    assert seen(foreign.data) == before


def test_a_process_of_another_account_is_not_taken_for_the_server(
    foreign: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pid comes from a file of the server's owner, who would like to see the environment of root's shell."""
    with subprocess.Popen(["sleep", "60"], cwd=foreign.data) as of_root:
        monkeypatch.setattr("pgdyno.server.postmaster_lock.postmaster_pid", lambda folder: of_root.pid)
        with pytest.raises(EnvironmentUnsuitable) as caught:
            server_process.take(foreign.held, foreign.data)
        of_root.kill()
    assert "does not belong to the owner of the data directory" in (caught.value.detail or "")


@pytest.fixture
def of_debian(server_home: Path) -> Iterator[tuple[Path, str]]:
    with debian_cluster(server_home, "process") as cluster:
        with (cluster.config / "environment").open("a") as file:
            file.write("MARK_OF_THE_DBA = 'one two=three'\n")
        subprocess.run(["nice", "-n", "2", "pg_ctlcluster", "15", cluster.name, "start"], check=True)
        yield cluster.data, cluster.postgres().conninfo


def test_pg_ctlcluster(of_debian: tuple[Path, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data, dsn = of_debian
    before = seen(data)
    with another_process(monkeypatch):
        target = open_target(dsn)
        assert isinstance(target.control, PgCtlCluster)
        with Session.begin(target, study="x", undo_root=tmp_path / "undo") as session:
            assert session.apply(RESTARTING).restarted
            assert seen(data) == before
    assert seen(data) == before
    assert secrets_in(environments(data)) == []


AS_OWNER = """
import json, os, sys
from pathlib import Path
from pgdyno.errors import PgdynoError
from pgdyno.model.configuration import Configuration
from pgdyno.undo.apply import Session
from pgdyno.targets.connect import open_target
from pgdyno.server.postgres import Postgres

dsn, undo, nice = sys.argv[1:]
os.nice(int(nice))
try:
    with Session.begin(open_target(dsn), study="x", undo_root=Path(undo)) as session:
        print(session.apply(Configuration.of({"max_connections": "42"})).restarted)
except PgdynoError as error:
    print(error.message, error.detail, error.hint, sep="|")
"""


def test_as_the_owner() -> None:
    """What an owner can have again comes back; a nice value above the server's is told before the first change."""
    root = public_dir()
    copy_library(root / "library")
    account = pwd.getpwnam("postgres")
    (root / "undo").mkdir(mode=0o700)
    os.chown(root / "undo", account.pw_uid, account.pw_gid)
    with running_foreign_server(find_build("debian-15"), root) as target:
        control = target.control
        assert isinstance(control, PgCtl)
        control.stop()
        start_marked(control, as_root=False)
        before = seen(control.data_directory)

        def run(nice: int) -> str:
            program = [
                python_of("postgres"),
                "-B",
                "-c",
                AS_OWNER,
                target.postgres.conninfo,
                str(root / "undo"),
                str(nice),
            ]
            env = environment_of("postgres", root / "library") | SECRETS
            done = as_user("postgres", program, env, groups=os.getgrouplist("postgres", account.pw_gid))
            assert done.returncode == 0, done.stderr
            return done.stdout.strip()

        message, detail, hint = run(5).split("|")
        assert message.endswith("could not be started again as the process that it is")
        assert detail == f"It would come back with nice value {NICE + 5} instead of {NICE}."
        assert "without nice" in hint
        assert seen(control.data_directory) == before
        assert run(0) == "True"
        assert seen(control.data_directory) == before
        assert secrets_in(environments(control.data_directory)) == []
    shutil.rmtree(root)
