"""What pgdyno made and left: databases, drop-ins and a log on a server, sandboxes on this host; and their removal.

Nothing goes that an open session needs: one that runs, one that was killed and not rolled back, and the settings of a
change that was kept. Nothing goes that somebody else made or edited.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from pgdyno.errors import EnvironmentUnsuitable, PgdynoError
from pgdyno.migration.left_behind import LeftRecord, all_left
from pgdyno.owner.hands import hands_of
from pgdyno.replay.exchange import REPLACED, STAGED, ExchangeRecord, finish_left, left_exchanges
from pgdyno.routes.dropin import END_MARK, INCLUDE_LINES, KEPT_MARK, LONGEST, SESSION_MARK, DropIn
from pgdyno.sandbox import registry
from pgdyno.sandbox.registry import SandboxLock, SandboxRecord
from pgdyno.sandbox.sandbox import Sandbox
from pgdyno.server.database_use import DatabaseUse
from pgdyno.server.new_database import UnfinishedDatabase, unfinished_databases
from pgdyno.server.own_databases import DatabaseState, OwnDatabase, own_databases
from pgdyno.targets.target import Target
from pgdyno.undo import server_lock
from pgdyno.undo.one_session import refuse_while_open
from pgdyno.undo.rollback import BundleInfo, SessionState, list_bundles, sessions_of
from pgdyno.undo.server_lock import ServerLock
from pgdyno.units import bytes_text
from pgdyno.workloads.study_data import drop_left

SERVER_LOG = "pgdyno-server.log"
_PLACES = "SELECT name, setting FROM pg_settings WHERE name IN ('config_file', 'data_directory')"


class LeftoverKind(StrEnum):
    """What was left."""

    DATABASE = "database"
    DROP_IN = "drop-in"
    LOG = "log"
    LOCK = "lock"
    RESTORE = "restore"
    SANDBOX = "sandbox"
    MIGRATION = "migration"


@dataclass(frozen=True, slots=True)
class Leftover:
    """One thing of ours. `about` says what is known of it; `refused` why it stays, empty where it may go.

    `remove` returns why it stayed after all, None when it is gone.
    """

    kind: LeftoverKind
    name: str
    about: str
    refused: str
    remove: Callable[[], str | None] = field(repr=False, compare=False)


def on_server(target: Target, undo_root: Path, *, files: bool = True) -> list[Leftover]:
    """Return what is ours on a server; of its files only where it is on this host, and `files`. Changes nothing."""
    needed = _open_session(target, undo_root)
    databases = [one for one in own_databases(target.postgres) if not _is_foreign(one)]
    with DatabaseUse(target.postgres) as use:
        found = [_database(target, one, needed, is_used=use.is_used(one.name)) for one in databases]
    found += [_unfinished(target, one, needed) for one in unfinished_databases(target.postgres)]
    if files and target.local and target.directory is not None and target.remote is None:
        found += _files(target, undo_root, needed)
    return found


def sandboxes(undo_root: Path) -> list[Leftover]:
    """Return the sandboxes of this account on this host. Changes nothing."""
    return [_sandbox(record, undo_root) for record in registry.list_records()]


def exchanges() -> list[Leftover]:
    """Return the restores that were killed while they exchanged a server's files. Changes nothing."""
    return [_exchange(record, path) for record, path in left_exchanges()]


def rehearsals() -> list[Leftover]:
    """Return what rehearsals of migrations left: publication and slot, and servers of pg_upgrade. Changes nothing."""
    return [_rehearsal(record, path) for record, path in all_left()]


def _rehearsal(record: LeftRecord, path: Path) -> Leftover:
    try:
        about = "; ".join(record.found()) or "nothing is left of it but this note"
    except PgdynoError as error:
        about = f"what it left is not known: {error.message}"
    refused = "the rehearsal runs, and puts it away itself" if record.is_running else ""
    remove = _by(record.take_away, lambda: path.unlink(missing_ok=True))
    return Leftover(LeftoverKind.MIGRATION, record.study, about, refused, remove)


def _exchange(record: ExchangeRecord, path: Path) -> Leftover:
    about = f"a restore of {record.target} that was killed: it is finished, and the server started"
    return Leftover(LeftoverKind.RESTORE, record.directory, about, "", _by(lambda: finish_left(record, path)))


