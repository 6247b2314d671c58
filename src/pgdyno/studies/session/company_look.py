"""Who else uses the machine of a study: a look before it begins, and looks while it waits for them to leave."""

from __future__ import annotations

import time
from collections.abc import Callable

from pgdyno.probes.host import neighbours
from pgdyno.probes.host.neighbours import Neighbour
from pgdyno.server.postmaster_lock import postmaster_pid
from pgdyno.studies.session.exclusive import Activity, look
from pgdyno.targets.target import Target
from pgdyno.trial.assess import Bounds
from pgdyno.trial.company import Look

LOOK_S = 2.0
"""Shorter, and the ticks of /proc (10 ms) are coarse beside a bound of 15 %; longer, and people wait for it."""
SHORTEST_S = 1.0
"""What a preparation was too short to show is no reason to wait where runs stand alone: they tell it themselves."""


def looker(target: Target, bounds: Bounds) -> Look | None:
    """Return what looks at the target's host for LOOK_S; None for a study that insists on a machine of its own.

    That is one that bounds what others do on the disks or in other databases.
    """
    if bounds.foreign_disk_mb_per_s is not None or bounds.foreign_sessions is not None:
        return None

    def seen() -> str | None:
        first = FirstLook(target)
        activity = look(target, seconds=LOOK_S)
        return said_of(activity, first.found(), bounds)

    return seen


def said_of(activity: Activity, found: tuple[Neighbour, ...], bounds: Bounds) -> str | None:
    """Say what others do on the CPUs where that is above the bound, None where it is not or is unknown."""
    cpu = activity.cpu_pct
    if not isinstance(cpu, float) or cpu <= bounds.foreign_cpu_pct:
        return None
    who = f" ({neighbours.in_words(found)})" if found else ""
    return f"foreign CPU is {cpu:.0f} % of a core{who}"


class FirstLook:
    """Sees the processes of others between two moments, while the study prepares; of this host's processes alone."""

    def __init__(self, target: Target) -> None:
        self._directory = target.directory if target.local else None
        self._before = neighbours.look() if self._directory is not None else None

    def found(self) -> tuple[Neighbour, ...]:
        """Return who used CPU since, the server's own and ours left out; nothing where it cannot be seen from here."""
        if self._before is None or self._directory is None:
            return ()
        return neighbours.busiest(self._before, neighbours.look(), postmaster_pid(self._directory))

    def tell(
        self,
        bounds: Bounds,
        announce: Callable[[str], None],
        *,
        beside_others: bool,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Name those who together are above the bound.

        `bounds` has it in per cent of one core (`foreign_cpu_pct`); `announce` takes one sentence, and is not called
        where the bound is kept. A study that goes on `beside_others` waits, by `sleep` in seconds, for what LOOK_S has
        left of the preparation; another one tells what was seen meanwhile, and nothing of a shorter look than
        SHORTEST_S.
        """
        if self._before is None:
            return
        left_s = self._before.at_s + LOOK_S - time.monotonic()
        if beside_others:
            sleep(max(0.0, left_s))
        elif left_s > LOOK_S - SHORTEST_S:
            return
        if (words := warning(self.found(), bounds, beside_others=beside_others)) is not None:
            announce(words)


def warning(found: tuple[Neighbour, ...], bounds: Bounds, *, beside_others: bool = True) -> str | None:
    """Return what to tell people before the first run, None where the bound is kept."""
    share = sum(one.cpu_pct for one in found)
    if share <= bounds.foreign_cpu_pct:
        return None
    then = "and the answer is less certain while they run" if beside_others else "repeated, and not used"
    return (
        f"others use this machine: {neighbours.in_words(found)} of a core; runs are disturbed above "
        f"{bounds.foreign_cpu_pct:g} %, {then}"
    )
