"""Files that a verb writes for its user: readable by the user alone, whole or not at all, and never through a trap.

Reports, captures and exports tell of servers, statements and people, and land where the user happens to be. They get
mode 0600, folders 0700, whatever the umask says; PGDYNO_OUTPUT_MODE names another mode for new ones, and a file of the
user's that is replaced keeps the one that it has. Nothing is written by a way that another account could lead
elsewhere: each folder and link on it must be root's or ours. The folder that one stands in may be anybody's for a file
that is named there, because the kernel holds it. Every function raises UsageError about such a way, and otherwise the
plain OSError; callers know what the file was for and say so.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from pgdyno.errors import UsageError
from pgdyno.outside.way import HERE, doubt_about_parts, name_of, ways

VARIABLE = "PGDYNO_OUTPUT_MODE"
PRIVATE, PUBLIC = 0o600, 0o644
"""PUBLIC is for configuration that other accounts read where it goes: units of systemd, a server's settings."""
_DESCRIPTOR = re.compile(r"/proc/self/fd/\d+")
_NEW = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def write_output(path: Path, content: str | bytes, *, mode: int = PRIVATE) -> None:
    """Write a file, or replace it; text as UTF-8. On failure an old file is as it was."""
    with output(path, mode=mode) as file:
        file.write(content.encode() if isinstance(content, str) else content)


@contextmanager
def output(path: Path, *, mode: int = PRIVATE) -> Iterator[BinaryIO]:
    """Give a file to write, which is at its place when it is whole; a terminal or pipe is written as it is."""
    place, there = _place(path)
    if there is not None and not stat.S_ISREG(there.st_mode):
        with _open_special(path, there) as special:
            yield special
        return
    staged = _staged(place)
    try:
        with open_new(staged, mode=mode) as file:
            if there is not None and there.st_uid == os.geteuid() and _is_ours(place.parent):
                os.fchmod(file.fileno(), stat.S_IMODE(there.st_mode) & 0o777)
            yield file
        staged.replace(place)
    except BaseException:
        with suppress(OSError):
            staged.unlink(missing_ok=True)
        raise


def write_whole(path: Path, write: Callable[[Path], None]) -> None:
    """Have a file or a folder written beside `path`, and rename it there at the end: a part would pass for the whole.

    Raises UsageError where something is there already; of what fails nothing is left.
    """
    if path.exists():
        raise UsageError(f'"{path}" exists', hint="Name another place with --output, or remove it.")
    part = _staged(path)
    try:
        write(part)
        part.rename(path)
    except BaseException:
        with suppress(OSError):  # where nothing could be written, nothing need be removed
            shutil.rmtree(part) if part.is_dir() else part.unlink(missing_ok=True)
        raise


def open_new(path: Path, *, mode: int = PRIVATE) -> BinaryIO:
    """Open a file that must not be there yet, to write and to read; a public one as the umask allows."""
    asked = _asked() if mode == PRIVATE else None
    check_folder(path.parent, is_there=True)  # a link that is there already is not followed, whoever made it
    file = os.fdopen(os.open(_held(path), _NEW, mode), "w+b")
    if asked is not None:
        os.fchmod(file.fileno(), asked)
    return file


def open_to_add(path: Path, mode: int) -> BinaryIO:
    """Open a file to read, and to write at its end; it is made where it is missing. No link leads to it."""
    check_folder(path.parent, is_there=True)
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    descriptor = os.open(_held(path), flags, mode)
    status = os.fstat(descriptor)
    if status.st_uid not in (0, os.geteuid()):
        os.close(descriptor)
        raise _refusal(path, f"it belongs to {name_of(status.st_uid)}")
    if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:
        os.close(descriptor)
        raise UsageError(
            f'"{path}" is no file of one name alone, and is not written',
            hint="What is written to it would be in another place too: name another file.",
        )
    return os.fdopen(descriptor, "r+b")


def new_folder(path: Path) -> None:
    """Make a folder that must not be there yet, and what is missing above it."""
    asked, path = _asked(), _held(path)
    check_folder(path)
    make_folders(path.parent)
    path.mkdir(mode=0o700)
    if asked is not None:
        path.chmod(asked | (asked & 0o444) >> 2)


def make_folders(path: Path) -> None:
    """Make a folder where it is missing and what is missing above it; nobody else may write there."""
    path = _held(path)
    check_folder(path)
    for part in (*reversed(path.parents), path):
        if not part.is_dir():
            part.mkdir(mode=0o755, exist_ok=True)
    check_folder(path)  # somebody may have been faster than we were


def ensure_folder(path: Path) -> None:
    """Make a folder where it is missing; one that is there stays as it is."""
    if path.is_dir():
        check_folder(path)
    else:
        new_folder(path)


