"""The memory cgroups around a process, v1 and v2, and what each says of its limit, its use and its kills."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pgdyno.linux.cgroups import cgroup_trees

NO_LIMIT = 1 << 60
"""The v1 controller writes a number near 2^63 for "no limit"."""
Read = Callable[[Path], str]


@dataclass(frozen=True, slots=True)
class GuardedMemory:
    """A group of version 1 or 2 at its directory."""

    version: int
    path: Path

    def room(self, read: Read) -> tuple[int, int] | None:
        """Return bytes available below the limit and the limit itself, None when the group has no limit.

        File cache counts as available because the kernel drops it before it kills (memory.stat; v1 sums the children
        under `total_`, v2 always).
        """
        if self.version == 2:
            limit = _number(read(self.path / "memory.max"))
            used, prefix = "memory.current", ""
        else:
            limit = _number(read(self.path / "memory.limit_in_bytes"))
            used, prefix = "memory.usage_in_bytes", "total_"
        if limit is None:
            return None
        stat = table(read(self.path / "memory.stat"))
        cache = stat[f"{prefix}inactive_file"] + stat[f"{prefix}active_file"]
        return max(0, min(limit, limit - int(read(self.path / used)) + cache)), limit

    def kills(self, read: Read) -> int | None:
        """Return how many processes of the group the kernel killed for want of memory, None where it does not count.

        It counts a victim in the group that it was in, whichever bound it was killed for: the group's own, an outer
        one's, or the host's (memcg_memory_event_mm). Version 1 counts from Linux 4.13, without the groups inside.
        """
        file = "memory.events" if self.version == 2 else "memory.oom_control"
        return table(read(self.path / file)).get("oom_kill")


def memory_groups(cgroups: str, mountinfo: str) -> list[GuardedMemory]:
    """Return the groups around a process from its own to the root of the tree; that of version 1 is left out.

    It has no limit. That of version 2 is there because in a container it is the container's own group; on a host it has
    no files of memory. `cgroups` is /proc/PID/cgroup and `mountinfo` /proc/self/mountinfo.
    """
    found = []
    for tree in cgroup_trees(mountinfo):
        group = tree.group_of(cgroups, "memory")
        if group is not None and tree.may_bound("memory"):
            folders = tree.upwards(group)
            found += [
                GuardedMemory(tree.version, folder) for folder in (folders if tree.version == 2 else folders[:-1])
            ]
    return found


def table(text: str) -> dict[str, int]:
    """Return lines of `name number` as a dictionary."""
    pairs = (line.split() for line in text.splitlines())
    return {words[0]: int(words[1]) for words in pairs if len(words) == 2 and words[1].isdigit()}


def _number(text: str) -> int | None:
    word = text.strip()
    return int(word) if word.isdigit() and int(word) < NO_LIMIT else None
