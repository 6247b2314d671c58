"""Turn a finding into a card: what is seen at a glance, and everything there is to know when it is opened. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from pgdyno.model.finding import Answer, Change, Confidence, Cost, Finding, ProofState, Severity
from pgdyno.report.advice import words
from pgdyno.report.sections import Block, Card, FactList, Notice, Prose, Snippet, Tone
from pgdyno.units import plural

_TONES = {
    Severity.CRITICAL: Tone.BAD,
    Severity.WARNING: Tone.UNSURE,
    Severity.ADVICE: Tone.NEUTRAL,
    Severity.NOTE: Tone.NEUTRAL,
}
_STATE_TONES = {ProofState.TESTED: Tone.GOOD, ProofState.REFUTED: Tone.BAD}


def card(finding: Finding, *, is_open: bool = False) -> Card:
    """Return the card of a finding."""
    badges = [(finding.severity.value, _TONES[finding.severity]), (finding.group.value, Tone.NEUTRAL)]
    if finding.state in _STATE_TONES:
        badges.append((finding.state.value, _STATE_TONES[finding.state]))
    return Card(
        id=f"rule-{finding.rule}",
        title=finding.title,
        line=words.proposal_text(finding),
        badges=tuple(badges),
        blocks=tuple(blocks(finding)),
        is_open=is_open,
    )


def blocks(finding: Finding) -> Iterator[Block]:
    """Yield everything about a finding, in the order in which a DBA asks."""
    if finding.why:
        yield Prose((finding.why,))
    if finding.evidence:
        yield Prose(finding.evidence, points=True)
    yield FactList(tuple(fact_rows(finding)))
    if finding.doubts:
        yield Notice(finding.doubts)
    for label, text in _snippets(finding):
        yield Snippet(label, text)


def fact_rows(finding: Finding) -> Iterator[tuple[str, str]]:
    """Yield names and values: effect, confidence, risk, cost, how it is done and undone, and where it comes from."""
    yield "rule", finding.rule
    if finding.answer is Answer.FINDING:
        yield "state", words.state_text(finding)
        yield "expected", words.effect_text(finding)
    if finding.mechanism:
        yield "mechanism", finding.mechanism
    for effect in finding.effects:
        figure = words.gain(effect)
        text = effect.text.rstrip(".")
        said = f"{figure}: {text}" if figure and text else figure or text
        yield "figure", f"{said}. {words.source_long(effect.source)}"
    if finding.answer is Answer.FINDING:
        yield "confidence", f"{finding.confidence}{_lowered(finding)}"
    yield "cost", "in force at once, no restart" if finding.cost is Cost.NONE else f"needs {words.COSTS[finding.cost]}"
    yield "risk", words.risk_text(finding)
    for name, text in (
        ("apply", finding.apply),
        ("persist", finding.persist),
        ("verify", finding.verify),
        ("revert", finding.revert),
    ):
        if text:
            yield name, text
    for text in finding.alternatives:
        yield "alternative", text
    if finding.after:
        yield "comes after", ", ".join(finding.after)
    for resolution in finding.resolutions:
        yield resolution.id, resolution.decided
    for source in finding.provenance:
        yield "source", words.source_long(source)
    yield "origin", finding.origin
    if finding.requirements:
        yield "requirements", ", ".join(finding.requirements)


def _lowered(finding: Finding) -> str:
    if finding.confidence is Confidence.UNKNOWN:
        return ": no source gives a figure for this change alone"
    count = len(finding.doubts)
    return "" if not count else f": lowered by {plural(count, 'difference')} from where it was measured"


def _snippets(finding: Finding) -> Iterator[tuple[str, str]]:
    do = [line for change in finding.changes for line in _do(change)]
    undo = [line for change in finding.changes for line in change.undo]
    if do:
        yield "Change", "\n".join(do)
    if undo:
        yield "Undo", "\n".join(undo)


def _do(change: Change) -> tuple[str, ...]:
    if change.knob and not change.commands:
        return (f"{change.knob}{f' of {change.device}' if change.device else ''} = {change.value}",)
    return change.commands
