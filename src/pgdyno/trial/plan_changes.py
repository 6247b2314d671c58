"""Which statements of a load have another plan under one configuration than under another. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence

from pgdyno.model.record import PlanRecord
from pgdyno.model.results.parts import PlanChange
from pgdyno.workloads.plan_shape import UNKNOWN_SHAPE, outline, outlined


def plan_changes(before: Iterable[Sequence[PlanRecord]], after: Iterable[Sequence[PlanRecord]]) -> list[PlanChange]:
    """Compare the plans of the runs of two sides, statement by statement, those that changed first.

    A plan that varies among runs of one side is a change only when the other side never had one of its shapes.
    """
    left, right = _by_statement(before), _by_statement(after)
    found = [_compare(name, left.get(name, []), right.get(name, [])) for name in dict.fromkeys([*left, *right])]
    return sorted(found, key=lambda change: ("changed", "unknown", "same").index(change.word))


def _by_statement(runs: Iterable[Sequence[PlanRecord]]) -> dict[str, list[PlanRecord]]:
    found: dict[str, list[PlanRecord]] = {}
    for records in runs:
        for record in records:
            found.setdefault(record.statement, []).append(record)
    return found


def _compare(statement: str, before: Sequence[PlanRecord], after: Sequence[PlanRecord]) -> PlanChange:
    shapes = [{one.shape for one in side if one.shape != UNKNOWN_SHAPE} for side in (before, after)]
    word = "unknown" if not all(shapes) else "same" if shapes[0] & shapes[1] else "changed"
    hashes = [tuple(dict.fromkeys(one.shape for one in side)) for side in (before, after)]
    told = _outlines(before), _outlines(after)
    return PlanChange(statement, *told, word, _what(*told) if word == "changed" else (), (hashes[0], hashes[1]))


def _what(before: Sequence[str], after: Sequence[str]) -> tuple[str, ...]:
    """Return what changed, in words; of several shapes of a side the first one counts."""
    first = (next(one for one in side if not one.startswith("unknown:")) for side in (before, after))
    return changed_words(*(outlined(one) for one in first))


def _outlines(records: Sequence[PlanRecord]) -> tuple[str, ...]:
    told = [one.plan if one.shape == UNKNOWN_SHAPE else outline(one.plan) for one in records]
    return tuple(dict.fromkeys(told)) or ("unknown: no plan was recorded",)


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
