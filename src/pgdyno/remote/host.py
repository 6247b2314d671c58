"""A database host with an agent of ours on it: how the agent gets there, and what the tuner has of it."""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from psycopg.conninfo import make_conninfo

from pgdyno.capture.texts import Capture, from_json
from pgdyno.errors import ConnectError, EnvironmentUnsuitable, PgdynoError, UsageError
from pgdyno.linux.cpu import ServerCpu
from pgdyno.linux.host_texts import DistantReading
from pgdyno.model.configuration import Configuration
from pgdyno.model.facts import Facts, Unknown
from pgdyno.model.shapes import shaped
from pgdyno.owner.runner import LocalRunner
from pgdyno.preflight.result import Result
from pgdyno.remote import deploy, payload, wire
from pgdyno.remote.client import AgentClient
from pgdyno.remote.control import RemoteControl
from pgdyno.remote.deploy import HostLook, HostRequest
from pgdyno.remote.password import find_password
from pgdyno.remote.session import RemoteSession
from pgdyno.remote.ssh import TUNNEL, SshConnection
from pgdyno.server import binaries
from pgdyno.server.health import Address
from pgdyno.server.postgres import Postgres
from pgdyno.targets.server_log import FILES_AT_MOST, LogFile
from pgdyno.undo.restore import Restored
from pgdyno.undo.rollback import BundleInfo
from pgdyno.undo.watch import Deadlines

if TYPE_CHECKING:
    from pgdyno.targets.target import Target

READ_S = 5.0
ANSWER_S = 120.0
"""A host that reads thousands of files takes seconds; one that says nothing is not waited for without end."""
_LARGEST_LOG = 1 << 50
_OF_A_LOGIN = ("user", "dbname", "port")
_PORT = re.compile("[0-9]{1,5}")
_PLACE = re.compile(r"[^\s:/]+", re.ASCII)


@dataclass(frozen=True, slots=True)
class OpenedServer:
    """What the agent says of the server that it opened; see `Desk`."""

    name: str
    parameters: Mapping[str, str]
    listens_at: Address
    can_restart: str | None
    no_control: str | None


