"""Put a server back as its undo bundle says. One way for all: the end of a study, an interrupt, and after a SIGKILL.

Goes by what it finds on disk and in the server, never by what the dead session meant to do, so it is right from
every state and may be repeated. Order: end what the session left running, files, then the server.
"""

from __future__ import annotations

import contextlib
import logging
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from pgdyno.control import Control, for_restore
from pgdyno.errors import ConnectError, EnvironmentUnsuitable, RestartError, RollbackError, telling_files
from pgdyno.linux import processes
from pgdyno.linux.identity import ProcessIdentity, end_process, wait_until
from pgdyno.owner.orphans import end_orphans
from pgdyno.owner.signals import deferred_signals
from pgdyno.routes.file_route import FileRoute
from pgdyno.routes.route import Route
from pgdyno.routes.written import FILES_BACK, Written
from pgdyno.server import snapshot
from pgdyno.server.postgres import Postgres
from pgdyno.server.snapshot import SettingDifference
from pgdyno.undo import (
    activation,
    comeback,
    hung,
    kept_change,
    kernel_route,
    one_session,
    ours,
    restart_need,
    server_lock,
    server_process,
    stopped,
    stuck_stop,
)
from pgdyno.undo.bundle import CLOSED, DAMAGED_JOURNAL, UndoBundle, whole_journal
from pgdyno.undo.comeback import Comeback
from pgdyno.undo.journal import Journal

log = logging.getLogger(__name__)

PROCESS = "process"
CLAIM_S = 180.0
"""How long a rollback waits for another one of the same session, such as the watchdog's."""
_ATTEMPTS = 2
_CONTROL_WAIT_S = 60.0


@dataclass(frozen=True, slots=True)
class Restored:
    """What a rollback did. `files` were put back, with Linux knobs by their names among them.

    `settings_differences` and `damage` should be empty: they hold what is ours and could not be undone.
    `ended` names processes that the session had left running. `already_closed` means that there was nothing to do.
    `notes` tell what somebody else changed meanwhile, which stays. `left_down`: a person had shut the server down.
    `not_compared` says why the settings of the server could not be looked at afterwards, None when they were.
    """

    files: tuple[str, ...] = ()
    settings_differences: tuple[SettingDifference, ...] = ()
    restarted: bool = False
    seconds: float = 0.0
    damage: tuple[str, ...] = ()
    ended: tuple[str, ...] = ()
    already_closed: bool = False
    notes: tuple[str, ...] = ()
    left_down: bool = False
    not_compared: str | None = None

    @property
    def is_whole(self) -> bool:
        """Return True when nothing of ours is left in files and settings, by all that could be seen."""
        return not self.settings_differences and not self.damage


