"""A change: the record of one value that was put in force for good, or taken back, by whom and why."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class ChangeAction(StrEnum):
    """What was done."""

    APPLY = "apply"
    ROLLBACK = "rollback"


@dataclass(frozen=True, slots=True)
class ChangeRecord:
    """One value of one knob. `old` and `new` are text, None where it was not known; `at` is seconds since the epoch.

    `who` is the user of the operating system and the host that pgdyno ran on. `session` names the undo bundle,
    `study` the study that proved the rule, if any; of the winner of a tune `rule` is empty and `study` the tune.
    `target` is a label without a password.
    """

    at: float
    who: str
    action: ChangeAction
    target: str
    environment: str
    session: str
    rule: str
    knob: str
    old: str | None
    new: str | None
    study: str | None = None