class RemoteHost:
    """A host with a running agent."""

    def __init__(self, request: HostRequest, connection: SshConnection, look: HostLook) -> None:
        self.request = request
        self.look = look
        self.payload = payload.build(look.python)
        self.connection = connection
        self._password: str | None = None
        self.client = self._start()

    def target(self, dsn: str, restart_command: Sequence[str] | None = None) -> Target:
        """Open a server as its host sees it, and a tunnel to it. Errors as `connect.open_target`."""
        from pgdyno.targets.target import Target  # which names this module's class

        _refuse_own_place(os.environ)
        parameters = Postgres(dsn).parameters
        self._password = self._find_password(parameters)
        bare = make_conninfo("", **{name: value for name, value in parameters.items() if name != "password"})
        given = {"conninfo": bare, "restart_command": restart_command, "password": self._password}
        answer = self.client.call("open", given, timeout_s=ANSWER_S)
        with self._understood():
            opened = shaped(OpenedServer, answer)
        name = f"{opened.name} on {self.request.address}"
        client_bin = binaries.client_bin_dir(None)
        return Target(
            name=name,
            postgres=self._tunnel(opened, name, asks_for_user="user" in parameters),
            runner=LocalRunner(),
            control=RemoteControl(self.client) if opened.can_restart else None,
            bin_dir=client_bin or Path("/usr/bin"),
            os_user=None,
            disposable=False,
            directory=None,
            cpu=ServerCpu.unavailable("the server's processes are on another host"),
            client_bin_dir=client_bin,
            local=False,
            no_control=opened.no_control,
            remote=self,
        )

    def facts(self) -> Facts:
        """Read the facts of host and server there; see `inspect.read_facts`."""
        answer = self.client.call("facts", timeout_s=ANSWER_S)
        with self._understood():
            return shaped(Facts, answer)

    def capture(self) -> Capture:
        """Take a capture of host and server there; see `capture.take.take_capture`."""
        answer = self.client.call("capture", timeout_s=ANSWER_S)
        with self._understood():
            return from_json(wire.mapping(answer), origin=str(self.request.address))

    def read_host(self) -> DistantReading:
        """Read the host's counters in one round trip. Raises ConnectError when it takes longer than `READ_S`."""
        answer = self.client.call("read_host", timeout_s=READ_S)
        with self._understood():
            return wire.reading_from_json(answer)

    def log_files(self) -> list[LogFile] | Unknown:
        """Return the files of the server's log there; see `server_log.log_files`."""
        answer = self.client.call("log_files", timeout_s=READ_S)
        with self._understood():
            found = wire.mapping(answer)
            if "unknown" in found:
                return shaped(Unknown, found)
            files = shaped(list[LogFile], found["files"])
            if len(files) > FILES_AT_MOST or not all(0 <= file.size < _LARGEST_LOG for file in files):
                raise ValueError("more files, or larger ones, than a server's log has")
            return files

    def read_log(self, path: str, start: int, count: int) -> bytes:
        """Return bytes of a file of the server's log there; see `server_log.read_log`."""
        given = {"path": path, "start": start, "count": count}
        answer = self.client.call("read_log", given, timeout_s=ANSWER_S)
        with self._understood():
            block = base64.b64decode(shaped(str, wire.mapping(answer)["block"]), validate=True)
            if len(block) > count:
                raise ValueError(f"{len(block)} bytes, and {count} were asked for")
            return block

    def read_guards(self) -> wire.Json:
        """Read what guards watch there, as `probes.guards.reader.HostTick` has it. Errors as `read_host`."""
        answer = self.client.call("guards", timeout_s=READ_S)
        with self._understood():
            return wire.mapping(answer)

    def examine(self, configuration: Configuration, databases: Sequence[str]) -> list[Result]:
        """Judge there a configuration that is in no file yet; see `preflight.examine`."""
        given = {"settings": dict(configuration), "databases": list(databases)}
        answer = self.client.call("examine", given)
        with self._understood():
            return [shaped(Result, item) for item in wire.items(answer)]

    def begin(self, *, study: str, watch: Deadlines, kernel: Sequence[str] = ()) -> RemoteSession:
        """Begin a session there; see `apply.Session.begin`."""
        given = {"study": study, "kernel": list(kernel), "watch": asdict(watch)}
        answer = self.client.call("begin", given)
        with self._understood():
            name = shaped(str, wire.mapping(answer)["id"])
        return RemoteSession(name, self.client, self._again, self.reword)

    def check_changes(self) -> str:
        """Return the file that a session would change there. Raises EnvironmentUnsuitable when none may begin."""
        answer = self.client.call("may_change")
        with self._understood():
            return str(wire.mapping(answer)["file"])

    def abandoned(self) -> list[str]:
        """Return the sessions on the opened server whose process was killed before it restored the server."""
        answer = self.client.call("abandoned")
        with self._understood():
            return wire.words(answer)

    def undo_abandoned(self, announce: Callable[[str], None], *, may_change: bool) -> None:
        """Put the opened server back where a killed session left it changed; see `studies.session.study_session`.

        Raises EnvironmentUnsuitable when that may not be done now.
        """
        for name in self.abandoned():
            if not may_change:
                raise EnvironmentUnsuitable(
                    f"the server is still in a configuration of session {name}, which was killed",
                    hint=f"Run pgdyno rollback {self.request.flags} {name} first.",
                )
            announce(f"restoring what session {name} had changed when it was killed")
            self.roll_back(name)

    def sessions(self) -> list[BundleInfo]:
        """Return every session that this user's undo folder on the host knows, newest first."""
        answer = self.client.call("sessions")
        with self._understood():
            return [wire.info_from_json(wire.mapping(item)) for item in wire.items(answer)]

    def plan(self, session: str) -> list[str]:
        """Return what a rollback there will do; see `undo_plan.undo_plan`."""
        if self._password is None:
            self._give_password_of(session)
        return wire.words(self.client.call("plan", {"id": session}))

    def roll_back(self, session: str) -> Restored:
        """Roll back a session there; see `rollback.rollback`."""
        if self._password is None:
            self._give_password_of(session)
        answer = self.client.call("roll_back", {"id": session})
        with self._understood():
            return shaped(Restored, answer)

    def forget(self, session: str) -> None:
        """Close a session there without restoring; see `rollback.forget`."""
        self.client.call("forget", {"id": session})

    def close(self) -> None:
        """End the agent, which puts back what is still changed, and the connection."""
        try:
            self.client.close()
        finally:
            self.connection.close()

    def reword(self, error: PgdynoError) -> PgdynoError:
        """Return an error of the host with commands that name the host."""
        error.detail, error.hint = (
            None if text is None else text.replace("pgdyno rollback", f"pgdyno rollback {self.request.flags}")
            for text in (error.detail, error.hint)
        )
        return error

    def _find_password(self, parameters: Mapping[str, str]) -> str | None:
        """Look a password up here; the user's files know the server by the host's name, or as the host knows it."""
        known_as = {"user": self.request.address.user or self.look.user, **parameters}
        named = [parameters["host"]] if "host" in parameters else []
        return find_password(known_as, [self.request.address.host, *named, "localhost"])

    def _give_password_of(self, session: str) -> None:
        for info in self.sessions():
            if info.bundle is not None and info.bundle.id == session:
                with self._understood():
                    told = Postgres(info.bundle.manifest.conninfo).parameters
                # The host says which role and database; which server's password it gets is not its choice.
                found = self._find_password({name: told[name] for name in _OF_A_LOGIN if name in told})
                self.client.call("password", {"password": found})

    def _tunnel(self, opened: OpenedServer, name: str, *, asks_for_user: bool) -> Postgres:
        with self._understood():
            # Nothing else: a parameter such as hostaddr or sslkey would lead libpq elsewhere, or send what is ours.
            used = {key: opened.parameters[key] for key in _OF_A_LOGIN if key in opened.parameters}
            port, there = used.get("port", "5432"), _place(opened.listens_at)
            if not _PORT.fullmatch(port):
                raise ValueError(f"{port!r:.60} is not a port")
            user = used["user"]
        self.connection.forward(self.connection.folder / f"{TUNNEL}{port}", there)
        secret = {} if self._password is None else {"password": self._password}
        where = {**used, "host": str(self.connection.folder), "port": port, **secret}
        postgres = Postgres(make_conninfo("", **where), name=name)
        users = [user] + ([] if asks_for_user else [self.look.user])
        return _first_that_connects(postgres, users)

    def _understood(self) -> AbstractContextManager[None]:
        return wire.understood(str(self.request.address))

    def send(self) -> str:
        """Send the agent, also when it is there, and return its path on the host."""
        return deploy.send(self.connection, self.look, self.payload)

    def _start(self) -> AgentClient:
        return deploy.start_agent(self.connection, self.request, self.look, self.payload, self.reword)

    def _again(self) -> AgentClient:
        self.client.close()
        self.client = self._start()
        if self._password is not None:
            self.client.call("password", {"password": self._password})
        return self.client


