"""A swap file of pgdyno's own: made and switched on, switched off and removed. Needs root and util-linux.

Standard library only. The programs are mkswap(8), swapon(8) and swapoff(8), whose messages become the OSError's.
"""

from __future__ import annotations

import contextlib
import errno
import os
import subprocess
from pathlib import Path

from pgdyno.linux.kernel_tree import LIVE, Tree
from pgdyno.owner.inherited import ProgramKind, inherited

_TIMEOUT_S = 600.0


def size_bytes(path: str, tree: Tree = LIVE) -> int:
    """Return the size of the swap area in this file as /proc/swaps has it, in whole pages; 0 when there is none."""
    for line in tree.read("/proc/swaps").splitlines()[1:]:
        words = line.split()
        if words and words[0].replace("\\040", " ") == path:
            return int(words[2]) * 1024
    return 0


def make(path: str, size: int) -> None:
    """Make a swap file of `size` bytes, header included, and switch it on. Raises OSError; no file is left then.

    Its folder is made when it is missing, and must be ours.
    """
    folder = Path(path).parent
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.lstat().st_uid != os.geteuid():
        raise PermissionError(errno.EPERM, "belongs to another account", str(folder))
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        os.posix_fallocate(descriptor, 0, size)
        os.fsync(descriptor)
        _run("mkswap", path)
        _run("swapon", path)
    except BaseException:
        Path(path).unlink(missing_ok=True)
        raise
    finally:
        os.close(descriptor)


def remove(path: str, tree: Tree = LIVE) -> bool:
    """Switch the swap file off and remove it; True when there was something to do. Raises OSError.

    Switching off brings every page of it back to memory, and fails with ENOMEM where that has no room.
    """
    present = Path(path).exists()
    if size_bytes(path, tree):
        _run("swapoff", path)
    with contextlib.suppress(FileNotFoundError):
        Path(path).unlink()
    return present


def commands(quoted: str) -> list[str]:
    """Return the lines of a shell that take it away by hand; `quoted` is its path as a shell reads it."""
    return [f"swapoff {quoted}", f"rm -f {quoted}"]


def _run(program: str, path: str) -> None:
    try:
        done = subprocess.run(
            [program, path],
            env=inherited(ProgramKind.PROGRAM),
            capture_output=True,
            text=True,
            check=False,
            timeout=_TIMEOUT_S,
            stdin=subprocess.DEVNULL,
        )
    except subprocess.TimeoutExpired as error:
        raise OSError(f"{program} {path} did not end in {_TIMEOUT_S:.0f} s") from error
    if done.returncode != 0:
        raise OSError(f"{program} {path}: {done.stderr.strip() or f'exit status {done.returncode}'}")
