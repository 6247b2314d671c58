"""`pgdyno host check|sudoers`: prepare a database host that is reached by ssh."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from pgdyno.cli.arguments.flags import Flags, flag, verb
from pgdyno.cli.arguments.target import HostFlags, host_request, restart_words
from pgdyno.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from pgdyno.remote.check import HostCheck
    from pgdyno.remote.deploy import HostRequest


@click.group("host")
def command() -> None:
    """Prepare a database host that is reached by your own ssh."""


class _OnHostFlags(Flags):
    target: str | None = flag("The server, as libpq on the host names it.", metavar="CONNINFO")
    restart_command: str | None = flag("How to restart it there, as one quoted argument list.", metavar="ARGV")
    as_json: bool = flag("Print a JSON list.", "--json")


class _CheckFlags(_OnHostFlags, HostFlags):
    pass


@verb("check", command)
def check(flags: _CheckFlags) -> int:
    """Say what works on the host and what is missing; exit code 6 when something is.

    Sends pgdyno's agent into the user's cache folder there; changes nothing else, and nothing of the server.
    """
    from pgdyno.remote.check import check_host

    words = restart_words(flags.restart_command)
    found = []
    for finding in check_host(_required(flags), flags.target or "", words):
        found.append(finding)
        if not flags.as_json:
            _print(finding)
    if flags.as_json:
        click.echo(json.dumps([asdict(finding) for finding in found]))
    return int(ExitCode.OK if all(finding.works for finding in found) else ExitCode.UNSUITABLE)


@verb("sudoers", command)
def sudoers(flags: HostFlags) -> None:
    """Print a sudoers file for review: it lets the ssh user start pgdyno's agent as another user, and nothing else.

    The other user is --sudo-user, by default postgres. Sends the agent into the ssh user's cache folder, from where
    root installs it as the file says.
    """
    from pgdyno.remote.deploy import HostRequest
    from pgdyno.remote.host import opened_host
    from pgdyno.remote.sudoers import Grant, sudoers_text

    request = _required(flags)
    with opened_host(HostRequest(request.address), for_sudo=True) as host:
        grant = Grant(host.look.user, request.sudo_user or "postgres", host.payload.digest, host.send())
    click.echo(sudoers_text(grant), nl=False)


def _required(flags: HostFlags) -> HostRequest:
    request = host_request(flags)
    if request is None:
        raise UsageError("no host was named", hint="Name it with --host ssh://user@db1.")
    return request


def _print(finding: HostCheck) -> None:
    first, *more = finding.seen.splitlines()
    click.echo(f"{'ok' if finding.works else 'missing':<8} {finding.what:<13} {first}")
    for line in [*more, *([f"hint: {finding.hint}"] if finding.hint else [])]:
        click.echo(f"{'':<22} {line}")
