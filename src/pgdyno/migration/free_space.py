"""Whether there is room before anything is moved: where the dump goes, and where the target's data lie."""

from __future__ import annotations

import os
from pathlib import Path

from pgdyno.errors import EnvironmentUnsuitable
from pgdyno.units import bytes_text

RESERVE = 1.1
"""How much more than what was asked for has to be free."""


def require_room(needs: dict[str, tuple[Path | None, int]]) -> list[str]:
    """Return what is free where, in words; needs on one file system are added.

    Raises EnvironmentUnsuitable where there is too little. Of a place that is None, on another host, nobody knows.
    """
    lines, by_device = list[str](), dict[int, tuple[list[str], int, int]]()
    for what, (place, bytes_needed) in needs.items():
        if place is None:
            lines.append(f"{what}: {bytes_text(bytes_needed)} needed; what is free there cannot be seen from here")
            continue
        try:
            there = next(one for one in (place, *place.parents) if one.exists())
            found, device = os.statvfs(there), there.stat().st_dev
        except OSError as error:
            raise EnvironmentUnsuitable(
                f'what is free for the {what} in "{place}" cannot be seen: {error.strerror}',
                hint="Name another folder in the plan, or run pgdyno as an account that may look there.",
            ) from error
        names, needed, _ = by_device.get(device, ([], 0, 0))
        by_device[device] = ([*names, f"{what} in {there}"], needed + bytes_needed, found.f_bavail * found.f_frsize)
    for names, needed, free in by_device.values():
        told = f"{' and '.join(names)}: about {bytes_text(needed)} needed, {bytes_text(free)} free"
        if free < RESERVE * needed:
            raise EnvironmentUnsuitable(f"there is not enough space: {told}", hint="Name another folder in the plan.")
        lines.append(told)
    return lines
