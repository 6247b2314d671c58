"""/proc/PID/stat: CPU time of the load's driver, which keeps counting after a process has ended (proc(5))."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from pgdyno.linux.small_files import read_small_bytes


@dataclass(frozen=True, slots=True)
class ProcessTimes:
    """Ticks of CPU of one process, its waited-for children included; `started` tells a reused pid apart."""

    started: int
    ticks: int


def parse(text: str) -> ProcessTimes:
    """Parse /proc/PID/stat. The name, which may hold anything, ends at the last parenthesis."""
    fields = text.rpartition(")")[2].split()
    return ProcessTimes(started=int(fields[19]), ticks=sum(int(count) for count in fields[11:15]))


@dataclass(slots=True)
class DriverCpu:
    """Adds up the CPU time of processes by pid, and keeps the last reading of those that are gone."""

    proc: Path
    ticks_per_s: int
    _seen: dict[tuple[int, int], int] = field(default_factory=dict)

    def seconds(self, pids: Iterable[int]) -> float:
        """Return the CPU seconds of these and of all processes that were ever asked for."""
        for pid in pids:
            try:
                times = parse(read_small_bytes(f"{self.proc}/{pid}/stat").decode(errors="surrogateescape"))
            except (FileNotFoundError, ProcessLookupError):
                continue  # it ended: its last reading stays in the sum
            self._seen[pid, times.started] = times.ticks
        return sum(self._seen.values()) / self.ticks_per_s
