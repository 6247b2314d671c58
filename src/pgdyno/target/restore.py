"""Put a server back as its undo bundle says. One way for all: the end of a study, an interrupt, and after a SIGKILL.

Goes by what it finds on disk and in the server, never by what the dead session meant to do, so it is right from
every state and may be repeated. Order: end what the session left running, files, then the server.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pgdyno.errors import ConnectError, EnvironmentUnsuitable, RestartError, RollbackError
from pgdyno.target import activation, hung, kept_change, kernel_route, processes, snapshot
from pgdyno.target.bundle import CLOSED, UndoBundle
from pgdyno.target.file_route import FileRoute
from pgdyno.target.identity import ProcessIdentity, end_process, wait_until
from pgdyno.target.journal import Journal
from pgdyno.target.postgres import Postgres
from pgdyno.target.restart import Control, for_restore
from pgdyno.target.route import Route
from pgdyno.target.signals import deferred_signals
from pgdyno.target.snapshot import SettingDifference

PROCESS = "process"
CLAIM_S = 180.0
"""How long a rollback waits for another one of the same session, such as the watchdog's."""
_ATTEMPTS = 2
_CONTROL_WAIT_S = 60.0
_SLOT_WAIT_S = 20.0


@dataclass(frozen=True, slots=True)
class Restored:
    """What a rollback did. `files` were put back, with Linux knobs by their names among them.

    `settings_differences` and `damage` should be empty.
    `ended` names processes that the session had left running. `already_closed` means that there was nothing to do.
    """

    files: tuple[str, ...] = ()
    settings_differences: tuple[SettingDifference, ...] = ()
    restarted: bool = False
    seconds: float = 0.0
    damage: tuple[str, ...] = ()
    ended: tuple[str, ...] = ()
    already_closed: bool = False

    @property
    def is_whole(self) -> bool:
        """Return True when files and settings are as they were found."""
        return not self.settings_differences and not self.damage


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
    """Put the server back; safe to call again, from every state, and not to be interrupted by a signal.

    The bundle is closed when everything is as it was; else it stays open, `damage` and `settings_differences` say
    why, and a later call tries again. `by` is kept in the journal. `kept` says that a change that was kept is meant
    too: it is put back unless others have changed the files since (see kept_change.py). Raises RollbackError when the
    files or the server could not be brought back at all, and UsageError when another process still restores the same
    bundle after `wait_s`.
    """
    with deferred_signals(), bundle.alone(wait_s, sleep):
        if bundle.is_closed():
            if not kept or bundle.kept() is None:
                return Restored(already_closed=True)
            kept_change.refuse_stale(bundle)
        began, control = clock(), for_restore(control)
        bundle.release_reserve()
        journal, damage = _journal(bundle)
        if bundle.manifest.local:
            hung.revive_or_end(Path(bundle.manifest.data_directory), bundle.manifest.address, sleep=sleep)
        ended = _end_leftovers(bundle, journal, sleep)
        _require_data_directory(bundle)
        damage += route.strange_edits() if isinstance(route, FileRoute) else []
        # The kernel first: the server may need its pool of huge pages to start.
        changed, _ = kernel_route.put_back(bundle)
        files = tuple(route.put_back())
        damage += route.leftovers()
        restarted = _bring_back(bundle, postgres, control, route, sleep, changed)
        try:
            differences = route.differences(bundle.settings(), _settings(postgres))
        except ConnectError as error:
            raise _unverified(bundle, error) from error
        again, unchanged = kernel_route.put_back(bundle)
        damage += unchanged
        files += tuple(sorted({*changed, *again}))
        restored = Restored(files, differences, restarted, clock() - began, tuple(damage), ended)
        if restored.is_whole:
            journal.append(CLOSED, {"files": list(files), "restarted": restarted, "by": by + _kept_edits(bundle)})
        return restored


def _kept_edits(bundle: UndoBundle) -> str:
    """Return where the bytes are that somebody else wrote meanwhile: an attempt before may have been the one to see."""
    names = sorted(path.name for path in bundle.directory.glob("found-*.conf"))
    return f"; an edit of somebody else is kept in the bundle: {', '.join(names)}" if names else ""


