"""`pgdyno migrate`: a database on its way to another server."""

from __future__ import annotations

import json

import click

from pgdyno.cli.arguments.flags import JsonFlag, argument, flag, verb


@click.group("migrate")
def command() -> None:
    """Say whether all of a database arrived on another server.

    docs/reference/migrate.md says what is compared.
    """


class _ValidateFlags(JsonFlag):
    source: str = argument("SOURCE")
    target: str = argument("TARGET")
    jobs: int = flag("Sessions on each side.", "-j", "--jobs", default=1, type=click.IntRange(1, 64))


@verb("validate", command)
def validate(flags: _ValidateFlags) -> int:
    """Compare the database TARGET with SOURCE, both as libpq names them: every object, then every row.

    Reads only: each table once, by -j sessions on each side in one snapshot. Rows, tables, indexes, constraints,
    sequences, programs, rights, extensions, collations, and of the servers roles, tablespaces and settings.

    Exit code 1 when anything differs, 3 when nothing does but not all could be read.
    """
    from pgdyno.cli.terminal.progress import Progress
    from pgdyno.migration.validation.comparing import compare_databases
    from pgdyno.model.shapes import plain
    from pgdyno.outside.words import printable
    from pgdyno.server.postgres import Postgres

    found = compare_databases(
        Postgres(flags.source), Postgres(flags.target), jobs=flags.jobs, tell=Progress().announce
    )  # fmt: skip
    if flags.as_json:
        click.echo(json.dumps(plain(found)))
    else:
        for line in found.lines():
            click.echo(printable(line))
    return int(found.exit_code)
