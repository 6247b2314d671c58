"""Write files so that a crash at any instant leaves the old bytes or the new ones, never a mixture.

The order that makes it true: write a temporary file in the same directory, fsync it, rename it over the target,
fsync the directory (rename(2), fsync(2); the same order as `durable_rename` of PostgreSQL). Every function raises
the plain OSError; the callers know what the file was for and say so.
"""

from __future__ import annotations

import base64
import dataclasses
import errno
import fcntl
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from pgdyno.owner.looking import opened_regular

_THE_KERNELS = ("security.ima", "security.evm")
"""Extended attributes that the kernel computes from a file's bytes: they are never copied."""
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class Attributes:
    """Owner and permission bits of a file, and its modification time where that matters.

    `extended` are its extended attributes (xattr(7)), POSIX ACL and SELinux label among them, in base64.
    """

    uid: int
    gid: int
    mode: int
    mtime_ns: int | None = None
    extended: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, path: Path) -> Attributes:
        """Read them from an existing file."""
        status = path.stat()
        mode = status.st_mode & 0o7777
        return cls(status.st_uid, status.st_gid, mode, status.st_mtime_ns, _extended(path))

    def without_time(self) -> Attributes:
        """Return the same owner and mode for a file that is written now."""
        return dataclasses.replace(self, mtime_ns=None)


def read_regular(path: Path, at_most: int, start: int = 0) -> bytes:
    """Return `at_most` bytes of a regular file from `start`. A link, a pipe or a device is refused with OSError."""
    with opened_regular(path) as file:
        file.seek(start)
        return file.read(at_most)


def read_regular_into(path: Path, room: memoryview, start: int) -> int:
    """Fill the room with bytes of a regular file from `start` and return how many; else as `read_regular`."""
    with opened_regular(path) as file:
        file.seek(start)
        return file.readinto(room)


def open_fresh(path: Path) -> BinaryIO:
    """Open a new file for writing in a directory where others may make files too: what they put there goes first."""
    path.unlink(missing_ok=True)
    file = os.fdopen(os.open(path, _CREATE, 0o600), "wb")
    os.fchmod(file.fileno(), 0o644)
    return file


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


def replace(path: Path, data: bytes, attributes: Attributes, *, just_before: Callable[[], None] = lambda: None) -> None:
    """Put new bytes in place of a file, or create it, atomically and durably.

    `data` becomes the whole content of `path`, with the owner, mode, time and extended attributes in `attributes`. On
    failure (no space, no permission) the file is as before and the temporary file is gone. `just_before` is called, and
    may raise OSError, when all is on disk but the new name.
    """
    staged = temporary_path(path)
    staged.unlink(missing_ok=True)
    try:
        write_new(staged, data, attributes)
        just_before()
        staged.replace(path)
    except BaseException:
        staged.unlink(missing_ok=True)
        raise
    fsync_directory(path.parent)


def rehearse(path: Path) -> bool:
    """Tell whether a file that replaces this one gets its attributes; one beside it is made and removed."""
    wanted, staged = Attributes.of(path), temporary_path(path)
    staged.unlink(missing_ok=True)
    try:
        write_new(staged, b"", wanted)
        return Attributes.of(staged) == wanted
    finally:
        staged.unlink(missing_ok=True)


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


def _extended(file: Path | int) -> dict[str, str]:
    """Return the extended attributes; none where the file system has none. Raises OSError on one that is hidden."""
    try:
        names = os.listxattr(file)
    except OSError as error:
        if error.errno != errno.ENOTSUP:
            raise
        return {}
    kept = (name for name in sorted(names) if name not in _THE_KERNELS)
    return {name: base64.b64encode(os.getxattr(file, name)).decode() for name in kept}


def _set_attributes(descriptor: int, attributes: Attributes | None) -> None:
    if attributes is None:
        return
    status = os.fstat(descriptor)
    if (status.st_uid, status.st_gid) != (attributes.uid, attributes.gid):
        os.fchown(descriptor, attributes.uid, attributes.gid)
    for name in _extended(descriptor).keys() - attributes.extended.keys():  # such as an ACL that the directory gives
        if not name.startswith("security."):
            os.removexattr(descriptor, name)
    # The owner of a file that is read-only may set none any more; an ACL comes last, because chmod(2) changes its mask.
    acls = {name: value for name, value in attributes.extended.items() if name.startswith("system.")}
    _set_extended(descriptor, {name: attributes.extended[name] for name in attributes.extended.keys() - acls.keys()})
    os.fchmod(descriptor, attributes.mode)
    _set_extended(descriptor, acls)
    if attributes.mtime_ns is not None:
        os.utime(descriptor, ns=(attributes.mtime_ns, attributes.mtime_ns))


def _set_extended(descriptor: int, wanted: Mapping[str, str]) -> None:
    found = _extended(descriptor)
    for name, value in wanted.items():
        if found.get(name) != value:  # a label that the file has already may be one that we may not set
            os.setxattr(descriptor, name, base64.b64decode(value))


def try_lock(descriptor: int) -> bool:
    """Take the flock(2) of an open file or directory; False when another process has it."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
