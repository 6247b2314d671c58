"""Kills for want of memory in the kernel's log. Pure."""

from __future__ import annotations

import re

_KILLED = re.compile(
    r"(?:^\[ *(?P<at>\d+\.\d+)\][^\n]*?)?"
    r"(?:Memory cgroup out of memory|[Oo]ut of memory)(?: \([^)]*\))?:? Killed process \d+ \((?P<name>.*?)\)",
    re.MULTILINE,
)
_OURS = ("postgres", "postmaster", "edb-postgres", "edb-postmaster")


def oom_kills(text: str, since: float | None = None) -> int:
    """Return how many processes of PostgreSQL the log says were killed; kernels up to 5.x and later word it alike.

    `since`, in seconds after boot, leaves out what was before; lines without a time count.
    """
    found = [match for match in _KILLED.finditer(text) if match["name"] in _OURS]
    return sum(since is None or match["at"] is None or float(match["at"]) >= since for match in found)
