"""One session a server, whoever runs it: a small file in the server's own data directory says whose session is open.

`pgdyno.lock` is there from before the first change until the server was restored. The process that works on the
server holds a flock(2) on it, which the kernel releases when the process dies; what the file says stays, because a
session that was killed is not over before its undo bundle is closed. So both are looked at: a lock that is held, and
a lock that nobody holds whose session was not put back. Two root folders, two accounts, a container with the same
volume: they all meet here.

The file belongs to the data directory's owner and has the directory's group mode, so that pg_basebackup and the
server's own programs can read it. A copy of it, as a base backup makes one, names another directory's inode and binds
nobody. Its words are those of whoever may write there: they are shown in a refusal, and believed for nothing else.
The server's account opens, makes and removes it; we hold the descriptor.
"""

from __future__ import annotations

import contextlib
import json
import os
import pwd
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pgdyno.errors import EnvironmentUnsuitable
from pgdyno.linux import processes
from pgdyno.linux.identity import ProcessIdentity
from pgdyno.owner import durable
from pgdyno.owner.hands import hands_of
from pgdyno.undo.bundle import UndoBundle, is_closed_in

NAME = "pgdyno.lock"
_MOST_BYTES = 4096
_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+$@-]{0,127}")
_PID_LIMIT = 1 << 22
"""PID_MAX_LIMIT of the kernel on 64 bits."""


@dataclass(frozen=True, slots=True)
class Holder:
    """The session that a lock names. `inode` is that of the data directory that was locked."""

    session: str
    user: str
    bundle: str
    inode: int
    process: ProcessIdentity

    def to_bytes(self) -> bytes:
        """Return the file's content."""
        process = {"pid": self.process.pid, "start_ticks": self.process.start_ticks, "boot_id": self.process.boot_id}
        fields = {"session": self.session, "user": self.user, "bundle": self.bundle, "inode": self.inode, **process}
        return json.dumps(fields).encode() + b"\n"

    def names(self, bundle: UndoBundle) -> bool:
        """Tell whether this is the session of a bundle: ids of two folders may be the same."""
        return self.session == bundle.id and self.bundle == str(bundle.directory)

    @classmethod
    def from_bytes(cls, data: bytes) -> Holder | None:
        """Read a content; None for anything that `to_bytes` does not write, such as a write that was cut off."""
        try:
            fields = json.loads(data)
            names = [str(fields[name]) for name in ("session", "user", "boot_id")]
            pid, ticks, inode = (int(fields[name]) for name in ("pid", "start_ticks", "inode"))
            bundle = str(fields["bundle"])
        except (ValueError, KeyError, TypeError, RecursionError, OverflowError):
            return None
        if not all(map(_WORD.fullmatch, names)) or not bundle.isprintable() or not 0 < pid <= _PID_LIMIT:
            return None
        return cls(names[0], names[1], bundle, inode, ProcessIdentity(pid, ticks, names[2]))


class ServerInUse(EnvironmentUnsuitable):
    """Another session on this server is open."""


class ServerLock:
    """The lock of one data directory, held by this process until `release` or its death."""

    def __init__(self, directory: Path, descriptor: int) -> None:
        self._directory = directory
        self._descriptor: int | None = descriptor

    @classmethod
    def take(cls, directory: Path, *, is_over: Callable[[Holder], bool]) -> ServerLock:
        """Take the lock of a data directory; the file is made, but names nobody before `sign`.

        `is_over` says of a session whose process is gone that it needs nothing any more. Raises ServerInUse that
        names the session which is open, and EnvironmentUnsuitable that says why the file cannot be made.
        """
        path = directory / NAME
        try:
            while True:
                descriptor = hands_of(directory).open_lock(path)
                try:
                    is_free = durable.try_lock(descriptor)
                    holder = _read(os.pread(descriptor, _MOST_BYTES, 0), directory)
                    if not is_free:
                        raise in_use(path, holder, is_held=True)
                    if not _is_current(descriptor, path):  # its holder removed it between our open and our lock
                        os.close(descriptor)
                        continue
                    if holder is not None and not is_over(holder):
                        raise in_use(path, holder, is_held=False)
                except BaseException:
                    with contextlib.suppress(OSError):
                        os.close(descriptor)
                    raise
                return cls(directory, descriptor)
        except OSError as error:
            raise EnvironmentUnsuitable(
                f'the lock "{path}" cannot be taken: {(error.strerror or str(error)).lower()}',
                detail="Nothing was changed: it keeps two sessions from one server.",
                hint="Run pgdyno as root or as the server's own user, with room on the disk of the data directory.",
            ) from error

    def sign(self, bundle: UndoBundle) -> None:
        """Say durably whose session this is, before its first change. Raises EnvironmentUnsuitable on a full disk."""
        assert self._descriptor is not None, "a lock that was released names nobody"
        try:
            inode = self._directory.stat().st_ino
            data = Holder(bundle.id, _user_name(), str(bundle.directory), inode, ProcessIdentity.own()).to_bytes()
            os.pwrite(self._descriptor, data, 0)  # in place first: a full disk must not leave it empty
            os.ftruncate(self._descriptor, len(data))
            os.fsync(self._descriptor)
        except OSError as error:
            raise EnvironmentUnsuitable(
                f'the lock "{self._directory / NAME}" cannot be written: {(error.strerror or str(error)).lower()}',
                hint="Free some space on the file system of the data directory.",
            ) from error

    def release(self) -> None:
        """Remove the file, where it is still ours, and let go. Idempotent; a folder that is gone is no error."""
        if self._descriptor is None:
            return
        with contextlib.suppress(OSError, EnvironmentUnsuitable):
            if _is_current(self._descriptor, self._directory / NAME):
                hands_of(self._directory).remove(self._directory / NAME)
        self.let_go()

    def let_go(self) -> None:
        """Leave the file, for a session that is not over, and let go of it. Idempotent."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def look(directory: Path) -> Holder | None:
    """Return the session that a data directory's lock names; None without one, and where it cannot be read."""
    try:
        return _read(hands_of(directory).read(directory / NAME, at_most=_MOST_BYTES), directory)
    except (OSError, EnvironmentUnsuitable):
        return None


