"""The flags that name a server and its host, and the request that they make."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from pgdyno.cli.arguments.flags import F, Flags, stack
from pgdyno.cli.arguments.passwords import warn_of_password

if TYPE_CHECKING:
    from pgdyno.remote.deploy import HostRequest
    from pgdyno.studies.session.target_request import TargetRequest


def host_options(function: F) -> F:
    """Add the flags that name a database host."""
    return stack(
        function,
        [
            click.option(
                "--host",
                metavar="ssh://[USER@]HOST",
                help="The server's host, by your own ssh; --target is as seen from there.",
            ),
            click.option("--sudo-user", metavar="USER", help="Work on --host as this user, such as postgres, by sudo."),
            click.option("--sudo", is_flag=True, help="Work on --host as root, by sudo."),
        ],
    )


def target_options(function: F) -> F:
    """Add the flags that name the server."""
    return stack(
        host_options(function),
        [
            click.option(
                "--target",
                metavar="CONNINFO",
                callback=warn_of_password,
                help="A server, as libpq names it: URI, key=value or a service.",
            ),
            click.option(
                "--restart-command",
                metavar="ARGV",
                help="How to restart --target, as one quoted argument list; no shell.",
            ),
            click.option(
                "--patroni",
                multiple=True,
                metavar="URL",
                help="Patroni's API, such as http://db1:8008: settings and restarts go through it; may be given again.",
            ),
            _file("--patroni-auth", "File with user:password of Patroni's API.  [default: PGDYNO_PATRONI_AUTH]"),
            _file("--patroni-ca", "Certificate of the authority that signed Patroni's."),
            _file("--patroni-cert", "Our certificate with its key, where Patroni's API asks for one."),
            click.option(
                "--sql-only",
                is_flag=True,
                help="Use nothing but SQL on --target: settings by ALTER SYSTEM, its host is not looked at.",
            ),
            click.option(
                "--sandbox", metavar="NAME", default="default", show_default=True, help="Which sandbox to use."
            ),
            click.option(
                "--sandbox-bin",
                metavar="DIR",
                type=click.Path(path_type=Path),
                help="bin folder of another PostgreSQL build for the sandbox (13 to 18).",
            ),
            click.option(
                "--sandbox-memory",
                metavar="SIZE",
                help="Bound the sandbox's server to this much memory, page cache included, such as 1GB; needs root.",
            ),
            click.option(
                "--keep/--discard", default=True, help="Keep the sandbox afterwards, or remove it.  [default: keep]"
            ),
        ],
    )


def environment_names_server() -> bool:
    """Tell whether variables of libpq name a server, as they do for psql."""
    return any(os.environ.get(name) for name in ("PGHOST", "PGSERVICE", "PGHOSTADDR"))


def names_a_server(request: TargetRequest) -> bool:
    """Tell whether flags or the environment named a server, a sandbox by its name included."""
    context = click.get_current_context()
    typed = context.get_parameter_source("sandbox") is ParameterSource.COMMANDLINE
    return typed or request.dsn is not None or request.host is not None or bool(request.patroni)


def target_request(flags: Flags) -> TargetRequest:
    """Build the target request; PG* variables name a server as they do for psql when no --target is given."""
    from pgdyno.studies.session.target_request import TargetRequest

    target, restart, host = flags.text("target"), flags.text("restart_command"), host_request(flags)
    if target is None and host is None and environment_names_server():
        target = ""
    patroni = flags.words("patroni")
    if patroni and target is None:
        target = ""
    return TargetRequest(
        dsn=target,
        restart_command=restart_words(restart),
        sandbox=flags.choice("sandbox"),
        sandbox_bin=flags.path("sandbox_bin"),
        keep=flags.on("keep"),
        host=None if host is None else str(host.address),
        sudo_user=None if host is None else host.sudo_user,
        patroni=patroni,
        patroni_auth=_absolute(flags.path("patroni_auth")),
        patroni_ca=_absolute(flags.path("patroni_ca")),
        patroni_cert=_absolute(flags.path("patroni_cert")),
        sql_only=flags.on("sql_only"),
        sandbox_memory=_memory(flags.text("sandbox_memory")),
        keep_data="keep_data" in flags.values and flags.on("keep_data"),
    )


def _memory(text: str | None) -> int | None:
    from pgdyno.errors import UsageError
    from pgdyno.units import parse_quantity

    if text is None:
        return None
    size = parse_quantity(text, "B")
    if size <= 0:
        raise UsageError(
            f'--sandbox-memory "{text}" is not an amount of memory', hint="Write it as --sandbox-memory 1GB."
        )
    return int(size)


def host_request(flags: Flags) -> HostRequest | None:
    """Build the request of a database host; None without --host."""
    from pgdyno.errors import UsageError

    host, user = flags.text("host"), flags.text("sudo_user") or ("root" if flags.on("sudo") else None)
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
    from pgdyno.errors import UsageError

    try:
        return tuple(shlex.split(text)) if text else None
    except ValueError as error:
        raise UsageError(
            f'--restart-command "{text}": {str(error).lower()}', hint="Close each quote: 'sudo systemctl restart db'."
        ) from error


def _file(name: str, words: str) -> Callable[[F], F]:
    return click.option(name, metavar="FILE", type=click.Path(path_type=Path), help=words)
