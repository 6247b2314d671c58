"""Kills for want of memory in the kernel's log. Pure."""

from __future__ import annotations

import re

_KILLED = re.compile(r"(?:Memory cgroup out of memory|[Oo]ut of memory)(?: \([^)]*\))?:? Killed process \d+ \((.*?)\)")
_OURS = ("postgres", "postmaster", "edb-postgres", "edb-postmaster")


def oom_kills(text: str) -> int:
    """Return how many processes of PostgreSQL the log says were killed; kernels up to 5.x and later word it alike."""
    return sum(match[1] in _OURS for match in _KILLED.finditer(text))
