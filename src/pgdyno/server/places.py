"""The folders of this user: cache (sandboxes), data (the store), state (undo bundles). The one user of platformdirs.

`PGDYNO_HOME` puts all of them below one folder. Without it, root's sandboxes live in the system's cache folder
(`/var/cache/pgdyno`), because the server runs as another user, who may not enter root's home.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import platformdirs

from pgdyno.errors import EnvironmentUnsuitable, PgdynoError
from pgdyno.outside.way import doubt_about_parts, ways

APPLICATION = "pgdyno"
PUBLIC = 0o755
PRIVATE = 0o700
_FULL = {errno.ENOSPC, errno.EDQUOT}
_ROOM_BYTES = 16 << 20
"""A disk with less than one segment of WAL is full for a server."""


def cache_dir() -> Path:
    """Return where sandboxes and copies of builds live; everything in it can be made again.

    Records there name the programs of sandboxes, so root refuses a place that another account can change. Raises
    EnvironmentUnsuitable.
    """
    if os.geteuid() != 0:
        return _home("cache") or platformdirs.user_cache_path(APPLICATION)
    folder = _home("cache") or platformdirs.site_cache_path(APPLICATION)
    _require_roots_own(folder, "hold root's sandboxes", "Whoever can change it decides which programs root starts.")
    return folder


def data_dir() -> Path:
    """Return where the default store lives."""
    return _home("data") or platformdirs.user_data_path(APPLICATION)


def state_dir() -> Path:
    """Return where undo bundles live: what a rollback needs after a kill.

    What stands there is done by a rollback, so root refuses a place that another account can change, as one that came
    with the environment of `sudo -E`. Raises EnvironmentUnsuitable.
    """
    folder = _home("state") or platformdirs.user_state_path(APPLICATION)
    if os.geteuid() == 0:
        told = "Whoever can change what a rollback reads decides what root does."
        _require_roots_own(folder, "keep the state of root's sessions", told)
    return folder


def _require_roots_own(folder: Path, use: str, detail: str) -> None:
    doubt = doubt_about_parts(ways(folder.absolute()), 0, may_be_shared=True, may_be_missing=True)
    if doubt is not None:
        raise EnvironmentUnsuitable(
            f'folder "{folder}" cannot {use}: {doubt}',
            detail=detail,
            hint="Set PGDYNO_HOME to a folder that only root can change, or run pgdyno as that user.",
        )


def _home(part: str) -> Path | None:
    home = os.environ.get("PGDYNO_HOME")
    return Path(home).expanduser().absolute() / part if home else None


def ensure(folder: Path, mode: int = PRIVATE) -> Path:
    """Make the folder and its missing parents with this mode, whatever the umask; what exists stays as it is.

    Root's PGDYNO_HOME itself is for every user to enter, whichever verb makes it: the sandbox's server is below it.
    Raises EnvironmentUnsuitable that names the folder, also when it exists and is not writable.
    """
    with writing(folder):
        home = _home("") if os.geteuid() == 0 else None
        for part in reversed([folder, *folder.parents]):
            _make(part, PUBLIC if home is not None and home.is_relative_to(part) else mode)
    if not os.access(folder, os.W_OK | os.X_OK):
        raise unsuitable(folder, "It is read-only for this user or on a read-only file system.")
    return folder


def _make(folder: Path, mode: int) -> None:
    try:
        if not folder.is_dir():
            folder.mkdir()
            folder.chmod(mode)
    except FileExistsError:
        if not folder.is_dir():  # else another process was faster
            raise


@contextmanager
def writing(folder: Path) -> Iterator[None]:
    """Name the folder in what the operating system refuses inside: a write to a full disk does not say which disk."""
    try:
        yield
    except OSError as error:
        if error.errno not in _FULL:
            raise unsuitable(folder, error.strerror or str(error)) from error
        raise EnvironmentUnsuitable(
            f'folder "{folder}" has no room left', detail=str(error), hint=_room_hint(folder)
        ) from error


@contextmanager
def telling_full(folder: Path) -> Iterator[None]:
    """Let errors that are raised inside, a server's own among them, say that the folder's disk is full where it is."""
    try:
        yield
    except PgdynoError as error:
        with suppress(OSError):
            disk = os.statvfs(folder)
            if disk.f_bavail * disk.f_frsize < _ROOM_BYTES:
                error.hint = _room_hint(folder)
        raise


def _room_hint(folder: Path) -> str:
    return f'Free some space on the disk of "{folder}", or set PGDYNO_HOME to a folder on another disk.'


def unsuitable(folder: Path, detail: str) -> EnvironmentUnsuitable:
    """Return the error for a folder that cannot be used."""
    return EnvironmentUnsuitable(
        f'folder "{folder}" cannot be written',
        detail=detail,
        hint="Name a writable folder in PGDYNO_HOME, or make this one writable for your user.",
    )
