"""Which statements of a load have another plan under one configuration than under another. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pgdyno.model.record import PlanRecord
from pgdyno.trial.plan_words import changed_words
from pgdyno.workloads.plan_shape import UNKNOWN_SHAPE, outline, outlined


@dataclass(frozen=True, slots=True)
class PlanChange:
    """One statement under two configurations; the outlines are what its runs had, several where they differed.

    `word` is changed, same, or unknown where the plan of either side could not be had.
    """

    statement: str
    before: tuple[str, ...]
    after: tuple[str, ...]
    word: str
    shapes: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())
    """The hashes of both sides' plans, beside their outlines."""

    @property
    def what(self) -> tuple[str, ...]:
        """Return what changed, in words; of several shapes of a side the first one counts."""
        if self.word != "changed":
            return ()
        before, after = (
            next(one for one in side if not one.startswith("unknown:")) for side in (self.before, self.after)
        )
        return changed_words(outlined(before), outlined(after))

    def to_json(self) -> dict[str, object]:
        """Return it as results keep it."""
        return {
            "statement": self.statement,
            "before": list(self.before),
            "after": list(self.after),
            "word": self.word,
            "what": list(self.what),
            "shapes": [list(side) for side in self.shapes],
        }


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
    return PlanChange(statement, _outlines(before), _outlines(after), word, (hashes[0], hashes[1]))


def _outlines(records: Sequence[PlanRecord]) -> tuple[str, ...]:
    told = [one.plan if one.shape == UNKNOWN_SHAPE else outline(one.plan) for one in records]
    return tuple(dict.fromkeys(told)) or ("unknown: no plan was recorded",)
