"""What a session needs before its first change: the server as it was found, an undo bundle of it, and its lock."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pgdyno.control import control_record
from pgdyno.errors import EnvironmentUnsuitable, RollbackError, telling_files
from pgdyno.linux.identity import ProcessIdentity
from pgdyno.owner.hands import OURS, Hands
from pgdyno.owner.pins import Pin, before_any_change
from pgdyno.routes import mixed_route
from pgdyno.routes.file_route import files_of
from pgdyno.routes.route import Route
from pgdyno.targets.target import Target
from pgdyno.undo import baseline, bundle, server_process
from pgdyno.undo.bundle import UndoBundle
from pgdyno.undo.kernel_route import KernelRoute
from pgdyno.undo.manifest import Manifest
from pgdyno.undo.one_session import OneSession


@dataclass(frozen=True, slots=True)
class Opening:
    """A session that may begin: its bundle is on disk, the server is not changed yet.

    `secrets` are libpq's, for the watchdog. `lacking` says why the server is not to be restarted: what its process
    would not have again.
    """

    target: Target
    bundle: UndoBundle
    held: OneSession
    linux: KernelRoute
    secrets: Mapping[str, str] = field(repr=False)
    lacking: tuple[str, ...] = ()

    @classmethod
    def make(cls, target: Target, *, study: str, undo_root: Path, kernel: Sequence[str], reserve_bytes: int) -> Opening:
        """Look at the server, take its lock and write the undo bundle. Errors as `Session.begin`.

        The bundle of `target` is made in `undo_root`, the folder of all bundles, and notes `study`, an id. `kernel` are
        the Linux knobs whose values are kept, `reserve_bytes` the room that is set aside in it for the way back.
        """
        with bundle.locked(undo_root), contextlib.ExitStack() as unlocking:
            found = baseline.take_baseline(target)
            _refuse_second(undo_root, target, found)
            held = OneSession.take(target, found, undo_root)
            unlocking.callback(held.release)
            baseline.check_no_leftover(found)
            paths = files_of(found.dropin) if found.dropin else []
            hands = found.dropin.hands if found.dropin else OURS
            # Pinned before anything is read in them: image and pin must be of the same directory.
            pins = _pins(hands, found.data_directory, paths) if found.dropin else ()
            hands = hands.pinned(pins)
            captured = [hands.capture(path) for path in paths]
            hands.check_replaceable(paths)
            process = server_process.take(target, found.data_directory) if found.dropin else server_process.Kept()
            shared = mixed_route.shared_lines(target, found.data_directory, found.settings) if found.dropin else None
            linux = KernelRoute.capture(target, kernel)
            secrets, asks_password = target.postgres.secrets()
            now = time.time()
            manifest = Manifest(
                id=bundle.new_id(study, at=now, undo_root=undo_root),
                study=study,
                created_at=now,
                target=target.postgres.label,
                conninfo=found.conninfo,
                data_directory=str(found.data_directory),
                main_file=str(found.dropin.main_real) if found.dropin else "",
                bin_dir=str(target.bin_dir),
                control=control_record.to_record(target.control),
                owner=ProcessIdentity.own(),
                images=tuple(image for image, _ in captured),
                route=mixed_route.record_of(found.dropin, shared) if found.dropin else _route_of(target).record(),
                local=found.dropin is not None,
                address=found.address,
                kernel=linux.images,
                asks_password=asks_password,
                sandbox=target.disposable,
                reserve=str(found.data_directory / bundle.DATA_RESERVE) if found.dropin else None,
                pins=pins,
            )
            undo = UndoBundle.create(
                undo_root,
                manifest,
                contents=[data for _, data in captured],
                settings=found.settings,
                process=process.image,
                reserve_bytes=reserve_bytes,
            )
            unlocking.pop_all()
        return cls(target, undo, held, linux, secrets, process.lacking)

    @staticmethod
    @before_any_change()
    @telling_files(EnvironmentUnsuitable, "Nothing was changed. Find out who put that there, and whose it is.")
    def refuse_unfit(target: Target, *, restart: bool) -> None:
        """Refuse a server on which no session could begin, or none that restarts it; errors as `Session.begin`.

        For whoever has hours of work to do before: the session itself looks again. Changes nothing.
        """
        found = baseline.take_baseline(target)
        baseline.check_no_leftover(found)
        if found.dropin is None:
            return
        found.dropin.hands.check_replaceable(files_of(found.dropin))
        lacking = server_process.take(target, found.data_directory).lacking if restart else ()
        if lacking:
            raise server_process.unsuitable(target, "\n".join(lacking))

    def route(self) -> Route:
        """Return the way in which settings reach the server."""
        if not self.bundle.manifest.local:
            return _route_of(self.target)
        return mixed_route.from_record(self.bundle.manifest.route, self.bundle, self.target.postgres, self.target)


def _refuse_second(undo_root: Path, target: Target, found: baseline.Baseline) -> None:
    """Refuse while another session on the same server is open: of its files here, or of its address elsewhere."""
    is_local, label = found.dropin is not None, target.postgres.label
    for directory in bundle.bundle_directories(undo_root):
        if bundle.is_closed_in(directory):
            continue
        try:
            other = UndoBundle.open(directory)
        except RollbackError as error:
            raise EnvironmentUnsuitable(
                f'session {directory.name} is open, and cannot be read: it may be of "{found.data_directory}"',
                detail=error.detail,
                hint=f"Restore by hand as {directory / 'UNDO.md'} says, then run "
                f"pgdyno rollback {directory.name} --forget.",
            ) from error
        same_files = other.manifest.data_directory == str(found.data_directory)
        same = same_files if is_local and other.manifest.local else other.manifest.target == label
        if not same:
            continue
        alive = other.manifest.owner.is_alive()
        raise EnvironmentUnsuitable(
            f'session {other.id} on "{found.data_directory}" is still open',
            detail=f"Process {other.manifest.owner.pid} {'is working on it' if alive else 'ended without a rollback'}.",
            hint="Wait until it ends." if alive else f"Run pgdyno rollback {other.id} first.",
        )


def _pins(hands: Hands, data_directory: Path, files: Sequence[Path]) -> tuple[Pin, ...]:
    """Pin every directory that the session will write to, as it is now."""
    return tuple(hands.pin(folder) for folder in dict.fromkeys([data_directory, *(path.parent for path in files)]))


def _route_of(target: Target) -> Route:
    assert target.route is not None, "a target without configuration files at hand names its route"
    return target.route
