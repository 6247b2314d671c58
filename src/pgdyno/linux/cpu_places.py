"""How many cores and sockets a set of CPUs spans, and how many threads a core runs, from the kernel's topology files.

Reads only. What the kernel of a guest shows is what its hypervisor gave it, not the machine below.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from pgdyno.model.facts import Unknown

CPUS = Path("/sys/devices/system/cpu")
_UNREAD = Unknown("the kernel does not show the topology of the CPUs")


@dataclass(frozen=True, slots=True)
class CpuPlaces:
    """Where some CPUs lie. `threads_per_core` counts the threads that are online, used here or not."""

    cores: int | Unknown = _UNREAD
    sockets: int | Unknown = _UNREAD
    threads_per_core: int | Unknown = _UNREAD


def cpu_places(cpus: Iterable[int], read: Callable[[Path], str | None]) -> CpuPlaces:
    """Return what the CPUs of these numbers span; `read` gives the text of a file, None where it cannot be read."""
    cores: set[tuple[str | None, ...]] = set()
    sockets: set[tuple[str | None, ...]] = set()
    threads: set[int] = set()
    for number in cpus:
        folder = CPUS / f"cpu{number}" / "topology"
        core, package = _word(read(folder / "core_id")), _word(read(folder / "physical_package_id"))
        if core is None or package is None:
            return CpuPlaces()
        above = (_word(read(folder / "drawer_id")), _word(read(folder / "book_id")))
        sockets.add((*above, package))
        cores.add((*above, package, core))
        threads.add(_count(read(folder / "thread_siblings_list") or ""))
    if not cores or "-1" in {place[-1] for place in (*cores, *sockets)}:
        return CpuPlaces()
    each = threads.pop() if len(threads) == 1 else 0
    told = each or Unknown("the cores run different numbers of threads")
    return CpuPlaces(len(cores), len(sockets), told)


def _word(text: str | None) -> str | None:
    return text.strip() if text is not None and text.strip() else None


def _count(siblings: str) -> int:
    """Return how many CPUs a list such as `0-3,8` names."""
    total = 0
    for part in siblings.strip().split(","):
        ends = re.fullmatch(r"(\d+)(?:-(\d+))?", part)
        if ends is None:
            return 0
        total += int(ends[2] or ends[1]) - int(ends[1]) + 1
    return total
