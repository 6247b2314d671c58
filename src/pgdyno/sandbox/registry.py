"""The sandboxes on this machine: a record each, and a lock that lets one pgdyno at a time use each of them."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import re
from dataclasses import asdict, dataclass
from pathlib import Path

from pgdyno.errors import EnvironmentUnsuitable, UsageError
from pgdyno.server import places

RECORD = "sandbox.json"
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,39}")


@dataclass(frozen=True, slots=True)
class SandboxRecord:
    """What is known of a sandbox whose making was completed.

    `bin_dir` is None for the embedded build, whose place and minor version may change. `created_at` in seconds since
    the epoch. `stay_up` says that the user started the server to keep it running.
    """

    name: str
    bin_dir: str | None
    version: str
    version_num: int
    os_user: str | None
    socket_dir: str
    created_at: float
    stay_up: bool = False


def sandboxes_dir(root: Path | None = None) -> Path:
    """Return the folder of all sandboxes, below `root` or the cache folder."""
    return (root or places.cache_dir()).absolute() / "sandboxes"


def sandbox_dir(name: str, root: Path | None = None) -> Path:
    """Return the folder of one sandbox. Raise UsageError on a name that could lead elsewhere."""
    if _NAME.fullmatch(name) is None:
        raise UsageError(
            f'sandbox name "{name}" is not allowed',
            hint="Use up to 40 lower-case letters, digits, dashes and underscores.",
        )
    return sandboxes_dir(root) / name


def refuse_foreign(path: Path) -> None:
    """Raise EnvironmentUnsuitable for a place that exists and is another user's: its record names programs to run."""
    try:
        owner = path.lstat().st_uid
    except (FileNotFoundError, NotADirectoryError):  # what is in the way is told by who makes the folder
        return
    if owner != os.geteuid():
        raise EnvironmentUnsuitable(
            f'"{path}" belongs to user id {owner}, and a sandbox of another user is never used',
            hint="Run pgdyno as that user, or name a folder of your own in PGDYNO_HOME.",
        )


def read_record(folder: Path) -> SandboxRecord | None:
    """Return the record in a sandbox's folder; None when its making never came to the end.

    Raises EnvironmentUnsuitable for a folder or a record of another user.
    """
    for place in (folder.parent, folder, folder / RECORD):
        refuse_foreign(place)
    try:
        return SandboxRecord(**json.loads((folder / RECORD).read_text()))
    except FileNotFoundError:
        return None
    except (ValueError, TypeError) as error:
        raise EnvironmentUnsuitable(
            f'file "{folder / RECORD}" is damaged',
            detail=str(error),
            hint=f'Delete the folder "{folder}" after you have stopped its server.',
        ) from error


def write_record(folder: Path, record: SandboxRecord) -> None:
    """Write the record whole or not at all: its presence says that the sandbox is complete."""
    partial = folder / f"{RECORD}.partial"
    with places.writing(folder):
        partial.write_text(json.dumps(asdict(record), indent=2) + "\n")
        partial.rename(folder / RECORD)


def record_of(name: str, root: Path | None = None) -> SandboxRecord:
    """Return the record of a sandbox. Raise UsageError when there is none of this name."""
    record = read_record(sandbox_dir(name, root))
    if record is None:
        raise UsageError(f'sandbox "{name}" does not exist', hint="List them: pgdyno sandbox list.")
    return record


def list_records(root: Path | None = None) -> list[SandboxRecord]:
    """Return the record of every complete sandbox, by name."""
    folder = sandboxes_dir(root)
    names = sorted(entry.name for entry in folder.iterdir() if entry.is_dir()) if folder.is_dir() else []
    records = (read_record(folder / name) for name in names)
    return [record for record in records if record is not None]


class SandboxLock:
    """An exclusive lock on a sandbox's name, held by this process until `release`; a kill releases it too."""

    def __init__(self, name: str, root: Path | None = None) -> None:
        sandbox_dir(name, root)
        self._name = name
        refuse_foreign(sandboxes_dir(root))
        self._path = places.ensure(sandboxes_dir(root), places.PUBLIC) / f"{name}.lock"
        self._fd: int | None = None

    @property
    def held(self) -> bool:
        """Tell whether this object holds the lock."""
        return self._fd is not None

    def acquire(self) -> None:
        """Take the lock. Raise EnvironmentUnsuitable that names the process that holds it."""
        while self._fd is None:
            fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                holder = os.pread(fd, 20, 0).decode().strip()
                os.close(fd)
                if error.errno != errno.EWOULDBLOCK:
                    raise places.unsuitable(self._path.parent, str(error)) from error
                raise _in_use(self._name, holder) from error
            if self._is_current(fd):
                self._sign(fd)
                self._fd = fd
            else:  # it was deleted by `release` between our open and our lock
                os.close(fd)

    def release(self, *, delete: bool = False) -> None:
        """Give the lock back; with `delete`, remove its file, because the sandbox is gone."""
        if self._fd is None:
            return
        if delete:
            self._path.unlink(missing_ok=True)
        os.close(self._fd)
        self._fd = None

    def _sign(self, fd: int) -> None:
        """Write into the lock's file who holds it; on a full disk nobody does."""
        with places.writing(self._path.parent):
            try:
                os.ftruncate(fd, 0)
                os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)
            except OSError:
                os.close(fd)
                raise

    def _is_current(self, fd: int) -> bool:
        try:
            return os.path.samestat(os.fstat(fd), self._path.stat())
        except FileNotFoundError:
            return False


def _in_use(name: str, holder: str) -> EnvironmentUnsuitable:
    return EnvironmentUnsuitable(
        f'sandbox "{name}" is in use by process {holder or "unknown"}',
        detail="Two measurements in one server would disturb each other.",
        hint="Wait until it has ended, or use another sandbox: --sandbox NAME.",
    )