def refuse_open(directory: Path, *, is_over: Callable[[Holder], bool]) -> None:
    """Raise ServerInUse while a session on this data directory is open; reads one file, takes no lock."""
    holder = look(directory)
    if holder is not None and not is_over(holder):
        raise in_use(directory / NAME, holder, is_held=False)


def is_over_for(undo_root: Path) -> Callable[[Holder], bool]:
    """Return what says of a session of this undo folder that it is over: closed, or its bundle is gone for good.

    Of a session in somebody else's folder nothing is known: it is open for as long as its lock is there.
    """

    def is_over(holder: Holder) -> bool:
        bundle = Path(holder.bundle)
        if bundle.parent != undo_root or bundle.name != holder.session:
            return False
        return not bundle.is_dir() or is_closed_in(bundle)

    return is_over


def remove(bundle: UndoBundle) -> None:
    """Remove the lock of a session that is over, where it names that session."""
    directory = Path(bundle.manifest.data_directory)
    holder = look(directory)
    if holder is not None and holder.names(bundle):
        with contextlib.suppress(OSError, EnvironmentUnsuitable):
            hands_of(directory).remove(directory / NAME)


@contextmanager
def restoring(bundle: UndoBundle) -> Iterator[None]:
    """Hold the server's lock while a session is put back, and remove it when that closed the session.

    Raises ServerInUse while another session on this server is open: putting this one back would reach into its
    measurement. A lock that cannot be written keeps nobody from putting a server back.
    """
    directory = Path(bundle.manifest.data_directory)
    lock: ServerLock | None = None
    if bundle.manifest.local and directory.is_dir():
        try:
            lock = ServerLock.take(directory, is_over=lambda holder: holder.names(bundle))
            lock.sign(bundle)
        except ServerInUse:
            found = look(directory)
            if found is None or not found.names(bundle):
                raise  # else it is the session itself that holds it: this process, or one that was stopped
        except EnvironmentUnsuitable:
            pass
    try:
        yield
    finally:
        if bundle.is_closed():
            remove(bundle)
        if lock is not None:
            lock.let_go()


def in_use(path: Path, holder: Holder | None, *, is_held: bool) -> ServerInUse:
    """Return the error for a server with an open session; `is_held` when a living process has its lock."""
    if holder is None:
        return ServerInUse(
            f'a session on "{path.parent}" is just beginning or ending',
            detail=f'A process holds "{path}".',
            hint="Try again in a moment; see who holds it with fuser.",
        )
    process, guards = holder.process, _watchdogs_of(holder)
    if is_held or process.is_alive():
        detail, hint = f"Process {process.pid} of user {holder.user} is working on it.", "Wait until it ends."
    elif guards:
        detail = f"Process {process.pid} of user {holder.user} is gone; watchdog {guards[0]} restores the server."
        hint = "Wait until it is done."
    else:
        detail = f"Process {process.pid} of user {holder.user} ended without a rollback."
        hint = (
            f"Run pgdyno rollback {holder.session} as {holder.user} first. "
            f'If "{holder.bundle}" is gone for good, remove "{path}".'
        )
    return ServerInUse(f'session {holder.session} on "{path.parent}" is still open', detail=detail, hint=hint)


def _watchdogs_of(holder: Holder) -> list[int]:
    """Return the processes that watch over a session, by their command line."""
    found = []
    for pid in processes.all_pids():
        with contextlib.suppress(OSError):
            words = processes.command_words(pid)
            if b"pgdyno.undo.watchdog" in words and os.fsencode(holder.bundle) in words:
                found.append(pid)
    return found


def _read(data: bytes, directory: Path) -> Holder | None:
    """Return whom the file names; nobody where it is the copy of another directory's lock."""
    holder = Holder.from_bytes(data)
    return holder if holder is not None and holder.inode == directory.stat().st_ino else None


def _is_current(descriptor: int, path: Path) -> bool:
    there, ours = hands_of(path.parent).look(path), os.fstat(descriptor)
    return there is not None and (there.st_dev, there.st_ino) == (ours.st_dev, ours.st_ino)


def _user_name() -> str:
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())
