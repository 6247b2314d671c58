"""The files of a server's log on this machine: found by asking the server, and read only when they are the server's.

An agent on the server's host runs the same code, possibly as root: it reads with the server's own account, and only
plain files that belong to that account, so that nobody can have another file read by pointing log_directory at it.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from pgdyno.errors import EnvironmentUnsuitable, PgdynoError
from pgdyno.model.facts import Unknown
from pgdyno.outside.files import is_file
from pgdyno.owner.account import Account
from pgdyno.owner.hands import OURS, Hands, hands_for
from pgdyno.targets.target import Target

LOG_KINDS = {"csvlog": (".csv", ".csv.gz"), "jsonlog": (".json", ".json.gz"), "stderr": (".log", ".log.gz", ".gz")}
"""Names of log files by log_destination, the one that says most first: with several, the same is in each."""
FILES_AT_MOST = 50
READ_AT_MOST = 1 << 20
_SETTINGS = (
    "SELECT name, setting FROM pg_settings "
    "WHERE name IN ('logging_collector', 'log_destination', 'log_directory', 'data_directory')"
)


@dataclass(frozen=True, slots=True)
class LogFile:
    """A file of the log; `changed` in seconds since the epoch."""

    path: str
    size: int
    changed: float


def log_files(target: Target) -> list[LogFile] | Unknown:
    """Return the files of the log, oldest first: the collector's, else the one that standard error goes to."""
    try:
        settings = {str(row["name"]): str(row["setting"]) for row in target.postgres.fetch(_SETTINGS)}
    except PgdynoError as error:
        settings = {}  # down, perhaps crashed: its log is what one wants to see
        if target.directory is None:
            return Unknown(f"the server cannot be asked for its log: {error.message}")
    if settings.get("logging_collector") == "on":
        return _collected(target, settings)
    path = standard_error(target)
    if isinstance(path, Unknown):
        return path
    found = _of_server(path, target)
    return [found] if isinstance(found, LogFile) else found


def read_log(target: Target, path: str, start: int, count: int) -> bytes:
    """Return `count` bytes at most, from byte `start` on, of a file that `log_files` names.

    `path` is that of a `LogFile` of `target`; no more than READ_AT_MOST bytes come at once. Raises
    EnvironmentUnsuitable for another file, or an unreadable one.
    """
    known = log_files(target)
    if isinstance(known, Unknown) or path not in {file.path for file in known}:
        raise EnvironmentUnsuitable(f'"{path}" is not a file of the server\'s log')
    try:
        return _hands(target).read(Path(path), at_most=min(count, READ_AT_MOST), start=start)
    except OSError as error:
        raise EnvironmentUnsuitable(f'"{path}" cannot be read: {error.strerror}') from error


def standard_error(target: Target) -> Path | Unknown:
    """Return the file that the postmaster's standard error goes to."""
    if target.disposable and target.directory is not None:
        return target.directory.parent / "server.log"
    pid = target.cpu.postmaster() if target.local else None
    if pid is None:
        return Unknown("the server writes its log to its standard error, on another host; --log FILE names a copy")
    try:
        goes_to = Path(f"/proc/{pid}/fd/2").readlink()
    except OSError as error:
        return Unknown(f"where the server's standard error goes cannot be seen ({error.strerror}); --log FILE names it")
    if is_file(goes_to):
        return goes_to
    return Unknown(
        f'the server\'s standard error goes to "{goes_to}", which is no file to be seen; --log FILE names a copy'
    )


def log_kind(settings: Mapping[str, str]) -> str | Unknown:
    """Return which kind of the collector's files to read."""
    written = [kind.strip() for kind in settings.get("log_destination", "stderr").split(",")]
    found = next((kind for kind in LOG_KINDS if kind in written), None)
    return found or Unknown(f"the server logs to {', '.join(written)}; --log FILE names a copy")


def owner_of(target: Target) -> int | None:
    """Return the user id that the server runs as, as the kernel says of its process, else of its data directory.

    None where neither is there, and where it would be root: no server runs as root, so a link of somebody else's leads
    from the directory's path to one of root's.
    """
    try:
        pid = target.cpu.postmaster() if target.local else None
    except EnvironmentUnsuitable:
        pid = None
    for place in (None if pid is None else Path(f"/proc/{pid}"), target.directory):
        try:
            uid = None if place is None else place.stat().st_uid
        except OSError:
            continue
        if uid is not None:
            return uid or None
    return None


def _collected(target: Target, settings: Mapping[str, str]) -> list[LogFile] | Unknown:
    kind = log_kind(settings)
    if isinstance(kind, Unknown):
        return kind
    folder = Path(settings.get("data_directory", "/nonexistent")) / settings.get("log_directory", "log")
    found = files_in(target, folder, lambda name: name.endswith(LOG_KINDS[kind]))
    if isinstance(found, Unknown):
        return found
    return found[-FILES_AT_MOST:] or Unknown(f'there is no {kind} file in "{folder}"')


def files_in(target: Target, folder: Path, wanted: Callable[[str], bool]) -> list[LogFile] | Unknown:
    """Return the server's own files of a folder whose names are wanted, oldest first; the first reason for none."""
    try:
        paths = [folder / name for name in _hands(target).names(folder) if wanted(name)]
    except OSError as error:
        return Unknown(f'"{folder}" cannot be listed: {error.strerror}')
    tried = [_of_server(path, target) for path in paths]
    found = [file for file in tried if isinstance(file, LogFile)]
    reasons = [reason for reason in tried if isinstance(reason, Unknown)]
    return reasons[0] if reasons and not found else sorted(found, key=lambda file: (file.changed, file.path))


def read_part(target: Target, path: Path, start: int, count: int) -> bytes:
    """Return bytes from `start` on of a file of `files_in`, `count` or READ_AT_MOST at most. Raises plain OSError.

    `path` is read with the rights of the account that the server of `target` runs as, or ours where that is unknown.
    """
    return _hands(target).read(path, at_most=min(count, READ_AT_MOST), start=start)


def _hands(target: Target) -> Hands:
    """Return the hands that read the log: those of the account that the server runs as.

    Raises PermissionError where root does not know that account: what the server names is not read with root's rights.
    """
    uid = owner_of(target)
    if uid is None and os.geteuid() == 0:
        raise PermissionError(errno.EACCES, "whose log it is cannot be told")
    return OURS if uid is None else hands_for(Account.of_user(uid))


def _is_the_servers(status: os.stat_result, target: Target) -> bool:
    """Tell whether a file is the server's own: made by its account, or what its standard error writes to."""
    if target.disposable or status.st_uid == owner_of(target):
        return True
    pid = target.cpu.postmaster() if target.local else None
    try:
        return pid is not None and os.path.samestat(status, Path(f"/proc/{pid}/fd/2").stat())
    except OSError:
        return False


def _of_server(path: Path, target: Target) -> LogFile | Unknown:
    try:
        status = _hands(target).look(path)
    except OSError as error:
        return Unknown(f'"{path}": {error.strerror}')
    if status is None:
        return Unknown(f'"{path}" is not there')
    if not stat.S_ISREG(status.st_mode):
        return Unknown(f'"{path}" is not a regular file')
    if not _is_the_servers(status, target):
        return Unknown(f'"{path}" does not belong to the server\'s user; --log FILE names it')
    try:
        _hands(target).read(path, at_most=0)
    except OSError:
        return Unknown(f'"{path}" cannot be read by this user (as root: by the server\'s own account)')
    return LogFile(str(path), status.st_size, status.st_mtime)
