"""Files that a verb writes for its user: readable by the user alone, whole or not at all, and never through a trap.

Reports, captures and exports tell of servers, statements and people, and land where the user happens to be. They get
mode 0600, folders 0700, whatever the umask says; PGDYNO_OUTPUT_MODE names another mode for new ones, and a file of the
user's that is replaced keeps the one that it has. What another account has planted in a folder that it may write (a
link, a pipe) is not followed. Every function raises the plain OSError; callers know what the file was for and say so.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from pgdyno.errors import UsageError

VARIABLE = "PGDYNO_OUTPUT_MODE"
PRIVATE, PUBLIC = 0o600, 0o644
"""PUBLIC is for configuration that other accounts read where it goes: units of systemd, a server's settings."""
_LINKS = 40
"""As many as the kernel follows."""
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
        with path.open("wb") as special:  # a directory is refused by this
            yield special
        return
    staged = place.with_name(f".{place.name[:100]}.{secrets.token_hex(8)}.part")
    try:
        with open_new(staged, mode=mode) as file:
            if there is not None and there.st_uid == os.geteuid():
                os.fchmod(file.fileno(), stat.S_IMODE(there.st_mode) & 0o777)
            yield file
        staged.replace(place)
    except BaseException:
        with suppress(OSError):
            staged.unlink(missing_ok=True)
        raise


def open_new(path: Path, *, mode: int = PRIVATE) -> BinaryIO:
    """Open a file that must not be there yet, to write and to read; a public one as the umask allows."""
    asked = _asked() if mode == PRIVATE else None
    file = os.fdopen(os.open(path, _NEW, mode), "w+b")
    if asked is not None:
        os.fchmod(file.fileno(), asked)
    return file


def new_folder(path: Path) -> None:
    """Make a folder that must not be there yet, and by the umask what is missing above it."""
    asked = _asked()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.mkdir(mode=0o700)
    if asked is not None:
        path.chmod(asked | (asked & 0o444) >> 2)


def ensure_folder(path: Path) -> None:
    """Make a folder where it is missing; one that is there stays as it is, and is refused where it was planted."""
    _place(path)
    if not path.is_dir():
        new_folder(path)


def check_output(path: Path) -> None:
    """Find out whether `output` could write there, and leave nothing."""
    place, there = _place(path)
    if there is not None and not stat.S_ISREG(there.st_mode):
        path.open("ab").close()
        return
    staged = place.with_name(f".{place.name[:100]}.{secrets.token_hex(8)}.part")
    open_new(staged).close()
    staged.unlink()


def _place(path: Path) -> tuple[Path, os.stat_result | None]:
    """Return where a path leads through links that may be followed, and what is there."""
    place = path.absolute()
    for _ in range(_LINKS):
        try:
            status = place.lstat()
        except FileNotFoundError:
            break
        if not stat.S_ISREG(status.st_mode) and _is_planted(place, status):
            raise PermissionError(
                errno.EPERM, "Another account has put a link or a pipe there, in a folder that it may write", str(place)
            )
        if not stat.S_ISLNK(status.st_mode):
            break
        place = place.parent / place.readlink()
    try:
        return place, path.stat()
    except FileNotFoundError:
        return place, None


def _is_planted(place: Path, status: os.stat_result) -> bool:
    """Tell whether somebody may have put this there who is neither root nor us; cf. protected_symlinks in proc(5)."""
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
