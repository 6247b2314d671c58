"""Whether a series was taken while caches filled after a restart: memory grows, then answers take longer for a while.

Linux gives shared memory to a server page by page as it is first touched. After a restart the page cache is still
warm: answers are quick while shared_buffers grow. Where both do not fit, the page cache shrinks until disks are read
and answers take longer, then shared_buffers hold everything (001, the runs with half of the RAM). Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pgdyno.model.facts import Unknown
from pgdyno.units import percent_text

GROWTH = 0.05
"""Growth of shared memory over the series that counts as filling."""
STEP = 1.5
"""Response time of the worst third over that of the others that counts as a step."""
_FEWEST = 9


@dataclass(frozen=True, slots=True)
class WarmUp:
    """`is_steady` False: figures of this series hold for no state of the caches. `phases` in order, in words."""

    is_steady: bool
    phases: tuple[str, ...]


def warm_up(shared_bytes: Sequence[float], response_ms: Sequence[float]) -> WarmUp | Unknown:
    """Judge two series of equal length: shared memory in use (Shmem of /proc/meminfo) and mean response times."""
    count = min(len(shared_bytes), len(response_ms))
    if count < _FEWEST:
        return Unknown(f"{count} readings are too few to see caches fill")
    third = count // 3
    parts = [response_ms[:third], response_ms[third : count - third], response_ms[count - third : count]]
    means = [sum(part) / len(part) for part in parts]
    grown = shared_bytes[count - 1] / shared_bytes[0] - 1 if shared_bytes[0] > 0 else 1.0
    phases = []
    if grown >= GROWTH:
        phases.append(f"shared memory grew by {percent_text(grown)}: shared_buffers were still filling")
    worst = max(range(3), key=lambda place: means[place])
    others = [mean for place, mean in enumerate(means) if place != worst]
    if max(means[worst], 1e-9) >= STEP * max(sum(others) / 2, 1e-9):
        where = ("beginning", "middle", "end")[worst]
        phases.append(f"answers took {means[worst] / max(sum(others) / 2, 1e-9):.1f} times as long in the {where}")
        if worst == 1:
            phases.append("they became quick again: the page cache had shrunk before shared_buffers held everything")
    return WarmUp(not phases, tuple(phases))
