"""Write files so that a crash at any instant leaves the old bytes or the new ones, never a mixture.

The order that makes it true: write a temporary file in the same directory, fsync it, rename it over the target,
fsync the directory (rename(2), fsync(2); the same order as `durable_rename` of PostgreSQL). Every function raises
the plain OSError; the callers know what the file was for and say so.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class Attributes:
    """Owner and permission bits of a file, and its modification time where that matters."""

    uid: int
    gid: int
    mode: int
    mtime_ns: int | None = None

    @classmethod
    def of(cls, path: Path) -> Attributes:
        """Read them from an existing file."""
        status = path.stat()
        return cls(status.st_uid, status.st_gid, status.st_mode & 0o7777, status.st_mtime_ns)

    def without_time(self) -> Attributes:
        """Return the same owner and mode for a file that is written now."""
        return Attributes(self.uid, self.gid, self.mode)


def fsync_directory(path: Path) -> None:
    """Make the names in a directory durable."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_new(path: Path, data: bytes, attributes: Attributes | None = None) -> None:
    """Create a file that must not exist yet, with mode 0600 unless told otherwise, and fsync it (not its directory)."""
    descriptor = os.open(path, _CREATE, 0o600)
    try:
        _write_all(descriptor, data)
        _set_attributes(descriptor, attributes)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def temporary_path(path: Path) -> Path:
    """Return where `replace` stages the new bytes: one fixed name, so that a leftover of a crash can be found."""
    return path.with_name(f".{path.name}.pgdyno-tmp")


def replace(path: Path, data: bytes, attributes: Attributes) -> None:
    """Put new bytes in place of a file, or create it, atomically and durably.

    On failure (no space, no permission) the file is as before and the temporary file is gone.
    """
    staged = temporary_path(path)
    staged.unlink(missing_ok=True)
    try:
        write_new(staged, data, attributes)
        staged.replace(path)
    except BaseException:
        staged.unlink(missing_ok=True)
        raise
    fsync_directory(path.parent)


def overwrite(path: Path, data: bytes, attributes: Attributes) -> None:
    """Put the bytes back into an existing file without asking the file system for space.

    Not atomic: only for a file that is at least as long as `data` on a disk that is full, where `replace` failed.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        _write_all(descriptor, data)
        os.ftruncate(descriptor, len(data))
        _set_attributes(descriptor, attributes)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def remove(path: Path) -> None:
    """Remove a file durably; nothing happens when it is absent."""
    path.unlink(missing_ok=True)
    fsync_directory(path.parent)


def reserve_space(path: Path, size_bytes: int) -> None:
    """Create a file whose blocks are really allocated, to be given back when the disk is full."""
    descriptor = os.open(path, _CREATE, 0o600)
    try:
        os.posix_fallocate(descriptor, 0, size_bytes)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def _set_attributes(descriptor: int, attributes: Attributes | None) -> None:
    if attributes is None:
        return
    status = os.fstat(descriptor)
    if (status.st_uid, status.st_gid) != (attributes.uid, attributes.gid):
        os.fchown(descriptor, attributes.uid, attributes.gid)
    os.fchmod(descriptor, attributes.mode)
    if attributes.mtime_ns is not None:
        os.utime(descriptor, ns=(attributes.mtime_ns, attributes.mtime_ns))
