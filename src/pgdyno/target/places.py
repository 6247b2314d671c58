"""The folders of this user: cache (sandboxes), data (the store), state (undo bundles). The one user of platformdirs.

`PGDYNO_HOME` puts all of them below one folder. Without it, root's sandboxes live in the system's cache folder
(`/var/cache/pgdyno`), because the server runs as another user, who may not enter root's home.
"""

from __future__ import annotations

import os
from pathlib import Path

import platformdirs

from pgdyno.errors import EnvironmentUnsuitable

APPLICATION = "pgdyno"
PUBLIC = 0o755
PRIVATE = 0o700


def cache_dir() -> Path:
    """Return where sandboxes and copies of builds live; everything in it can be made anew."""
    if os.geteuid() == 0:
        return _home("cache") or platformdirs.site_cache_path(APPLICATION)
    return _home("cache") or platformdirs.user_cache_path(APPLICATION)


def data_dir() -> Path:
    """Return where the default store lives."""
    return _home("data") or platformdirs.user_data_path(APPLICATION)


def state_dir() -> Path:
    """Return where undo bundles live: what a rollback needs after a kill."""
    return _home("state") or platformdirs.user_state_path(APPLICATION)


def _home(part: str) -> Path | None:
    home = os.environ.get("PGDYNO_HOME")
    return Path(home).expanduser().absolute() / part if home else None


def ensure(folder: Path, mode: int = PRIVATE) -> Path:
    """Make the folder and its missing parents with this mode, whatever the umask; what exists stays as it is.

    Raises EnvironmentUnsuitable that names the folder, also when it exists and is not writable.
    """
    try:
        for part in reversed([folder, *folder.parents]):
            _make(part, mode)
    except OSError as error:
        raise unsuitable(folder, str(error)) from error
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


def unsuitable(folder: Path, detail: str) -> EnvironmentUnsuitable:
    """Return the error for a folder that cannot be used."""
    return EnvironmentUnsuitable(
        f'folder "{folder}" cannot be written',
        detail=detail,
        hint="Name a writable folder in PGDYNO_HOME, or make this one writable for your user.",
    )
