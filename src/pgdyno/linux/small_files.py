"""Small files of /proc, /sys and cgroups: read whole, at a third of the time of `Path.read_text`, for every tick."""

from __future__ import annotations

import os
from pathlib import Path

_AT_ONCE = 16384


def read_small(path: str | Path) -> str:
    """Return a file. Raises OSError, and ValueError for what is no UTF-8."""
    return read_small_bytes(path).decode()


def read_leniently(path: Path) -> str | None:
    """Return a file with what is no UTF-8 replaced; None where it cannot be read."""
    try:
        return path.read_text(errors="replace")
    except OSError:
        return None


def read_small_bytes(path: str | Path) -> bytes:
    """Return a file's bytes. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        data = os.read(descriptor, _AT_ONCE)
        while more := os.read(descriptor, _AT_ONCE):
            data += more
        return data
    finally:
        os.close(descriptor)


class KeptFiles:
    """Reads files of the kernel again and again through descriptors that stay open: half the time of `read_small`.

    Such a file is made anew by each read from its beginning. Called with a path it returns the text; raises as
    `read_small`. What was read once is opened again where it has gone, as a cgroup does: another may have its name.
    The descriptors end with the object. Not for two threads at once.
    """

    def __init__(self) -> None:
        self._open: dict[str, int] = {}

    def __call__(self, path: str) -> str:
        """Return the file's text of now."""
        if (descriptor := self._open.get(path)) is not None:
            try:
                return _read_all(descriptor)
            except OSError:
                os.close(self._open.pop(path))
        descriptor = self._open[path] = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        return _read_all(descriptor)

    def __del__(self) -> None:
        """Close what is open."""
        for descriptor in self._open.values():
            os.close(descriptor)


def _read_all(descriptor: int) -> str:
    data = os.pread(descriptor, _AT_ONCE, 0)
    while more := os.pread(descriptor, _AT_ONCE, len(data)):
        data += more
    return data.decode()
