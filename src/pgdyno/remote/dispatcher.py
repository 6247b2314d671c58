"""What the agent does for each call: the host's own server, the session on it, and the sessions that were left."""

from __future__ import annotations

import base64
import contextlib
import os
import signal
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from pgdyno.capture.take import take_capture
from pgdyno.capture.texts import to_json
from pgdyno.errors import EnvironmentUnsuitable, UsageError
from pgdyno.linux import processes
from pgdyno.linux.host_texts import DistantReading, read_texts
from pgdyno.linux.identity import ProcessIdentity, wait_until
from pgdyno.model.configuration import Configuration
from pgdyno.model.facts import Unknown
from pgdyno.model.shapes import plain
from pgdyno.preflight.examine import examine
from pgdyno.remote import wire
from pgdyno.remote.wire import Json
from pgdyno.server import places
from pgdyno.server.health import Address
from pgdyno.server.postgres import Postgres
from pgdyno.targets import server_log
from pgdyno.targets.connect import open_target
from pgdyno.targets.inspect import read_facts
from pgdyno.targets.target import Target
from pgdyno.undo import rollback
from pgdyno.undo.applied import When
from pgdyno.undo.apply import Session
from pgdyno.undo.baseline import check_no_leftover, take_baseline
from pgdyno.undo.bundle import UndoBundle
from pgdyno.undo.one_session import refuse_while_open
from pgdyno.undo.restore import CLAIM_S
from pgdyno.undo.rollback import SessionState
from pgdyno.undo.undo_plan import undo_plan
from pgdyno.undo.watch import Deadlines

_SSHD = ("sshd", "sshd-session")


