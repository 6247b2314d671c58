"""The flags that say how much of the machine others may use before a run is not used."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from pgdyno.cli.arguments.flags import F, Flags, stack

if TYPE_CHECKING:
    from pgdyno.trial.assess import Bounds


def bounds_options(function: F) -> F:
    """Add the flags that say how much of the machine others may use before a run is not used."""
    return stack(
        function,
        [
            click.option(
                "--foreign-cpu",
                type=click.FloatRange(0),
                default=15.0,
                show_default=True,
                help="Bound on CPU of other processes, in percent of one core; above it a run is repeated.",
            ),
            click.option(
                "--steal",
                type=click.FloatRange(0, 100),
                default=5.0,
                show_default=True,
                help="Bound on steal, in percent.",
            ),
            click.option(
                "--foreign-disk",
                type=click.FloatRange(0),
                envvar="PGDYNO_FOREIGN_DISK",
                help="Bound on what others move on the disks, in MB/s.  [default: not judged]",
            ),
            click.option(
                "--foreign-sessions",
                type=click.FloatRange(0),
                envvar="PGDYNO_FOREIGN_SESSIONS",
                help="Bound on busy sessions in other databases, on average.  [default: not judged]",
            ),
        ],
    )


def bounds(flags: Flags) -> Bounds:
    """Build the bounds on disturbance."""
    from pgdyno.trial.assess import Bounds

    return Bounds(
        foreign_cpu_pct=flags.real("foreign_cpu"),
        steal_pct=flags.real("steal"),
        foreign_disk_mb_per_s=flags.number("foreign_disk"),
        foreign_sessions=flags.number("foreign_sessions"),
    )
