"""A comparison of SMT levels: which level runs with which number of clients, which cell is left out and why. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SmtRun:
    """One run of the comparison; `skipped` is the reason why it is not made, empty when it is."""

    level: int
    clients: int
    skipped: str = ""


def levels_below(most: int) -> tuple[int, ...]:
    """Return the levels to compare: the most threads of a core, halved down to 2, and 1 where 2 is the most."""
    levels = []
    level = most
    while level >= 2:
        levels.append(level)
        level //= 2
    return (*levels, 1) if most == 2 else tuple(levels)


def comparison(levels: Sequence[int], clients: Sequence[int]) -> tuple[SmtRun, ...]:
    """Return every cell. With fewer CPUs than the most the highest client count is left out, as the source did it."""
    most, highest = max(levels), max(clients)
    return tuple(
        SmtRun(level, count, _reason(level, most, count) if count == highest and len(clients) > 1 else "")
        for level in levels
        for count in clients
    )


def commands(architecture: str, levels: Sequence[int]) -> tuple[str, ...]:
    """Return the command that sets each level, on this architecture."""
    if architecture == "ppc64le":
        return tuple(f"ppc64_cpu --smt={level}" for level in levels)
    file = "/sys/devices/system/cpu/smt/control"
    return tuple(f"echo {'off' if level == 1 else 'on'} > {file}" for level in levels)


def _reason(level: int, most: int, clients: int) -> str:
    if level == most:
        return ""
    return f"{clients} clients are not run at SMT{level}: it has 1/{most // level} of the CPUs of SMT{most}"