def check_output(path: Path) -> None:
    """Find out whether `output` could write there, and leave nothing."""
    place, there = _place(path)
    if there is not None and stat.S_ISFIFO(there.st_mode):  # to open it is to wait, and to close it ends who reads it
        if not os.access(path, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return
    if there is not None and not stat.S_ISREG(there.st_mode):
        _open_special(path, there).close()
        return
    staged = _staged(place)
    open_new(staged).close()
    staged.unlink()


def _staged(place: Path) -> Path:
    return place.with_name(f".{place.name[:100]}.{os.urandom(8).hex()}.part")


def checked_place(path: Path) -> Path:
    """Return where a path leads through links that may be followed: relative where it begins in the current folder.

    Raises UsageError where an account that is neither root nor ours could have it lead elsewhere.
    """
    if _DESCRIPTOR.fullmatch(str(path.parent)):
        return path  # in a folder that is held open, and was checked
    *passed, place = ways(_held(path))
    if place.is_symlink():
        passed.append(place)  # of a loop
    doubt = _doubt(passed, is_there=True)
    with suppress(FileNotFoundError, NotADirectoryError):
        status = place.lstat()
        if doubt is None and not stat.S_ISREG(status.st_mode) and _is_planted(place, status):
            doubt = f'"{place.absolute()}" was put there by {name_of(status.st_uid)}'
    if doubt is not None:
        raise _refusal(path, doubt)
    return place


def check_folder(path: Path, *, is_held: bool = True, is_there: bool = False) -> None:
    """Raise UsageError where another account could have what is written into a folder go elsewhere.

    Where its files are not made by this module, `is_held` is False: then the current folder is judged like another.
    FileNotFoundError where it has to be there and is not.
    """
    passed = [*ways(_held(path) if is_held else path.absolute())]
    if not _DESCRIPTOR.fullmatch(str(path)) and (doubt := _doubt(passed, is_there=is_there)) is not None:
        raise _refusal(path, doubt)


def _doubt(passed: list[Path], *, is_there: bool) -> str | None:
    """Return who could exchange a folder or link that was passed; the one that we stand in is held, if it is alone."""
    parts = () if passed == [HERE] else passed
    doubt = doubt_about_parts(parts, os.geteuid(), may_be_shared=True, may_be_missing=True)
    if doubt is not None or not is_there:
        return doubt
    for part in parts:
        part.lstat()
    # Of what was missing a moment ago somebody else may have made what is there now.
    return doubt_about_parts(parts, os.geteuid(), may_be_shared=True)


def _refusal(path: Path, doubt: str) -> UsageError:
    return UsageError(
        f'"{path}" is not written: {doubt}',
        detail="Whoever controls a part of the way decides where a file goes.",
        hint="Name one below folders that root or you alone can change, or go to its folder and name it alone.",
    )


def _held(path: Path) -> Path:
    """Name a path from the folder that we stand in where it is below: nobody else can exchange that folder."""
    whole, here = path.absolute(), Path.cwd()
    return whole.relative_to(here) if whole.is_relative_to(here) else whole


def _place(path: Path) -> tuple[Path, os.stat_result | None]:
    """Return where a file goes, and what is there."""
    place = checked_place(path)
    try:
        return place, path.stat()
    except FileNotFoundError:
        return place, None


def _open_special(path: Path, seen: os.stat_result) -> BinaryIO:
    """Open the terminal, pipe or device that was seen, and nothing that has come into its place; no folder."""
    descriptor = os.open(path, os.O_WRONLY | os.O_NOCTTY | os.O_CLOEXEC)
    if not os.path.samestat(os.fstat(descriptor), seen):
        os.close(descriptor)
        raise _refusal(path, "it was exchanged meanwhile")
    return os.fdopen(descriptor, "wb")


def _is_ours(folder: Path) -> bool:
    """Tell whether nobody else can have put a file of ours into a folder, for ours to take its mode from."""
    is_shared = bool(folder.stat().st_mode & stat.S_ISVTX)
    return not is_shared and doubt_about_parts([folder], os.geteuid(), may_be_shared=True) is None


def _is_planted(place: Path, status: os.stat_result) -> bool:
    """Tell whether somebody put a pipe or a device there who is neither root nor us; a terminal's folder is root's."""
    ours = (0, os.geteuid())
    folder = place.parent.stat()
    return status.st_uid not in ours and (folder.st_uid not in ours or bool(folder.st_mode & 0o022))


def _asked() -> int | None:
    text = os.environ.get(VARIABLE)
    if not text:
        return None
    if not re.fullmatch("0?[0-7]{3}", text) or (mode := int(text, 8)) & ~0o666 or mode & PRIVATE != PRIVATE:
        raise UsageError(
            f'{VARIABLE} "{text}" is not a mode that lets the owner read and write',
            hint="Write it as chmod does, such as 0640 or 0644.",
        )
    return mode