def _open_session(target: Target, undo_root: Path) -> str:
    """Say which session on this server is not over, whoever runs it; empty where none is."""
    for info in _sessions_on(target, undo_root):
        if info.state in (SessionState.ABANDONED, SessionState.RUNNING):
            name = info.directory.name
            mend = "it ends by itself" if info.state is SessionState.RUNNING else f"run pgdyno rollback {name} first"
            return f"session {name} is open: {mend}"
    try:
        refuse_while_open(target, undo_root)
    except PgdynoError as error:
        return error.message
    return ""


def _sessions_on(target: Target, undo_root: Path) -> Iterator[BundleInfo]:
    if target.remote is not None:
        yield from target.remote.sessions()  # whichever server of that host: it is told by no path of ours
        return
    yield from sessions_of(target, undo_root)


def _is_foreign(database: OwnDatabase) -> bool:
    return database.look is not None and database.look.state is DatabaseState.FOREIGN


def _database(target: Target, database: OwnDatabase, needed: str, *, is_used: bool) -> Leftover:
    look = database.look
    known = [
        "size unknown" if database.bytes is None else bytes_text(database.bytes),
        *([] if look is None else [look.workload] if look.workload else []),
        *(["kept by --keep-data"] if look is not None and look.kept else []),
        *(["its load was interrupted"] if look is not None and look.state is DatabaseState.UNFINISHED else []),
    ]
    refused = needed
    if look is None:
        refused = refused or f"it cannot be looked into: {database.reason}"
    elif is_used:
        refused = refused or "a study uses it"
    elif database.sessions:
        refused = refused or f"{database.sessions} session{'s are' if database.sessions > 1 else ' is'} open in it"

    def remove() -> str | None:
        with DatabaseUse(target.postgres) as use:
            return drop_left(target, use, database)

    return Leftover(LeftoverKind.DATABASE, database.name, ", ".join(known), refused, remove)


def _unfinished(target: Target, database: UnfinishedDatabase, needed: str) -> Leftover:
    """Return a database that was being made for another name, by a process that is gone or is at it."""
    refused = f"process {database.maker.pid} is making it" if database.maker.is_alive() else needed
    remove = _by(lambda: database.drop(target.postgres))
    return Leftover(LeftoverKind.DATABASE, database.name, "its making was interrupted", refused, remove)


def _files(target: Target, undo_root: Path, needed: str) -> Iterator[Leftover]:
    assert target.directory is not None, "files are looked at where the data directory is at hand"
    places = {str(row["name"]): str(row["setting"] or "") for row in target.postgres.fetch(_PLACES)}
    try:
        hands = hands_of(target.directory)
        if places.get("config_file"):
            dropin = DropIn(Path(places["config_file"]), hands)
            if (leftover := _dropin(target, dropin, undo_root, needed)) is not None:
                yield leftover
        log = target.directory / SERVER_LOG
        status, lock = hands.look(log), hands.look(target.directory / server_lock.NAME)
    except (OSError, EnvironmentUnsuitable):
        return  # nothing of ours can be where this account may not look
    if lock is not None and not needed:
        yield _lock(target.directory, undo_root)
    for name in (STAGED, REPLACED):
        if hands.look(target.directory / name) is not None:
            yield _restore(target, target.directory / name)
    if status is not None:
        refused = "the running server writes to it until it is restarted" if _is_written(target, status) else needed

        def remove() -> str | None:
            return None if hands.remove(log) else "it still exists"

        yield Leftover(LeftoverKind.LOG, str(log), bytes_text(status.st_size), refused, _telling(remove))


def _lock(directory: Path, undo_root: Path) -> Leftover:
    """Return a lock of no session: who was killed between making and signing it had changed nothing yet."""
    about = "of a session that was killed before it changed anything, or is over"
    remove = _by(lambda: ServerLock.take(directory, is_over=server_lock.is_over_for(undo_root)).release())
    return Leftover(LeftoverKind.LOCK, str(directory / server_lock.NAME), about, "", remove)


def _restore(target: Target, folder: Path) -> Leftover:
    """Return files that a restore for a replay was at when it was killed."""
    about = "files of a restore that did not end: the server runs without them"
    argv = ["rm", "-rf", "--", str(folder)]
    remove = _by(lambda: target.runner.run(argv, user=target.os_user, cwd=Path("/")))
    return Leftover(LeftoverKind.RESTORE, str(folder), about, "", remove)


