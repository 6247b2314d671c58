"""The flags that name a server and its host, and the request that they make."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from pgdyno.cli.arguments.flags import Flags, flag
from pgdyno.cli.arguments.safety import SafetyFlags
from pgdyno.cli.arguments.store import warn_of_password
from pgdyno.errors import UsageError

if TYPE_CHECKING:
    from pgdyno.remote.deploy import HostRequest
    from pgdyno.studies.session.target_request import TargetRequest


class HostFlags(Flags):
    """What names a database host."""

    host: str | None = flag(
        "The server's host, reached by your own ssh; --target is as seen from there.", metavar="ssh://[USER@]HOST"
    )
    sudo_user: str | None = flag("Work on --host as this user, such as postgres, by sudo.", metavar="USER")
    sudo: bool = flag("Work on --host as root, by sudo.")


class _ServerFlags(Flags):
    target: str | None = flag(
        "A server, as a libpq URI, key=value string or service.", metavar="CONNINFO", callback=warn_of_password
    )
    restart_command: str | None = flag(
        "How to restart --target, as one quoted argument list; no shell.", metavar="ARGV"
    )
    patroni: tuple[str, ...] = flag(
        "Patroni's API, such as http://db1:8008: settings and restarts go through it; may be given again.",
        metavar="URL",
    )
    patroni_auth: Path | None = flag(
        "File with user:password of Patroni's API.  [default: PGDYNO_PATRONI_AUTH]", metavar="FILE"
    )
    patroni_ca: Path | None = flag("Certificate of the authority that signed the API's.", metavar="FILE")
    patroni_cert: Path | None = flag("Client certificate with its key, if Patroni's API requires one.", metavar="FILE")
    sql_only: bool = flag("Use only SQL on --target: settings by ALTER SYSTEM, nothing of its host is read.")
    sandbox: str = flag("Which sandbox to use.", default="default", metavar="NAME")
    sandbox_bin: Path | None = flag("The bin folder of another PostgreSQL build for the sandbox.", metavar="DIR")
    sandbox_memory: str | None = flag(
        "Limit the sandbox's server to this much memory, page cache included, such as 1GB; needs root.",
        metavar="SIZE",
    )
    keep: bool = flag("Keep the sandbox afterwards, or remove it.  [default: keep]", "--keep/--discard", default=True)


class TargetFlags(_ServerFlags, HostFlags):
    """What names the server."""


def environment_names_server() -> bool:
    """Tell whether variables of libpq name a server, as they do for psql."""
    return any(os.environ.get(name) for name in ("PGHOST", "PGSERVICE", "PGHOSTADDR"))


def names_a_server(request: TargetRequest) -> bool:
    """Tell whether flags or the environment named a server, a sandbox by its name included."""
    context = click.get_current_context()
    typed = context.get_parameter_source("sandbox") is ParameterSource.COMMANDLINE
    return typed or request.dsn is not None or request.host is not None or bool(request.patroni)


def target_request(flags: TargetFlags) -> TargetRequest:
    """Build the target request; PG* variables name a server as they do for psql when no --target is given."""
    from pgdyno.studies.session.target_request import TargetRequest

    target, restart, host = flags.target, flags.restart_command, host_request(flags)
    if target is None and host is None and environment_names_server():
        target = ""
    if flags.patroni and target is None:
        target = ""
    return TargetRequest(
        dsn=target,
        restart_command=restart_words(restart),
        sandbox=flags.sandbox,
        sandbox_bin=flags.sandbox_bin,
        keep=flags.keep,
        host=None if host is None else str(host.address),
        sudo_user=None if host is None else host.sudo_user,
        patroni=flags.patroni,
        patroni_auth=_absolute(flags.patroni_auth),
        patroni_ca=_absolute(flags.patroni_ca),
        patroni_cert=_absolute(flags.patroni_cert),
        sql_only=flags.sql_only,
        sandbox_memory=_memory(flags.sandbox_memory),
        keep_data=isinstance(flags, SafetyFlags) and flags.keep_data,
    )


def _memory(text: str | None) -> int | None:
    from pgdyno.units import parse_quantity

    if text is None:
        return None
    size = parse_quantity(text, "B")
    if size <= 0:
        raise UsageError(
            f'--sandbox-memory "{text}" is not an amount of memory', hint="Write it as --sandbox-memory 1GB."
        )
    return int(size)


def host_request(flags: HostFlags) -> HostRequest | None:
    """Build the request of a database host; None without --host."""
    host, user = flags.host, flags.sudo_user or ("root" if flags.sudo else None)
    if host is None:
        if user is not None:
            raise UsageError("--sudo and --sudo-user are for another host", hint="Name it with --host ssh://user@db1.")
        return None
    from pgdyno.remote.address import HostAddress  # what ssh needs: loaded for another host alone
    from pgdyno.remote.deploy import HostRequest

    return HostRequest(HostAddress.parse(host), user)


def _absolute(path: Path | None) -> Path | None:
    """Return the path from any folder: a resumed study and a rollback read the file again."""
    return None if path is None else path.absolute()


def restart_words(text: str | None) -> tuple[str, ...] | None:
    """Return the words of --restart-command. Raises UsageError when a quote has no end."""
    try:
        return tuple(shlex.split(text)) if text else None
    except ValueError as error:
        raise UsageError(
            f'--restart-command "{text}": {str(error).lower()}', hint="Close each quote: 'sudo systemctl restart db'."
        ) from error
