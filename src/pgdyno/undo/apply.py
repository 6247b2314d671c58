"""A session: configurations come into force one after another, and the server is restored at its end.

    with Session.begin(target, study="...", undo_root=...) as session:
        applied = session.apply(configuration)      # in force and read back, or ApplyError and the one before is back
    # here the server is as it was found

The undo bundle is durable before the first change, each change is journalled before it is made, and a watchdog
(watchdog.py) waits beside: a process of its own that restores from the bundle when this one does not.

What comes before the first change has a file of its own (opening.py), and so has what an attempt came to (applied.py).
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from pgdyno.control import Control, sighup
from pgdyno.errors import (
    ApplyError,
    EnvironmentUnsuitable,
    PgdynoError,
    RestartError,
    RollbackError,
    telling_files,
)
from pgdyno.linux.identity import ProcessIdentity
from pgdyno.model.configuration import BASELINE, Configuration
from pgdyno.owner.pins import before_any_change
from pgdyno.preflight import examine as preflight
from pgdyno.routes import file_check
from pgdyno.routes.file_route import unwritable
from pgdyno.routes.written import INTENT
from pgdyno.server import effectiveness, snapshot
from pgdyno.server.snapshot import SettingState
from pgdyno.targets import in_force
from pgdyno.targets.target import Target
from pgdyno.undo import activation, bundle, ours, restart_need, server_process, stopped, stuck_stop
from pgdyno.undo.applied import Applied, When, damage_error, not_applied, stranded
from pgdyno.undo.journal import taken_over
from pgdyno.undo.kept_change import digests
from pgdyno.undo.opening import Opening
from pgdyno.undo.restore import CLAIM_S, PROCESS, Restored, restore
from pgdyno.undo.watch import RESTART_LEASE_S, Deadlines, Watch

log = logging.getLogger(__name__)

_AWAY = "Find out who moved or replaced the server's files; pgdyno rollback puts back what this session changed."


class Session:
    """The one writer of a server's configuration between `begin` and `rollback`."""

    def __init__(
        self,
        opening: Opening,
        watch: Watch | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._target = opening.target
        self._held = opening.held
        self._lacking = opening.lacking
        self.bundle = opening.bundle
        self._route = opening.route()
        self._linux = opening.linux
        self._watch = watch
        self._clock = clock
        self._sleep = sleep
        self._journal = self.bundle.journal()
        self._settings = self.bundle.settings()
        self._born_of_us = server_process.is_born_of_us(self._target, self.bundle.process_image())
        self._in_force = BASELINE
        self._outage_s = 0.0
        self._standbys: tuple[str, ...] = ()

    @classmethod
    @before_any_change()
    @telling_files(EnvironmentUnsuitable, "Nothing was changed. Find out who put that there, and whose it is.")
    def begin(
        cls,
        target: Target,
        *,
        study: str,
        undo_root: Path,
        kernel: Sequence[str] = (),
        watch: Deadlines | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
        reserve_bytes: int = bundle.RESERVE_BYTES,
        data_reserve_bytes: int = bundle.DATA_RESERVE_BYTES,
    ) -> Session:
        """Write the undo bundle, start the watchdog and open a session; the server is not changed yet.

        The bundle of `target` is made in `undo_root` and notes the id `study`. `kernel` names the Linux knobs that
        configurations of this session may hold. `watch` holds the watchdog's deadlines; None is for tests of what lies
        below it. For the way back on a full disk, `reserve_bytes` are set aside in the bundle and `data_reserve_bytes`
        in a local data directory. `clock` and `sleep` are in seconds. Raises ConnectError when the server does not
        answer, and EnvironmentUnsuitable when it may not be changed (see baseline.py), when a session on it is still
        open, or when the bundle cannot be written or the watchdog not be started.
        """
        opening = Opening.make(target, study=study, undo_root=undo_root, kernel=kernel, reserve_bytes=reserve_bytes)
        undo, held = opening.bundle, opening.held
        watching: Watch | None = None
        try:
            held.sign(undo)
            if watch is not None:
                watching = Watch.start(undo, watch, secrets=opening.secrets)
                watching.require_proof()
            undo.reserve_beside_data(data_reserve_bytes)
        except BaseException:
            try:
                undo.journal().append(bundle.CLOSED, {"by": "session", "begun": False})
                undo.release_reserve()
            finally:
                held.release()
                if watching is not None:
                    watching.leave()
            raise
        for text in opening.lacking:
            log.warning('"%s" is not restarted by this session. %s', target.name, text)
        return cls(opening, watching, clock=clock, sleep=sleep)

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            restored = self.rollback()
        except PgdynoError:
            raise
        except BaseException:
            # An interrupt can only have come before the restore held signals back, or after it was done.
            self.rollback()
            raise
        if not restored.is_whole:
            raise damage_error(self.id, restored)

    @property
    def id(self) -> str:
        """Return the session's name, for `pgdyno rollback`."""
        return self.bundle.id

    def record_process(self, pid: int, kind: str) -> None:
        """Note a process that must not outlive the session, such as a load generator; a rollback ends it."""
        process = ProcessIdentity.of(pid)
        if process is not None:
            fields = {"pid": pid, "start_ticks": process.start_ticks, "boot_id": process.boot_id, "what": kind}
            self._journal.append(PROCESS, fields)

    @telling_files(EnvironmentUnsuitable, _AWAY)
    def apply(
        self, configuration: Configuration, *, restart: When = "as-needed", databases: Sequence[str] = ()
    ) -> Applied:
        """Bring a configuration into force and prove it; the empty one is the server as it was found.

        Restarts when asked, or when a knob that differs from the configuration before needs it; else reloads; with
        "never", refuses what needs a restart. Values are read back by new sessions, in `databases` too (the load's,
        where ALTER DATABASE could override them).

        Raises SessionTakenOver when a watchdog or a rollback has ended the session meanwhile, and ServerStopped when
        somebody else has shut the server down: it stays down.
        Raises ApplyError when the server rejects a value, does not start, or the value is not in force; the
        configuration before is in force again then. Raises EnvironmentUnsuitable when a file cannot be written or
        a restart is needed and impossible (nothing was changed), and RollbackError when the way back failed.
        """
        began = self._clock()
        with self._claimed():
            wants_restart = self._wants_restart(configuration, restart)
            self._refuse_stopped()
            self._revive(wants_restart)
            directory = self._target.directory
            running = restart_need.note(None if directory is None else sighup.postmaster(directory))
            self._note(INTENT, {"settings": dict(configuration), "restart": wants_restart, **running})
            is_way_back = restart == "never" and configuration == BASELINE
            settings = self._bring_into_force(configuration, wants_restart, databases, is_way_back=is_way_back)
            self._in_force = configuration
            linux = configuration.linux()
            name = snapshot.fingerprint(settings.values(), linux)
            self._note("in force", {"fingerprint": name, "restarted": wants_restart})
        values = {name: linux.get(name) or settings[name].setting or "" for name in configuration}
        outage_s = self._outage_s if wants_restart else None
        return Applied(wants_restart, self._clock() - began, values, name, outage_s)

    @telling_files(EnvironmentUnsuitable, _AWAY)
    def keep(self) -> None:
        """End the session with its configuration in force; `pgdyno rollback ID` still restores the server.

        Leaving the session afterwards changes nothing. Errors as `apply`; when one is raised the session is open.
        """
        with self._claimed(), self._may_be_down():
            self._route.keep(self._in_force.postgresql(), session=self.id)
            noted = {"settings": dict(self._in_force), "files": digests(self.bundle)}
            try:
                self._journal.append(bundle.CLOSED, {"by": "session", "kept": True, **noted})
            except OSError as error:
                raise unwritable(self._journal.path, error) from error
            self.bundle.release_reserve()
        self._unlock()
        if self._watch is not None:
            self._watch.leave()

    def expect(self, doing: str, within_s: float | None = None) -> None:
        """Tell the watchdog what comes now, and by when this process will be heard of again."""
        if self._watch is not None:
            self._watch.heart.expect(doing, within_s)

    def rollback(self) -> Restored:
        """Restore the server as it was found; idempotent. Signals wait until it is done; see `restore.restore`."""
        with self._may_be_down():
            restored = restore(
                self.bundle,
                postgres=self._target.postgres,
                control=self._target.control,
                route=self._route,
                clock=self._clock,
                sleep=self._sleep,
            )
        for note in restored.notes:
            log.warning("session %s: %s", self.id, note)
        self._in_force = BASELINE
        self._journal = self.bundle.journal()
        if restored.is_whole or restored.already_closed:
            self._unlock()
            if self._watch is not None:
                self._watch.leave()
        return restored

    def _unlock(self) -> None:
        """Let others have the server: the session is over."""
        self._held.release()

    @contextmanager
    def _claimed(self) -> Iterator[None]:
        """Keep a watchdog or a rollback from working at the same time, and see that none has."""
        with self.bundle.alone(CLAIM_S, self._sleep):
            if self.bundle.is_closed():
                raise taken_over(self.id)
            yield

    @contextmanager
    def _may_be_down(self) -> Iterator[None]:
        if self._watch is None:
            yield
            return
        with self._watch.heart.server_may_be_down(RESTART_LEASE_S):
            yield

    def _bring_into_force(
        self, configuration: Configuration, wants_restart: bool, databases: Sequence[str], *, is_way_back: bool
    ) -> dict[str, SettingState]:
        """Stage, activate and read back.

        The way back of a reload is not judged first, which opens one session after the other: a crippled load waits
        for it, and what was in force before cannot be refused.
        """
        postgres = configuration.postgresql()
        try:
            with telling_files(EnvironmentUnsuitable, _AWAY):
                self._linux.set(configuration)
                self._route.stage(postgres, session=self.id)
                if postgres:
                    self._route.check(postgres)
                if self._target.route is None and not is_way_back:
                    self._standbys = preflight.check(
                        self._target,
                        postgres,
                        restart=wants_restart,
                        databases=databases,
                        inherits_ours=self._born_of_us,
                        attached=self._standbys,
                    )
                if wants_restart:
                    file_check.refuse_waiting(self._target.postgres, self.bundle.written().may_have_set)
        except PgdynoError as error:
            self._unstage(error)
            raise
        try:
            with telling_files(EnvironmentUnsuitable, _AWAY):
                self._activate(wants_restart)
                return self._read_back(configuration, databases)
        except PgdynoError as error:
            self._unstage(error)
            self._return_to(self._in_force, wants_restart)
            raise not_applied(configuration, error) from error

    def _wants_restart(self, configuration: Configuration, restart: When) -> bool:
        names = effectiveness.needs_restart(self._in_force, configuration, self._settings)
        if names and restart == "never":
            raise EnvironmentUnsuitable(
                f'"{self._target.postgres.label}" would have to be restarted for {", ".join(names)}',
                detail="Nothing was changed: the plan was to reload it only.",
                hint="Leave out the knobs that need a restart.",
            )
        if (names or restart == "always") and self._target.control is None:
            raise EnvironmentUnsuitable(
                f'"{self._target.postgres.label}" would have to be restarted'
                + (f" for {', '.join(names)}" if names else ""),
                detail="pgdyno was not told how to restart it.",
                hint="Give --restart-command, or leave out the knobs that need a restart.",
            )
        if (names or restart == "always") and self._lacking:
            raise server_process.unsuitable(self._target, "\n".join(self._lacking))
        return bool(names) or restart == "always"

    def _revive(self, may_restart: bool) -> None:
        """Start a server that went down under the configuration before, as it was: else one crash ends every study."""
        control = self._target.control
        if may_restart and control is not None and not control.is_running():
            self._restart(control)

    def _refuse_stopped(self) -> None:
        """Raise ServerStopped when the server is down and somebody else shut it down cleanly."""
        manifest = self.bundle.manifest
        if manifest.local and stopped.is_down_by_person(self._journal.records, Path(manifest.data_directory)):
            raise stopped.refusal(manifest.target, self.id)

    def _note(self, kind: str, data: Mapping[str, object]) -> None:
        try:
            self._journal.append(kind, data)
        except OSError as error:
            raise unwritable(self._journal.path, error) from error

    def _activate(self, with_restart: bool) -> None:
        if with_restart and self._target.control is not None:
            self._refuse_stopped()
            began = self._clock()
            self._restart(self._target.control)
            self._outage_s = self._clock() - began
        else:
            activation.reload(self._target.postgres, self._target.control, sleep=self._sleep)
        self._held.renew()

    def _restart(self, control: Control) -> None:
        before = server_process.Before.look(self.bundle, self._journal)
        with self._may_be_down(), stopped.our_restart(self._note, stuck_stop.server_in(self._target.directory)):
            activation.restart(self._target.postgres, before.like(control))
        with contextlib.suppress(OSError):  # without it a difference is told, and counts as somebody else's
            before.note(self._journal)

    def _read_back(
        self, configuration: Configuration, databases: Sequence[str] = (), *, to_measure: bool = True
    ) -> dict[str, SettingState]:
        """Prove that a configuration is in force. What others have changed since counts only for a measurement."""
        for dbname in (*databases, None):
            with self._target.postgres.connect(dbname) as connection:
                settings = snapshot.read_settings(connection, label=self._target.postgres.label)
                short = in_force.shortfalls(
                    self._target,
                    connection,
                    configuration.postgresql(),
                    settings,
                    self._route.source,
                    accepted=self._route.accepted_sources,
                )
            short += self._linux.shortfalls(configuration)
            if not configuration.postgresql() and dbname is None:
                found = [
                    each
                    for each in self._route.differences(self._settings, settings)
                    if not ours.is_line_only(each)
                    if to_measure or self.bundle.written().may_have_set(each.name)
                ]
                short += effectiveness.unexpected(found, configuration)
            if short:
                raise ApplyError(f"not in force: {short[0]}", detail="\n".join(short[1:]) or None)
        return settings

    def _unstage(self, error: PgdynoError) -> None:
        """Stage the configuration before again, after the attempt failed."""
        try:
            with telling_files(EnvironmentUnsuitable, _AWAY):
                self._linux.set(self._in_force)
                self._route.stage(self._in_force.postgresql(), session=self.id)
        except PgdynoError as cause:
            raise stranded(self.id, error) from cause
        # The reason is for a reader of the journal; when the disk is full, the error at hand says more.
        with contextlib.suppress(OSError):
            self._journal.append("refused", {"reason": error.message})

    @telling_files(RollbackError, _AWAY)
    def _return_to(self, configuration: Configuration, with_restart: bool) -> None:
        self._refuse_stopped()
        try:
            control = self._target.control
            try:
                self._activate(with_restart or (control is not None and not control.is_running()))
            except RestartError:
                if control is None or not control.is_running():
                    raise
                self._activate(False)  # the restart never came about: the server may still be as it was
            self._read_back(configuration, to_measure=False)
        except PgdynoError as error:
            raise stranded(self.id, error) from error
