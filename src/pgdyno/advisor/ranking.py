"""The order of findings: what is broken first, then what promises most for the least risk and cost."""

from __future__ import annotations

from pgdyno.model.finding import Answer, Confidence, Finding, ProofState

_ANSWERS = (Answer.FINDING, Answer.UNKNOWN, Answer.OK, Answer.NOT_APPLICABLE)
_WEIGHT = {Confidence.HIGH: 1.0, Confidence.MEDIUM: 0.6, Confidence.LOW: 0.3, Confidence.UNKNOWN: 0.0}
_STATES = (ProofState.TESTED, ProofState.PROPOSED, ProofState.NEEDS_TEST, ProofState.REFUTED)

FIRST = ("statements-first", "default-configuration")
"""Rules that come first among those of their severity: SQL before any setting, an untouched server before details."""


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
