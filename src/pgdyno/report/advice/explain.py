"""Explain one rule on this target, or one contradiction of the sources, completely. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pgdyno
from pgdyno.advisor.rulebook import (
    Contradiction,
    SourceStatement,
    contradictions,
    provenance,
    require_rule,
    shipped_rules,
)
from pgdyno.errors import UsageError
from pgdyno.model.advice import Advice
from pgdyno.model.finding import Answer, Finding
from pgdyno.report.advice import words
from pgdyno.report.advice.card import blocks, fact_rows
from pgdyno.report.sections import Block, FactList, Prose, Report, Section, Tone

_TONES = {
    Answer.FINDING: Tone.UNSURE,
    Answer.OK: Tone.GOOD,
    Answer.UNKNOWN: Tone.UNSURE,
    Answer.NOT_APPLICABLE: Tone.NEUTRAL,
}


def explain(name: str, advice: Advice) -> Report:
    """Return everything about a rule here, or about CON-01 to CON-45. Raises UsageError when there is no such id."""
    if name.upper().startswith("CON-"):
        return explain_contradiction(name, advice)
    check_name(name, [one.rule for one in advice.findings])
    finding = advice.of(name)
    assert finding is not None, "every rule answers"
    return explain_finding(finding, advice)


_NOTHING = {
    Answer.OK: "nothing to do here",
    Answer.UNKNOWN: "a fact is missing here",
    Answer.NOT_APPLICABLE: "not for this target",
}


def check_name(name: str, rules: Sequence[str]) -> None:
    """Refuse a name that is neither of a rule nor of a contradiction. Raises UsageError with what is near."""
    if name.upper().startswith("CON-"):
        explain_contradiction(name, None)
        return
    require_rule(name, rules)


def explain_finding(finding: Finding, advice: Advice) -> Report:
    """Return what a rule says here with its why, figures, doubts, undo, contradictions and proof."""
    sections = [Section("here", "Here", "What does the rule say about this target?", tuple(_here(finding)))]
    if finding.answer is Answer.FINDING:
        sections.append(Section("why", "Why, what it costs, and how", "", tuple(blocks(finding))))
    else:
        rows = (("when it fires", finding.title), *fact_rows(finding))
        sections.append(Section("why", "About the rule", "", (FactList(rows),)))
    sections += _contradictions_of(finding.rule, advice)
    return _report(
        title=finding.title if finding.answer is Answer.FINDING else f"{finding.rule}: {_NOTHING[finding.answer]}",
        word=words.ANSWERS[finding.answer],
        tone=_TONES[finding.answer],
        lead=f"rule {finding.rule}, {finding.group}",
        stamp=f"{words.server_text(advice)} at {advice.target}",
        sections=tuple(sections),
    )


def _here(finding: Finding) -> Iterator[Block]:
    if finding.answer is not Answer.FINDING:
        yield Prose((f"[{words.ANSWERS[finding.answer]}] {finding.reason}",))
        return
    rows = [("severity", str(finding.severity)), ("change", words.proposal_text(finding) or "nothing to set")]
    yield FactList(tuple(rows))


def _contradictions_of(rule: str, advice: Advice) -> list[Section]:
    declared = next((one.contradictions for one in shipped_rules() if one.id == rule), ())
    named = [name for name, one in contradictions().items() if name in declared or one.decided_by == rule]
    return [
        Section(
            name.lower(), f"{name}: the sources disagree", "", tuple(_statements(name, contradictions()[name], advice))
        )
        for name in named
    ]


def explain_contradiction(name: str, advice: Advice | None) -> Report:
    """Return both statements with document and section, the resolution, and what decided here when a rule did."""
    key = name.upper()
    found = contradictions().get(key)
    if found is None:
        raise UsageError(
            f'there is no contradiction "{name}"',
            hint="The sources have CON-01 to CON-45; pgdyno rules lists the rules.",
        )
    return _report(
        title=f"{key}: {found.resolution}",
        word="",
        tone=Tone.NEUTRAL,
        lead=f"decided by {found.decided_by}",
        stamp="" if advice is None else f"{words.server_text(advice)} at {advice.target}",
        sections=(Section("statements", "Two statements", "", tuple(_statements(key, found, advice))),),
    )


def _statements(name: str, found: Contradiction, advice: Advice | None) -> Iterator[Block]:
    rows = [("one says", _said(found.first)), ("another says", _said(found.second)), ("resolution", found.resolution)]
    decided = [] if advice is None else _decided(name, advice)
    rows += [(f"decided here by {rule}", text) for rule, text in decided]
    if not decided:
        rows.append(("decided here", _undecided(found, advice)))
    yield FactList(tuple(rows))


def _said(statement: SourceStatement) -> str:
    return f"{statement.text} [{words.source_long(provenance(statement.document, statement.section))}]"


def _decided(name: str, advice: Advice) -> list[tuple[str, str]]:
    return [(finding.rule, one.decided) for finding in advice.findings for one in finding.resolutions if one.id == name]


def _undecided(found: Contradiction, advice: Advice | None) -> str:
    finding = None if advice is None else advice.of(found.decided_by)
    if finding is not None:
        lacks = "open, a fact that decides is missing" if finding.answer is Answer.UNKNOWN else "not decided"
        return f"{lacks}: rule {finding.rule} says {finding.answer}. {finding.reason}".strip()
    if any(rule.id == found.decided_by for rule in shipped_rules()):
        return f"name a target or a capture: rule {found.decided_by} decides by its facts"
    same = "" if found.decided_by.startswith("nothing yet") else "the same on every target, by "
    return f"{same}{found.decided_by}"


def _report(*, title: str, word: str, tone: Tone, lead: str, stamp: str, sections: tuple[Section, ...]) -> Report:
    return Report(
        study="",
        kind="explanation",
        title=title,
        word=word,
        tone=tone,
        lead=lead,
        stamp=stamp,
        sections=sections,
        provenance={"pgdyno": pgdyno.__version__},
        label="advice explained",
    )
