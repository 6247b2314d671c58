"""Which programs may be run with whose rights: nobody runs what a third account could have put there."""

from __future__ import annotations

import os
import pwd
import shutil
import stat
import sys
from collections.abc import Iterator
from pathlib import Path

from pgdyno.errors import EnvironmentUnsuitable


def check_program(name: str, uid: int) -> str:
    """Return the absolute path of a program that user `uid` may run without doing another account's bidding.

    The file, all links on the way and all directories above must belong to root or to that user, and nobody else may
    write to them. This process's own interpreter is taken as it is. Raises EnvironmentUnsuitable.
    """
    found = name if "/" in name else shutil.which(name)
    if found is None or not Path(found).exists():
        raise EnvironmentUnsuitable(f'program "{name}" was not found')
    path = str(Path(found).absolute())
    if path == sys.executable:
        return path
    doubt = doubt_about(Path(path), uid)
    if doubt is not None:
        raise EnvironmentUnsuitable(
            f'program "{path}" is not run as {"root" if uid == 0 else _name(uid)}: {doubt}',
            detail="Whoever can change a program decides what is done with the rights of those who run it.",
            hint="Use one that root installed, or run pgdyno as the account that it belongs to.",
        )
    return path


def doubt_about(path: Path, uid: int, *, may_be_shared: bool = False) -> str | None:
    """Return who else could change what is at an absolute path, None when nobody but root and the user can.

    With `may_be_shared` it may lie in a folder such as /tmp, where all may make files and none may replace another's.
    """
    for part in ways(path):
        try:
            status = part.lstat()
        except OSError as error:
            return f'"{part}" cannot be seen ({error.strerror})'
        if status.st_uid not in (0, uid):
            return f'"{part}" belongs to {_name(status.st_uid)}'
        if stat.S_ISLNK(status.st_mode):
            continue
        if may_be_shared and stat.S_ISDIR(status.st_mode) and status.st_mode & stat.S_ISVTX:
            continue
        if status.st_mode & stat.S_IWOTH or (status.st_mode & stat.S_IWGRP and status.st_gid != 0):
            return f'"{part}" can be written by others'
    return None


def ways(path: Path) -> Iterator[Path]:
    """Yield an absolute path, what its links lead to, and every directory above any of them."""
    seen: set[Path] = set()
    waiting = [path]
    while waiting:
        place = waiting.pop()
        if place in seen or len(seen) > 256:
            continue
        seen.add(place)
        yield place
        waiting.append(place.parent)
        if place.is_symlink():
            waiting.append(Path(os.path.normpath(place.parent / place.readlink())))


def _name(uid: int) -> str:
    try:
        return f'user "{pwd.getpwuid(uid).pw_name}"'
    except KeyError:
        return f"user {uid}"
