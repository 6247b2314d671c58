"""A server that somebody stops during a session: a person's stop stays, and one of ours is made good."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from debian_cluster import debian_cluster
from fix_edited_server import EDIT, EVERY_BUILD, RESTARTED, Scene, ended, killed
from fix_postgres import BUILDS, NIGHT, find_build
from pgdyno.control import PgCtl, PgCtlCluster
from pgdyno.errors import ServerStopped
from pgdyno.linux.cpu import ServerCpu
from pgdyno.model.configuration import BASELINE, Configuration
from pgdyno.owner.runner import LocalRunner
from pgdyno.server import snapshot
from pgdyno.targets.target import Target
from pgdyno.undo.apply import Session
from pgdyno.undo.restore import Restored
from pgdyno.undo.stopped import STARTED, STOPPING

pytestmark = pytest.mark.pg
MODES = ("fast", "smart", "immediate")
STOPS = [(build, mode, end) for build in BUILDS for mode in MODES for end in (ended, killed)]
if not NIGHT:  # of the oldest how its files tell a shutdown from a crash
    STOPS = [stop for stop in STOPS if stop[0] == BUILDS[0] or (stop[1] != "smart" and stop[2] is killed)]


@pytest.mark.parametrize(("foreign", "mode", "end"), STOPS, indirect=["foreign"])
def test_a_server_that_a_person_stops(
    scene: Scene, tmp_path: Path, end: Callable[[Session], Restored], mode: str
) -> None:
    """Cleanly: it is left down. Immediately: that looks like a crash, and it is started."""
    session = scene.changed(RESTARTED, tmp_path)
    scene.control().stop(mode)
    restored = end(session)
    assert restored.is_whole
    assert scene.main.read_bytes() == scene.before
    assert not scene.dropin.exists()
    assert session.bundle.is_closed()
    assert restored.left_down is (mode != "immediate")
    assert scene.is_down() is restored.left_down
    assert ("shut down outside of this session" in " ".join(restored.notes)) is restored.left_down
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
        with pytest.raises(ServerStopped, match="shut down outside of this session"):
            session.apply(configuration)
    assert scene.is_down()
    assert session.bundle.is_closed()
    assert scene.main.read_bytes() == scene.before


@EVERY_BUILD
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
    with debian_cluster(server_home, "pgdynoundo") as made:
        control = made.control()
        control.start()
        yield Target(
            name="cluster",
            postgres=made.postgres(),
            runner=LocalRunner(),
            control=control,
            bin_dir=find_build("debian-15"),
            os_user="postgres",
            disposable=False,
            directory=made.data,
            cpu=ServerCpu.unavailable("not measured here"),
        )


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