@telling_files(RollbackError, "Bring it back; the undo bundle is kept for pgdyno rollback.")
def restore(
    bundle: UndoBundle,
    *,
    postgres: Postgres,
    control: Control | None,
    route: Route,
    by: str = "session",
    wait_s: float = CLAIM_S,
    kept: bool = False,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Restored:
    """Restore the server; safe to call again, from every state, and not to be interrupted by a signal.

    The bundle is closed when all that is ours is undone; else it stays open, `damage` and `settings_differences` say
    why, and a later call tries again. What others changed stays, is told in `notes`, and costs no outage (ours.py); a
    server that a person has shut down is left down (stopped.py). `postgres` opens sessions on the server, `control`
    starts and restarts it, None where pgdyno was not told how, and `route` takes back the settings of the session of
    `bundle`. `by` says in the journal who restored. `kept` says that a change that was kept is meant too (see
    kept_change.py). `clock` and `sleep` are in seconds. Raises RollbackError when the files or the server could not be
    brought back at all, and UsageError when another process still restores the same bundle after `wait_s`.
    """
    with deferred_signals(), bundle.alone(wait_s, sleep), one_session.restoring(bundle, postgres):
        if bundle.is_closed():
            if not kept or bundle.kept() is None:
                return Restored(already_closed=True)
            kept_change.refuse_stale(bundle, route)
        began, control = clock(), for_restore(control)
        bundle.release_reserve()
        journal, torn = whole_journal(bundle.directory)  # what restores the server is the manifest
        damage = [] if torn is None else [f"the journal was damaged: {torn}; it is kept as {DAMAGED_JOURNAL}"]
        written = bundle.written()
        if bundle.manifest.local:
            hung.revive_or_end(Path(bundle.manifest.data_directory), bundle.manifest.address, sleep=sleep)
        with stuck_stop.ended(_being_stopped(bundle, journal)):
            ended = _end_leftovers(bundle, journal, sleep)
        _require_data_directory(bundle)
        if bundle.manifest.local:
            end_orphans(bundle.hands().account, sleep=sleep)
        process = server_process.Before.look(bundle, journal)
        control = control and process.like(control)
        notes = [note for change in route.changes() for note in change.notes] if isinstance(route, FileRoute) else []
        # The kernel first: the server may need its pool of huge pages to start.
        changed, _ = kernel_route.put_back(bundle)
        files = tuple(route.put_back())
        with contextlib.suppress(OSError):
            journal.append(FILES_BACK)
        damage += route.leftovers()
        remembered = "".join(f"; {note}" for note in notes)
        if bundle.manifest.local:
            with stuck_stop.ended(_being_stopped(bundle, journal)):
                back = comeback.bring_back(bundle, journal, postgres, control, route, kernel=changed, sleep=sleep)
        else:
            back = _Server(bundle, postgres, control, route, journal, written, sleep).bring_back()
        if back.left_down:
            notes.append(stopped.left_down(sandbox=bundle.manifest.sandbox))
            remembered += f"; {notes[-1]}"
        else:
            damage += process.damage(journal, back.restarted)
        if back.not_compared:
            log.warning("session %s: settings not compared: %s", bundle.id, back.not_compared)
            remembered += f"; settings not compared: {' '.join(back.not_compared.split())}"
        notes += back.notes
        again, unchanged = kernel_route.put_back(bundle)
        damage += unchanged
        files += tuple(sorted({*changed, *again}))
        restored = Restored(
            files,
            back.differences,
            back.restarted,
            clock() - began,
            tuple(damage),
            ended,
            notes=tuple(notes),
            left_down=back.left_down,
            not_compared=back.not_compared,
        )
        if restored.is_whole:
            done = {"files": list(files), "restarted": restored.restarted, "left_down": restored.left_down}
            server_lock.remove(bundle)  # once a session is closed, nothing of it is in the server's folder
            journal.append(CLOSED, {**done, "by": by + remembered, "notes": notes})
        return restored


def _end_leftovers(bundle: UndoBundle, journal: Journal, sleep: Callable[[float], None]) -> tuple[str, ...]:
    ended = []
    for record in journal.records:
        if record.kind == PROCESS:
            data = record.data
            process = ProcessIdentity(int(str(data["pid"])), int(str(data["start_ticks"])), str(data["boot_id"]))
            if end_process(process, sleep=sleep):
                ended.append(f"{data['what']} {process.pid}")
    # A pg_ctl that outlived the session may be about to start the server: let it finish before the files change.
    directory = bundle.manifest.data_directory
    wait_until(lambda: not _is_controlled(directory), timeout_s=_CONTROL_WAIT_S, sleep=sleep)
    return tuple(ended)


def _being_stopped(bundle: UndoBundle, journal: Journal) -> ProcessIdentity | None:
    """Return the postmaster of a server of this host that the dead session was about to stop."""
    if not bundle.manifest.local or not stopped.is_our_stop_open(journal.records):
        return None
    return stuck_stop.server_in(Path(bundle.manifest.data_directory))


def _is_controlled(data_directory: str) -> bool:
    for pid in processes.all_pids():
        try:
            words = processes.command_words(pid)
        except OSError:
            continue
        if os.fsencode(data_directory) in words and any(Path(os.fsdecode(word)).name == "pg_ctl" for word in words):
            return True
    return False


def _require_data_directory(bundle: UndoBundle) -> None:
    """Refuse while it is away: what an unmounted disk leaves in its place is not to be written into."""
    if bundle.manifest.local and not (Path(bundle.manifest.data_directory) / "PG_VERSION").is_file():
        raise RollbackError(
            f'the data directory "{bundle.manifest.data_directory}" does not exist',
            detail="The server of this session was moved, removed, or is not mounted.",
            hint=f"Bring it back and run pgdyno rollback {bundle.id}, or drop the session with --forget.",
        )


@dataclass(frozen=True, slots=True)
class _Server:
    """A server of which we only have sessions, whose settings are staged as they shall be."""

    bundle: UndoBundle
    postgres: Postgres
    control: Control | None
    route: Route
    journal: Journal
    written: Written
    sleep: Callable[[float], None]

    def bring_back(self) -> Comeback:
        """Make the server run with the old settings, and compare.

        What somebody else changed meanwhile is no reason for an outage; neither is what a restart of an earlier attempt
        has not ended.
        """
        restarted = self._reload_or_restart()
        try:
            found = [each for each in self._found() if not ours.is_line_only(each)]
            waiting = comeback.waiting_lines(self.postgres, found)
        except ConnectError as error:
            raise _unverified(self.bundle, error) from error
        left = tuple(each for each in found if ours.is_ours(each, self.written, frozenset(), waiting))
        return Comeback(restarted, left, notes=tuple(ours.told(each) for each in found if each not in left))

    def _reload_or_restart(self) -> bool:
        try:
            self._wait_for_slot()
            if self._is_up():
                if stopped.is_our_stop_open(self.journal.records):
                    self._append(stopped.STARTED, {"seen": True})
                activation.reload(self.postgres, self.control, sleep=self.sleep)
                if self._has_returned() or not self._wants_restart():
                    return False
        except ConnectError as error:
            if not self._went_down():
                raise _unverified(self.bundle, error) from error
        except (RestartError, EnvironmentUnsuitable):
            if self.control is None:
                raise
        if self.control is None:
            return False
        comeback.refuse_broken_files(self.bundle, self.postgres)
        self._restart(self.control)
        self._append(restart_need.RETURN, restart_need.note(None))
        return True

    def _has_returned(self) -> bool:
        return any(record.kind == restart_need.RETURN for record in self.journal.records)

    def _found(self) -> tuple[SettingDifference, ...]:
        return self.route.differences(self.bundle.settings(), _settings(self.postgres))

    def _wants_restart(self) -> bool:
        found = self._found()
        waiting = comeback.waiting_lines(self.postgres, found)
        return any(ours.wants_restart(each, self.written, waiting) for each in found)

    def _wait_for_slot(self) -> None:
        """Let a server that has no free connection read its files at once, and wait a while for a slot.

        Only when none comes free is it restarted, which ends the sessions of others.
        """
        if self.control is None or activation.free_slot(self.postgres):
            return
        self.control.reload()
        wait_until(
            lambda: activation.free_slot(self.postgres), timeout_s=comeback.SLOT_WAIT_S, sleep=self.sleep, step_s=0.5
        )

    def _is_up(self) -> bool:
        running = self.control is None or self.control.is_running()
        return running and activation.answers_sql(self.postgres, sleep=self.sleep)

    def _went_down(self) -> bool:
        """Tell whether a server that was up is gone: the dead session may have asked it to stop just before."""
        try:
            return self.control is not None and not self._is_up()
        except ConnectError:
            return False

    def _append(self, kind: str, data: Mapping[str, object]) -> None:
        with contextlib.suppress(OSError):  # a full disk must not keep the server from coming back
            self.journal.append(kind, data)

    def _restart(self, control: Control) -> None:
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                with stopped.our_restart(self._append):
                    activation.restart(self.postgres, control)
                return
            except RestartError as error:
                if attempt == _ATTEMPTS:
                    raise RollbackError(
                        f"the files are back, but the server did not start: {error.message}",
                        detail=error.detail,
                        hint=f"{error.hint or 'See why in its log.'} Then run pgdyno rollback {self.bundle.id}.",
                    ) from error


def _settings(postgres: Postgres) -> dict[str, snapshot.SettingState]:
    with postgres.connect() as connection:
        return snapshot.read_settings(connection, label=postgres.label)


def _unverified(bundle: UndoBundle, error: ConnectError) -> RollbackError:
    return RollbackError(
        f"the files are back, but the server could not be asked: {error.message}",
        detail=error.detail,
        hint=f"Start the server or make the session possible (PGPASSWORD), then run pgdyno rollback {bundle.id}.",
    )
