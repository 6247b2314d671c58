"""What others do to a server during a session survives it: edits, settings, a shutdown. Ours goes, and only ours."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import types
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from tuner_process import await_line, tuner_of

from fix_postgres import find_build, public_dir
from foreign_server import running_foreign_server
from free_ports import free_ports
from pgdyno.cli.rollback import command
from pgdyno.errors import ApplyError, RestartError, RollbackError, ServerStopped
from pgdyno.model.configuration import BASELINE, Configuration
from pgdyno.target import activation, processes, rollback, sighup, snapshot, watch_record
from pgdyno.target.apply import Session
from pgdyno.target.bundle import UndoBundle, bundle_directories
from pgdyno.target.cpu import ServerCpu
from pgdyno.target.postgres import Postgres
from pgdyno.target.restart import PgCtl, PgCtlCluster
from pgdyno.target.restore import Restored
from pgdyno.target.runner import LocalRunner
from pgdyno.target.snapshot import SettingState
from pgdyno.target.stopped import STARTED, STOPPING
from pgdyno.target.target import Target
from pgdyno.target.watch import Deadlines
from server_image import eventually

pytestmark = pytest.mark.pg
RELOADED = Configuration.of({"work_mem": "8MB"})
RESTARTED = Configuration.of({"work_mem": "8MB", "max_connections": "42"})
EDIT = b"maintenance_work_mem = 77MB # the DBA\n"
QUICK = Deadlines(heartbeat_s=3, health_s=2, grace_s=1)


class Scene:
    """A server whose configuration is outside of the data directory, and how it was."""

    def __init__(self, target: Target) -> None:
        assert target.directory is not None
        self.target, self.data = target, target.directory
        self.main = target.directory.parent / "etc" / "postgresql.conf"
        self.dropin = self.main.parent / "pgdyno.conf"
        self.before = self.main.read_bytes()
        self.settings = self.read()

    def read(self) -> dict[str, SettingState]:
        with self.target.postgres.connect() as connection:
            return snapshot.read_settings(connection, label="test")

    def started_at(self) -> object:
        return self.target.postgres.fetch("SELECT pg_postmaster_start_time() AS at")[0]["at"]

    def reload(self) -> None:
        activation.reload(self.target.postgres, None)

    def append(self, path: Path, data: bytes = EDIT) -> None:
        """Write as an editor does: a new file in place of the old one."""
        staged = path.with_name("edited")
        shutil.copy2(path, staged)
        status = path.stat()
        staged.write_bytes(path.read_bytes() + data)
        os.chown(staged, status.st_uid, status.st_gid)
        staged.replace(path)

    def control(self) -> PgCtl:
        assert isinstance(self.target.control, PgCtl)
        return self.target.control

    def is_down(self) -> bool:
        return processes.postmaster_pid(self.data) is None


@pytest.fixture(scope="module", params=["debian-15", "embedded-18", "npm-13"])
def foreign(request: pytest.FixtureRequest) -> Iterator[Target]:
    home, bin_dir = public_dir(), find_build(request.param)
    if bin_dir.is_relative_to(Path.home()):  # where the server's user may not go
        bin_dir = Path(shutil.copytree(bin_dir.parent, home / "build", symlinks=True)) / bin_dir.name
    with running_foreign_server(bin_dir, home) as target:
        yield target
    shutil.rmtree(home)


@pytest.fixture
def scene(foreign: Target) -> Iterator[Scene]:
    scene = Scene(foreign)
    yield scene
    scene.control().start()
    scene.main.write_bytes(scene.before)
    scene.dropin.unlink(missing_ok=True)
    scene.target.postgres.execute("ALTER SYSTEM RESET ALL")
    scene.control().restart()  # what waits for a restart waits until then, also when its line is gone


def killed(session: Session) -> Restored:
    """Roll back as after a SIGKILL: from the bundle alone."""
    return rollback.rollback(session.bundle)


def ended(session: Session) -> Restored:
    return session.rollback()


ENDINGS = pytest.mark.parametrize("end", [ended, killed])


@ENDINGS
def test_a_line_appended_to_the_main_file_stays_in_force(
    scene: Scene, tmp_path: Path, end: Callable[[Session], Restored]
) -> None:
    session = Session.begin(scene.target, study="test", undo_root=tmp_path / "undo")
    session.apply(RELOADED)
    scene.append(scene.main)
    scene.reload()
    began = scene.started_at()
    session.apply(Configuration.of({"work_mem": "9MB"}))
    restored = end(session)
    assert scene.main.read_bytes() == scene.before + b"\n" + EDIT
    assert not scene.dropin.exists()
    assert scene.read()["maintenance_work_mem"].setting == str(77 * 1024)
    assert scene.read()["work_mem"].setting == scene.settings["work_mem"].setting
    assert restored.is_whole
    assert session.bundle.is_closed()
    assert any("edited by somebody else" in note for note in restored.notes)
    assert any(note.startswith("maintenance_work_mem") for note in restored.notes)
    assert scene.started_at() == began


def test_the_watchdog_keeps_an_edit_too(scene: Scene, tmp_path: Path) -> None:
    server = types.SimpleNamespace(target=lambda: scene.target)
    with tuner_of(server, tmp_path / "undo", watch=QUICK, configurations=[dict(RESTARTED)], hold=True) as tuner:  # type: ignore[arg-type]  # what it needs of a sandbox
        await_line(tuner, "applied")
        scene.append(scene.main)
        tuner.kill()
        (directory,) = bundle_directories(tmp_path / "undo")
        bundle = UndoBundle.open(directory)
        eventually(bundle.is_closed, f"closed: {watch_record.last_words(directory)}")
    assert scene.main.read_bytes() == scene.before + b"\n" + EDIT
    assert scene.read()["maintenance_work_mem"].setting == str(77 * 1024)
    assert scene.read()["max_connections"].setting == scene.settings["max_connections"].setting


@ENDINGS
def test_lines_written_into_the_drop_in_stay_in_force(
    scene: Scene, tmp_path: Path, end: Callable[[Session], Restored]
) -> None:
    """They need our line in the main file, which stays for their sake, and a later configuration keeps them."""
    session = Session.begin(scene.target, study="test", undo_root=tmp_path / "undo")
    session.apply(RELOADED)
    scene.append(scene.dropin)
    session.apply(Configuration.of({"work_mem": "9MB"}))
    assert scene.read()["maintenance_work_mem"].setting == str(77 * 1024)
    restored = end(session)
    assert scene.dropin.read_bytes() == EDIT
    assert scene.read()["maintenance_work_mem"].setting == str(77 * 1024)
    assert scene.read()["work_mem"].setting == scene.settings["work_mem"].setting
    assert any("stays, because settings of somebody else" in note for note in restored.notes)
    assert restored.is_whole
    with Session.begin(scene.target, study="after", undo_root=tmp_path / "undo") as after:
        after.apply(RELOADED)
    assert scene.dropin.read_bytes() == EDIT


def test_a_baseline_that_somebody_changed_is_void_and_no_damage(scene: Scene, tmp_path: Path) -> None:
    """What is measured as the baseline is the server as it was found; that it is not any more is nobody's failure."""
    with Session.begin(scene.target, study="test", undo_root=tmp_path / "undo") as session:
        session.apply(BASELINE)
        scene.append(scene.main, b"\n" + EDIT)
        scene.reload()
        with pytest.raises(ApplyError, match="maintenance_work_mem"):
            session.apply(BASELINE)
        session.apply(RELOADED)
    assert session.bundle.is_closed()
    assert scene.main.read_bytes() == scene.before + b"\n" + EDIT


