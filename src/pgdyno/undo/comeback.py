"""Have a server of this host run with its old files again, by signals and programs: a session is not needed for it.

Where one can be had it says whether a restart is needed, and compares the settings at the end; where none can (no
password, no free connection), the session's journal says the former, and the comparison is left out by name.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pgdyno.control import Control, sighup
from pgdyno.errors import ConnectError, EnvironmentUnsuitable, RestartError, RollbackError
from pgdyno.linux.identity import ProcessIdentity, wait_until
from pgdyno.routes.file_check import read_files
from pgdyno.routes.file_route import FileRoute
from pgdyno.routes.route import Route
from pgdyno.server import snapshot
from pgdyno.server.postgres import Postgres
from pgdyno.server.snapshot import SettingDifference
from pgdyno.undo import activation, kernel_route, ours, restart_need, stopped, stuck_stop
from pgdyno.undo.bundle import UndoBundle
from pgdyno.undo.journal import Journal

SLOT_WAIT_S = 20.0


@dataclass(frozen=True, slots=True)
class Comeback:
    """A server that runs with its old files, or that a person has shut down and that is left so (`left_down`).

    `differences` are ours, `notes` tell what somebody else set meanwhile. `not_compared` says why the settings could
    not be looked at.
    """

    restarted: bool
    differences: tuple[SettingDifference, ...] = ()
    not_compared: str | None = None
    notes: tuple[str, ...] = ()
    left_down: bool = False


@dataclass(frozen=True, slots=True)
class _Look:
    """The settings that are not as they were, and those that wait for a restart because of a line in the files now."""

    found: tuple[SettingDifference, ...] = ()
    waiting: frozenset[str] = frozenset()
    not_compared: str | None = None


def bring_back(
    bundle: UndoBundle,
    journal: Journal,
    postgres: Postgres,
    control: Control | None,
    route: Route,
    *,
    kernel: Sequence[str],
    sleep: Callable[[float], None] = time.sleep,
) -> Comeback:
    """Reload the server, or start it again where it is down or holds what only a restart ends.

    The files of `bundle` are in place, `kernel` names the Linux knobs that were put back. `journal` tells what the
    session and earlier attempts did, and takes what is done here. `postgres` opens sessions where they can be had,
    `control` starts and restarts the server, None where pgdyno was not told how. `route` compares the settings with
    those of before. `sleep` takes seconds. What somebody else changed is no reason for a restart, and neither is what a
    restart on the old files has not ended. Raises RollbackError when the server cannot be started, or does not read its
    files and we cannot restart it.
    """
    server = _Server(bundle, journal, postgres, control, route, sleep)
    if server.is_down_by_person():
        return Comeback(restarted=False, left_down=True)
    look = server.reload() if server.postmaster() is not None else None
    if look is not None and server.postmaster() is not None:
        told = control is None and not look.not_compared  # what only a restart ends is among the differences
        if told or not server.needs_restart(look, kernel):
            return server.comeback(look, restarted=False)
    if server.is_down_by_person():
        return Comeback(restarted=False, left_down=True)
    server.refuse_untimely()
    server.start_anew()
    return server.comeback(server.look(), restarted=True)


def refuse_broken_files(bundle: UndoBundle, postgres: Postgres) -> None:
    """Refuse a restart into files with a line of a person's that the server could not start with.

    Where a session can be had to see it. Raises RollbackError.
    """
    try:
        rejected = read_files(postgres).rejected()
    except EnvironmentUnsuitable:  # no session, or no right to look
        return
    if rejected:
        raise RollbackError(
            "our lines are gone from the files, but the server was not restarted: it would not start with a line "
            f"of somebody else, {rejected[0].place}",
            detail=rejected[0].error,
            hint=f"Fix the problem and run pgdyno rollback {bundle.id}.",
        )


def waiting_lines(postgres: Postgres, found: Sequence[SettingDifference]) -> frozenset[str]:
    """Return the settings that wait for a restart because of a line that is in the files now.

    Raises ConnectError when there is no session any more.
    """
    if not any(each.after is not None and each.after.pending_restart for each in found):
        return frozenset()
    try:
        return read_files(postgres).waiting()
    except ConnectError:
        raise
    except EnvironmentUnsuitable:  # a role that may not see them: then a restart makes sure
        return frozenset()


@dataclass(frozen=True, slots=True)
class _Server:
    bundle: UndoBundle
    journal: Journal
    postgres: Postgres
    control: Control | None
    route: Route
    sleep: Callable[[float], None]

    @property
    def data(self) -> Path:
        return Path(self.bundle.manifest.data_directory)

    def postmaster(self) -> ProcessIdentity | None:
        return sighup.postmaster(self.data)

    def is_down_by_person(self) -> bool:
        """Tell whether somebody else has shut the server down cleanly."""
        return stopped.is_down_by_person(self.journal.records, self.data)

    def reload(self) -> _Look | None:
        """Have the server read its files, and look at its settings; None when it does not read them."""
        try:
            sighup.reload(self.data, self.bundle.manifest.address, sleep=self.sleep)
        except PermissionError:  # another user's server: whoever started it may tell it
            activation.reload(self.postgres, self.control, sleep=self.sleep)
        except RestartError as error:
            if self.control is None:
                raise RollbackError(
                    f"the files are back, but the server did not read them: {error.message}",
                    detail=error.detail,
                    hint=f"{error.hint or 'See why in its log.'} Then run pgdyno rollback {self.bundle.id}.",
                ) from error
            return None
        if sighup.is_ready(self.data) and stopped.is_our_stop_open(self.journal.records):
            self._append(stopped.STARTED, {"seen": True})  # a killed session may have been starting it
        return self.look()

    def needs_restart(self, look: _Look, kernel: Sequence[str]) -> bool:
        """Judge by what is ours; after a restart on the old files, not again."""
        running = self.postmaster()
        if restart_need.has_returned(self.journal.records, running):
            return False
        if running is not None and kernel_route.is_pool_held(kernel, running.pid):
            return True
        if look.not_compared:
            knobs = restart_need.knobs(self.journal.records, self.bundle.settings(), running)
            return bool(knobs) or self.bundle.has_damaged_journal()
        return any(ours.wants_restart(each, self.bundle.written(), look.waiting) for each in look.found)

    def refuse_untimely(self) -> None:
        """Refuse a restart that would come in the way of a person; raises RollbackError.

        That is a shutdown of theirs which is not over yet, and files with a line of theirs that the server could not
        start with, where a session can be had to see it.
        """
        if sighup.status(self.data) == "stopping" and not stopped.is_our_stop_open(self.journal.records):
            raise RollbackError(
                "the files are back, but somebody else is shutting the server down",
                hint=f"Wait for its end and run pgdyno rollback {self.bundle.id}.",
            )
        refuse_broken_files(self.bundle, self.postgres)

    def start_anew(self) -> None:
        """Restart the server, or start it, and wait until it takes sessions; once more only if it is down then."""
        if self.control is None:
            raise self._not_started("pgdyno was not told how to start it", None)
        before = self.postmaster()
        self._append(restart_need.RETURN, restart_need.note(before))
        for last in (False, True):
            try:
                with stopped.our_restart(self._append, stuck_stop.server_in(self.data)):
                    self.control.restart()
                why = RestartError(f'the server in "{self.data}" was started but takes no session')
            except RestartError as error:
                why = error
            running = self.postmaster()
            if running not in (None, before):
                if self._gets_ready():
                    if stopped.is_our_stop_open(self.journal.records):
                        self._append(stopped.STARTED, {"seen": True})
                    return
                last = last or self.postmaster() is not None  # it recovers: another start would begin that again
            if last:
                raise self._not_started(why.message, why.detail) from why

    def look(self) -> _Look:
        """Look at the settings as soon as a session can be had; wait only for what passes by itself."""
        waited_s, step_s = 0.0, 0.2
        while True:
            try:
                differences = self.route.differences(self.bundle.settings(), self._settings())
                found = tuple(each for each in differences if not ours.is_line_only(each))
                return _Look(found, waiting_lines(self.postgres, found))
            except EnvironmentUnsuitable as error:
                why = error
            if waited_s >= self._patience_s(why) or self.postmaster() is None:
                return _Look(not_compared=(why.detail or why.message).strip())
            self.sleep(step_s)
            waited_s += step_s

    def comeback(self, look: _Look, *, restarted: bool) -> Comeback:
        """Tell what is ours to repair from what somebody else set meanwhile."""
        as_found = self.route.as_found() if isinstance(self.route, FileRoute) else frozenset()
        written = self.bundle.written()
        left = tuple(each for each in look.found if ours.is_ours(each, written, as_found, look.waiting))
        notes = tuple(ours.told(each) for each in look.found if each not in left)
        return Comeback(restarted, left, look.not_compared, notes)

    def _append(self, kind: str, data: Mapping[str, object]) -> None:
        with contextlib.suppress(OSError):  # a full disk must not keep the server down
            self.journal.append(kind, data)

    def _patience_s(self, why: EnvironmentUnsuitable) -> float:
        """Return how long a session that cannot be had may be waited for; never for one that we have no right to."""
        if not sighup.is_ready(self.data) or activation.is_passing(why):
            return activation.READY_S
        return SLOT_WAIT_S if activation.is_full(why) else 0.0

    def _gets_ready(self) -> bool:
        def settled() -> bool:
            return sighup.is_ready(self.data) or self.postmaster() is None

        return wait_until(settled, timeout_s=activation.READY_S, sleep=self.sleep) and self.postmaster() is not None

    def _settings(self) -> dict[str, snapshot.SettingState]:
        with self.postgres.connect() as connection:
            return snapshot.read_settings(connection, label=self.postgres.label)

    def _not_started(self, message: str, detail: str | None) -> RollbackError:
        return RollbackError(
            f"the files are back, but the server did not start: {message}",
            detail=detail,
            hint=f"See why in its log, then run pgdyno rollback {self.bundle.id}.",
        )
