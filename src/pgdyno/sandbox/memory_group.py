"""A bound on the memory of a sandbox's server, page cache included: a cgroup of our own, v1 or v2.

The cache of a file is charged to the group that read it first, so a server in a group of 1 GB reads from the disk what
does not fit into 1 GB, on a host with as much memory as it likes. A v1 group may count the server's disk reads beside.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pgdyno.errors import EnvironmentUnsuitable
from pgdyno.linux.cgroups import group_folders
from pgdyno.linux.cpu import PREFIX, CpuGroup
from pgdyno.linux.mountinfo import filesystem_of
from pgdyno.units import bytes_text

LEAST_BYTES = 64 << 20
_PROC = Path("/proc")
_V1_LIMIT, _V2_LIMIT = "memory.limit_in_bytes", "memory.max"
STACKED = ("dm-", "md", "loop", "zram", "ram", "nbd", "drbd")
_V1_BOUND, _NO_BOUND = "blkio.throttle.read_iops_device", 1_000_000_000
_V1_READS, _V2_READS = "blkio.throttle.io_serviced", "io.stat"


@dataclass(frozen=True, slots=True)
class MemoryGroup:
    """A bounded group: the directories that the server must enter, `made` by us to be removed. `reads` may be empty."""

    limit: int
    paths: tuple[Path, ...]
    made: tuple[Path, ...]
    reads: Path | None

    @classmethod
    def create(cls, label: str, limit: int, cpu: CpuGroup | None, data: Path) -> MemoryGroup:
        """Make the group `pgdyno-<label>` with this bound. Raise EnvironmentUnsuitable where that cannot be.

        `limit` is in bytes, at least LEAST_BYTES. `data` is where the server's data are: on a file system in memory
        there is nothing to bound.

        In a v2 tree the server's own CPU group `cpu` is bound, because a process is in one v2 group alone; where it
        is None, only a v1 tree will do. Side effects on the host: in v1 one or two cgroup directories, until `remove`,
        in v2 the bound on `cpu`, until `unbind`.
        """
        if limit < LEAST_BYTES:
            raise EnvironmentUnsuitable(
                f"a sandbox cannot live in {bytes_text(limit)} of memory",
                hint=f"Give {bytes_text(LEAST_BYTES)} or more.",
            )
        if os.geteuid() != 0:
            raise EnvironmentUnsuitable(
                "a bound on the sandbox's memory needs root: it is a cgroup of its own",
                hint="Run pgdyno as root, or leave --sandbox-memory out.",
            )
        kind = filesystem_of(data.resolve(), (_PROC / "self/mountinfo").read_text())
        if kind in ("tmpfs", "ramfs"):
            raise EnvironmentUnsuitable(
                f'the sandbox in "{data}" lies on {kind}: its data are memory, whatever bounds the server',
                hint="Put PGDYNO_HOME on a disk, or leave --sandbox-memory out.",
            )
        mounts, own = (_PROC / "self/mountinfo").read_text(), (_PROC / "self/cgroup").read_text()
        try:
            return _version_1(label, limit, mounts, own) or _version_2(limit, cpu)
        except OSError as error:
            raise EnvironmentUnsuitable(
                f"memory of the sandbox cannot be bound to {bytes_text(limit)}",
                detail=str(error),
                hint="Leave --sandbox-memory out, or run where cgroups can be made.",
            ) from error

    def device_reads(self) -> int | None:
        """Return the requests to read that the group's processes sent to devices so far; None when nobody counts."""
        if self.reads is None:
            return None
        try:
            return count_reads(self.reads.read_text())
        except OSError:
            return None

    def holds(self, pid: int) -> bool:
        """Tell whether the process is in the bounded group."""
        try:
            return str(pid) in (self.paths[0] / "cgroup.procs").read_text().split()
        except OSError:
            return False

    def remove(self) -> bool:
        """Remove what we made; False when processes are still in it."""
        try:
            for path in self.made:
                path.rmdir()
        except FileNotFoundError:
            return True
        except OSError:
            return False
        return True


def left_behind(label: str, pid: int | None) -> tuple[Path, ...]:
    """Return the directories of a v1 group of this label that a killed pgdyno left: about the server, or empty."""
    mounts, name = (_PROC / "self/mountinfo").read_text(), f"{PREFIX}{label}"
    found: list[Path] = []
    for process in ("self", *(() if pid is None else (str(pid),))):
        try:
            groups = (_PROC / process / "cgroup").read_text()
        except OSError:
            continue
        for controller in ("memory", "blkio"):
            folders = group_folders(groups, mounts, controller)
            found += [folder if folder.name == name else folder / name for folder in folders]
    return tuple(path for path in dict.fromkeys(found) if path.is_dir())


def unbind(cpu: CpuGroup) -> bool:
    """Take the bound off a v2 group; return whether there was one."""
    limit = cpu.path / _V2_LIMIT
    try:
        if limit.read_text().strip() == "max":
            return False
        limit.write_text("max")
    except OSError:
        return False
    return True


def count_reads(text: str) -> int:
    """Return the reads of all devices in `blkio.throttle.io_serviced` (v1) or `io.stat` (v2)."""
    total = 0
    for line in text.splitlines():
        words = line.split()
        if words[1:2] == ["Read"] and len(words) == 3:
            total += int(words[2])
        total += sum(int(word[5:]) for word in words if word.startswith("rios="))
    return total


def _version_1(label: str, limit: int, mounts: str, own: str) -> MemoryGroup | None:
    parent = _first(group_folders(own, mounts, "memory"), _V1_LIMIT)
    if parent is None:
        return None
    group = parent / f"{PREFIX}{label}"
    group.mkdir(exist_ok=True)
    (group / _V1_LIMIT).write_text(str(limit))
    made = [group]
    counting = _first(group_folders(own, mounts, "blkio"), _V1_READS)
    if counting is not None:
        counting = counting / f"{PREFIX}{label}"
        counting.mkdir(exist_ok=True)
        made.append(counting)
        _count_reads_of_disks(counting)
    return MemoryGroup(limit, tuple(made), tuple(made), None if counting is None else counting / _V1_READS)


def _count_reads_of_disks(group: Path) -> None:
    """Have a v1 group count: Linux does so only where a bound is set, so one is set that no disk reaches.

    A device that refuses is not counted. Stacked devices are left out: their disks count.
    """
    for device in Path("/sys/block").iterdir():
        if device.name.startswith(STACKED):
            continue
        with suppress(OSError):
            number = (device / "dev").read_text().strip()
            (group / _V1_BOUND).write_text(f"{number} {_NO_BOUND}")


def _version_2(limit: int, cpu: CpuGroup | None) -> MemoryGroup:
    if cpu is None or cpu.version != 2:
        raise EnvironmentUnsuitable("no cgroup tree that bounds memory is mounted", hint="Leave --sandbox-memory out.")
    control = cpu.path.parent / "cgroup.subtree_control"
    for controller in ("memory", "io"):
        if controller not in control.read_text().split():
            try:
                control.write_text(f"+{controller}")
            except OSError:
                if controller == "memory":
                    raise
    (cpu.path / _V2_LIMIT).write_text(str(limit))
    reads = cpu.path / _V2_READS
    return MemoryGroup(limit, (cpu.path,), (), reads if reads.exists() else None)


def _first(folders: Iterable[Path], name: str) -> Path | None:
    """Return our own group in a tree when it has this file."""
    return next((folder for folder in folders if (folder / name).exists()), None)
