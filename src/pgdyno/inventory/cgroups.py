"""The limits of the cgroups above the server, v1 and v2. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from pathlib import Path

from pgdyno.capture.texts import Capture
from pgdyno.linux.cgroups import group_folders, memory_limits
from pgdyno.model.cpus import count_of_cpus
from pgdyno.model.facts import Unknown

_NO_LIMIT = 1 << 60


def memory_limit(capture: Capture, ram: int | Unknown) -> tuple[int | Unknown, str]:
    """Return the smallest of RAM and the limits above the server, and what it comes from."""
    smallest, source = ram, "RAM"
    for limit, version in _memory_limits(capture):
        if 0 < limit < _NO_LIMIT and (isinstance(smallest, Unknown) or limit < smallest):
            smallest, source = limit, f"cgroup v{version}"
    return smallest, source


def group_available(capture: Capture) -> int | Unknown:
    """Return the least that any limit above the server leaves; file cache counts, because the kernel drops it first."""
    read, rooms = _read(capture), []
    for folder in _folders(capture, "memory"):
        for limit_file, use_file, prefix in (
            ("memory.max", "memory.current", ""),
            ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_"),
        ):
            limit, use = (read.get(folder / name, "").strip() for name in (limit_file, use_file))
            if limit.isdecimal() and int(limit) < _NO_LIMIT:
                stat = re.findall(rf"^{prefix}(?:in)?active_file (\d+)\n", read.get(folder / "memory.stat", ""), re.M)
                if not use.isdecimal() or len(stat) != 2:
                    return Unknown(f"the use of {folder} was not read")
                rooms.append(max(0, min(int(limit), int(limit) - int(use) + sum(map(int, stat)))))
    return min(rooms) if rooms else Unknown("no cgroup bounds the server")


def group_oom_kills(capture: Capture) -> int | Unknown:
    """Return the kills in the group that the server is in (v2 memory.events, v1 memory.oom_control from Linux 4.13)."""
    read = _read(capture)
    for folder in _folders(capture, "memory")[:1]:
        for name in ("memory.events", "memory.oom_control"):
            counted = re.search(r"^oom_kill (\d+)\n", read.get(folder / name, ""), re.MULTILINE)
            if counted:
                return int(counted[1])
    return Unknown("no cgroup of the server counts kills")


def usable_cpus(capture: Capture, online: int | Unknown) -> int | Unknown:
    """Return the CPUs that the server may run on: affinity, CPU set and quota, rounded up."""
    about = capture.document("commands/postmaster.json")
    affinity = about.get("cpus") if isinstance(about, dict) else None
    bounds = [value for value in (online, affinity) if isinstance(value, int)]
    read = _read(capture)
    for folder in _folders(capture, "cpu"):
        quota = _quota(read, folder)
        if quota is not None:
            bounds.append(quota)
    for folder in _folders(capture, "cpuset")[:1]:
        listed = read.get(folder / "cpuset.cpus.effective", read.get(folder / "cpuset.effective_cpus", ""))
        if count := count_of_cpus(listed):
            bounds.append(count)
    return min(bounds) if bounds else Unknown("the number of CPUs is unknown")


def _memory_limits(capture: Capture) -> list[tuple[int, int]]:
    texts = _of_server(capture)
    read = _read(capture)
    both = memory_limits(*texts, read) if texts else []
    first = [limit for limit in both if _is_v2(read, limit)]
    return [(limit, 2 if limit in first else 1) for limit in both]


def _is_v2(read: Mapping[Path, str], limit: int) -> bool:
    return any(path.name == "memory.max" and text.strip() == str(limit) for path, text in read.items())


def _of_server(capture: Capture) -> tuple[str, str] | None:
    cgroups = capture.maybe("proc/postmaster/cgroup") or capture.maybe("proc/self/cgroup")
    mountinfo = capture.maybe("proc/self/mountinfo")
    return None if cgroups is None or mountinfo is None else (cgroups, mountinfo)


def _read(capture: Capture) -> dict[Path, str]:
    return {Path(f"/{key}"): text for key, text in capture.texts.items() if key.startswith("sys/fs/cgroup")}


def _folders(capture: Capture, controller: str) -> list[Path]:
    texts = _of_server(capture)
    return group_folders(*texts, controller) if texts else []


def _quota(read: Mapping[Path, str], folder: Path) -> int | None:
    words = read.get(folder / "cpu.max", "").split()
    if not words:
        words = [read.get(folder / name, "").strip() for name in ("cpu.cfs_quota_us", "cpu.cfs_period_us")]
    if len(words) != 2 or not all(word.isdecimal() for word in words) or int(words[1]) == 0:
        return None  # "max", or -1
    return math.ceil(int(words[0]) / int(words[1])) or None
