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
CPUFREQ = "/sys/devices/system/cpu/cpufreq"
_DEBUGFS_SINCE = (5, 13)
_NODES = "/sys/devices/system/node"


@dataclass(frozen=True, slots=True)
class Located:
    """The files that each hold a knob's value, and those that change with it and must be kept beside it."""

    files: tuple[str, ...]
    beside: tuple[str, ...] = ()


def locate(name: str, places: KernelPlaces, tree: Tree = LIVE) -> Located | Unknown:
    """Return where a knob lives on this machine, or why it lives nowhere. Its files may still refuse to be read."""
    if name in _OTHERS:
        return _OTHERS[name](places, tree)
    knob = linux.LINUX[name]
    counterpart = (linux.LINUX[knob.counterpart].path,) if knob.counterpart else ()
    return Located((knob.path,), (*counterpart, *knob.beside))


def uses_debugfs(tree: Tree = LIVE) -> bool:
    """Return True where the scheduler's migration cost is in debugfs: Linux 5.13 and later."""
    try:
        release = re.match(r"(\d+)\.(\d+)", tree.read("/proc/sys/kernel/osrelease"))
    except OSError:
        release = None
    if release is None:
        return not tree.exists(linux.LINUX[linux.MIGRATION_COST].path)
    return (int(release[1]), int(release[2])) >= _DEBUGFS_SINCE


def _migration_cost(_places: KernelPlaces, tree: Tree) -> Located:
    return Located((MIGRATION_COST_FILE if uses_debugfs(tree) else linux.LINUX[linux.MIGRATION_COST].path,))


def _huge_pages(_places: KernelPlaces, tree: Tree) -> Located:
    """Return the pool; with more than one NUMA node the share of each node too, for a new total is spread evenly."""
    nodes = [node for node in tree.names(_NODES) if re.fullmatch(r"node\d+", node)]
    shares = [_share(node, tree) for node in nodes] if len(nodes) > 1 else []
    return Located((linux.LINUX[linux.NR_HUGEPAGES].path,), tuple(share for share in shares if share))


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
