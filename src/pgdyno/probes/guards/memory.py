"""Memory of the server's host: what is available under the tightest bound, stalls, kills, swapping."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pgdyno.linux.cgroups import cgroup_trees
from pgdyno.linux.meminfo import sizes_of
from pgdyno.linux.small_files import KeptFiles
from pgdyno.model.guard import Absent
from pgdyno.probes.host import memory, pressure
from pgdyno.probes.host.reading import PAGE_SIZE, PROC


@dataclass(frozen=True, slots=True)
class OwnKills:
    """Processes killed for lack of memory in one cgroup since it was made."""

    group: str
    count: int


NO_GROUP = Absent("the server is in no memory cgroup of its own")


@dataclass(frozen=True, slots=True)
class MemoryReading:
    """Bytes available of `bound` bytes, and counters since boot: microseconds stalled, kills, bytes swapped in.

    `kills` are those of the whole host. `own_kills` are those of the server's own cgroup, by which a kill can be told
    from one elsewhere: absent where the server shares the root group with everybody.
    """

    available: int
    bound: int
    bounded_by: str
    stalled_us: int | Absent
    kills: int
    swapped_in: int | Absent
    own_kills: OwnKills | Absent = NO_GROUP


class MemoryReader:
    """Reads the memory that bounds one server. `groups` are those around its postmaster, from the inside out."""

    def __init__(self, groups: list[GuardedMemory], proc: Path = PROC) -> None:
        self._proc = proc
        self._read = KeptFiles()
        self._groups = [group for group in groups if _has_controller(group)]
        self._pressure = self._pressure_file()

    @classmethod
    def around(cls, pid: int, proc: Path = PROC) -> MemoryReader:
        """Return the reader for the groups that process `pid` is in. Raises OSError when it is gone."""
        cgroups = (proc / str(pid) / "cgroup").read_text()
        return cls(memory_groups(cgroups, (proc / "self/mountinfo").read_text()), proc)

    def read(self) -> MemoryReading:
        """Read now. Raises OSError, ValueError or KeyError for what cannot be read."""
        meminfo = sizes_of(("MemAvailable", "MemTotal", "SwapTotal"), self._read(f"{self._proc}/meminfo"))
        vmstat = memory.parse_vmstat(self._read(f"{self._proc}/vmstat"))
        rooms = [(meminfo["MemAvailable"], meminfo["MemTotal"], "the host")]
        for group in self._groups:
            room = group.room(self._read)
            if room is not None:
                rooms.append((*room, f'cgroup "{group.path}"'))
        available, bound, bounded_by = min(rooms, key=lambda room: room[0] / room[1])
        has_swap = meminfo.get("SwapTotal", 0) > 0
        return MemoryReading(
            available=available,
            bound=bound,
            bounded_by=bounded_by,
            stalled_us=self._stalled(),
            kills=vmstat.get("oom_kill", 0),
            own_kills=self._own_kills(),
            swapped_in=vmstat["pswpin"] * PAGE_SIZE if has_swap else Absent("this host has no swap"),
        )

    def _own_kills(self) -> OwnKills | Absent:
        """Return the kills of the innermost group: those around it hold other programs too."""
        if not self._groups:
            return NO_GROUP
        own = self._groups[0]
        count = own.kills(self._read)
        return Absent(f'cgroup "{own.path}" does not count kills') if count is None else OwnKills(str(own.path), count)

    def _pressure_file(self) -> Path:
        own = next((group.path / "memory.pressure" for group in self._groups if group.version == 2), None)
        return own if own is not None and _readable(own) else self._proc / "pressure" / "memory"

    def _stalled(self) -> int | Absent:
        try:
            return pressure.parse("memory", self._read(str(self._pressure))).get(("memory", "full"), 0)
        except FileNotFoundError:
            return Absent("this kernel has no pressure stall information")
        except OSError as error:  # built in and not enabled: psi=0
            return Absent(f'"{self._pressure}" cannot be read: {error.strerror}')


def _has_controller(group: GuardedMemory) -> bool:
    """Tell whether the memory controller acts in the group: in a v2 tree it may be left to v1, or to the parent."""
    return (group.path / ("memory.current" if group.version == 2 else "memory.usage_in_bytes")).exists()


def _readable(path: Path) -> bool:
    try:
        path.read_text()
    except OSError:
        return False
    return True


NO_LIMIT = 1 << 60
"""The v1 controller writes a number near 2^63 for "no limit"."""
Read = Callable[[str], str]


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
            limit = _number(read(f"{self.path}/memory.max"))
            used, prefix = "memory.current", ""
        else:
            limit = _number(read(f"{self.path}/memory.limit_in_bytes"))
            used, prefix = "memory.usage_in_bytes", "total_"
        if limit is None:
            return None
        stat = table(read(f"{self.path}/memory.stat"))
        cache = stat[f"{prefix}inactive_file"] + stat[f"{prefix}active_file"]
        return max(0, min(limit, limit - int(read(f"{self.path}/{used}")) + cache)), limit

    def kills(self, read: Read) -> int | None:
        """Return how many processes of the group the kernel killed for lack of memory, None where it does not count.

        It counts a victim in the group that it was in, whichever bound it was killed for: the group's own, an outer
        one's, or the host's (memcg_memory_event_mm). Version 1 counts from Linux 4.13, without the groups inside.
        """
        file = "memory.events" if self.version == 2 else "memory.oom_control"
        return table(read(f"{self.path}/{file}")).get("oom_kill")


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
