"""Whether the disk has room for the data of a load, asked before they are made."""

from __future__ import annotations

from pgdyno.errors import EnvironmentUnsuitable
from pgdyno.model.facts import Facts, Unknown
from pgdyno.targets.target import Target
from pgdyno.units import bytes_text
from pgdyno.workloads.pgbench.workload import PgbenchWorkload
from pgdyno.workloads.protocol import Workload

ROOM = 2.2
"""The template and its clone are both on the disk, and WAL beside them."""


def require_room(workload: Workload, target: Target, facts: Facts) -> None:
    """Raise EnvironmentUnsuitable where the data that are not loaded yet, and their clone, would fill the disk."""
    size = workload.bytes_to_load(target) if isinstance(workload, PgbenchWorkload) else 0
    require_disk(f"workload {workload.spec().name}", size, facts, "Take fewer warehouses or rows, or a smaller scale.")


def require_disk(who: str, size: float, facts: Facts, hint: str) -> None:
    """Raise EnvironmentUnsuitable where `size` bytes of data and their clone have no room; an unknown disk has."""
    free = facts.host.data_disk_free_bytes
    if not isinstance(free, Unknown) and ROOM * size > free:
        raise EnvironmentUnsuitable(
            f"{who} needs about {bytes_text(ROOM * size)} of disk, {bytes_text(free)} are free",
            detail="The data are kept twice: as they were loaded, and as the clone that a run works on.",
            hint=hint,
        )
