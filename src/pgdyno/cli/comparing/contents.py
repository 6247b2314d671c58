"""`pgdyno compare --data A B`: which rows of one database differ from those of another."""

from __future__ import annotations

from pgdyno.cli.comparing.flags import CompareFlags
from pgdyno.cli.terminal.progress import Progress
from pgdyno.cli.terminal.reporting import print_found


def contents_command(flags: CompareFlags, conninfos: tuple[str, str]) -> int:
    """Compare the databases and print what differs; exit code 1 where anything does."""
    from pgdyno.contents.comparing import compare_contents
    from pgdyno.server.postgres import Postgres

    first, second = (Postgres.reached(conninfo, side) for conninfo, side in zip(conninfos, "AB", strict=True))
    found = compare_contents(first, second, jobs=flags.jobs, announce=Progress().announce)
    print_found(found, found.lines(), as_json=flags.as_json)
    return int(found.exit_code)
