"""The flags that say how much of the machine others may use before a run is not used."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from pgdyno.cli.arguments.flags import Flags, flag

if TYPE_CHECKING:
    from pgdyno.trial.assess import Bounds


class CpuBoundsFlags(Flags):
    """How much of the CPUs others may use before a run is not used."""

    foreign_cpu: float = flag(
        "Bound on CPU of other processes, in percent of one core; above it a run is repeated.",
        default=15.0,
        type=click.FloatRange(0),
        envvar="PGDYNO_FOREIGN_CPU",
    )
    steal: float = flag("Bound on steal, in percent.", default=5.0, type=click.FloatRange(0, 100))


class BoundsFlags(CpuBoundsFlags):
    """How much of the machine others may use before a run is not used."""

    foreign_disk: float | None = flag(
        "Bound on what others move on the disks, in MB/s.  [default: not judged]",
        type=click.FloatRange(0),
        envvar="PGDYNO_FOREIGN_DISK",
    )
    foreign_sessions: float | None = flag(
        "Bound on busy sessions in other databases, on average.  [default: not judged]",
        type=click.FloatRange(0),
        envvar="PGDYNO_FOREIGN_SESSIONS",
    )


def bounds(flags: BoundsFlags) -> Bounds:
    """Build the bounds on disturbance."""
    from pgdyno.trial.assess import Bounds

    return Bounds(
        foreign_cpu_pct=flags.foreign_cpu,
        steal_pct=flags.steal,
        foreign_disk_mb_per_s=flags.foreign_disk,
        foreign_sessions=flags.foreign_sessions,
    )
