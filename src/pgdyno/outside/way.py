"""The way to a file, as the kernel goes it, and which other account could lead it elsewhere."""

from __future__ import annotations

import os
import pwd
import stat
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from pgdyno.outside.mounts import device_of, fuse_makers

HERE = Path()
"""The folder that this process stands in: the kernel holds it, whatever becomes of its name."""
_LINKS = 40
"""As many as the kernel follows."""


def ways(path: Path) -> Iterator[Path]:
    """Yield from the top each folder and link that is passed on the way to a path, and at last what it leads to.

    A relative path begins at `HERE`. What is missing is yielded as if it were a folder.
    """
    place, links = Path(path.anchor), 0
    waiting = [*reversed(path.relative_to(place).parts)]
    yield place
    while waiting:
        name = waiting.pop()
        if name == "..":
            if place == HERE:
                waiting += reversed(Path.cwd().parent.parts)
            else:
                place = place.parent
            continue
        place = place / name
        yield place
        if not place.is_symlink():
            continue
        links += 1
        if links > _LINKS:
            return
        target = place.readlink()
        place = place.parent
        waiting += reversed(target.parts)


def doubt_about(path: Path, uid: int, *, may_be_shared: bool = False) -> str | None:
    """Return who else could change what is at an absolute path, None when nobody but root and the user can.

    With `may_be_shared` it may lie in a folder such as /tmp, where all may make files and none may replace another's.
    """
    return doubt_about_parts(ways(path), uid, may_be_shared=may_be_shared)


def doubt_about_parts(
    parts: Iterable[Path], uid: int, *, may_be_shared: bool = False, may_be_missing: bool = False
) -> str | None:
    """Return the doubt about the first of these parts of a way that others than root and the user can change.

    `parts` are folders, links and files as `ways` yields them, `uid` is the user's id. With `may_be_shared` a part may
    be a folder such as /tmp, and an ordinary user's group may write too, as a umask of 002 lets it; root's may not.
    With `may_be_missing` a part that is not there is passed over; else it is in doubt. What another account has mounted
    is in doubt whatever it says of its owner.
    """
    trusted = (0, uid, Path("/").stat().st_uid)  # in a user namespace root may be shown as an id that nobody has
    makers = {place: maker for place, maker in fuse_makers().items() if maker not in trusted}
    others = stat.S_IWOTH if may_be_shared and uid != 0 else stat.S_IWOTH | stat.S_IWGRP
    for part in parts:
        if makers and (maker := makers.get(str(part.absolute()))) is not None:
            return f'"{part.absolute()}" was mounted by {name_of(maker)}'
        try:
            status = part.lstat()
        except OSError as error:
            if may_be_missing and isinstance(error, FileNotFoundError | NotADirectoryError):
                continue
            return f'"{part.absolute()}" cannot be seen ({error.strerror})'
        if makers and (maker := makers.get(device_of(status))) is not None:
            return f'"{part.absolute()}" was mounted by {name_of(maker)}'
        if status.st_uid not in trusted:
            return f'"{part.absolute()}" belongs to {name_of(status.st_uid)}'
        if stat.S_ISLNK(status.st_mode):
            continue
        if may_be_shared and stat.S_ISDIR(status.st_mode) and status.st_mode & stat.S_ISVTX:
            continue
        is_open = status.st_mode & others
        if is_open & stat.S_IWOTH or (is_open & stat.S_IWGRP and (status.st_gid != 0 or _has_list(part))):
            return f'"{part.absolute()}" can be written by others'
    return None


def stranger_on(path: Path, uid: int) -> int | None:
    """Return the first account besides root and `uid` that could lead a path elsewhere; None where there is none.

    It owns a folder or a link on the way, the file itself, or has mounted what it lies on.
    """
    trusted = (0, uid, Path("/").stat().st_uid)
    makers = fuse_makers()
    for part in ways(path.absolute()):
        with suppress(OSError):
            owner = part.lstat().st_uid
            found = next((one for one in (makers.get(str(part)), owner) if one not in (None, *trusted)), None)
            if found is not None:
                return found
    return None


def _has_list(part: Path) -> bool:
    """Tell whether accounts are named one by one: the bits of the group are then the most that any of them may."""
    with suppress(OSError):
        return bool(os.getxattr(part, "system.posix_acl_access", follow_symlinks=False))
    return False


def name_of(uid: int) -> str:
    """Return a user's name in words, or the number where the system has none."""
    try:
        return f'user "{pwd.getpwuid(uid).pw_name}"'
    except KeyError:
        return f"user {uid}"
