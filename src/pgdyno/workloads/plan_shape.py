"""The shape of an execution plan: its nodes, tables and indexes without costs, row counts and conditions. Pure."""

from __future__ import annotations

import hashlib
import re

_DETAIL = re.compile(r"^[A-Z][\w ]*:")
"""A line of EXPLAIN's text that describes the node above it, such as `Index Cond: (aid = $1)`."""
_SUBPLAN = re.compile(r"^(?:InitPlan|SubPlan|CTE) ")
_NUMBERS = re.compile(r"\s*\((?:cost|rows|actual|never)[^)]*\)")
UNKNOWN_SHAPE = "unknown"
_BELOW = " < "


def nodes(plan: str) -> tuple[str, ...]:
    """Return the nodes of a plan in EXPLAIN's text format, each with two blanks for each level below the top."""
    found: list[str] = []
    indents: list[int] = []
    for line in plan.splitlines():
        text = _NUMBERS.sub("", line).rstrip()
        stripped = text.strip()
        is_node = stripped.startswith("->") or not found or bool(_SUBPLAN.match(stripped))
        if not stripped or not is_node or (_DETAIL.match(stripped) and found):
            continue
        indent = len(text) - len(text.lstrip())
        while indents and indents[-1] >= indent:
            indents.pop()
        name = stripped.removeprefix("->").strip()
        found.append("  " * len(indents) + name)
        indents.append(indent)
    return tuple(found)


def shape_of(plan: str) -> str:
    """Return 12 hexadecimal digits that change when a node, a table, an index or their order changes."""
    return hashlib.sha256("\n".join(nodes(plan)).encode()).hexdigest()[:12]


def outline(plan: str) -> str:
    """Return the nodes on one line, from the top down: `Update on t < Index Scan using t_pkey on t`."""
    return _BELOW.join(node.strip() for node in nodes(plan))


def outlined(text: str) -> tuple[str, ...]:
    """Return the nodes of an outline."""
    return tuple(text.split(_BELOW))
