"""Everything that can be asked of a server's account: the complete list, and nothing that runs a program.

Each task is a function of plain values that returns a plain value or bytes, so that it can be called in this process
or in a worker's. Raises the plain OSError, and DirectoryChanged for a pinned directory that is another one now.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace as changed
from pathlib import Path
from typing import Any

from pgdyno.model.shapes import shaped
from pgdyno.outside.files import open_file
from pgdyno.owner import durable, file_image
from pgdyno.owner.durable import Attributes
from pgdyno.owner.file_image import FileImage
from pgdyno.owner.looking import LOOKING, READ, WARY, OpenedFile
from pgdyno.owner.pins import Pin, entered

Answer = object


def resolve(path: str) -> str:
    """Return the path with every link followed."""
    return str(Path(path).resolve())


def pin(folder: str) -> dict[str, object]:
    """Return the fields of a pin on a directory as it is now."""
    found = Pin.of(Path(folder))
    return {"path": found.path, "device": found.device, "inode": found.inode}


def capture(path: str, pins: Sequence[Pin] = ()) -> tuple[dict[str, object], bytes]:
    """Return the image of a file as JSON values, and its bytes."""
    with entered(path, pins) as place:
        image, data = file_image.capture(place)
    return changed(image, path=path).to_json(), data


def restore(image: Mapping[str, object], data: bytes, found: str | None = None, pins: Sequence[Pin] = ()) -> bool:
    """Make a file what its image says; True when there was something to do.

    `image` has the fields of a FileImage as JSON values, `data` are the file's bytes; `found` and `pins` as in `put`.
    """
    with entered(str(image["path"]), pins) as place:
        return file_image.restore(changed(shaped(FileImage, image, "the image"), path=str(place)), data, found)


def check_replaceable(path: str, pins: Sequence[Pin] = ()) -> str | None:
    """Return why a file would not be the same again after it was replaced and put back; see `file_image`."""
    with entered(path, pins) as place:
        return file_image.why_not_replaceable(place)


def replace(path: str, data: bytes, attributes: Mapping[str, Any] | None = None, pins: Sequence[Pin] = ()) -> None:
    """Put bytes in place of a file durably, with these attributes, or those that the file has when they are None.

    `data` becomes the whole content of `path`. `attributes` has the fields of `durable.Attributes` by name; without
    them the modification time is now. `pins` as in `put`.
    """
    with entered(path, pins) as place:
        kept = Attributes(**attributes) if attributes is not None else Attributes.of(place).without_time()
        durable.replace(place, data, kept)


def put(path: str, data: bytes, found: str | None = None, pins: Sequence[Pin] = ()) -> None:
    """Give a file other bytes and leave its attributes, in place where the disk is full; see `file_image.put`.

    `data` becomes the whole content of `path`, which must exist. `found` is the checksum of the bytes that may be
    replaced, None for any. `pins` are pinned directories: where the file's own is among them, it must still be the same
    directory.
    """
    with entered(path, pins) as place:
        file_image.put(place, data, Attributes.of(place).without_time(), found)


def sweep(path: str, pins: Sequence[Pin] = ()) -> None:
    """Remove what a replacement of a file that was killed has left beside it."""
    with entered(path, pins) as place:
        durable.temporary_path(place).unlink(missing_ok=True)


def remove(path: str, pins: Sequence[Pin] = ()) -> bool:
    """Remove a file durably; True when there was one."""
    with entered(path, pins) as place:
        if not os.path.lexists(place):
            return False
        durable.remove(place)
        return True


def reserve(path: str, size: int, pins: Sequence[Pin] = ()) -> None:
    """Allocate a file of this size, which a backup of the directory can read as it reads its neighbours."""
    with entered(path, pins) as place:
        place.unlink(missing_ok=True)
        try:
            durable.reserve_space(place, size)
            if place.parent.stat().st_mode & stat.S_IRGRP:  # initdb --allow-group-access
                place.chmod(0o640)
        except OSError:
            place.unlink(missing_ok=True)
            raise


def open_lock(path: str) -> OpenedFile:
    """Open a small file for reading and writing, made when it is missing, with the group mode of its directory."""
    with entered(path) as place:
        descriptor = os.open(place, os.O_RDWR | os.O_CREAT | WARY, 0o600)
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:
                raise OSError(errno.EINVAL, "no plain file of its own", path)
            os.fchmod(descriptor, 0o640 if place.parent.stat().st_mode & stat.S_IRGRP else 0o600)
            durable.fsync_directory(place.parent)
        except BaseException:
            os.close(descriptor)
            raise
    return OpenedFile(descriptor)


def open_read(path: str) -> OpenedFile:
    """Open a regular file for reading; a link is followed as far as this account may."""
    with open_file(Path(path)) as file:
        return OpenedFile(os.dup(file.fileno()))


def forget_cached(folder: str) -> None:
    """Drop the regular files below a directory from the page cache; what cannot be opened is passed over."""
    for directory, _, files in os.walk(folder):
        for name in files:
            try:
                descriptor = os.open(Path(directory) / name, READ)
            except OSError:
                continue
            try:
                os.fdatasync(descriptor)  # a page that is not written yet cannot be dropped
                os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            except OSError:
                continue
            finally:
                os.close(descriptor)


TASKS: Mapping[str, Callable[..., Answer]] = {
    task.__name__: task
    for task in (
        *LOOKING.values(),
        resolve,
        pin,
        capture,
        restore,
        check_replaceable,
        replace,
        put,
        sweep,
        remove,
        reserve,
        open_lock,
        open_read,
        forget_cached,
    )
}
