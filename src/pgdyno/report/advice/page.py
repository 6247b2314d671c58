"""Compose the report of advice: candidates, findings, unknowns, in order, contradictions, environment. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pgdyno
from pgdyno.advisor.rulebook import contradictions
from pgdyno.advisor.selection import best_candidates, is_about_statements
from pgdyno.model.advice import Advice
from pgdyno.model.figure import Axis, Figure, FigureKind, Series, Table
from pgdyno.model.finding import Answer, Confidence, Finding, RuleGroup, Severity, StatedEffect
from pgdyno.report.advice import words
from pgdyno.report.advice.card import card
from pgdyno.report.scales import nice_bounds
from pgdyno.report.sections import (
    Block,
    Cards,
    Charts,
    FactList,
    Notice,
    Prose,
    Report,
    Section,
    TableBlock,
    Tile,
    Tone,
)
from pgdyno.units import digits_text, plural

_DISCLAIMERS = (
    "A source's figure holds for its own machine, version and load; it is not a promise for this one.",
    "Figures of different findings do not add up: settings help, hinder or replace each other.",
    "Change one thing at a time, measure it, and keep it only when it proved better here.",
    "What was measured with transactions of many users may be wrong for reports and batch work.",
)
_QUESTIONS = {
    Severity.CRITICAL: "What puts data, availability or the start of the server at risk?",
    Severity.WARNING: "What costs much, or does not work as configured?",
    Severity.ADVICE: "What may be improved, once it is measured here?",
    Severity.NOTE: "What is worth knowing?",
}
MOST_BARS = 12
"""So many candidates are drawn; the cards show all."""


def advice_report(advice: Advice) -> Report:
    """Return the report that Markdown and HTML draw."""
    findings = advice.answered(Answer.FINDING)
    worst = min((finding.severity for finding in findings), key=lambda one: one.rank, default=None)
    return Report(
        study="",
        kind="advice",
        title=_title(advice, findings),
        word=worst.value if worst else "in order",
        tone=_tone(worst),
        lead=words.count_text(advice),
        stamp=" · ".join(
            part for part in (words.server_text(advice), words.machine_text(advice), words.window_text(advice)) if part
        ),
        tiles=tuple(_tiles(advice)),
        sections=tuple(section for section in _sections(advice) if section.blocks),
        provenance={"pgdyno": pgdyno.__version__, "looked at": advice.inventory.taken_at or "unknown"},
        label=f"advice for {advice.target}",
    )


def _title(advice: Advice, findings: tuple[Finding, ...]) -> str:
    best = best_candidates(advice.findings, 1)
    statements = [finding for finding in findings if is_about_statements(finding)]
    if statements:
        return f"SQL first: {statements[0].title}"
    if best:
        return f"Try {best[0].rule} first: {best[0].title}"
    return "Nothing to try" if not findings else findings[0].title


def _tone(worst: Severity | None) -> Tone:
    if worst is None:
        return Tone.GOOD
    return {Severity.CRITICAL: Tone.BAD, Severity.WARNING: Tone.UNSURE}.get(worst, Tone.NEUTRAL)


def _stated(effect: StatedEffect, confidence: Confidence) -> tuple[str, str]:
    """Return a source's figure, short as tiles have it, and where it comes from."""
    figure = words.figure_text(effect)
    if not figure:
        return "", ""
    also = f"together with {effect.together_with}, " if effect.together_with else ""
    metric = "" if effect.metric == "throughput" else f" {effect.metric}"
    return f"{figure}{metric}", f"{also}{words.source_short(effect.source)}, confidence {confidence}"


def _tiles(advice: Advice) -> Iterator[Tile]:
    for number, finding in enumerate(best_candidates(advice.findings), 1):
        effect = finding.main_effect
        figure, where = ("", "") if effect is None else _stated(effect, finding.confidence)
        if finding.proof is not None and finding.proof.ratio is not None:
            figure, where = f"{digits_text(finding.proof.ratio)}x", words.proof_text(finding.proof)
        yield Tile(
            label=f"{number}. {finding.rule}",
            value=figure or "no figure",
            interval=where,
            detail=words.proposal_text(finding),
            word="",
            tone=_tone(finding.severity),
        )


def _sections(advice: Advice) -> Iterator[Section]:
    yield Section(
        "candidates", "Candidates", "What is worth trying, going by the figures of the sources?", _candidates(advice)
    )
    for severity in Severity:
        yield Section(
            f"findings-{severity}",
            f"{severity.capitalize()}",
            _QUESTIONS[severity],
            tuple(_cards(advice, severity)),
        )
    yield Section("unknown", "Unknown", "What could not be judged, and which fact is missing?", _unknown(advice))
    yield Section("in-order", "In order", "What was checked and is as it should be?", _fine(advice))
    yield Section("decided", "Contradictions decided", "Where the sources disagree, what holds here?", _decided(advice))
    yield Section("environment", "Environment", "What was checked?", _environment(advice))


