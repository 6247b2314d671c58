"""`pgdyno ybio`: the procedures of the YBIO shape as SQL, and the sizes that its classes come to."""

from __future__ import annotations

import json

import click

from pgdyno.cli.arguments.flags import JsonFlag, flag, verb
from pgdyno.cli.arguments.target import TargetFlags, target_request
from pgdyno.cli.terminal.columns import print_told


@click.group("ybio")
def command() -> None:
    """Print the procedures setup and runit, and the sizes of the classes of working sets.

    The load itself is a workload of the other verbs: pgdyno bench -w ybio -D class=fits-ram-once. Four laboratories
    are ready as plans in examples/ybio.
    """


@command.command("sql")
def sql() -> None:
    """Print SQL that makes setup, runit and the table benchruns in a database of yours.

    Run it in psql, then: CALL setup(tab_rows => 1000000); VACUUM ANALYZE bench0001; CALL runit(run_duration => '0 s').
    """
    from pgdyno.workloads.ybio.table import procedures

    click.echo(procedures(), nl=False)


class _ClassesFlags(TargetFlags, JsonFlag):
    memory: str | None = flag(
        "What the classes are relative to.  [default: the server's cgroup or host]", metavar="SIZE"
    )
    filler: int = flag("Filler of a row, in bytes.", default=400, type=click.IntRange(1, 1900))


@verb("classes", command)
def classes(flags: _ClassesFlags) -> None:
    """List the classes of working sets, with their rows and bytes on a server. Reads only."""
    from pgdyno.studies.session.opening import opened
    from pgdyno.targets.inspect import read_facts
    from pgdyno.workloads.working_set import CLASSES, measured_by

    with opened(target_request(flags)) as target:
        facts = read_facts(target)
    found = [measured_by(name, facts, memory=flags.memory or "", filler=flags.filler) for name in CLASSES]
    if flags.as_json:
        members = [
            {"class": one.name, "tab_rows": one.rows, "bytes": round(one.size), "of": one.of, "of_bytes": one.whole}
            for one in found
        ]
        click.echo(json.dumps({"classes": members}))
        return
    for one in found:
        print_told("", str(one))
