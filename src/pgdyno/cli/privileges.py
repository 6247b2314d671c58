"""`pgdyno privileges`: the rights that a role lacks for a verb, as statements to paste. Changes nothing."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from pgdyno.cli.arguments.flags import Flags
from pgdyno.cli.arguments.target import target_options, target_request
from pgdyno.cli.terminal.columns import print_columns
from pgdyno.errors import ExitCode

if TYPE_CHECKING:
    from pgdyno.server.privileges import Privilege


@click.command("privileges")
@click.option(
    "--for",
    "verb",
    type=click.Choice(
        [
            "inspect",
            "bench",
            "experiment",
            "tune",
            "advise",
            "guards",
            "noise",
            "matrix",
            "selftest",
            "preflight",
            "apply",
            "rollback",
            "live",
            "watch",
            "capture",
        ]
    ),
    default="tune",
    show_default=True,
    help="For which verb.",
)
@target_options
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(**values: object) -> int:
    """List the rights that the role of --target needs for a verb, and what it lacks.

    Ends with the GRANT statements for psql, to be run by a superuser. Exit code 1 when a right that the verb needs is
    missing; one that only adds to what is seen is marked optional.
    """
    from pgdyno.server.privileges import missing, privileges, read_role, script
    from pgdyno.studies.session.opening import opened

    flags = Flags(values)
    with opened(target_request(flags)) as target:
        state = read_role(target.postgres)
    found = privileges(flags.choice("verb"), state)
    if flags.on("as_json"):
        rights = [privilege.to_json() for privilege in found]
        click.echo(json.dumps({"role": state.role, "for": flags.choice("verb"), "privileges": rights}, indent=2))
    else:
        _print(found, state.role, flags.choice("verb"))
        if script(found):
            click.echo(f"\n-- for psql, as a superuser\n{script(found)}")
    return int(ExitCode.FINDINGS if missing(found) else ExitCode.OK)


def _print(found: list[Privilege], role: str, verb: str) -> None:
    def stands(privilege: Privilege) -> str:
        if privilege.held:
            return "held"
        return "missing" if privilege.required else "missing, optional"

    rows = [(privilege.name, stands(privilege), privilege.why) for privilege in found]
    print_columns(("right", f"{role} for {verb}", "why"), rows)
