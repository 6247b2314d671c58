"""What only looks at files, with whatever rights the process has: read, look, list.

A verb that only reads has nothing else done with a server's account, and starts a worker for it each time: nothing is
imported here that takes long to import.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Mapping
from io import BufferedReader

WARY = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
READ = os.O_RDONLY | WARY
"""How a file is opened that others may have put there: no link is followed, and a pipe does not keep us."""
_STATUS = ("st_mode", "st_uid", "st_gid", "st_dev", "st_ino", "st_size", "st_nlink", "st_mtime_ns")


class OpenedFile:
    """A descriptor that the caller gets, and closes."""

    __slots__ = ("descriptor",)

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor


def opened_regular(path: str | os.PathLike[str]) -> BufferedReader:
    """Open a regular file for reading. A link, a pipe or a device is refused with OSError."""
    descriptor = os.open(path, READ)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):  # fdopen refuses a directory itself, and leaves it open
        os.close(descriptor)
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    return os.fdopen(descriptor, "rb")


def read(path: str, at_most: int, start: int = 0) -> bytes:
    """Return the bytes of a regular file from `start`, `at_most` of them; see `opened_regular`."""
    with opened_regular(path) as file:
        file.seek(start)
        return file.read(at_most)


def look(path: str) -> dict[str, int] | None:
    """Return the status of what a path names, links not followed; None when there is nothing."""
    try:
        status = os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    return {name: int(getattr(status, name)) for name in _STATUS}


def names(folder: str) -> list[str]:
    """Return the names in a directory, sorted."""
    return sorted(os.listdir(folder))  # noqa: PTH208 - a process starts for each look, and importing pathlib would double that


def may_write(folder: str) -> bool:
    """Return True when files can be made in a directory."""
    return os.access(folder, os.W_OK | os.X_OK)


LOOKING: Mapping[str, Callable[..., object]] = {task.__name__: task for task in (read, look, names, may_write)}
"""The tasks of a worker that only looks."""