def test_a_comment_above_is_no_difference(scene: Scene, tmp_path: Path) -> None:
    with Session.begin(scene.target, study="test", undo_root=tmp_path / "undo") as session:
        session.apply(RELOADED)
        scene.main.write_bytes(b"# a comment\n" + scene.main.read_bytes())
        session.apply(BASELINE)
        restored = session.rollback()
    assert scene.main.read_bytes() == b"# a comment\n" + scene.before
    assert restored.is_whole
    assert len(restored.notes) == 1


def test_by_hand_an_edit_stays_too(scene: Scene, tmp_path: Path) -> None:
    """The commands of UNDO.md, as they are written, where both files were edited."""
    session = Session.begin(scene.target, study="test", undo_root=tmp_path / "undo")
    session.apply(RELOADED)
    scene.append(scene.main)
    scene.append(scene.dropin)
    text = (session.bundle.directory / "UNDO.md").read_text()
    block = re.findall(r"```sh\n(.*?)```", text, re.DOTALL)[0]
    done = subprocess.run(["sh", "-eu", "-c", block], capture_output=True, check=False, text=True)
    assert done.returncode == 0, done.stderr
    assert scene.main.read_bytes() == scene.before + b"\n" + EDIT
    assert scene.dropin.read_bytes() == EDIT
    assert session.rollback().is_whole


