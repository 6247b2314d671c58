"""Advice as one JSON object; docs/reference/advice.schema.json is generated from these classes. Pure.

Texts that are not known are null with the reason beside them, never a default. A later version adds fields and takes
none away; `format` counts what a reader must know again.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

import pgdyno
from pgdyno.advisor.rulebook import contradictions
from pgdyno.advisor.selection import best_candidates, is_about_statements
from pgdyno.model.advice import Advice
from pgdyno.model.facts import Unknown
from pgdyno.model.finding import Answer, Finding, Severity
from pgdyno.report.advice import words

FORMAT = 1


@dataclass(frozen=True, slots=True)
class Fact:
    """One fact of the environment: its value as text, or null and why it is not known."""

    name: str
    value: str | None
    unknown: str | None


@dataclass(frozen=True, slots=True)
class DecidedHere:
    """A contradiction of the sources that a rule decided by a condition of this target."""

    id: str
    rule: str
    decided: str
    first: str
    second: str


@dataclass(frozen=True, slots=True)
class Summary:
    """How many rules gave which answer, how many findings are of which severity, and what comes first."""

    rules: int
    findings: int
    unknown: int
    ok: int
    not_applicable: int
    critical: int
    warning: int
    advice: int
    note: int
    best: tuple[str, ...]
    """The three best candidates, by rule."""
    statements_first: tuple[str, ...]
    """Findings on SQL or indexes, which come before settings."""


@dataclass(frozen=True, slots=True)
class AdviceDocument:
    """The whole object."""

    format: int
    pgdyno: str
    target: str
    looked_at: str
    environment_hash: str
    """The name of the environment; empty where it is unknown, and `environment` says why."""
    depth: str
    summary: Summary
    remarks: tuple[str, ...]
    findings: tuple[Finding, ...]
    contradictions: tuple[DecidedHere, ...]
    environment: tuple[Fact, ...]
    facts: tuple[Fact, ...]
    """The words of the rule language with their values here."""


def advice_document(advice: Advice) -> AdviceDocument:
    """Return advice as the object that is published."""
    return AdviceDocument(
        format=FORMAT,
        pgdyno=pgdyno.__version__,
        target=advice.target,
        looked_at=advice.inventory.taken_at,
        environment_hash="" if isinstance(advice.environment, Unknown) else advice.environment,
        depth=advice.depth.value,
        summary=_summary(advice),
        remarks=advice.remarks,
        findings=advice.findings,
        contradictions=tuple(
            DecidedHere(one.id, finding.rule, one.decided, *_sides(one.id))
            for finding in advice.findings
            for one in finding.resolutions
        ),
        environment=tuple(_fact(name, value) for name, value in words.environment_rows(advice)),
        facts=tuple(_fact(name, value) for name, value in sorted(advice.facts.items())),
    )


def advice_json(advice: Advice) -> str:
    """Return it as JSON text with a line break at its end."""
    return json.dumps(asdict(advice_document(advice)), indent=1, ensure_ascii=False) + "\n"


def _summary(advice: Advice) -> Summary:
    findings = advice.answered(Answer.FINDING)
    count = {severity: sum(one.severity is severity for one in findings) for severity in Severity}
    return Summary(
        rules=len(advice.findings),
        findings=len(findings),
        unknown=len(advice.answered(Answer.UNKNOWN)),
        ok=len(advice.answered(Answer.OK)),
        not_applicable=len(advice.answered(Answer.NOT_APPLICABLE)),
        critical=count[Severity.CRITICAL],
        warning=count[Severity.WARNING],
        advice=count[Severity.ADVICE],
        note=count[Severity.NOTE],
        best=tuple(finding.rule for finding in best_candidates(advice.findings)),
        statements_first=tuple(finding.rule for finding in advice.findings if is_about_statements(finding)),
    )


def _sides(name: str) -> tuple[str, str]:
    found = contradictions().get(name)
    return (found.first.text, found.second.text) if found else ("", "")


def _fact(name: str, text: str) -> Fact:
    unknown = text.removeprefix("unknown (").removesuffix(")") if text.startswith("unknown (") else None
    return Fact(name, None if unknown is not None else text, unknown)