def _is_written(target: Target, status: os.stat_result) -> bool:
    pid = target.cpu.postmaster() if target.local else None
    with suppress(OSError):
        return pid is not None and os.path.samestat(status, Path(f"/proc/{pid}/fd/2").stat())
    return False


def _dropin(target: Target, dropin: DropIn, undo_root: Path, needed: str) -> Leftover | None:
    """Return our file beside the main one, with the line that names it; None where neither is there."""
    ours, main = dropin.read(), dropin.hands.read(dropin.main_real, at_most=LONGEST)
    included = _without_include(main) != main
    if ours is None and not included:
        return None
    kept, settings, rest = _sorted_lines(ours or b"")
    sessions = [info.directory.name for info in _sessions_on(target, undo_root) if info.state is SessionState.KEPT]
    refused = needed
    if kept or sessions:
        names = ", ".join(map(shlex.quote, sorted({*kept, *sessions})))  # the file is the server owner's
        refused = refused or f"it holds what pgdyno apply kept: pgdyno rollback {names} takes it back"
    elif rest:
        refused = refused or f"it holds lines that pgdyno did not write: {rest[0]}"
    noun = "setting" if settings == 1 else "settings"
    whose = "the open session" if needed else "a session that is over"
    about = f"{settings} {noun} of {whose}" if settings else "empty"

    def remove() -> None:
        if included:
            dropin.hands.replace(dropin.main_real, _without_include(main))
        dropin.put_back(None)
        target.postgres.execute("SELECT pg_reload_conf()")

    return Leftover(LeftoverKind.DROP_IN, str(dropin.path), about, refused, _by(remove))


def _without_include(main: bytes) -> bytes:
    """Return the main file without the lines that we append to it, where they stand as we wrote them."""
    lines = b"".join(line + b"\n" for line in INCLUDE_LINES)
    return main.replace(lines, b"") if b"\n" + lines in main or main.startswith(lines) else main


def _sorted_lines(data: bytes) -> tuple[list[str], int, list[str]]:
    """Return the changes that were kept, how many settings are of sessions, and what is in none of our blocks."""
    kept, settings, rest, block = [], 0, [], ""
    for line in data.decode(errors="replace").splitlines():
        if line.startswith((SESSION_MARK, KEPT_MARK)):
            block = line
            kept += [line.removeprefix(KEPT_MARK).strip()] if line.startswith(KEPT_MARK) else []
        elif line.startswith(END_MARK):
            block = ""
        elif line.strip() and not block:
            rest.append(line.strip())
        elif line.strip() and not line.startswith("#"):
            settings += 1
    return kept, settings, [*rest, *([f"{block} (without its end)"] if block else [])]


def _sandbox(record: SandboxRecord, undo_root: Path) -> Leftover:
    folder = registry.sandbox_dir(record.name)
    refused = f"its server runs: pgdyno sandbox stop {record.name}" if record.stay_up else ""
    lock = SandboxLock(record.name)
    try:
        lock.acquire()
    except PgdynoError as error:
        refused = error.message
    finally:
        lock.release()
    for info in list_bundles(undo_root):
        directory = "" if info.bundle is None else info.bundle.manifest.data_directory
        if info.state is SessionState.ABANDONED and Path(directory).is_relative_to(folder):
            refused = f"session {info.directory.name} is open: run pgdyno rollback {info.directory.name} first"
    remove = _by(lambda: Sandbox.open_or_create(record.name).destroy())
    return Leftover(LeftoverKind.SANDBOX, record.name, f"PostgreSQL {record.version}", refused, remove)


def _by(*steps: Callable[[], object]) -> Callable[[], str | None]:
    """Return the removal by these steps, one after the other; what the system refuses is told."""

    def remove() -> None:
        for step in steps:
            step()

    return _telling(remove)


def _telling(remove: Callable[[], str | None]) -> Callable[[], str | None]:
    """Return a removal that tells what the system refuses instead of ending the others."""

    def told() -> str | None:
        try:
            return remove()
        except OSError as error:
            return (error.strerror or str(error)).lower()
        except PgdynoError as error:
            return error.detail or error.message

    return told


def removable(found: Sequence[Leftover]) -> list[Leftover]:
    """Return what may go."""
    return [one for one in found if not one.refused]
