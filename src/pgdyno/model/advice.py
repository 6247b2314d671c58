"""Advice: everything that one look at a target gave, before anybody has chosen what to show of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pgdyno.model.evidence import Evidence
from pgdyno.model.facts import Unknown
from pgdyno.model.finding import Answer, Depth, Finding, RuleProof
from pgdyno.model.inventory import Inventory


@dataclass(frozen=True, slots=True)
class Again:
    """Flags, as a shell reads them, with which the next command is about the same target: to look, and to act.

    `target` are those that name the server alone. `may_set_linux` is False where whoever asked cannot change Linux
    settings of its host.
    """

    look: str = ""
    act: str = ""
    target: str = ""
    may_set_linux: bool = True


@dataclass(frozen=True, slots=True)
class Hindrance:
    """What would refuse to put advice in force from here: of the server whole, else of a rule, each with the reason.

    `lacks` are the rights that the role of the sessions has not, by the verb that needs them.
    """

    whole: str = ""
    rules: Mapping[str, str] = field(default_factory=dict)
    lacks: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def bars(self, verb: str, rule: str) -> bool:
        """Tell whether a verb would refuse a rule here."""
        return bool(self.whole or self.lacks.get(verb) or rule in self.rules)


@dataclass(frozen=True, slots=True)
class Advice:
    """What the rules say of one target. `findings` holds one answer a rule, the best candidates first.

    `remarks` hold for the whole of it, such as an architecture that no source covers. `facts` are the words of the rule
    language with their values here, unknown ones with the reason.
    """

    target: str
    inventory: Inventory
    evidence: Evidence
    findings: tuple[Finding, ...]
    depth: Depth = Depth.BASIC
    proofs: Mapping[str, RuleProof] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()
    facts: Mapping[str, str] = field(default_factory=dict)
    environment: str | Unknown = ""
    """The name of the environment, as studies of this server have it; empty where nobody asked."""
    hindrance: Hindrance = Hindrance()
    """What would refuse the best candidates here; nothing where nobody asked, as of a capture."""

    def answered(self, answer: Answer) -> tuple[Finding, ...]:
        """Return the findings with this answer, in their order."""
        return tuple(finding for finding in self.findings if finding.answer is answer)

    def of(self, rule: str) -> Finding | None:
        """Return what a rule says; None when it is not among the findings."""
        return next((finding for finding in self.findings if finding.rule == rule), None)
