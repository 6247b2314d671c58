"""Who else uses the CPUs of this machine, by name: processes of neither the server nor pgdyno nor its load.

Two looks at /proc/PID/stat (proc(5)) some seconds apart, the CPU time between them. A process that ended in between is
not seen, so what is named is a lower bound.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pgdyno.linux.processes import PROC, TICKS_PER_S, ProcessStat, all_pids, read_stat

NAMED_FROM_PCT = 5.0
"""Less of one core is what every machine's services use now and then."""
NAMED_AT_MOST = 3
_KERNEL = 2  # kthreadd: the parent of every thread of the kernel


@dataclass(frozen=True, slots=True)
class Neighbour:
    """A process and how much of one core it used between two looks."""

    pid: int
    command: str
    cpu_pct: float

    def __str__(self) -> str:
        return f"{self.command} (process {self.pid}) {self.cpu_pct:.0f} %"


@dataclass(frozen=True, slots=True)
class ProcessSnapshot:
    """Every process at one moment, by pid; `at_s` is of the monotonic clock."""

    at_s: float
    stats: Mapping[int, ProcessStat]


def look(proc: Path = PROC) -> ProcessSnapshot:
    """Read every process of this machine: some milliseconds for hundreds of them."""
    found = (read_stat(pid, proc) for pid in all_pids(proc))
    return ProcessSnapshot(time.monotonic(), {stat.pid: stat for stat in found if stat is not None})


def busiest(before: ProcessSnapshot, after: ProcessSnapshot, postmaster: int | None) -> tuple[Neighbour, ...]:
    """Return who used the most CPU between two looks, most first; nothing where they are the same moment.

    Left out are the kernel's threads, this process and the server, each with all that it started.
    """
    seconds = after.at_s - before.at_s
    if seconds <= 0:
        return ()
    ours = {os.getpid(), _KERNEL, *([] if postmaster is None else [postmaster])}
    found = []
    for stat in after.stats.values():
        was = before.stats.get(stat.pid)
        earlier = was.own_ticks if was is not None and was.started_ticks == stat.started_ticks else 0
        percent = 100 * (stat.own_ticks - earlier) / TICKS_PER_S / seconds
        if percent >= NAMED_FROM_PCT and not _descends(stat, after.stats, ours):
            found.append(Neighbour(stat.pid, _shown(stat.command), percent))
    return tuple(sorted(found, key=lambda one: -one.cpu_pct)[:NAMED_AT_MOST])


def in_words(neighbours: Sequence[Neighbour]) -> str:
    """Return their names and shares in one line, empty for none."""
    return ", ".join(map(str, neighbours))


def _descends(stat: ProcessStat, stats: Mapping[int, ProcessStat], ours: set[int]) -> bool:
    seen = set[int]()
    pid = stat.pid
    while pid not in seen:
        if pid in ours:
            return True
        seen.add(pid)
        parent = stats.get(pid)
        pid = 0 if parent is None else parent.parent
    return False


def _shown(command: str) -> str:
    """Return a name that any process may give itself, fit for a terminal and a report."""
    return "".join(letter if letter.isprintable() else "?" for letter in command) or "?"
