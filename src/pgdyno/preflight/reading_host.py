"""The kernel's limits, read from /proc and /sys. Reads only; Linux only. What cannot be read is `Unknown`."""

from __future__ import annotations

import os
import re
import resource
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pgdyno.linux import host
from pgdyno.linux.cgroups import group_limits, memory_limits
from pgdyno.linux.meminfo import parse_meminfo
from pgdyno.linux.small_files import read_leniently
from pgdyno.model.facts import Unknown

_PROC = Path("/proc")
POOLS = Path("/sys/kernel/mm/hugepages")
_KB = 1024


@dataclass(frozen=True, slots=True)
class HugePool:
    """The pool of one size of huge pages, in pages (Documentation/admin-guide/mm/hugetlbpage.rst of the kernel)."""

    page_bytes: int
    total: int
    free: int
    reserved: int
    surplus: int
    overcommit: int
    cgroup_bytes: int | None = None
    """What cgroups leave to the server in bytes, None when they set no limit."""

    @property
    def obtainable(self) -> int:
        """Return the pages that a process could reserve now: free, not promised, and surplus pages still allowed."""
        return max(self.free - self.reserved, 0) + max(self.overcommit - self.surplus, 0)


@dataclass(frozen=True, slots=True)
class SharedSegment:
    """The running server's main shared memory; `huge_page_bytes` is None when it lies in ordinary pages."""

    size_bytes: int
    huge_page_bytes: int | None


@dataclass(frozen=True, slots=True)
class ProcessLimits:
    """What a process of the server may have (RLIMIT_*); None is unlimited. `source` says whose limits they are."""

    open_files: int | None
    locked_bytes: int | None
    processes: int | None
    source: str


@dataclass(frozen=True, slots=True)
class StartHost:
    """What the kernel gives the server. Bytes; `memory` is /proc/meminfo, `sysctl` the kernel's texts by name."""

    memory: Mapping[str, int]
    memory_limit: int | Unknown
    pools: Mapping[int, HugePool]
    segment: SharedSegment | Unknown
    limits: ProcessLimits
    sysctl: Mapping[str, str]
    pids_limit: int | None
    semaphore_sets: int


SYSCTLS = (
    "fs/file-max",
    "fs/file-nr",
    "kernel/io_uring_disabled",
    "kernel/osrelease",
    "kernel/pid_max",
    "kernel/sem",
    "kernel/shmall",
    "kernel/shmmax",
    "vm/overcommit_memory",
)


def read_host_limits(pid: int, *, inherits_ours: bool) -> StartHost:
    """Read them for the postmaster `pid`.

    With `inherits_ours` the next server is our own child and gets our limits and cgroup instead of the ones that the
    running server has (see `server_process.is_born_of_us`); memory is bounded by both then.
    """
    mountinfo = _text(_PROC / "self/mountinfo")
    groups = [_text(_PROC / str(pid) / "cgroup")] + ([_text(_PROC / "self/cgroup")] if inherits_ours else [])
    meminfo = parse_meminfo(_text(_PROC / "meminfo"))
    ram: int | Unknown = meminfo.get("MemTotal", Unknown("/proc/meminfo has no MemTotal"))
    pids = [n for group in groups for n in group_limits(group, mountinfo, "pids", "pids.max", "pids.max")]
    return StartHost(
        memory=meminfo,
        memory_limit=host.smallest(ram, [n for group in groups for n in memory_limits(group, mountinfo)]),
        pools={pool.page_bytes: pool for pool in _pools(groups, mountinfo)},
        segment=segment_of(_text(_PROC / str(pid) / "smaps")),
        limits=_own_limits() if inherits_ours else parse_limits(_text(_PROC / str(pid) / "limits")),
        sysctl={name: _text(_PROC / "sys" / name).strip() for name in SYSCTLS},
        pids_limit=min(pids, default=None),
        semaphore_sets=semaphore_sets_of(_text(_PROC / "sysvipc/sem"), _owner_of(pid)),
    )