def _journal(bundle: UndoBundle) -> tuple[Journal, list[str]]:
    """Open the journal; a damaged one is set aside, because what restores the server is the manifest."""
    reading = bundle.reading()
    if reading.damage is None:
        return bundle.journal(), []
    path = bundle.directory / "journal.jsonl"
    if path.exists():
        path.rename(path.with_suffix(".damaged"))
    journal = Journal.create(path)
    for record in reading.records:
        journal.append(record.kind, record.data)
    return journal, [f"the journal was damaged: {reading.damage}; it is kept as journal.damaged"]


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


def _is_controlled(data_directory: str) -> bool:
    for pid in processes.all_pids():
        try:
            words = (processes.PROC / str(pid) / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if os.fsencode(data_directory) in words and any(Path(os.fsdecode(word)).name == "pg_ctl" for word in words):
            return True
    return False


def _require_data_directory(bundle: UndoBundle) -> None:
    if bundle.manifest.local and not Path(bundle.manifest.data_directory).is_dir():
        raise RollbackError(
            f'the data directory "{bundle.manifest.data_directory}" does not exist',
            detail="The server of this session was moved, removed, or is not mounted.",
            hint=f"Bring it back and run pgdyno rollback {bundle.id}, or drop the session with --forget.",
        )


def _bring_back(
    bundle: UndoBundle,
    postgres: Postgres,
    control: Control | None,
    route: Route,
    sleep: Callable[[float], None],
    kernel: Sequence[str],
) -> bool:
    """Make the server run with the restored files; return whether it was restarted or started.

    What somebody else changed meanwhile is reported by the caller, and is no reason for an outage; huge pages of a pool
    that went with the Linux knobs `kernel` are one, because nobody can have them as long as the server runs.
    """
    before = bundle.settings()
    try:
        _wait_for_slot(postgres, control, sleep)
        if _is_up(postgres, control, sleep):
            activation.reload(postgres, control, sleep=sleep)
            remaining = route.differences(before, _settings(postgres))
            pid = processes.postmaster_pid(Path(bundle.manifest.data_directory)) if bundle.manifest.local else None
            held = pid is not None and kernel_route.is_pool_held(kernel, pid)
            if not held and not any(difference.may_end_with_restart for difference in remaining):
                return False
    except ConnectError as error:
        if not _went_down(postgres, control, sleep):
            raise _unverified(bundle, error) from error
    except (RestartError, EnvironmentUnsuitable):
        if control is None:
            raise
    if control is None:
        return False
    _restart(bundle, postgres, control)
    return True


def _wait_for_slot(postgres: Postgres, control: Control | None, sleep: Callable[[float], None]) -> None:
    """Let a server that has no free connection read its files at once, and wait a while for a slot.

    Only when none comes free is it restarted, which ends the sessions of others.
    """
    if control is None or activation.free_slot(postgres):
        return
    control.reload()
    wait_until(lambda: activation.free_slot(postgres), timeout_s=_SLOT_WAIT_S, sleep=sleep, step_s=0.5)


def _is_up(postgres: Postgres, control: Control | None, sleep: Callable[[float], None]) -> bool:
    running = control is None or control.is_running()
    return running and activation.answers_sql(postgres, sleep=sleep)


def _went_down(postgres: Postgres, control: Control | None, sleep: Callable[[float], None]) -> bool:
    """Tell whether a server that was up is gone: the dead session may have asked it to stop just before."""
    try:
        return control is not None and not _is_up(postgres, control, sleep)
    except ConnectError:
        return False


def _restart(bundle: UndoBundle, postgres: Postgres, control: Control) -> None:
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            activation.restart(postgres, control)
            return
        except RestartError as error:
            if attempt == _ATTEMPTS:
                raise RollbackError(
                    f"the files are back, but the server did not start: {error.message}",
                    detail=error.detail,
                    hint=f"See why in its log, then run pgdyno rollback {bundle.id}.",
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