@contextmanager
def opened_host(request: HostRequest, *, for_sudo: bool = False) -> Iterator[RemoteHost]:
    """Connect to a host and run an agent there until the block ends; `for_sudo` one that sudo may be given."""
    connection = SshConnection.open(request.address)
    try:
        look = deploy.look_at(connection, for_sudo=for_sudo or request.sudo_user is not None)
        if look.libpq is None:
            raise EnvironmentUnsuitable(
                f"{request.address} has no libpq, PostgreSQL's client library",
                hint="Install it there: apt install libpq5, or dnf install libpq.",
            )
        host = RemoteHost(request, connection, look)
        try:
            yield host
        finally:
            host.close()
    finally:
        connection.close()


def _place(address: Address) -> str:
    """Return where ssh leads a socket to. Raises ValueError for what is neither a path nor a host and a port."""
    if address.socket_path is not None:
        if not address.socket_path.startswith(("/", "@")) or ":" in address.socket_path:
            raise ValueError(f"{address.socket_path!r:.60} is not the path of a socket")
        return address.socket_path
    host = address.host or ""
    if not (_PLACE.fullmatch(host) or re.fullmatch(r"[0-9a-fA-F:.]+", host)) or not 0 < (address.port or 0) < 65536:
        raise ValueError(f"{host!r:.60} and {address.port} are no place of a server")
    return f"[{host}]:{address.port}" if ":" in host else f"{host}:{address.port}"


def _refuse_own_place(environment: Mapping[str, str]) -> None:
    """Refuse what would lead libpq past the tunnel, to a server that is not the host's."""
    for name in ("PGHOSTADDR", "PGSERVICE"):
        if environment.get(name):
            raise UsageError(f"{name} is set and says where the server is, as --host does", hint=f"Unset {name}.")


def _first_that_connects(postgres: Postgres, users: Sequence[str]) -> Postgres:
    """Return the server as the first role that gets in by the tunnel, where peer authentication sees the ssh user."""
    errors: list[ConnectError] = []
    for user in dict.fromkeys(users):
        made = Postgres(make_conninfo(postgres.conninfo, user=user), name=postgres.label)
        try:
            made.connect().close()
            return made
        except ConnectError as error:
            errors.append(error)
    refused = "closed the connection unexpectedly" in (errors[0].detail or "")
    hint = "Allow it in the sshd_config there: AllowStreamLocalForwarding yes, AllowTcpForwarding yes."
    raise ConnectError(
        f"no session with {postgres.label} through ssh",
        detail="\n".join(error.detail or error.message for error in errors),
        hint=hint if refused else errors[0].hint,
    )
