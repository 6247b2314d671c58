"""What a judge says of a target: four answers, so that nothing has to be made up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pgdyno.model.finding import Change, Cost, Resolution, Severity


@dataclass(frozen=True, slots=True)
class Fires:
    """The rule has something to say. `values` fill the `{name}` places of the rule's texts.

    `evidence` are sentences with this target's figures. `current` and `proposed` are told by the changes where they are
    empty; what is None stays as the rule's table says.
    """

    changes: tuple[Change, ...] = ()
    current: str = ""
    proposed: str = ""
    values: Mapping[str, str] = field(default_factory=dict)
    evidence: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()
    """Each lowers the confidence by one step."""
    alternatives: tuple[str, ...] = ()
    resolutions: tuple[Resolution, ...] = ()
    severity: Severity | None = None
    cost: Cost | None = None
    needs_test: bool = False
    effects_from: tuple[str, ...] | None = None
    """The documents whose figures are for this proposal; None for all. A figure of more is none of less."""


@dataclass(frozen=True, slots=True)
class InOrder:
    """The target is as the rule wants it; `reason` says with which figures.

    `of_load`: nothing was seen of what the rule looks for while a load ran. Where none ran, that says nothing.
    """

    reason: str
    resolutions: tuple[Resolution, ...] = ()
    of_load: bool = False


@dataclass(frozen=True, slots=True)
class CannotTell:
    """A fact is missing; `reason` names it and why."""

    reason: str


@dataclass(frozen=True, slots=True)
class DoesNotApply:
    """The rule is not for targets like this; `reason` says what differs."""

    reason: str
    resolutions: tuple[Resolution, ...] = ()


Judgement = Fires | InOrder | CannotTell | DoesNotApply
