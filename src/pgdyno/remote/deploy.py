"""How the agent gets to a host: look whether it can run there, send it unless it is there, start it."""

from __future__ import annotations

import base64
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pgdyno.errors import ConnectError, EnvironmentUnsuitable, PgdynoError
from pgdyno.model.shapes import shaped
from pgdyno.outside.documents import load_json
from pgdyno.remote import bootstrap, wire
from pgdyno.remote.address import HostAddress
from pgdyno.remote.client import AgentClient
from pgdyno.remote.payload import Payload
from pgdyno.remote.ssh import SshConnection

INSTALLED = "/usr/local/libexec/pgdyno-agent"
"""Where sudo finds the agent: root's own copy, which nobody else can change."""
_NO_PYTHON = 97
_PYTHONS = ("python3", "python3.14", "python3.13", "python3.12", "python3.11")
_FIND_PYTHON = (
    "for p in {names}; do "
    "if command -v $p >/dev/null 2>&1 && $p -IS -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then "
    'exec $p -IS -c "$0" "$@"; fi; done; python3 --version; exit {failed}'
)


@dataclass(frozen=True, slots=True)
class HostRequest:
    """Which host, and as whom the agent works there: `sudo_user` None means as the ssh user himself."""

    address: HostAddress
    sudo_user: str | None = None

    @property
    def flags(self) -> str:
        """Return the flags that name this host again."""
        return f"--host {self.address}" + (f" --sudo-user {self.sudo_user}" if self.sudo_user else "")


@dataclass(frozen=True, slots=True)
class HostLook:
    """What was found on the host before anything was sent: its Python, its libpq, the ssh user, his cache folder."""

    python: str
    version: str
    user: str
    libpq: str | None
    folder: str
    sudo: str | None


def look_at(connection: SshConnection, *, for_sudo: bool = False) -> HostLook:
    """Look at a host by ssh alone. Raises ConnectError, and EnvironmentUnsuitable where an agent could not run.

    What sudo starts must be run by the system's own Python, which the ssh user cannot change.
    """
    names = " ".join(f"/usr/bin/{name}" if for_sudo else name for name in _PYTHONS)
    script = _FIND_PYTHON.format(names=names, failed=_NO_PYTHON)
    answer = connection.run(["sh", "-c", script, _bootstrap_text(), "look"])
    if answer.status == _NO_PYTHON:
        raise EnvironmentUnsuitable(
            f"{connection.address} has no python3 of version 3.11 or newer{' in /usr/bin' if for_sudo else ''}",
            detail=(answer.output.decode(errors="replace") + answer.errors).strip() or None,
            hint="Install one there, no package beside it is needed: apt install python3, or dnf install python3.11.",
        )
    found = _json_of(answer.output)
    if "python" not in found:
        raise EnvironmentUnsuitable(
            f"{connection.address} ran a command and did not answer as expected",
            detail="\n".join([answer.output.decode(errors="replace"), answer.errors]).strip() or None,
            hint="See that the user's login shell there runs commands.",
        )
    with wire.understood(str(connection.address)):
        return shaped(HostLook, {name: found[name] for name in HostLook.__slots__})


def send(connection: SshConnection, look: HostLook, payload: Payload) -> str:
    """Put the agent into the user's cache folder on the host and return its path. Raises EnvironmentUnsuitable."""
    command = _bootstrap(look, "receive", payload)
    answer = connection.run(command, data=payload.data, timeout_s=300)
    found = _json_of(answer.output)
    if "path" not in found:
        raise EnvironmentUnsuitable(
            f"the agent could not be sent to {connection.address}",
            detail=str(found.get("refused") or answer.errors),
            hint=f'Make room in "{look.folder}" there, and let {look.user} write to it.',
        )
    return str(found["path"])


def start_agent(
    connection: SshConnection,
    request: HostRequest,
    look: HostLook,
    payload: Payload,
    reword: Callable[[PgdynoError], PgdynoError],
) -> AgentClient:
    """Start an agent, sending it first when it is not there. Raises EnvironmentUnsuitable when it cannot run.

    `look` is what `look_at` found over `connection`; `payload` is the agent that has to run there, as the user that
    `request` names. One for sudo is never sent: it has to be installed there. `reword` turns an error of the host into
    one for a user here.
    """
    first, client = _launch(connection, request, look, payload, reword)
    if "missing" in first:
        client.close()
        send(connection, look, payload)
        first, client = _launch(connection, request, look, payload, reword)
    try:
        if "hello" not in first:
            raise EnvironmentUnsuitable(f"{request.address}: the agent cannot be started", detail=str(first)[:2000])
        with wire.understood(str(request.address)):
            _check_version(request, wire.mapping(first["hello"]), payload)
    except EnvironmentUnsuitable:
        client.close()
        raise
    return client


def _launch(
    connection: SshConnection,
    request: HostRequest,
    look: HostLook,
    payload: Payload,
    reword: Callable[[PgdynoError], PgdynoError],
) -> tuple[wire.Json, AgentClient]:
    user = request.sudo_user
    command = ["sudo", "-n", "-H", "-u", user, "--", INSTALLED] if user else _bootstrap(look, "launch", payload)
    log = connection.new_log()
    client = AgentClient(connection.start(command, log), str(request.address), log, reword=reword)
    try:
        return client.first_words(), client
    except ConnectError as error:
        client.close()
        raise (_no_sudo(request, error) if user else _no_agent(look, error)) from error


def _bootstrap(look: HostLook, act: str, payload: Payload) -> list[str]:
    return [look.python, "-IS", "-c", _bootstrap_text(), act, payload.digest]


def _bootstrap_text() -> str:
    """Return the bootstrap as one line without quotes or backslashes, which every login shell leaves as it is."""
    text = base64.b64encode(Path(bootstrap.__file__).read_bytes()).decode()
    return f'import base64; exec(base64.b64decode("{text}"))'


def _json_of(output: bytes) -> dict[str, str]:
    """Read the last line: a login script of the user's may have printed others."""
    lines = output.decode(errors="replace").strip().splitlines()
    try:
        found = load_json(lines[-1]) if lines else {}
    except ValueError:
        found = {}
    return found if isinstance(found, dict) else {}


def _check_version(request: HostRequest, hello: wire.Json, payload: Payload) -> None:
    if hello.get("digest") != payload.digest:
        raise EnvironmentUnsuitable(
            f'"{INSTALLED}" on {request.address} is the agent of another pgdyno',
            detail=f"It is {hello.get('version')} of SHA-256 {hello.get('digest')}, needed is {payload.digest}.",
            hint=f"Install it again, as it says there: pgdyno host sudoers {request.flags}",
        )


def _no_sudo(request: HostRequest, error: ConnectError) -> EnvironmentUnsuitable:
    return EnvironmentUnsuitable(
        f'sudo does not start the agent as user "{request.sudo_user}" on {request.address}',
        detail=error.detail,
        hint=f"See what has to be installed there: pgdyno host sudoers {request.flags}",
    )


def _no_agent(look: HostLook, error: ConnectError) -> EnvironmentUnsuitable:
    told = f"{error.message} under {look.python} {look.version}"
    return EnvironmentUnsuitable(told, detail=error.detail, hint=error.hint)
