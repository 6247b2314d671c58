"""How the two sides of a comparison are called, by the kind of study. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from pgdyno.model.study import StudyKind


@dataclass(frozen=True, slots=True)
class SideNames:
    """How the two sides of a comparison are called."""

    subject: str
    reference: str


TUNE_NAMES = SideNames("the winner", "the baseline")
STAIR_NAMES = SideNames("all kept", "the baseline")
KEEP_NAMES = SideNames("the best candidate", "the baseline")
AB_NAMES = SideNames("B", "A")


def names_of(kind: StudyKind, *, keep: bool = False) -> SideNames:
    """Return the names of the two sides of this kind of study; a candidate that did not win is no winner."""
    if kind is StudyKind.TUNE and keep:
        return KEEP_NAMES
    return {StudyKind.TUNE: TUNE_NAMES, StudyKind.STAIRCASE: STAIR_NAMES}.get(kind, AB_NAMES)
