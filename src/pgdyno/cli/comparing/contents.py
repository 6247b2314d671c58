"""`pgdyno compare --data A B`: which rows of one database differ from those of another."""

from __future__ import annotations

import json

import click

from pgdyno.cli.comparing.flags import CompareFlags
from pgdyno.cli.terminal.progress import Progress


def contents_command(flags: CompareFlags, conninfos: tuple[str, str]) -> int:
    """Compare the databases and print what differs; exit code 1 where anything does."""
    from pgdyno.contents.comparing import compare_contents
    from pgdyno.model.shapes import plain
    from pgdyno.outside.words import one_line
    from pgdyno.server.postgres import Postgres

    first, second = (Postgres.reached(conninfo, side) for conninfo, side in zip(conninfos, "AB", strict=True))
    found = compare_contents(first, second, jobs=flags.jobs, announce=Progress().announce)
    if flags.as_json:
        click.echo(json.dumps(plain(found)))
    else:
        for line in found.lines():
            click.echo(one_line(line))
    return int(found.exit_code)
