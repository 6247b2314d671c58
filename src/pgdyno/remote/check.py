"""See what works on a database host and what is missing, without changing anything but our own cache folder there."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TypeVar

from pgdyno.errors import PgdynoError
from pgdyno.model.facts import Unknown
from pgdyno.remote.deploy import HostRequest
from pgdyno.remote.host import RemoteHost, opened_host

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class HostCheck:
    """One thing that was looked at: whether it works, what was seen, and the next command when it does not."""

    what: str
    works: bool
    seen: str
    hint: str | None = None


def check_host(request: HostRequest, dsn: str, restart_command: Sequence[str] | None) -> Iterator[HostCheck]:
    """Yield what was found, in the order in which each needs the one before; ends at the first that all else needs.

    Starts no watchdog, begins no session, and does not touch the server's files.
    """
    with ExitStack() as stack:
        host = _try(lambda: stack.enter_context(opened_host(request)))
        if isinstance(host, HostCheck):
            yield host
            return
        look = host.look
        yield HostCheck("ssh", True, f"{request.address}, as {look.user}")
        yield HostCheck("python", True, f"{look.python} {look.version}, {look.libpq}")
        yield HostCheck("agent", True, f"runs as {request.sudo_user or look.user}; SHA-256 {host.payload.digest}")
        yield from _server(host, dsn, restart_command)


def _server(host: RemoteHost, dsn: str, restart_command: Sequence[str] | None) -> Iterator[HostCheck]:
    target = _try(lambda: host.target(dsn, restart_command), "server")
    if isinstance(target, HostCheck):
        yield target
        return
    yield HostCheck("server", True, target.name)
    facts = _try(host.facts, "facts")
    if isinstance(facts, HostCheck):
        yield facts
        return
    cores = facts.host.cores
    known = not isinstance(cores, Unknown)
    yield HostCheck("facts", known, f"PostgreSQL {facts.server.version}, {cores} cores, {facts.host.architecture}")
    cpu = host.read_host().server_cpu_s
    yield HostCheck(
        "server's CPU", cpu is not None, "can be told from others'" if cpu is not None else "cannot be read"
    )
    may = _try(host.check_changes, "changes")
    yield may if isinstance(may, HostCheck) else HostCheck("changes", True, f"go to {may}")
    left = host.abandoned()
    if left:
        hint = f"pgdyno rollback {host.request.flags}"
        yield HostCheck("left behind", False, f"sessions {', '.join(left)} were killed and not rolled back", hint)
    can = target.control is not None
    yield HostCheck(
        "restart",
        can,
        "the agent knows how to" if can else "the agent does not know how to",
        None if can else 'Give --restart-command "ARGV ...", or use --reload-only.',
    )


def _try(act: Callable[[], T], what: str = "host") -> T | HostCheck:
    try:
        return act()
    except PgdynoError as error:
        seen = f"{error.message}\n{error.detail}" if error.detail else error.message
        return HostCheck(what, False, seen, error.hint)