def _candidates(advice: Advice) -> tuple[Block, ...]:
    best = best_candidates(advice.findings, len(advice.findings))
    if not best:
        return (Prose(("No rule of this depth proposes a change.",)),)
    rows = tuple(
        (
            finding.rule,
            words.proposal_text(finding),
            words.effect_text(finding),
            str(finding.cost),
            words.RISKS[finding.risk_level],
            str(finding.state),
        )
        for finding in best
    )
    figure = effect_bars(best)
    table = Table(("rule", "now -> proposed", "expected effect", "cost", "risk", "state"), rows)
    charts = () if figure is None else (Charts((figure,)),)
    return (*charts, TableBlock(table, "All candidates, the best first. Prove one with pgdyno experiment --rule RULE."))


def _cards(advice: Advice, severity: Severity) -> Iterator[Block]:
    findings = [finding for finding in advice.answered(Answer.FINDING) if finding.severity is severity]
    findings.sort(key=lambda one: not is_about_statements(one))
    for group in RuleGroup:
        chosen = [finding for finding in findings if finding.group is group]
        if chosen:
            yield Cards(tuple(card(finding, is_open=severity is Severity.CRITICAL) for finding in chosen))


def _unknown(advice: Advice) -> tuple[Block, ...]:
    unknown = advice.answered(Answer.UNKNOWN)
    remarks: tuple[Block, ...] = (Notice(advice.remarks),) if advice.remarks else ()
    if not unknown:
        return (*remarks, Prose(("Every rule found the facts that it needs.",)))
    table = Table(("rule", "missing"), tuple((finding.rule, finding.reason) for finding in unknown))
    return (*remarks, TableBlock(table, "Unknown is neither good nor bad: nothing was assumed."))


def _fine(advice: Advice) -> tuple[Block, ...]:
    fine, other = advice.answered(Answer.OK), advice.answered(Answer.NOT_APPLICABLE)
    blocks: list[Block] = []
    if fine:
        rows = tuple((finding.rule, finding.reason) for finding in fine)
        blocks.append(TableBlock(Table(("rule", "why it is in order"), rows), f"{plural(len(fine), 'rule')} in order."))
    if other:
        rows = tuple((finding.rule, finding.reason) for finding in other)
        caption = f"{plural(len(other), 'rule')} not for targets like this"
        blocks.append(TableBlock(Table(("rule", "why not"), rows), caption, folded=True))
    return tuple(blocks)


def _decided(advice: Advice) -> tuple[Block, ...]:
    known = contradictions()
    rows = tuple(
        (
            resolution.id,
            known[resolution.id].first.text if resolution.id in known else "",
            known[resolution.id].second.text if resolution.id in known else "",
            resolution.decided,
            finding.rule,
        )
        for finding in advice.findings
        for resolution in finding.resolutions
    )
    table = Table(("id", "one source says", "another says", "decided here", "by rule"), rows)
    caption = "pgdyno advise --explain ID shows both statements with document and section."
    return (TableBlock(table, caption),) if rows else ()


def _environment(advice: Advice) -> tuple[Block, ...]:
    return (FactList(words.environment_rows(advice)), Prose(_DISCLAIMERS, points=True))


def effect_bars(findings: Sequence[Finding]) -> Figure | None:
    """Draw the figure that its source states for each candidate, the largest first; None where no source has one.

    A bar is solid up to the lower figure and light up to the upper one. Only gains of throughput are on one scale.
    """
    found = [(finding, effect) for finding in findings for effect in [_drawn(finding)] if effect is not None]
    found = sorted(found, key=lambda pair: -(pair[1].figure or 0.0))[:MOST_BARS]
    if not found:
        return None
    lows = [100 * (effect.figure or 0.0) for _, effect in found]
    highs = [100 * ((effect.figure if effect.high is None else effect.high) or 0.0) for _, effect in found]
    _, top = nice_bounds([0.0, *highs])
    rows = tuple(
        (
            finding.rule,
            words.gain(effect),
            words.source_long(effect.source),
            f"{words.figure_text(effect)}, {finding.confidence}",
        )
        for finding, effect in found
    )
    first, effect = found[0]
    return Figure(
        kind=FigureKind.BARS,
        id="effects",
        title=f"The largest gain that a source states is {words.gain(effect)} for {first.rule}",
        question="What do the sources state for each candidate?",
        x=Axis("candidate"),
        y=Axis("gain in throughput, as the source measured it", "%", lo=0.0, hi=top),
        series=(
            Series(
                "stated by the source",
                tuple(float(at) for at in range(len(found))),
                tuple(lows),
                hi=tuple(highs),
                style="bars",
                labels=tuple(f"{f.rule}\n{words.source_short(e.source)}" for f, e in found),
                group="effect",
            ),
        ),
        table=Table(("rule", "figure", "source", "confidence here"), rows, ()),
        caption="Measured on other machines: the confidence says how far this target is from them. Figures do not add "
        "up; only an experiment here says what a change is worth.",
        n=len(found),
    )


def _drawn(finding: Finding) -> StatedEffect | None:
    effect = finding.main_effect
    return effect if effect and effect.metric == "throughput" and (effect.figure or 0.0) > 0 else None
