"""Which findings are shown, in which order, and whether a pipeline should stop on them. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from pgdyno.model.classes import Criticality
from pgdyno.model.facts import Unknown
from pgdyno.model.finding import Answer, ChangeKind, Confidence, Depth, Finding, ProofState, RuleGroup, Severity

_STATEMENTS = frozenset({"R-ADV-09", "R-ADV-10"})
_DEPTHS = {
    Criticality.BUSINESS_CRITICAL: Depth.DEEP,
    Criticality.PRODUCTION: Depth.BASIC,
    Criticality.DEVELOPMENT: Depth.BASIC,
    Criticality.TEST: Depth.LEAVE_ALONE,
}
_ANSWERS = (Answer.FINDING, Answer.UNKNOWN, Answer.OK, Answer.NOT_APPLICABLE)
_WEIGHT = {Confidence.HIGH: 1.0, Confidence.MEDIUM: 0.6, Confidence.LOW: 0.3, Confidence.UNKNOWN: 0.0}
_STATES = (ProofState.TESTED, ProofState.PROPOSED, ProofState.NEEDS_TEST, ProofState.REFUTED)

FIRST = ("statements-first", "default-configuration")
"""Rules that come first among those of their severity: SQL before any setting, an untouched server before details."""


def depth_for(criticality: Criticality | Unknown) -> Depth:
    """Return how deep the advice goes when nobody asked for a depth: deeper where more depends on the database."""
    return Depth.BASIC if isinstance(criticality, Unknown) else _DEPTHS[criticality]


def at_depth(findings: Sequence[Finding], depth: Depth) -> tuple[Finding, ...]:
    """Return the findings of this depth and those above it; what is critical is shown at every depth."""
    return tuple(
        finding
        for finding in findings
        if finding.depth.rank <= depth.rank
        or (finding.answer is Answer.FINDING and finding.severity is Severity.CRITICAL)
    )


def in_group(findings: Sequence[Finding], group: RuleGroup | None) -> tuple[Finding, ...]:
    """Return the findings of a group; all of them for None."""
    return tuple(finding for finding in findings if group in (None, finding.group))


def as_bad_as(findings: Sequence[Finding], severity: Severity | None) -> tuple[Finding, ...]:
    """Return what is of this severity or worse, and every answer that is not a finding."""
    if severity is None:
        return tuple(findings)
    return tuple(f for f in findings if f.answer is not Answer.FINDING or f.severity.rank <= severity.rank)


def stops(findings: Sequence[Finding], severity: Severity | None) -> bool:
    """Return True when a finding of this severity or worse stands that was not refuted here; never for None."""
    return severity is not None and any(
        finding.answer is Answer.FINDING
        and finding.state is not ProofState.REFUTED
        and finding.severity.rank <= severity.rank
        for finding in findings
    )


def is_about_statements(finding: Finding) -> bool:
    """Return True for a finding on SQL or index work, which comes before every setting."""
    return finding.answer is Answer.FINDING and not _STATEMENTS.isdisjoint(finding.requirements)


def _is_a_guess_for_the_host(finding: Finding) -> bool:
    """Tell whether a change of the whole host rests on a figure of another machine that is hardly to be expected here.

    Such a change comes after those that touch the server alone: others on the host feel it.
    """
    return finding.confidence in (Confidence.LOW, Confidence.UNKNOWN) and any(
        change.kind in (ChangeKind.LINUX, ChangeKind.BLOCK) for change in finding.changes
    )


def is_waiting(finding: Finding) -> bool:
    """Return True for a finding that only a load could justify on a server that has none; a proof is such a load."""
    return finding.answer is Answer.FINDING and finding.waits_for_load and finding.proof is None


def best_candidates(findings: Sequence[Finding], count: int = 3) -> tuple[Finding, ...]:
    """Return the candidates to try first: what is critical, then by expected effect, risk and cost.

    A candidate is a change that can be made, or a danger, and was not refuted here. What already proved better here
    counts as it was measured. On an idle server nothing is one that only a load could justify.
    """
    candidates = [
        finding
        for finding in findings
        if finding.answer is Answer.FINDING
        and finding.state is not ProofState.REFUTED
        and finding.severity is not Severity.NOTE
        and not is_waiting(finding)
        and (finding.changes or (finding.severity is Severity.CRITICAL and finding.proposed))
        and not is_about_statements(finding)
    ]
    return tuple(
        sorted(
            candidates,
            key=lambda one: (
                one.severity is not Severity.CRITICAL,
                one.proof is None and _is_a_guess_for_the_host(one),
                -expected_effect(one),
                one.risk_level,
                one.cost.rank,
                one.severity.rank,
            ),
        )[:count]
    )


def expected_effect(finding: Finding) -> float:
    """Return the relative gain that may be expected here: what was measured here, else the source's lower figure.

    The source's figure counts in part where this target differs from its platform: by 0.6 for one difference and 0.3
    for more. These weights only order a list; no report prints them as an effect.
    """
    if finding.proof is not None and finding.proof.ratio is not None:
        return finding.proof.ratio - 1
    effect = finding.main_effect
    return 0.0 if effect is None else (effect.figure or 0.0) * _WEIGHT[finding.confidence]


def rank(finding: Finding) -> tuple[float, ...]:
    """Return a sort key: answer, severity, refuted last, FIRST, effect, risk, cost; the rule's name breaks no tie.

    What waits for a load comes after everything of its severity that does not.
    """
    return (
        _ANSWERS.index(finding.answer),
        finding.severity.rank,
        1.0 if finding.state is ProofState.REFUTED else 0.0,
        1.0 if finding.waits_for_load and finding.proof is None else 0.0,
        FIRST.index(finding.rule) if finding.rule in FIRST else len(FIRST),
        -expected_effect(finding),
        finding.risk_level,
        finding.cost.rank,
        _STATES.index(finding.state),
    )
