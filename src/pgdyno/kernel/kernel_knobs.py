"""In which files of the kernel each Linux knob lives, and which files change with them. Standard library only.

The scheduler's migration cost moved from a sysctl to debugfs in Linux 5.13 (commit 8a99b6833c88, "sched: Move
SCHED_DEBUG sysctl to debugfs"). Changing a block device's scheduler resets its other tunables, and changing a
governor its own: those files belong to the knob's image.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from pgdyno.kernel import kernel_smt
from pgdyno.linux.block_devices import KernelPlaces
from pgdyno.linux.kernel_tree import LIVE, Tree
from pgdyno.model import linux
from pgdyno.model.facts import Unknown

MIGRATION_COST_FILE = "/sys/kernel/debug/sched/migration_cost_ns"
THP = "/sys/kernel/mm/transparent_hugepage"
CPUFREQ = "/sys/devices/system/cpu/cpufreq"
_DEBUGFS_SINCE = (5, 13)
_NODES = "/sys/devices/system/node"
_LONG = 2**63 - 1
_INT = 2**31 - 1


@dataclass(frozen=True, slots=True)
class KnobBounds:
    """What the kernel takes: as `vartype`, `unit`, `min_val` and `max_val` of `pg_settings`; words for an enum."""

    vartype: str = "enum"
    unit: str | None = None
    minimum: int | None = None
    maximum: int | None = None
    words: tuple[str, ...] = ()


BOUNDS = {
    linux.DIRTY_BYTES: KnobBounds("integer", "B", 2 * 4096, _LONG),
    linux.DIRTY_RATIO: KnobBounds("integer", None, 1, 100),
    linux.BACKGROUND_BYTES: KnobBounds("integer", "B", 1, _LONG),
    linux.BACKGROUND_RATIO: KnobBounds("integer", None, 1, 100),
    linux.NR_HUGEPAGES: KnobBounds("integer", None, 0, _LONG),
    linux.SWAPPINESS: KnobBounds("integer", None, 0, 200),
    linux.OVERCOMMIT_MEMORY: KnobBounds(words=("0", "1", "2")),
    linux.OVERCOMMIT_RATIO: KnobBounds("integer", None, 1, _INT),
    linux.MIGRATION_COST: KnobBounds("integer", None, 0, 10**9),
    linux.AUTOGROUP: KnobBounds(words=("0", "1")),
    linux.THP_ENABLED: KnobBounds(),
    linux.THP_DEFRAG: KnobBounds(),
    linux.READ_AHEAD: KnobBounds("integer", "kB", 0, _INT),
    linux.SCHEDULER: KnobBounds(),
    linux.GOVERNOR: KnobBounds(),
    linux.SMT: KnobBounds(),
    linux.SWAP_AREA: KnobBounds("integer", "B", 0, _LONG),
}


@dataclass(frozen=True, slots=True)
class Located:
    """The files that each hold a knob's value, and those that change with it and must be kept beside it."""

    files: tuple[str, ...]
    beside: tuple[str, ...] = ()


def sysctl_path(name: str) -> str:
    """Return the file of a sysctl."""
    return f"/proc/sys/{name.replace('.', '/')}"


def locate(name: str, places: KernelPlaces, tree: Tree = LIVE) -> Located | Unknown:
    """Return where a knob lives on this machine, or why it lives nowhere. Its files may still refuse to be read."""
    if name in _OTHERS:
        return _OTHERS[name](places, tree)
    if name in linux.COUNTERPARTS:
        return Located((sysctl_path(name),), (sysctl_path(linux.COUNTERPARTS[name]),))
    if name == linux.OVERCOMMIT_RATIO:
        return Located((sysctl_path(name),), (sysctl_path("vm.overcommit_kbytes"),))
    if name in (linux.THP_ENABLED, linux.THP_DEFRAG):
        return Located((f"{THP}/{name.partition('.')[2]}",))
    return Located((sysctl_path(name),))


def uses_debugfs(tree: Tree = LIVE) -> bool:
    """Return True where the scheduler's migration cost is in debugfs: Linux 5.13 and later."""
    try:
        release = re.match(r"(\d+)\.(\d+)", tree.read("/proc/sys/kernel/osrelease"))
    except OSError:
        release = None
    if release is None:
        return not tree.exists(sysctl_path(linux.MIGRATION_COST))
    return (int(release[1]), int(release[2])) >= _DEBUGFS_SINCE


def _migration_cost(_places: KernelPlaces, tree: Tree) -> Located:
    return Located((MIGRATION_COST_FILE if uses_debugfs(tree) else sysctl_path(linux.MIGRATION_COST),))


def _huge_pages(_places: KernelPlaces, tree: Tree) -> Located:
    """Return the pool; with more than one NUMA node the share of each node too, for a new total is spread evenly."""
    nodes = [node for node in tree.names(_NODES) if re.fullmatch(r"node\d+", node)]
    shares = [_share(node, tree) for node in nodes] if len(nodes) > 1 else []
    return Located((sysctl_path(linux.NR_HUGEPAGES),), tuple(share for share in shares if share))


def _share(node: str, tree: Tree) -> str | None:
    size = re.search(r"^Hugepagesize:\s*(\d+) kB$", tree.read("/proc/meminfo"), re.MULTILINE)
    path = f"{_NODES}/{node}/hugepages/hugepages-{size[1]}kB/nr_hugepages" if size else ""
    return path if path and tree.exists(path) else None


def _read_ahead(places: KernelPlaces, _tree: Tree) -> Located | Unknown:
    if places.problem is not None:
        return Unknown(places.problem)
    return Located(tuple(f"/sys/block/{device}/queue/read_ahead_kb" for device in places.mounted))


def _scheduler(places: KernelPlaces, tree: Tree) -> Located | Unknown:
    if places.problem is not None:
        return Unknown(places.problem)
    queues = [f"/sys/block/{disk}/queue" for disk in places.disks]
    beside = [f"{queue}/{name}" for queue in queues for name in ("nr_requests", "wbt_lat_usec")]
    beside += [f"{queue}/iosched/{name}" for queue in queues for name in tree.names(f"{queue}/iosched")]
    return Located(tuple(f"{queue}/scheduler" for queue in queues), tuple(filter(tree.exists, beside)))


def _governor(_places: KernelPlaces, tree: Tree) -> Located | Unknown:
    policies = [f"{CPUFREQ}/{name}" for name in tree.names(CPUFREQ) if name.startswith("policy")]
    if not policies:
        return Unknown("the kernel does not set the clock of the processors, as in most virtual machines (no cpufreq)")
    beside = (f"{policy}/energy_performance_preference" for policy in policies)
    return Located(tuple(f"{policy}/scaling_governor" for policy in policies), tuple(filter(tree.exists, beside)))


def _smt(_places: KernelPlaces, tree: Tree) -> Located | Unknown:
    problem = kernel_smt.problem(tree)
    if problem is not None:
        return Unknown(problem)
    online = kernel_smt.online_files(tree)
    return Located((), online) if kernel_smt.is_by_thread(tree) else Located((kernel_smt.CONTROL,), online)


def _swap(places: KernelPlaces, _tree: Tree) -> Located | Unknown:
    if places.swap_file is None:
        return Unknown(places.problem or "there is no place for a swap file")
    return Located((places.swap_file,))


_OTHERS = {
    linux.MIGRATION_COST: _migration_cost,
    linux.NR_HUGEPAGES: _huge_pages,
    linux.READ_AHEAD: _read_ahead,
    linux.SCHEDULER: _scheduler,
    linux.GOVERNOR: _governor,
    linux.SMT: _smt,
    linux.SWAP_AREA: _swap,
}