def segment_of(smaps: str) -> SharedSegment | Unknown:
    """Return the largest anonymous shared mapping of /proc/PID/smaps: the server's main shared memory.

    It shows as `/dev/zero (deleted)`, as `/anon_hugepage (deleted)` in huge pages, or as `/SYSV...`.
    """
    best: SharedSegment | None = None
    for start, end, body in re.findall(
        r"^([0-9a-f]+)-([0-9a-f]+) \S*s \S+ \S+ \d+ +(?:/dev/zero|/anon_hugepage|/SYSV\w+)[^\n]*\n((?:\w+: .*\n?)*)",
        smaps,
        re.MULTILINE,
    ):
        size = int(end, 16) - int(start, 16)
        page = re.search(r"^KernelPageSize: +(\d+) kB", body, re.MULTILINE)
        page_bytes = int(page[1]) * _KB if page else 0
        if best is None or size > best.size_bytes:
            best = SharedSegment(size, page_bytes if page_bytes >= 1 << 20 else None)
    return best or Unknown("/proc/PID/smaps of the postmaster shows no shared memory to this user")


def parse_limits(text: str) -> ProcessLimits:
    """Return the soft limits of /proc/PID/limits."""

    def soft(name: str) -> int | None:
        found = re.search(rf"^{name} +(\d+|unlimited)", text, re.MULTILINE)
        return int(found[1]) if found and found[1].isdigit() else None

    return ProcessLimits(soft("Max open files"), soft("Max locked memory"), soft("Max processes"), "the running server")


def _own_limits() -> ProcessLimits:
    def soft(kind: int) -> int | None:
        value = resource.getrlimit(kind)[0]
        return None if value == resource.RLIM_INFINITY else value

    files, locked = soft(resource.RLIMIT_NOFILE), soft(resource.RLIMIT_MEMLOCK)
    return ProcessLimits(files, locked, soft(resource.RLIMIT_NPROC), "pgdyno, which starts the server")


def _pools(groups: list[str], mountinfo: str) -> list[HugePool]:
    return [_pool(folder, groups, mountinfo) for folder in sorted(POOLS.glob("hugepages-*kB"))]


def _pool(folder: Path, groups: list[str], mountinfo: str) -> HugePool:
    page_bytes = int(folder.name.removeprefix("hugepages-").removesuffix("kB")) * _KB

    def count(name: str) -> int:
        text = _text(folder / name).strip()
        return int(text) if text.isdigit() else 0

    return HugePool(
        page_bytes=page_bytes,
        total=count("nr_hugepages"),
        free=count("free_hugepages"),
        reserved=count("resv_hugepages"),
        surplus=count("surplus_hugepages"),
        overcommit=count("nr_overcommit_hugepages"),
        cgroup_bytes=_cgroup_bytes(page_bytes, groups, mountinfo),
    )


def _cgroup_bytes(page_bytes: int, groups: list[str], mountinfo: str) -> int | None:
    """Return the smallest hugetlb limit: of reservations where the kernel knows them, and of pages in use."""
    size = f"{page_bytes >> 30}GB" if page_bytes >= 1 << 30 else f"{page_bytes >> 20}MB"
    names = [
        (f"hugetlb.{size}.max", f"hugetlb.{size}.limit_in_bytes"),
        (f"hugetlb.{size}.rsvd.max", f"hugetlb.{size}.rsvd.limit_in_bytes"),
    ]
    found = [n for group in groups for v2, v1 in names for n in group_limits(group, mountinfo, "hugetlb", v2, v1)]
    return min((n for n in found if n < 1 << 60), default=None)


def semaphore_sets_of(table: str, uid: int | None) -> int:
    """Return how many System V semaphore sets of /proc/sysvipc/sem this user owns: none for most builds on Linux."""
    rows = [line.split() for line in table.splitlines()[1:]]
    return sum(1 for row in rows if len(row) > 4 and row[4] == str(uid))


def _owner_of(pid: int) -> int | None:
    try:
        return (_PROC / str(pid)).stat().st_uid
    except OSError:
        return None


def free_bytes(folder: Path) -> int | Unknown:
    """Return what an ordinary user may still write to the file system of a folder, in bytes."""
    try:
        system = os.statvfs(folder)
    except OSError as error:
        return Unknown(f'the file system of "{folder}" cannot be asked: {error.strerror}')
    return system.f_bavail * system.f_frsize


def _text(path: Path) -> str:
    return read_leniently(path) or ""
