"""A disk that is full or read-only: one clear error, the server as before, and a rollback that still works."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from fix_postgres import find_build, public_dir
from foreign_server import running_foreign_server
from pgdyno.errors import EnvironmentUnsuitable, RollbackError
from pgdyno.model.configuration import Configuration
from pgdyno.sandbox.sandbox import Sandbox
from pgdyno.server import snapshot
from pgdyno.server.snapshot import SettingState
from pgdyno.targets.target import Target
from pgdyno.undo.apply import Session
from server_image import write_as_owner

pytestmark = [pytest.mark.host, pytest.mark.pg, pytest.mark.skipif(os.geteuid() != 0, reason="mounts need root")]
ONE, TWO = Configuration.of({"work_mem": "8MB"}), Configuration.of({"work_mem": "9MB"})
PAGE = 4096


@contextmanager
def small_disk(folder: Path, size_bytes: int) -> Iterator[Path]:
    """Mount a file system of this size on a folder until the block ends."""
    folder.mkdir(exist_ok=True)
    options = f"size={size_bytes},mode=0755"
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "pgdyno-test", str(folder)], check=False)
    if mounted.returncode != 0:
        pytest.skip("this machine does not allow a mount")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill(folder: Path) -> Path:
    """Use up every byte of a file system."""
    path = folder / "ballast"
    with path.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(b"\0" * PAGE)
        except OSError:
            return path


def apply_for_ever(session: Session) -> None:
    """Apply until the journal needs its next page."""
    while True:
        session.apply(TWO)
        session.apply(ONE)


def remount(folder: Path, how: str) -> None:
    subprocess.run(["mount", "-o", f"remount,{how}", str(folder)], check=True)


def settings_of(target: Target) -> dict[str, SettingState]:
    with target.postgres.connect() as connection:
        return snapshot.read_settings(connection, label="test")


def image(folder: Path) -> dict[str, tuple[bytes, int]]:
    return {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in folder.glob("*.conf")}


@pytest.fixture(scope="module")
def foreign_on_small_disk() -> Iterator[Target]:
    """A server whose configuration folder is a disk of a few pages."""
    bin_dir, home = find_build("debian-15"), public_dir()
    with small_disk(home / "etc", 16 * PAGE), running_foreign_server(bin_dir, home) as target:
        yield target
    shutil.rmtree(home)


def etc_of(target: Target) -> Path:
    assert target.directory is not None
    return target.directory.parent / "etc"


def test_no_room_for_the_bundle(sandbox18: Sandbox, tmp_path: Path) -> None:
    target = sandbox18.target()
    before, files = settings_of(target), image(sandbox18.data_directory)
    with small_disk(tmp_path / "state", 128 * PAGE) as state:
        with pytest.raises(EnvironmentUnsuitable, match="no space left on device") as caught:
            Session.begin(target, study="full", undo_root=state / "undo")
        assert "no change is made before its undo is on disk" in (caught.value.detail or "")
        assert caught.value.hint
        assert [path.name for path in (state / "undo").iterdir()] == [".lock"]
    assert image(sandbox18.data_directory) == files
    assert snapshot.differences(before, settings_of(target)) == ()


def test_a_read_only_state_folder(sandbox18: Sandbox, tmp_path: Path) -> None:
    with small_disk(tmp_path / "state", 1024 * PAGE) as state:
        remount(state, "ro")
        with pytest.raises(EnvironmentUnsuitable) as caught:
            Session.begin(sandbox18.target(), study="read-only", undo_root=state / "undo")
        assert str(state) in caught.value.message
        assert caught.value.hint


def test_the_state_folder_fills_up_during_the_session(sandbox18: Sandbox, tmp_path: Path) -> None:
    target = sandbox18.target()
    before, files = settings_of(target), image(sandbox18.data_directory)
    with small_disk(tmp_path / "state", 1024 * PAGE) as state:
        session = Session.begin(target, study="full", undo_root=state / "undo")
        session.apply(ONE)
        fill(state)
        with pytest.raises(EnvironmentUnsuitable, match=r"journal\.jsonl.* cannot be written: no space left"):
            apply_for_ever(session)
        restored = session.rollback()
        assert restored.is_whole
        assert session.bundle.is_closed()
    assert image(sandbox18.data_directory) == files
    assert snapshot.differences(before, settings_of(target)) == ()


def test_no_room_for_the_drop_in(foreign_on_small_disk: Target, tmp_path: Path) -> None:
    target, etc = foreign_on_small_disk, etc_of(foreign_on_small_disk)
    before, files = settings_of(target), image(etc)
    session = Session.begin(target, study="full", undo_root=tmp_path / "undo")
    ballast = fill(etc)
    with pytest.raises(EnvironmentUnsuitable, match=r"pgdyno\.conf.* cannot be written: no space left") as caught:
        session.apply(ONE)
    assert caught.value.hint
    assert image(etc) == files
    ballast.unlink()
    session.apply(ONE)
    assert session.rollback().is_whole
    assert image(etc) == files
    assert snapshot.differences(before, settings_of(target)) == ()


def test_the_disk_of_the_configuration_fills_up_under_a_trial(foreign_on_small_disk: Target, tmp_path: Path) -> None:
    target, etc = foreign_on_small_disk, etc_of(foreign_on_small_disk)
    # A file that goes back needs space; a removal gives some.
    write_as_owner(etc / "pgdyno.conf", "# of an earlier life\n")
    before, files = settings_of(target), image(etc)
    session = Session.begin(target, study="full", undo_root=tmp_path / "undo")
    session.apply(ONE)
    ballast = fill(etc)
    restored = session.rollback()
    assert restored.is_whole, restored
    assert image(etc) == files
    assert snapshot.differences(before, settings_of(target)) == ()
    ballast.unlink()
    (etc / "pgdyno.conf").unlink()


def test_a_read_only_configuration(foreign_on_small_disk: Target, tmp_path: Path) -> None:
    target, etc = foreign_on_small_disk, etc_of(foreign_on_small_disk)
    remount(etc, "ro")
    try:
        with pytest.raises(EnvironmentUnsuitable, match="cannot be changed") as caught:
            Session.begin(target, study="read-only", undo_root=tmp_path / "undo")
        assert caught.value.hint
    finally:
        remount(etc, "rw")


def test_read_only_under_a_trial_is_the_loudest_error_and_can_be_repeated(
    foreign_on_small_disk: Target, tmp_path: Path
) -> None:
    target, etc = foreign_on_small_disk, etc_of(foreign_on_small_disk)
    before, files = settings_of(target), image(etc)
    session = Session.begin(target, study="read-only", undo_root=tmp_path / "undo")
    session.apply(ONE)
    remount(etc, "ro")
    try:
        with pytest.raises(RollbackError, match="could not be put back: read-only file system") as caught:
            session.rollback()
        assert session.id in (caught.value.hint or "")
        assert not session.bundle.is_closed()
    finally:
        remount(etc, "rw")
    assert session.rollback().is_whole
    assert image(etc) == files
    assert snapshot.differences(before, settings_of(target)) == ()
