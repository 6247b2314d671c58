"""A bound on the CPUs or the memory of one server: a group of ours around its processes, or its own group's.

In version 1 a group is made inside of the one that the server is in, and its processes move there; undone, they move
back and the group is removed. A process is in one group alone in version 2, so the server's own is bound, and only
where this process is not in it too: a load generator would be bound with the server. Standard library only.

What was in memory before counts where it was: in version 1 only what the server touches from then on is in its bound.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shlex
from dataclasses import dataclass
from pathlib import Path

from pgdyno.linux import processes
from pgdyno.linux.block_devices import KernelPlaces
from pgdyno.linux.cgroups import CgroupTree, cgroup_trees
from pgdyno.linux.kernel_tree import LIVE, Tree, plain, reason_of
from pgdyno.model.facts import Unknown
from pgdyno.model.linux import SERVER_CPUS

PREFIX = "pgdyno-bound-"
PERIOD_US = 100_000
_ROUNDS = 20
_FILES = {"cpu": ("cpu.cfs_quota_us", "cpu.max"), "memory": ("memory.limit_in_bytes", "memory.max")}


@dataclass(frozen=True, slots=True)
class BoundPlace:
    """Where the bound is: a folder that is ours to make, or, in version 2, the file of the server's own group."""

    folder: str
    file: str
    is_ours: bool


def locate(name: str, places: KernelPlaces, tree: Tree = LIVE) -> BoundPlace | Unknown:
    """Return where a bound of the server goes, or why there can be none."""
    if places.postmaster is None:
        return Unknown("the server's processes are not known")
    controller = "cpu" if name == SERVER_CPUS else "memory"
    try:
        mounts = cgroup_trees(tree.read("/proc/self/mountinfo"))
        theirs, ours = (tree.read(f"/proc/{pid}/cgroup") for pid in (places.postmaster, "self"))
    except OSError as error:
        return Unknown(reason_of(error, error.filename or "/proc", tree))
    for mount in sorted((one for one in mounts if one.may_bound(controller)), key=lambda one: one.version):
        group = mount.group_of(theirs, controller)
        if group is None:
            continue
        found = _place(mount, group, mount.group_of(ours, controller), (controller, places.digest))
        if isinstance(found, Unknown) or tree.exists(found.file if not found.is_ours else str(group)):
            return found
    return Unknown(f"no group of the server has the controller {controller}")


def _place(mount: CgroupTree, group: Path, ours: Path | None, named: tuple[str, str]) -> BoundPlace | Unknown:
    version_1, version_2 = _FILES[named[0]]
    if mount.version == 1:
        name = PREFIX + named[1]
        folder = group if group.name == name else group / name
        return BoundPlace(str(folder), str(folder / version_1), is_ours=True)
    if ours is not None and (ours == group or group in ours.parents):
        return Unknown(f'the server shares its group "{group}" with pgdyno, whose load would be bound too')
    return BoundPlace(str(group), str(group / version_2), is_ours=False)


def read_bound(name: str, places: KernelPlaces, tree: Tree = LIVE) -> str | Unknown:
    """Return the bound that holds for the server now: CPUs or bytes; unknown where there is none."""
    place = locate(name, places, tree)
    if isinstance(place, Unknown):
        return place
    try:
        words = tree.read(place.file).split()
        if place.is_ours and str(places.postmaster) not in tree.read(f"{place.folder}/cgroup.procs").split():
            return Unknown("the server is in no group of ours")
    except OSError as error:
        return Unknown(reason_of(error, place.file, tree))
    if not words or not words[0].isdigit():
        return Unknown("there is no bound")
    if name != SERVER_CPUS:
        return words[0]
    return f"{int(words[0]) / (int(words[1]) if len(words) > 1 else PERIOD_US):g}"


def bind(name: str, value: str, places: KernelPlaces, tree: Tree = LIVE) -> None:
    """Bound the server to `value` CPUs or bytes of memory, as the knob `name` says. Raises OSError.

    `places` has the server's postmaster, which moves with its children where the group is ours; `tree` is the root of
    /proc and /sys.
    """
    place = locate(name, places, tree)
    if isinstance(place, Unknown):
        raise OSError(errno.EINVAL, place.reason)
    amount = value if name != SERVER_CPUS else str(round(float(value) * PERIOD_US))
    if not place.is_ours:
        tree.write(place.file, f"{amount} {PERIOD_US}" if name == SERVER_CPUS else amount)
        return
    tree.make_folder(place.folder)
    if name == SERVER_CPUS:
        tree.write(f"{place.folder}/cpu.cfs_period_us", str(PERIOD_US))
    tree.write(place.file, amount)
    _gather(place.folder, places, tree)


def _gather(folder: str, places: KernelPlaces, tree: Tree) -> None:
    """Move the postmaster and its children; the postmaster first, so that later ones begin inside."""
    assert places.postmaster is not None, "it was located"
    proc = tree.local("/proc")
    for _ in range(_ROUNDS):
        family = [places.postmaster, *(stat.pid for stat in processes.children_of(places.postmaster, proc))]
        inside = set(tree.read(f"{folder}/cgroup.procs").split())
        outside = [pid for pid in family if str(pid) not in inside]
        if not outside:
            return
        for pid in outside:
            _move(pid, folder, tree)
    raise OSError(errno.EBUSY, "the server's processes could not all be moved", folder)


def release(folder: str, tree: Tree = LIVE) -> bool:
    """Move what is in a group of ours to the one around it, and remove it; True when it was there. Raises OSError."""
    if not tree.exists(folder):
        return False
    around = str(Path(folder).parent)
    for _ in range(_ROUNDS):
        inside = tree.read(f"{folder}/cgroup.procs").split()
        if not inside:
            break
        for pid in inside:
            _move(int(pid), around, tree)
    tree.remove_folder(folder)
    return True


def commands(folder: str) -> list[str]:
    """Return the lines of a shell that take a group of ours away by hand, as root."""
    group, around = shlex.quote(folder), shlex.quote(str(Path(folder).parent))
    return [f"for pid in $(cat {group}/cgroup.procs); do echo $pid > {around}/cgroup.procs; done", f"rmdir {group}"]


def is_bound_by(value: str, found: str | Unknown) -> bool:
    """Tell whether the kernel took a bound: memory is kept in whole pages."""
    if isinstance(found, Unknown):
        return False
    return abs(float(found) - float(value)) < (os.sysconf("SC_PAGE_SIZE") if float(value) > 1e6 else 1e-4)


def _move(pid: int, folder: str, tree: Tree) -> None:
    with contextlib.suppress(ProcessLookupError):  # it has ended
        tree.write(f"{folder}/cgroup.procs", plain(str(pid)))
