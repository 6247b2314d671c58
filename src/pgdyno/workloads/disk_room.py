"""Whether disks have room, asked before anything is made: the server's for a load's data, this host's for logs."""

from __future__ import annotations

import shutil
from pathlib import Path

from pgdyno.errors import EnvironmentUnsuitable
from pgdyno.model.facts import Facts, Unknown
from pgdyno.targets.target import Target
from pgdyno.units import bytes_text
from pgdyno.workloads.pgbench.workload import PgbenchWorkload
from pgdyno.workloads.protocol import Workload

ROOM = 2.2
"""The template and its clone are both on the disk, and WAL beside them."""
LEAST_HERE = 100 << 20
"""What has to be free on the host of the load, in bytes: logs of one run at a time are written there."""


def require_room(workload: Workload, target: Target, facts: Facts) -> None:
    """Raise EnvironmentUnsuitable where the data that are not loaded yet, and their clone, would fill the disk."""
    size = size_to_load(workload, target)
    require_disk(f"workload {workload.spec().name}", size, facts, "Take fewer warehouses or rows, or a smaller scale.")


def size_to_load(workload: Workload, target: Target) -> int:
    """Return about how many bytes a workload would load; 0 where they are there already, or nobody knows."""
    return workload.bytes_to_load(target) if isinstance(workload, PgbenchWorkload) else 0


def require_size(workload: Workload, target: Target, most: int) -> None:
    """Raise EnvironmentUnsuitable where more data than this would be loaded."""
    size = size_to_load(workload, target)
    if size > most:
        raise EnvironmentUnsuitable(
            f"workload {workload.spec().name} loads about {bytes_text(size)}, more than --max-size {bytes_text(most)}",
            hint="Give a larger --max-size, or a smaller scale.",
        )


def require_here(folder: Path, what: str, hint: str) -> int:
    """Return how many bytes are free in a folder of this host. Raises EnvironmentUnsuitable below LEAST_HERE."""
    free = shutil.disk_usage(folder).free
    if free < LEAST_HERE:
        raise EnvironmentUnsuitable(
            f'there is not enough space in "{folder}", where {what}: {bytes_text(free)} free, '
            f"{bytes_text(LEAST_HERE)} needed",
            hint=hint,
        )
    return free


def require_disk(who: str, size: float, facts: Facts, hint: str) -> None:
    """Raise EnvironmentUnsuitable where `size` bytes of data and their clone have no room; an unknown disk has.

    `who` names in the error what needs the room, such as "workload tpcc", and `hint` says how to need less. `facts` has
    the free bytes of the disk with the server's data.
    """
    free = facts.host.data_disk_free_bytes
    if not isinstance(free, Unknown) and ROOM * size > free:
        raise EnvironmentUnsuitable(
            f"{who} needs about {bytes_text(ROOM * size)} of disk, {bytes_text(free)} are free",
            detail="The data are kept twice: as they were loaded, and as the clone that a run works on.",
            hint=hint,
        )
