"""Roll back sessions whose process was killed: find their undo bundles, see that nobody works on them, restore."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from pgdyno.control import Control, control_record
from pgdyno.errors import RollbackError, UsageError
from pgdyno.linux.identity import ProcessIdentity
from pgdyno.owner.runner import LocalRunner, Runner
from pgdyno.routes import route_record
from pgdyno.server.postgres import Postgres
from pgdyno.targets.target import Target
from pgdyno.undo import server_lock
from pgdyno.undo.bundle import (
    CLOSED,
    JOURNAL,
    UndoBundle,
    bundle_directories,
    is_closed_in,
    whole_journal,
)
from pgdyno.undo.journal import read_journal
from pgdyno.undo.manifest import Manifest
from pgdyno.undo.restore import Restored, restore
from pgdyno.undo.undo_plan import undo_plan
from pgdyno.units import plural


class SessionState(StrEnum):
    """How a session stands."""

    RUNNING = "running"
    """Its process is alive: it restores the server itself when it ends."""
    ABANDONED = "abandoned"
    """Its process is gone and the server was not put back: roll it back."""
    CLOSED = "closed"
    """The server was restored."""
    KEPT = "kept"
    """Its change was accepted and is in force: rolling it back by its ID restores the server."""
    UNREADABLE = "unreadable"
    """The manifest of an open session is damaged: restore by hand, as UNDO.md beside it says, and forget it."""


@dataclass(frozen=True, slots=True)
class BundleInfo:
    """A bundle and how its session stands. `bundle` is None for an unreadable one.

    `applied` counts the configurations that came into force. `damage` says what is wrong with manifest or journal,
    None when nothing is. `closed_by` says who restored the server: `session`, `rollback`, or `watchdog: why`.
    """

    directory: Path
    bundle: UndoBundle | None
    state: SessionState
    applied: int
    damage: str | None
    closed_by: str | None = None


def list_bundles(undo_root: Path) -> list[BundleInfo]:
    """Return every bundle, newest first."""
    return [describe(directory) for directory in bundle_directories(undo_root)]


def sessions_of(target: Target, undo_root: Path) -> list[BundleInfo]:
    """Return the sessions of this host's bundles that were on this server, newest first."""
    return [info for info in list_bundles(undo_root) if info.bundle is not None and is_of(info.bundle.manifest, target)]


def describe(directory: Path) -> BundleInfo:
    """Return how the session of a bundle stands."""
    reading = read_journal(directory / JOURNAL)
    bundle, damage = None, reading.damage
    try:
        bundle = UndoBundle.open(directory)
    except RollbackError as error:
        damage = error.detail
    if reading.records and reading.records[-1].kind == CLOSED:
        state = SessionState.KEPT if reading.records[-1].data.get("kept") else SessionState.CLOSED
    elif bundle is None:
        state = SessionState.UNREADABLE
    else:
        state = SessionState.RUNNING if bundle.manifest.owner.is_alive() else SessionState.ABANDONED
    applied = sum(record.kind == "in force" for record in reading.records)
    by = reading.records[-1].data.get("by", "session") if state in (SessionState.CLOSED, SessionState.KEPT) else None
    return BundleInfo(directory, bundle, state, applied, damage, None if by is None else str(by))


def find_bundle(undo_root: Path, id: str) -> BundleInfo:
    """Return the bundle of this ID, or of the only one that begins with it. Raises UsageError when there is none."""
    names = [directory.name for directory in bundle_directories(undo_root)]
    return describe(undo_root / full_id(names, id))


def full_id(names: Sequence[str], id: str) -> str:
    """Return the name that this is, or the only one that begins with it. Raises UsageError when there is none."""
    found = [name for name in names if name.startswith(id)]
    if id not in found and len(found) != 1:
        what = "is not a session" if not found else f"could be {plural(len(found), 'session')}"
        raise UsageError(f'"{id}" {what}', hint="pgdyno rollback --list shows the sessions that can be rolled back.")
    return id if id in found else found[0]


def is_of(manifest: Manifest, target: Target) -> bool:
    """Tell whether a session was on this server."""
    if manifest.local and target.route is None:
        return target.directory is not None and manifest.data_directory == str(target.directory)
    return manifest.target == target.postgres.label


