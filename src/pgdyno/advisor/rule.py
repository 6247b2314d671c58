"""A rule: what its file says of it, checked and ready to be judged."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Annotated

from pgdyno.advisor.case import Case
from pgdyno.advisor.expression import Formula
from pgdyno.advisor.judgement import Judgement
from pgdyno.model.finding import ChangeKind, Cost, Depth, Provenance, Resolution, RuleGroup, Severity, StatedEffect
from pgdyno.model.shapes import Named

Judge = Callable[[Case], Judgement]
Settle = Callable[[Case], Iterable[Resolution]]


@dataclass(frozen=True, slots=True)
class Scope:
    """Which targets a rule is for; an empty tuple or None is "any". Kernels as (major, minor), `below` excluded."""

    architectures: tuple[str, ...] = ()
    flavours: tuple[str, ...] = ()
    virtualization: tuple[str, ...] = ()
    workloads: tuple[str, ...] = ()
    not_workloads: tuple[str, ...] = ()
    from_version: int | None = None
    to_version: int | None = None
    from_kernel: tuple[int, int] | None = None
    below_kernel: tuple[int, int] | None = None
    not_on_standby: str = ""
    """Why it is not for a server in recovery; empty where it is."""


@dataclass(frozen=True, slots=True)
class ChangeRow:
    """A change as a rule file gives it: `value` is text with `{name}` places, or `value_of` an expression."""

    kind: ChangeKind = ChangeKind.POSTGRESQL
    knob: str = ""
    value: str = ""
    value_of: Formula | None = None
    device: str = ""
    commands: tuple[str, ...] = ()
    undo: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule. `when` and `changes` hold for a rule of expressions; `judge` for one that is judged by code.

    `settle` decides contradictions by conditions that hold or not whatever the judge cannot tell.
    """

    id: str
    theme: str
    file: str
    group: RuleGroup
    title: str
    why: str
    risk: str
    risk_level: int
    verify: str
    provenance: Annotated[tuple[Provenance, ...], Named("source")]
    depth: Depth = Depth.BASIC
    severity: Severity = Severity.ADVICE
    mechanism: str = ""
    scope: Scope = Scope()
    when: Formula | None = None
    in_order: str = ""
    evidence: tuple[str, ...] = ()
    changes: Annotated[tuple[ChangeRow, ...], Named("change")] = ()
    judge: Judge | None = None
    settle: Settle | None = None
    effects: Annotated[tuple[StatedEffect, ...], Named("effect")] = ()
    cost: Cost = Cost.NONE
    apply: str = ""
    persist: str = ""
    revert: str = ""
    origin: str = "document"
    requirements: tuple[str, ...] = ()
    contradictions: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    alternatives: tuple[str, ...] = ()
    needs_test: bool = False
    under_load: bool = False
    """What it proposes pays under a load alone: on an idle server it waits."""


_PLACE = re.compile(r"\{(\w+)\}")


def without_target(text: str) -> str:
    """Return a rule's text where there is no target to fill its places: `{wal_rate}` reads as WAL RATE."""
    return _PLACE.sub(lambda match: match[1].upper().replace("_", " "), text)


def title_without_target(rule: Rule) -> str:
    """Return a rule's title without a target; the first sentence of its why where the title is nothing but a place."""
    if _PLACE.sub("", rule.title).strip():
        return without_target(rule.title)
    return without_target(rule.why).split(". ")[0].rstrip(".")
