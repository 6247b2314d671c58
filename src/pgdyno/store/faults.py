"""What a database driver said, as an error that a user can act on."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from json import JSONDecodeError
from pathlib import Path

from sqlalchemy.engine import URL
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from pgdyno.errors import StoreError

_OTHER = "Name another store with --store URL or PGDYNO_STORE."
_LOCKED = ("database is locked", "database table is locked", "database schema is locked")
_CAUSES: tuple[tuple[tuple[str, ...], str, str], ...] = (
    (
        _LOCKED,
        "is locked by another program",
        "Wait until it is done, or see who holds the file with fuser.",
    ),
    (
        ("disk is full",),
        "has no room left on its disk",
        "Free some space; finished trials are safe, and a study continues with --resume.",
    ),
    (
        ("readonly database", "read-only file system"),
        "cannot be written",
        f"Give this user write permission to the file and its folder. {_OTHER}",
    ),
    (
        ("unable to open database file",),
        "cannot be opened",
        f"Check that its folder exists and that this user may write there. {_OTHER}",
    ),
    (
        ("file is not a database", "malformed", "file is encrypted", "unsupported file format"),
        "is damaged, or not a store",
        f"Move the file away, or rescue it with sqlite3 FILE .recover. {_OTHER}",
    ),
    (
        ("disk i/o error",),
        "could not be read or written by the operating system",
        "Look for disk errors and limits on file size with dmesg and ulimit -a.",
    ),
    (
        ("a finished trial never changes",),
        "does not let a finished trial be changed",
        "Run the trial again: a new one gets a new id.",
    ),
    (
        ("permission denied for", "insufficient privilege", "must be owner"),
        "does not let this role do that",
        "Grant the role CREATE on the schema, or name a database of its own with --store URL.",
    ),
    (
        ("connection", "could not translate host", "password authentication", "does not exist"),
        "cannot be reached",
        "Try the same address with psql; the password belongs in ~/.pgpass or PGPASSWORD.",
    ),
)


def label(url: URL) -> str:
    """Return how messages name the store: the path of the file, or the URL without its password."""
    if url.get_backend_name() == "sqlite":
        return url.database or "in memory"
    return url.render_as_string(hide_password=True)


def explain(name: str, error: SQLAlchemyError) -> StoreError:
    """Return the error for what the driver said; the driver's own words become the detail."""
    said = str(error.orig) if isinstance(error, DBAPIError) else str(error)
    lower = said.lower()
    for words, problem, hint in _CAUSES:
        if any(word in lower for word in words):
            detail = said.strip()
            if words is _LOCKED and (holder := holder_text(name)) is not None:
                detail = f"{holder} holds it"
            return StoreError(f'store "{name}" {problem}', detail=detail, hint=hint)
    return StoreError(
        f'store "{name}" refused a statement',
        detail=said.strip(),
        hint="Name another store with --store PATH|URL; pgdyno bundle export takes studies there.",
    )


@contextmanager
def explained(name: str) -> Iterator[None]:
    """Turn what the driver raises inside into a StoreError that names the store and says what to do."""
    try:
        yield
    except SQLAlchemyError as error:
        raise explain(name, error) from error
    except JSONDecodeError as error:  # of a JSON column, while its row is fetched
        raise StoreError(f'store "{name}" holds a value that is not JSON', detail=str(error), hint=_OTHER) from error


_LOCKS, _PROC = Path("/proc/locks"), Path("/proc")


def holder_text(path: str) -> str | None:
    """Return the processes other than ours that hold a SQLite file for writing, as words; None when it is unknown."""
    named = []
    for pid in _holders(path):
        try:
            command = (_PROC / str(pid) / "comm").read_text(errors="replace").strip()
        except OSError:
            command = ""
        named.append(f"process {pid} ({command})" if command.isprintable() and command else f"process {pid}")
    return ", ".join(named) or None


def _holders(path: str) -> list[int]:
    inodes = set()
    for name in (path, f"{path}-shm"):
        try:
            inodes.add(Path(name).stat().st_ino)
        except (OSError, ValueError):
            continue
    try:
        text = _LOCKS.read_text()
    except OSError:
        return []
    found = {pid for pid, inode in parse_locks(text) if inode in inodes and pid != os.getpid()}
    return sorted(pid for pid in found if _has_open(pid, path))


def parse_locks(text: str) -> list[tuple[int, int]]:
    """Return process and inode of each write lock of `/proc/locks`; of locks of another namespace there is no process.

    `1: POSIX  ADVISORY  WRITE 3568 fd:00:2531452 120 120`; a line with `->` is of one who waits.
    """
    found = []
    for line in text.splitlines():
        fields = line.split()
        if len(fields) < 6 or fields[1] == "->" or fields[3] != "WRITE":
            continue
        inode = fields[5].rpartition(":")[2]
        if fields[4].isdecimal() and inode.isdecimal() and int(fields[4]) > 0:
            found.append((int(fields[4]), int(inode)))
    return found


def _has_open(pid: int, path: str) -> bool:
    """Tell whether a process has the file open, as far as we may see: another file system has the same inodes."""
    try:
        opened = [str(entry.readlink()) for entry in (_PROC / str(pid) / "fd").iterdir()]
    except OSError:
        return True
    return any(name.startswith(os.path.realpath(path)) for name in opened)
