"""Memory of the server's host: what is available under the tightest bound, stalls, kills, swapping."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pgdyno.linux.meminfo import parse_meminfo
from pgdyno.model.guard import Absent
from pgdyno.probes.guards.cgroups import GuardedMemory, memory_groups
from pgdyno.probes.host import memory, pressure
from pgdyno.probes.host.reading import PAGE_SIZE, PROC


@dataclass(frozen=True, slots=True)
class OwnKills:
    """Processes killed for want of memory in one cgroup since it was made."""

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
        self._groups = [group for group in groups if _has_controller(group)]
        self._pressure = self._pressure_file()

    @classmethod
    def around(cls, pid: int, proc: Path = PROC) -> MemoryReader:
        """Return the reader for the groups that process `pid` is in. Raises OSError when it is gone."""
        cgroups = (proc / str(pid) / "cgroup").read_text()
        return cls(memory_groups(cgroups, (proc / "self/mountinfo").read_text()), proc)

    def read(self) -> MemoryReading:
        """Read now. Raises OSError, ValueError or KeyError for what cannot be read."""
        meminfo = parse_meminfo((self._proc / "meminfo").read_text())
        vmstat = memory.parse_vmstat((self._proc / "vmstat").read_text())
        rooms = [(meminfo["MemAvailable"], meminfo["MemTotal"], "the host")]
        for group in self._groups:
            room = group.room(Path.read_text)
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
        count = own.kills(Path.read_text)
        return Absent(f'cgroup "{own.path}" does not count kills') if count is None else OwnKills(str(own.path), count)

    def _pressure_file(self) -> Path:
        own = next((group.path / "memory.pressure" for group in self._groups if group.version == 2), None)
        return own if own is not None and _readable(own) else self._proc / "pressure" / "memory"

    def _stalled(self) -> int | Absent:
        if not self._pressure.exists():
            return Absent("this kernel has no pressure stall information")
        try:
            return pressure.parse("memory", self._pressure.read_text()).get(("memory", "full"), 0)
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
