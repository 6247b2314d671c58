"""Folders in the system's temporary folder: of one process, private, and swept by the next one after a kill."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

import pgdyno
from pgdyno.owner.temporary import TemporaryFolder, sweep, temporary

_HOLDER = """
import sys
from pgdyno.owner.temporary import TemporaryFolder
held = TemporaryFolder("ssh")
(held.path / "secret").write_text("x")
print(held.path, flush=True)
sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return tmp_path


def test_a_folder_is_private_and_goes_with_its_block(folder: Path) -> None:
    with temporary("load") as made:
        assert made.parent == folder
        assert made.stat().st_mode & 0o777 == 0o700
        (made / "file").touch()
        sweep()
        assert (made / "file").exists()
    assert list(folder.iterdir()) == []


def test_what_a_killed_process_left_goes_with_the_next_one_and_nothing_else(folder: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(Path(pgdyno.__file__).parents[1])}
    command = [sys.executable, "-c", _HOLDER]
    with subprocess.Popen(command, stdin=-1, stdout=-1, text=True, env=environment) as holder:
        assert holder.stdout is not None
        left = Path(holder.stdout.readline().strip())
        TemporaryFolder("ssh").remove()
        assert (left / "secret").exists(), "its process lives"
        holder.kill()
    victim = folder / "mine"
    victim.mkdir()
    (victim / "keep").touch()
    (folder / "pgdyno-tmp-link").symlink_to(victim)
    in_the_making = folder / "pgdyno-tmp-new"
    in_the_making.mkdir()
    TemporaryFolder("ssh").remove()
    assert not left.exists()
    assert (victim / "keep").exists()
    assert in_the_making.exists()
    os.utime(in_the_making, (0, 0))
    sweep()
    assert not in_the_making.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has folders of others")
def test_a_folder_of_another_account_is_left_alone(folder: Path) -> None:
    theirs = folder / "pgdyno-tmp-theirs"
    theirs.mkdir()
    os.chown(theirs, 65534, 65534)
    os.utime(theirs, (0, 0))
    sweep()
    assert theirs.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_the_account_is_that_of_the_folder_which_was_opened(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ours = folder / "pgdyno-tmp-ours"
    ours.mkdir()
    os.utime(ours, (0, 0))
    real = os.open

    def swapped(path: Path, flags: int, *more: int, **named: int) -> int:
        if Path(path) == ours:
            os.chown(ours, 65534, 65534)
        return real(path, flags, *more, **named)

    monkeypatch.setattr(os, "open", swapped)
    sweep()
    assert ours.exists()


def test_no_module_makes_a_folder_that_nobody_would_sweep() -> None:
    source = Path(pgdyno.__file__).parent
    made = [str(path.relative_to(source)) for path in sorted(source.rglob("*.py"))
            if any(word in path.read_text("utf-8") for word in ("TemporaryDirectory", "mkdtemp"))]  # fmt: skip
    assert made == ["owner/temporary.py"]
