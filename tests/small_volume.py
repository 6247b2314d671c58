"""A file system of a test's own: ext4 in a file, by a loop device."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from fix_postgres import public_dir


@contextmanager
def volume(size: int) -> Iterator[Path]:
    """Mount a file system of its own, a file with ext4 on a loop device, until the block ends."""
    folder = public_dir()
    file, mounted = folder / "image", folder / "mounted"
    mounted.mkdir(mode=0o755)
    with file.open("wb") as image:
        image.truncate(size)
    subprocess.run(["mkfs.ext4", "-q", "-m", "0", str(file)], check=True)
    done = subprocess.run(["mount", "-o", "loop", str(file), str(mounted)], check=False, capture_output=True)
    if done.returncode != 0:
        pytest.skip(f"this machine does not allow a loop mount: {done.stderr.decode().strip()}")
    try:
        yield mounted
    finally:
        subprocess.run(["umount", "--lazy", str(mounted)], check=True)
        subprocess.run(["rm", "-rf", str(folder)], check=True)
