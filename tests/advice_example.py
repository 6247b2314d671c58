"""Advice made by hand for tests of its pages: every answer, every severity, a proof, a doubt, a contradiction."""

from __future__ import annotations

from dataclasses import replace

from advisor_case import make_case
from pgdyno.advisor.rulebook import provenance
from pgdyno.model.advice import Advice
from pgdyno.model.finding import (
    Answer,
    Change,
    ChangeKind,
    Confidence,
    Cost,
    Depth,
    Finding,
    ProofState,
    Resolution,
    RuleGroup,
    RuleProof,
    Severity,
    StatedEffect,
)


def make_effect(
    low: float | None, high: float | None = None, *, document: str = "epas-z16-2023", text: str = "more", **parts: str
) -> StatedEffect:
    return StatedEffect(text, provenance(document, "Recommendation"), low, low if high is None else high, **parts)


def make_finding(rule: str, *effects: StatedEffect, **parts: object) -> Finding:
    values: dict[str, object] = {
        "rule": rule,
        "answer": Answer.FINDING,
        "group": RuleGroup.THROUGHPUT,
        "depth": Depth.BASIC,
        "title": f"Mend {rule}",
        "effects": effects,
        "confidence": Confidence.HIGH,
        "changes": (Change(ChangeKind.POSTGRESQL, rule.replace("-", "_"), "2", "1"),),
        "risk": "None that is known.",
        "cost": Cost.RELOAD,
        "why": "It is better so.",
        "verify": "SHOW it.",
        "provenance": (provenance("epas-z16-2023", "Recommendation"),),
    }
    return Finding(**{**values, **parts})


def make_advice(*findings: Finding, **parts: object) -> Advice:
    case = make_case()
    values: dict[str, object] = {
        "target": "db1",
        "depth": Depth.DEEP,
        "facts": {"cpus": "8", "swap": "unknown (EPERM)"},
    }
    return Advice(inventory=case.inventory, evidence=case.evidence, findings=findings, **{**values, **parts})


def whole() -> Advice:
    """Return advice with one of everything."""
    proof = RuleProof("20260101-ab", "better", 1.21, 1.15, 1.27)
    return make_advice(
        make_finding("fsync", severity=Severity.CRITICAL, group=RuleGroup.GENERAL, changes=(), current="fsync = off"),
        make_finding(
            "slow-statement",
            severity=Severity.WARNING,
            requirements=("R-ADV-09",),
            changes=(),
            title="One SELECT has 71 %",
        ),
        make_finding("max-wal-size", make_effect(0.07, 0.12), severity=Severity.WARNING, evidence=("a", "b", "c", "d")),
        make_finding("shared-buffers", make_effect(0.35), state=ProofState.TESTED, proof=proof, cost=Cost.RESTART),
        make_finding(
            "dirty-bytes",
            make_effect(0.02),
            group=RuleGroup.RESPONSE_TIME,
            doubts=("the load here is OLAP",),
            confidence=Confidence.MEDIUM,
            resolutions=(Resolution("CON-04", "20.96 %, computed from the rows"),),
            changes=(Change(ChangeKind.LINUX, "vm.dirty_bytes", "536870912", "0"),),
        ),
        make_finding(
            "wal-placement",
            make_effect(0.0, 0.1),
            changes=(Change(ChangeKind.COMMAND, commands=("mv a b", "ln -s b a"), undo=("mv b a",)),),
            risk_level=3,
            depth=Depth.DEEP,
        ),
        make_finding(
            "huge-pages", make_effect(0.057, 0.11), state=ProofState.REFUTED, proof=replace(proof, verdict="worse")
        ),
        make_finding("data-checksums", severity=Severity.NOTE, changes=()),
        make_finding("thp", answer=Answer.UNKNOWN, reason="THP is unknown (EPERM)"),
        make_finding("swap-area", answer=Answer.UNKNOWN, reason="THP is unknown (EPERM)"),
        make_finding("autovacuum", answer=Answer.OK, reason="autovacuum is on."),
        make_finding("edat", answer=Answer.NOT_APPLICABLE, reason="it is for s390x, and this is x86_64"),
        remarks=("the load was not seen",),
    )