class Sessions(Protocol):
    """The sessions of one host: of this one, or of a `remote.host.RemoteHost`."""

    def sessions(self) -> list[BundleInfo]:
        """Return every session, newest first."""

    def plan(self, session: str) -> list[str]:
        """Return what a rollback of a session will do, line by line, changing nothing; see `undo_plan`."""

    def roll_back(self, session: str) -> Restored:
        """Roll back a session by its whole ID; see `rollback`."""

    def forget(self, session: str) -> None:
        """Close a session without restoring; see `forget`."""


@dataclass(frozen=True, slots=True)
class LocalSessions:
    """The sessions whose bundles are in an undo folder of this host."""

    undo_root: Path

    def sessions(self) -> list[BundleInfo]:
        """Return every session, newest first."""
        return list_bundles(self.undo_root)

    def plan(self, session: str) -> list[str]:
        """Return what a rollback will do. Raises RollbackError when the bundle cannot be read."""
        return undo_plan(UndoBundle.open(self.undo_root / session))

    def roll_back(self, session: str) -> Restored:
        """Roll back a session. Raises RollbackError when its bundle cannot be read, and as `rollback`."""
        return rollback(UndoBundle.open(self.undo_root / session), kept=True)

    def forget(self, session: str) -> None:
        """Close a session without restoring, also one whose bundle cannot be read. Errors as `forget`."""
        forget(self.undo_root / session)


def rollback(
    bundle: UndoBundle,
    *,
    runner: Runner | None = None,
    postgres: Postgres | None = None,
    control: Control | None = None,
    by: str = "rollback",
    kept: bool = False,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Restored:
    """Put a server back after its session was killed, whether the server is up, down or refuses sessions.

    Does nothing when it was put back before; `kept` says that a change that was kept is to be put back too. How to
    reach and start the server comes from the `bundle`, unless `postgres` and `control` are given; `runner` runs the
    programs of a control from the bundle, None to run them on this host. `by` says in the journal who restored. `clock`
    and `sleep` are those of `restore`. Raises UsageError while the session's process is alive, and as
    `restore.restore`.
    """
    owner = bundle.manifest.owner
    if not bundle.is_closed() and owner != ProcessIdentity.own() and owner.is_alive():
        raise UsageError(
            f"session {bundle.id} is still running as process {owner.pid}",
            hint=f"End it with kill {owner.pid}: it restores the server itself.",
        )
    postgres = postgres or Postgres(bundle.manifest.conninfo)
    try:
        control = control or control_record.from_record(
            bundle.manifest.control, runner=runner or LocalRunner(), postgres=postgres
        )
        route = route_record.from_record(bundle, postgres)
    except (KeyError, ValueError) as error:
        raise RollbackError(
            f"the bundle of session {bundle.id} does not say how its server is reached or started",
            detail=str(error),
            hint=f"Follow {bundle.directory / 'UNDO.md'}.",
        ) from error
    return restore(bundle, postgres=postgres, control=control, route=route, by=by, kept=kept, clock=clock, sleep=sleep)


def forget(directory: Path) -> None:
    """Close a bundle without restoring: for a server that is gone, or differences that its owner accepts.

    A change that was kept is in force for good then: its bundle does not take it back any more. One that cannot be read
    is closed too, so that it stands in no session's way after a person has restored by hand.

    Raises UsageError while the session's process is alive.
    """
    try:
        bundle = UndoBundle.open(directory)
    except RollbackError:
        if not is_closed_in(directory):
            whole_journal(directory)[0].append(CLOSED, {"forgotten": True})
        (directory / "reserve").unlink(missing_ok=True)
        return
    if bundle.manifest.owner.is_alive() and bundle.kept() is None:
        raise UsageError(
            f"session {bundle.id} is still running as process {bundle.manifest.owner.pid}",
            hint="Wait until it has ended, or end it with SIGTERM: it restores its server itself.",
        )
    if not bundle.is_closed() or bundle.kept() is not None:
        bundle.journal().append(CLOSED, {"forgotten": True})
    bundle.release_reserve()
    server_lock.remove(bundle)
