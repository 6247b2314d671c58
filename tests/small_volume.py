"""A file system of a test's own: ext4 in a file, by a loop device."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from fix_postgres import public_dir


@contextmanager
def volume(size: int, within: Path | None = None) -> Iterator[Path]:
    """Mount a file system of its own, a file with ext4 on a loop device, until the block ends.

    `within` is the volume that its file lies in, which it then reads and writes past the page cache: what is slow
    there is slow on this device, too, with requests under way.
    """
    folder = public_dir() if within is None else Path(tempfile.mkdtemp(dir=within))
    folder.chmod(0o755)
    file, mounted = folder / "image", folder / "mounted"
    mounted.mkdir(mode=0o755)
    with file.open("wb") as image:
        image.truncate(size)
    subprocess.run(["mkfs.ext4", "-q", "-m", "0", str(file)], check=True)
    done = subprocess.run(["mount", "-o", "loop", str(file), str(mounted)], check=False, capture_output=True)
    if done.returncode != 0:
        pytest.skip(f"this machine does not allow a loop mount: {done.stderr.decode().strip()}")
    try:
        if within is not None:
            subprocess.run(["losetup", "--direct-io=on", _device_of(mounted)], check=True)
        yield mounted
    finally:
        subprocess.run(["umount", "--lazy", str(mounted)], check=True)
        subprocess.run(["rm", "-rf", str(folder)], check=True)


def _device_of(mounted: Path) -> str:
    device = mounted.stat().st_dev
    return f"/dev/loop{os.minor(device)}"
