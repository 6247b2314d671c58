"""`pgdyno privileges`: the rights that a role lacks for a verb, as statements to paste. Changes nothing."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

import click

from pgdyno.cli.arguments.flags import Flags, JsonFlag, flag, verb
from pgdyno.cli.arguments.target import TargetFlags, target_request
from pgdyno.cli.terminal.columns import print_columns
from pgdyno.errors import ExitCode

if TYPE_CHECKING:
    from pgdyno.server.privileges import Privilege


class _VerbFlag(Flags):
    verb: str = flag(
        "For which verb.",
        "--for",
        default="tune",
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
    )


class _Flags(_VerbFlag, TargetFlags, JsonFlag):
    pass


@verb("privileges")
def command(flags: _Flags) -> int:
    """List the rights that the role of --target needs for a verb, and what it lacks.

    Ends with the GRANT statements for psql, to be run by a superuser. Exit code 1 when a right that the verb needs is
    missing; one that only adds to what is seen is marked optional.
    """
    from pgdyno.knobs.policy import SearchPolicy, load_policy
    from pgdyno.server.privileges import missing, privileges, read_role, restarting, script
    from pgdyno.studies.session.opening import opened

    request = target_request(flags)
    altered = None
    if request.sql_only:  # what a role lacks is to be told as a whole, and that route is opened only by one that has it
        altered = [name for name, one in load_policy().rulings.items() if one.search is SearchPolicy.DEFAULT]
    with opened(replace(request, sql_only=False)) as target:
        state = read_role(target.postgres, altered, reload_only=flags.verb == "live")
        can_restart, seen = target.control is not None, target.no_control
    found = privileges(flags.verb, state) + restarting(flags.verb, is_possible=can_restart, seen=seen)
    if flags.as_json:
        rights = [asdict(privilege) for privilege in found]
        click.echo(json.dumps({"role": state.role, "for": flags.verb, "privileges": rights}, indent=2))
    else:
        _print(found, state.role, flags.verb)
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
