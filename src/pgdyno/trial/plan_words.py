"""What changed between two plans of one statement, in words: which node became which, was added or dropped. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

_TABLE = re.compile(r" on (?P<name>\S+)")
_FAMILIES = (
    ("join", re.compile(r"(?:Nested Loop|Hash (?:\w+ )*Join|Merge (?:\w+ )*Join)")),
    ("aggregate", re.compile(r"(?:\w+ )?(?:Hash|Group|Mixed)?Aggregate$")),
    ("sort", re.compile(r"(?:Incremental )?Sort$")),
    ("gather", re.compile(r"Gather(?: Merge)?$")),
    ("append", re.compile(r"(?:Merge )?Append$")),
)
"""Nodes that do the same in another way."""


def changed_words(before: Sequence[str], after: Sequence[str]) -> tuple[str, ...]:
    """Return sentences such as `Seq Scan on t became Index Scan using t_pkey on t`; nodes as `plan_shape.outline`.

    Scans are matched by table, joins, aggregates and sorts among themselves; what has no partner was added or dropped.
    """
    gone, new = list((Counter(before) - Counter(after)).elements()), list((Counter(after) - Counter(before)).elements())
    if not gone and not new:
        return ("the same nodes in another order",) if list(before) != list(after) else ()
    found = []
    for key in (_table, _family):
        for node in list(gone):
            place = key(node)
            partner = next((one for one in new if place is not None and key(one) == place), None)
            if partner is not None:
                found.append(f"{node} became {partner}")
                gone.remove(node)
                new.remove(partner)
    return (*found, *(f"{node} was dropped" for node in gone), *(f"{node} was added" for node in new))


def _table(node: str) -> str | None:
    """Return the table that a node scans or changes; a bitmap's index is none."""
    found = None if node.startswith("Bitmap Index Scan") else _TABLE.search(node)
    return None if found is None else f"{'scan' if 'Scan' in node else 'change'} {found['name']}"


def _family(node: str) -> str | None:
    return next((name for name, form in _FAMILIES if form.match(node.removeprefix("Parallel "))), None)
