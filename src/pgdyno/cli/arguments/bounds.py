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
        "Repeat a run if other processes use more CPU than this, in percent of one core.",
        default=15.0,
        type=click.FloatRange(0),
        envvar="PGDYNO_FOREIGN_CPU",
    )
    steal: float = flag("Repeat a run if steal is above this, in percent.", default=5.0, type=click.FloatRange(0, 100))


class BoundsFlags(CpuBoundsFlags):
    """How much of the machine others may use before a run is not used."""

    foreign_disk: float | None = flag(
        "Repeat a run if others move more than this on the disks, in MB/s.  [default: not judged]",
        type=click.FloatRange(0),
        envvar="PGDYNO_FOREIGN_DISK",
    )
    foreign_sessions: float | None = flag(
        "Repeat a run if other databases have more busy sessions, on average.  [default: not judged]",
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
