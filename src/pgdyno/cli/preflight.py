"""`pgdyno preflight`: say what would keep a configuration from coming into force. Changes nothing."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import click

from pgdyno.cli.arguments.flags import argument, flag, verb
from pgdyno.cli.arguments.target import TargetFlags, target_request
from pgdyno.cli.requests.study import settings_from
from pgdyno.cli.terminal.columns import print_columns
from pgdyno.errors import ExitCode
from pgdyno.model.shapes import plain
from pgdyno.preflight.result import Result, State


class _Flags(TargetFlags):
    conf: Path = argument("FILE.conf")
    as_json: bool = flag("Print JSON.", "--json")


@verb("preflight")
def command(flags: _Flags) -> int:
    """Check whether the settings of a file could come into force, without touching the server.

    FILE.conf holds lines of name = value, as postgresql.conf has them. Asks the server program whether it would start
    with them, and compares memory, huge pages, WAL volume, limits and standbys with what is there. Exit code 1 when
    something is refused.
    """
    from pgdyno.knobs.policy import check_settings
    from pgdyno.preflight.examine import examine
    from pgdyno.studies.session.opening import opened
    from pgdyno.targets.inspect import read_facts

    settings = settings_from(flags.conf)
    with opened(target_request(flags)) as target:
        # what outranks the settings is told with everything else that is in the way, not as an error of its own
        results = examine(target, check_settings(settings, replace(read_facts(target), obstacles={})))
    if flags.as_json:
        click.echo(json.dumps(plain(results), indent=2))
    else:
        _print(results)
    return int(ExitCode.FINDINGS if any(result.state is State.REFUSED for result in results) else ExitCode.OK)


def _print(results: list[Result]) -> None:
    rows = [(one.check, one.state.value, one.asked or "-", one.there or "-", one.sentence) for one in results]
    print_columns(("check", "state", "asked", "there", "why"), rows)
    for result in results:
        if result.hint:
            click.echo(f"hint: {result.check}: {result.hint}")