class Dispatcher:
    """One agent's work: at most one server and one session on it."""

    def __init__(self) -> None:
        self.session: Session | None = None
        self._target: Target | None = None
        self._secrets: dict[str, str] = {}
        self._carrier = _carrier()
        self.calls: dict[str, Callable[[Json], object]] = {
            "open": self._open,
            "facts": lambda _: read_facts(self.target),
            "capture": lambda _: to_json(take_capture(self.target)),
            "read_host": lambda _: self._read_host(),
            "log_files": lambda _: self._log_files(),
            "read_log": self._read_log,
            "may_change": lambda _: self._may_change(),
            "examine": self._examine,
            "begin": self._begin,
            "apply": self._apply,
            "expect": self._expect,
            "keep": lambda _: self._keep(),
            "rollback": lambda _: self._in_session.rollback(),
            "control": self._control,
            "abandoned": lambda _: self._abandoned(),
            "password": self._take_password,
            "sessions": lambda _: [wire.info_to_json(info) for info in rollback.list_bundles(_undo_root())],
            "plan": lambda given: undo_plan(_bundle(str(given["id"]))),
            "roll_back": self._roll_back,
            "forget": self._forget,
        }

    def cut_tunnel(self) -> None:
        """End the sshd that carries us, and with it the load of a tuner that is gone: its sessions come this way."""
        if self._carrier is not None:
            with contextlib.suppress(OSError):  # another user's, when we are here by sudo
                os.kill(self._carrier, signal.SIGTERM)

    @property
    def target(self) -> Target:
        """Return the opened server. Raises UsageError when none is."""
        if self._target is None:
            raise UsageError("no server was opened on this host")
        return self._target

    @property
    def _in_session(self) -> Session:
        if self.session is None:
            raise UsageError("no session was begun on this host")
        return self.session

    def _open(self, given: Json) -> object:
        command = given.get("restart_command")
        if command is not None and _is_root_by_sudo():
            raise UsageError(
                "an agent that sudo made root takes no --restart-command",
                detail="Whoever may start it could run anything as root.",
                hint="Use --sudo-user with the server's own user, or restart it as its systemd unit.",
            )
        self._take_password(given)
        postgres = Postgres(str(given["conninfo"])).with_secrets(self._secrets)
        target = open_target(postgres.conninfo, restart_command=None if command is None else wire.words(command))
        self._target = target
        used = target.postgres.parameters
        address = Address.of(used.get("host", ""), int(used.get("port", "5432")))
        return {
            "name": target.name,
            "parameters": {name: used[name] for name in ("user", "dbname", "port") if name in used},
            "listens_at": address,
            "can_restart": None if target.control is None else type(target.control).__name__,
            "no_control": target.no_control,
        }

    def _take_password(self, given: Json) -> None:
        """Keep the password in memory, from where a session hands it to its watchdogs; children do not inherit it."""
        if given.get("password") is not None:
            self._secrets = {"password": str(given["password"])}

    def _read_host(self) -> DistantReading:
        server = self.target.cpu.seconds()
        carrier = None if self._carrier is None else processes.read_stat(self._carrier)
        carried_s = 0.0 if carrier is None else (carrier.own_ticks + carrier.reaped_ticks) / processes.TICKS_PER_S
        known = None if isinstance(server, Unknown) else server
        return DistantReading(read_texts(), known, time.process_time() + carried_s)

    def _log_files(self) -> object:
        found = server_log.log_files(self.target)
        return {"unknown": found.reason} if isinstance(found, Unknown) else {"files": [asdict(file) for file in found]}

    def _read_log(self, given: Json) -> object:
        start, count = int(str(given["start"])), int(str(given["count"]))
        block = server_log.read_log(self.target, str(given["path"]), start, count)
        return {"block": base64.b64encode(block).decode()}

    def _may_change(self) -> object:
        found = take_baseline(self.target)
        check_no_leftover(found)
        return {"file": None if found.dropin is None else found.dropin.path}

    def _examine(self, given: Json) -> object:
        results = examine(self.target, _configuration(given), wire.words(given["databases"]))
        return [plain(result) for result in results]

    def _begin(self, given: Json) -> object:
        if self.session is not None and not self.session.bundle.is_closed():
            raise UsageError(f"session {self.session.id} is still open in this agent")
        watch = Deadlines(**{name: float(str(value)) for name, value in wire.mapping(given["watch"]).items()})
        root = places.ensure(_undo_root())
        self.session = Session.begin(
            self.target,
            study=str(given["study"]),
            undo_root=root,
            kernel=wire.words(given["kernel"]),
            watch=watch,
        )
        return {"id": self.session.id}

    def _apply(self, given: Json) -> object:
        return self._in_session.apply(
            _configuration(given),
            restart=_when(given["restart"]),
            databases=wire.words(given["databases"]),
        )

    def _control(self, given: Json) -> object:
        control, action = self.target.control, str(given["action"])
        if control is None:
            raise EnvironmentUnsuitable("the agent does not know how to restart the server")
        if action == "stop":
            control.stop(str(given["mode"]))
            return {}
        acts = {"start": control.start, "restart": control.restart, "reload": control.reload}
        return {"running": control.is_running()} if action == "is_running" else acts[action]()

    def _expect(self, given: Json) -> object:
        within = given["within_s"]
        self._in_session.expect(str(given["doing"]), None if within is None else float(str(within)))
        return {}

    def _keep(self) -> object:
        self._in_session.keep()
        return {}

    def _abandoned(self) -> object:
        """Name the sessions whose process was killed and whose server is the opened one.

        Without one, raises ServerInUse while a session of anybody is open on it.
        """
        directory = self.target.directory
        found = [
            info.directory.name
            for info in rollback.list_bundles(_undo_root())
            if info.state is SessionState.ABANDONED
            and info.bundle is not None
            and directory is not None
            and info.bundle.manifest.data_directory == str(directory)
        ]
        if not found:
            refuse_while_open(self.target, _undo_root())
        return found

    def _roll_back(self, given: Json) -> object:
        """Roll a session back, after its own agent, which may be at it already, has ended or done it."""
        bundle = _bundle(str(given["id"]))
        owner = bundle.manifest.owner
        if given.get("wait") and owner != ProcessIdentity.own():
            wait_until(lambda: bundle.is_closed() or not owner.is_alive(), timeout_s=CLAIM_S, step_s=0.2)
        postgres = Postgres(bundle.manifest.conninfo).with_secrets(self._secrets)
        return rollback.rollback(bundle, postgres=postgres, kept=not given.get("wait"))

    def _forget(self, given: Json) -> object:
        rollback.forget(rollback.find_bundle(_undo_root(), str(given["id"])).directory)
        return {}


def _configuration(given: Json) -> Configuration:
    return Configuration.of({name: str(value) for name, value in wire.mapping(given["settings"]).items()})


def _when(text: object) -> When:
    return "always" if text == "always" else "never" if text == "never" else "as-needed"


def _bundle(name: str) -> UndoBundle:
    info = rollback.find_bundle(_undo_root(), name)
    if info.bundle is None:
        raise EnvironmentUnsuitable(f'the undo bundle "{info.directory}" cannot be read', detail=info.damage)
    return info.bundle


def _undo_root() -> Path:
    return places.state_dir() / "undo"


def _is_root_by_sudo() -> bool:
    return os.geteuid() == 0 and os.environ.get("SUDO_UID", "0") != "0"


def _carrier() -> int | None:
    """Return the sshd process that carries this agent and the tuner's SQL: all sessions of one connection share it."""
    pid = os.getppid()
    while pid > 1:
        stat = processes.read_stat(pid)
        if stat is None:
            return None
        if stat.command in _SSHD:
            return pid
        pid = stat.parent
    return None
