"""Directories that must stay what they were: pinned by device and inode, opened once, worked in by descriptor."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from pgdyno.errors import EnvironmentUnsuitable, RollbackError


@dataclass(frozen=True, slots=True)
class Pin:
    """A directory as it was at the beginning of a session: its path, and the device and inode that it led to."""

    path: str
    device: int
    inode: int

    @classmethod
    def of(cls, folder: Path) -> Pin:
        """Pin a directory as it is now. Raises OSError."""
        status = folder.stat()
        return cls(str(folder), status.st_dev, status.st_ino)

    def check(self, status: os.stat_result) -> None:
        """Raise DirectoryChanged when this is the status of another directory."""
        if (self.device, self.inode) != (status.st_dev, status.st_ino):
            raise _changed(self, "moved, replaced or remounted")


class DirectoryChanged(RollbackError):
    """The path of a pinned directory leads to another one now: nothing is read or written there."""


def _changed(pin: Pin, how: str) -> DirectoryChanged:
    return DirectoryChanged(
        f'"{pin.path}" is not the directory that it was when the session began ({how})',
        detail="Nothing was read or written in it.",
        hint="Find out who did that, and bring the directory back. The undo bundle is kept for pgdyno rollback.",
    )


@contextlib.contextmanager
def before_any_change() -> Iterator[None]:
    """Raise what DirectoryChanged tells as EnvironmentUnsuitable: a session that has not begun leaves no undo."""
    try:
        yield
    except DirectoryChanged as error:
        raise EnvironmentUnsuitable(
            error.message, detail="Nothing was changed.", hint="Find out who did that, and start again when it is over."
        ) from error


@contextlib.contextmanager
def entered(path: str, pins: Iterable[Pin] = ()) -> Iterator[Path]:
    """Open the directory of a file, compare it with its pin, and yield the file's path through the descriptor.

    Whatever happens to the path meanwhile, the work inside goes to the directory that was opened (`/proc/self/fd/N`
    leads to the inode). Raises DirectoryChanged, and the plain OSError when the directory cannot be opened.
    """
    place = Path(path)
    pin = next((pin for pin in pins if pin.path == str(place.parent)), None)
    try:
        descriptor = os.open(place.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        if pin is None or error.errno not in (errno.EACCES, errno.ENOTDIR, errno.ELOOP):
            raise
        raise _changed(pin, (error.strerror or str(error)).lower()) from error
    try:
        if pin is not None:
            pin.check(os.fstat(descriptor))
        yield Path(f"/proc/self/fd/{descriptor}") / place.name
    except OSError as error:
        if error.filename is not None and str(error.filename).startswith("/proc/self/fd/"):
            error.filename = path
        raise
    finally:
        os.close(descriptor)
