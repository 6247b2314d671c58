"""Getting the data of a load ready: room on the disk, the template, and what an earlier study left in memory again."""

from __future__ import annotations

from pgdyno.model.facts import Facts
from pgdyno.targets.target import Target
from pgdyno.workloads.disk_room import require_room
from pgdyno.workloads.page_cache import read_in
from pgdyno.workloads.protocol import Progress, Workload


def make_ready(workload: Workload, target: Target, facts: Facts, *, policy: str, progress: Progress) -> None:
    """Prepare a workload whose runs are reset by `policy`, so that the first of them is like every other.

    Side effects on the server: those of `Workload.prepare`, and reads of files by `read_in`. Raises
    EnvironmentUnsuitable where the disk has no room for the data, and what `Workload.prepare` raises.
    """
    require_room(workload, target, facts)
    workload.prepare(target, progress=progress)
    read_in(workload, target, facts, policy=policy, progress=progress)
