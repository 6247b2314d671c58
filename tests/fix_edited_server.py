"""A server that somebody else works on too, during a session of ours, and the ways in which a session ends."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from fix_postgres import BUILDS, ONE_BUILD, find_build, public_dir
from foreign_server import running_foreign_server
from pgdyno.control import PgCtl
from pgdyno.model.configuration import Configuration
from pgdyno.server import postmaster_lock, snapshot
from pgdyno.server.snapshot import SettingState
from pgdyno.targets.target import Target
from pgdyno.undo import activation, rollback
from pgdyno.undo.apply import Session
from pgdyno.undo.restore import Restored

RELOADED = Configuration.of({"work_mem": "8MB"})
RESTARTED = Configuration.of({"work_mem": "8MB", "max_connections": "42"})
EDIT = b"maintenance_work_mem = 77MB # the DBA\n"


class Scene:
    """A server whose configuration is outside of the data directory, and how it was."""

    def __init__(self, target: Target) -> None:
        assert target.directory is not None
        self.target, self.data = target, target.directory
        self.main = target.directory.parent / "etc" / "postgresql.conf"
        self.dropin = self.main.parent / "pgdyno.conf"
        self.before = self.main.read_bytes()
        self.settings = self.read()

    def changed(self, configuration: Configuration, home: Path) -> Session:
        """Begin a session whose undo is below `home`, and bring a configuration into force."""
        session = Session.begin(self.target, study="test", undo_root=home / "undo")
        session.apply(configuration)
        return session

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
        return postmaster_lock.postmaster_pid(self.data) is None


@pytest.fixture(scope="module", params=ONE_BUILD)
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
    scene.reload()
    if snapshot.differences(scene.settings, scene.read()):
        scene.control().restart()  # what waits for a restart waits until then, also when its line is gone


def killed(session: Session) -> Restored:
    """Roll back as after a SIGKILL: from the bundle alone."""
    return rollback.rollback(session.bundle)


def ended(session: Session) -> Restored:
    return session.rollback()


EVERY_BUILD = pytest.mark.parametrize("foreign", BUILDS, indirect=True)
"""For what is seen of the server: its views of files and settings, and the state that it left in its files."""
ENDINGS = pytest.mark.parametrize("end", [ended, killed])
