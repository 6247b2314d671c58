"""Limits of memory and CPU for one load generator, by cgroups of our own; v1 here, v2 by its files where it is used."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pgdyno.errors import EnvironmentUnsuitable
from pgdyno.linux.cgroups import cgroup_trees
from pgdyno.model.trial import LoadPlan

GROUP = "pgdyno-driver"
"""What the names of our groups begin with; the process id of their maker and the load generator's number follow."""
PERIOD_US = 100_000
"""The kernel's own period of a CPU quota."""


@dataclass(frozen=True, slots=True)
class Controller:
    """A mounted cgroup controller: `version` 1 or 2, and the folder below which our groups are made."""

    name: str
    version: int
    folder: Path


@dataclass(frozen=True, slots=True)
class LimitFile:
    """One group with the value that one of its files takes."""

    directory: Path
    file: str
    value: str


def limit_files(plan: LoadPlan, label: str, mountinfo: str, cgroups: str) -> tuple[LimitFile, ...]:
    """Return the groups that the plan asks for, by name `pgdyno-driver-<label>`. Pure but for what it is given.

    `mountinfo` and `cgroups` are the texts of /proc/self/mountinfo and /proc/self/cgroup. Raises
    EnvironmentUnsuitable where no such controller is mounted.
    """
    found = []
    if plan.instance_memory_bytes is not None:
        memory = _controller("memory", mountinfo, cgroups)
        name = "memory.limit_in_bytes" if memory.version == 1 else "memory.max"
        found.append(LimitFile(_group(memory, label), name, str(plan.instance_memory_bytes)))
    if plan.instance_vcpus is not None:
        cpu = _controller("cpu", mountinfo, cgroups)
        quota = max(1000, round(plan.instance_vcpus * PERIOD_US))
        name, value = ("cpu.cfs_quota_us", str(quota)) if cpu.version == 1 else ("cpu.max", f"{quota} {PERIOD_US}")
        found.append(LimitFile(_group(cpu, label), name, value))
    return tuple(found)


def make_limits(plan: LoadPlan, label: str) -> tuple[Path, ...]:
    """Make the groups and return their directories, each once; empty where the plan has no such limit.

    Side effects on this host: up to two cgroup directories, until `remove_limits`. Raises EnvironmentUnsuitable
    where the files cannot be written: that takes root, or a delegated tree.
    """
    if plan.instance_memory_bytes is None and plan.instance_vcpus is None:
        return ()
    mounts, own = Path("/proc/self/mountinfo").read_text(), Path("/proc/self/cgroup").read_text()
    files = limit_files(plan, label, mounts, own)
    made: list[Path] = []
    for folder in {limit.directory.parent for limit in files}:
        remove_stale(folder)
    try:
        for limit in files:
            limit.directory.mkdir(exist_ok=True)
            if limit.directory not in made:
                made.append(limit.directory)
            (limit.directory / limit.file).write_text(limit.value)
    except OSError as error:
        remove_limits(made)
        who = "" if os.geteuid() == 0 else " by this user"
        raise EnvironmentUnsuitable(
            f"the limits of a load generator cannot be set{who}",
            detail=str(error),
            hint="Run as root, or leave out --memory-total and --vcpus-total and bound them by --driver-cpus.",
        ) from error
    return tuple(made)


def throttled_pct(directories: Sequence[Path]) -> float | None:
    """Return in how many of 100 periods of its CPU quota the most throttled group was stopped; None without a quota."""
    found = []
    for directory in directories:
        try:
            counted = dict(line.split() for line in (directory / "cpu.stat").read_text().splitlines())
        except OSError:  # a group of the memory controller alone
            continue
        periods = int(counted.get("nr_periods", 0))
        found += [100 * int(counted.get("nr_throttled", 0)) / periods] if periods else []
    return max(found, default=None)


def remove_limits(directories: Sequence[Path]) -> None:
    """Remove groups whose processes have ended; one that is not empty stays, for a later study to remove."""
    for directory in directories:
        try:
            directory.rmdir()
        except OSError:
            continue


def remove_stale(folder: Path) -> None:
    """Remove groups that a study left behind when it was killed: their maker is gone, and no process is in them."""
    for directory in folder.glob(f"{GROUP}-*"):
        maker = directory.name.removeprefix(f"{GROUP}-").partition("-")[0]
        if not Path("/proc", maker).exists():
            remove_limits([directory])


def _group(controller: Controller, label: str) -> Path:
    return controller.folder / f"{GROUP}-{label}"


def _controller(name: str, mountinfo: str, cgroups: str) -> Controller:
    """Return where groups of a controller are made: v1 below our own group, v2 at the top, where no process may be."""
    unified: Path | None = None
    for tree in cgroup_trees(mountinfo):
        if tree.version == 2:
            unified = tree.folder
        elif tree.may_bound(name):
            return Controller(name, 1, tree.group_of(cgroups, name) or tree.folder)
    if unified is None:
        raise EnvironmentUnsuitable(
            f'no cgroup tree with the controller "{name}" is mounted',
            hint="Leave the limits of the load generators out on this host.",
        )
    return Controller(name, 2, unified)
