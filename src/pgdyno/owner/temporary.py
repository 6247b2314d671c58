"""Private folders in the system's temporary folder: for sockets, which need a short path, and for other accounts' eyes.

A process that is killed leaves its own behind; the next one of the account removes it. Each is held by a flock(2) of
its process, which the kernel releases at its death, so that no number of a process is believed.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from pgdyno.owner.durable import try_lock

_PREFIX = "pgdyno-tmp-"
_MAKING_S = 3600.0
"""A folder that nobody holds may be in the making; older than this it is not."""
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class TemporaryFolder:
    """A folder of this process alone, until `remove` or the process's death."""

    def __init__(self, what: str) -> None:
        """Make it, after those that dead processes of this account have left were removed."""
        sweep()
        self.path = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{what}-"))
        self._descriptor: int | None = os.open(self.path, _FOLDER)
        fcntl.flock(self._descriptor, fcntl.LOCK_EX)  # before anything is in it: who sweeps has it for a moment

    def remove(self) -> None:
        """Remove it with all that is in it. Idempotent."""
        shutil.rmtree(self.path, ignore_errors=True)
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


@contextmanager
def temporary(what: str) -> Iterator[Path]:
    """Give a folder until the block ends."""
    folder = TemporaryFolder(what)
    try:
        yield folder.path
    finally:
        folder.remove()


def sweep() -> None:
    """Remove the folders of this account whose process is gone."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with suppress(OSError):
            _sweep(folder)


def _sweep(folder: Path) -> None:
    descriptor = os.open(folder, _FOLDER)  # fails on a link, and on what is not a folder
    try:
        status = os.fstat(descriptor)
        if status.st_uid != os.geteuid() or not try_lock(descriptor):
            return
        is_new = abs(time.time() - status.st_mtime) < _MAKING_S
        if not is_new or any(folder.iterdir()):
            shutil.rmtree(folder, ignore_errors=True)
    finally:
        os.close(descriptor)