def test_a_mode_that_somebody_set_stays(scene: Scene, tmp_path: Path) -> None:
    with Session.begin(scene.target, study="test", undo_root=tmp_path / "undo") as session:
        session.apply(RELOADED)
        before = scene.main.stat()
        scene.main.chmod(0o600)
    after = scene.main.stat()
    scene.main.chmod(0o640)
    assert scene.main.read_bytes() == scene.before
    assert after.st_mode & 0o777 == 0o600
    assert after.st_mtime_ns < before.st_mtime_ns


def test_an_edit_after_a_session_was_left_open_survives_the_hinted_rollback(
    scene: Scene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "state"
    monkeypatch.setenv("PGDYNO_HOME", str(home))
    (home / "state").mkdir(parents=True, mode=0o700)
    target = replace(scene.target, control=None)
    session = Session.begin(target, study="test", undo_root=home / "state" / "undo")
    session.apply(RELOADED)
    with monkeypatch.context() as broken:
        broken.setattr(sighup, "reload", _fail)
        with pytest.raises(RollbackError) as caught:
            session.rollback()
    assert f"pgdyno rollback {session.id}" in (caught.value.hint or "")
    scene.append(scene.main, b"\n" + EDIT)
    found = scene.main.read_bytes()
    dry = CliRunner().invoke(command, [session.id, "--dry-run"], standalone_mode=False)
    assert dry.return_value == 0
    assert "edited by somebody else since; that edit stays" in dry.stdout
    assert "maintenance_work_mem" not in [line[1:] for line in dry.stdout.splitlines() if line.strip().startswith("-")]
    assert scene.main.read_bytes() == found
    done = CliRunner().invoke(command, [session.id], standalone_mode=False)
    assert done.return_value == 0
    assert scene.main.read_bytes() == found
    assert "edited by somebody else since; that edit stays" in done.stderr
    assert session.bundle.is_closed()


def _fail(*_words: object, **_named: object) -> None:
    raise RestartError("the server did not answer")


@ENDINGS
def test_a_parameter_of_an_extension_since_costs_no_restart(
    scene: Scene, tmp_path: Path, end: Callable[[Session], Restored]
) -> None:
    session = Session.begin(scene.target, study="test", undo_root=tmp_path / "undo")
    session.apply(RELOADED)
    scene.target.postgres.execute("ALTER SYSTEM SET session_preload_libraries = 'auto_explain'")
    scene.reload()
    assert "auto_explain.log_min_duration" in scene.read()
    began = scene.started_at()
    restored = end(session)
    assert scene.started_at() == began
    assert restored.is_whole
    assert session.bundle.is_closed()
    assert any("auto_explain.log_min_duration was changed by somebody else" in note for note in restored.notes)
    assert scene.read()["session_preload_libraries"].setting == "auto_explain"


@ENDINGS
def test_a_setting_of_somebody_else_that_waits_for_a_restart_waits_on(
    scene: Scene, tmp_path: Path, end: Callable[[Session], Restored]
) -> None:
    session = Session.begin(scene.target, study="test", undo_root=tmp_path / "undo")
    session.apply(RELOADED)
    scene.target.postgres.execute("ALTER SYSTEM SET max_connections = 55")
    scene.reload()
    began = scene.started_at()
    restored = end(session)
    assert restored.is_whole
    assert scene.started_at() == began
    assert scene.read()["max_connections"].pending_restart


def test_no_restart_into_files_that_somebody_broke(scene: Scene, tmp_path: Path) -> None:
    """Ours would need one, and the server would not come back from it: their line first."""
    session = Session.begin(scene.target, study="test", undo_root=tmp_path / "undo")
    session.apply(RESTARTED)
    began = scene.started_at()
    scene.append(scene.main, b"shared_buffers = nonsense\n")
    with pytest.raises(RollbackError, match="was not restarted") as caught:
        session.rollback()
    assert f"{scene.main}" in caught.value.message
    assert scene.started_at() == began
    scene.main.write_bytes(scene.before)
    assert session.rollback().is_whole
    assert scene.read()["max_connections"].setting == scene.settings["max_connections"].setting


@ENDINGS
@pytest.mark.parametrize("mode", ["fast", "smart", "immediate"])
def test_a_server_that_a_person_stops(
    scene: Scene, tmp_path: Path, end: Callable[[Session], Restored], mode: str
) -> None:
    """Cleanly: it is left down. Immediately: that looks like a crash, and it is started."""
    session = Session.begin(scene.target, study="test", undo_root=tmp_path / "undo")
    session.apply(RESTARTED)
    scene.control().stop(mode)
    restored = end(session)
    assert restored.is_whole
    assert scene.main.read_bytes() == scene.before
    assert not scene.dropin.exists()
    assert session.bundle.is_closed()
    assert restored.left_down is (mode != "immediate")
    assert scene.is_down() is restored.left_down
    scene.control().start()
    assert snapshot.differences(scene.settings, scene.read()) == ()


@pytest.mark.parametrize(
    "configuration", [BASELINE, Configuration.of({"work_mem": "9MB"}), Configuration.of({"max_connections": "43"})]
)
def test_a_session_does_not_start_what_a_person_stopped(
    scene: Scene, tmp_path: Path, configuration: Configuration
) -> None:
    with Session.begin(scene.target, study="test", undo_root=tmp_path / "undo") as session:
        session.apply(RESTARTED)
        scene.control().stop()
        with pytest.raises(ServerStopped, match="shut down by somebody else"):
            session.apply(configuration)
    assert scene.is_down()
    assert session.bundle.is_closed()
    assert scene.main.read_bytes() == scene.before


def test_killed_between_our_stop_and_our_start(scene: Scene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server was shut down cleanly, by us: the journal says so, and it is started."""
    session = Session.begin(scene.target, study="test", undo_root=tmp_path / "undo")
    with monkeypatch.context() as killing:
        killing.setattr(PgCtl, "start", _killed)
        with pytest.raises(KeyboardInterrupt):
            session.apply(RESTARTED)
    assert scene.is_down()
    kinds = [record.kind for record in session.bundle.reading().records]
    assert kinds[-1] == STOPPING
    restored = killed(session)
    assert restored.restarted
    assert not restored.left_down
    assert snapshot.differences(scene.settings, scene.read()) == ()
    kinds = [record.kind for record in session.bundle.reading().records]
    assert kinds.count(STARTED) == 1


def _killed(_control: PgCtl | PgCtlCluster) -> None:
    raise KeyboardInterrupt


@pytest.fixture
def cluster(server_home: Path) -> Iterator[Target]:
    """A cluster of Debian's, started and stopped by pg_ctlcluster."""
    bin_dir = find_build("debian-15")
    if shutil.which("pg_createcluster") is None or os.geteuid() != 0:
        pytest.skip("needs Debian's pg_createcluster, as root")
    name, (port,) = f"pgdynoundo{os.getpid()}", free_ports(1)
    data, config = server_home / name, Path(f"/etc/postgresql/15/{name}")
    words = ["15", name, "-d", str(data), "-p", str(port), "--start-conf", "manual"]
    subprocess.run(["pg_createcluster", *words], check=True)
    try:
        (config / "pg_hba.conf").write_text("local all all trust\n")
        (config / "pg_hba.conf").chmod(0o644)
        log = Path(f"/var/log/postgresql/postgresql-15-{name}.log")
        control = PgCtlCluster(LocalRunner(), "15", name, data, log)
        control.start()
        folder = (data / "postmaster.pid").read_text().splitlines()[4]
        yield Target(
            name="cluster",
            postgres=Postgres(f"host={folder} port={port} user=postgres dbname=postgres"),
            runner=LocalRunner(),
            control=control,
            bin_dir=bin_dir,
            os_user="postgres",
            disposable=False,
            directory=data,
            cpu=ServerCpu.unavailable("not measured here"),
        )
    finally:
        subprocess.run(["pg_dropcluster", "15", name, "--stop"], check=True)


def test_the_same_through_pg_ctlcluster(cluster: Target, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An edit stays, a person's stop stays, and a kill between our stop and our start is made good."""
    assert cluster.directory is not None
    assert cluster.control is not None
    main = Path("/etc/postgresql/15") / cluster.directory.name / "postgresql.conf"
    session = Session.begin(cluster, study="test", undo_root=tmp_path / "undo")
    session.apply(RESTARTED)
    before = session.bundle.content_of(main)
    main.write_bytes(main.read_bytes() + EDIT)
    cluster.control.stop()
    restored = killed(session)
    assert before is not None
    assert main.read_bytes() == before + EDIT
    assert restored.left_down
    assert not cluster.control.is_running()
    cluster.control.start()
    again = Session.begin(cluster, study="test", undo_root=tmp_path / "undo")
    with monkeypatch.context() as killing:
        killing.setattr(PgCtlCluster, "start", _killed)
        with pytest.raises(KeyboardInterrupt):
            again.apply(RESTARTED)
    assert not cluster.control.is_running()
    assert killed(again).restarted
    assert main.read_bytes() == before + EDIT
