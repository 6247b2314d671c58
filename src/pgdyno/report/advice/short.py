"""The short page of advice: what matters first on this server, and the rest as counts. `--all` draws the whole.

Consequence orders it: SQL, what is critical, what is wrong, then the candidates that promise most. What only a load
could justify is no such thing on an idle server, and is counted with the rest.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from pgdyno.advisor.selection import best_candidates, is_about_statements, is_waiting
from pgdyno.model.advice import Advice
from pgdyno.model.finding import Answer, Cost, Finding, ProofState, Severity
from pgdyno.report.advice import words
from pgdyno.report.advice.parts import MARKS, head, heading, sql_first, two_columns, under
from pgdyno.units import plural, some_text

MOST_WARNINGS = 5
"""So many warnings are told; the others are counted. What is critical is told however much it is."""
_NAMED = 6
"""So many rules of a folded kind are called by name."""


def first_by_consequence(advice: Advice) -> tuple[Finding, ...]:
    """Return what is told of advice, the gravest first; everything else is folded."""
    open_ones = [
        one for one in advice.answered(Answer.FINDING) if one.state is not ProofState.REFUTED and not is_waiting(one)
    ]
    statements = [one for one in open_ones if is_about_statements(one)]
    grave = [one for one in open_ones if one.severity is Severity.CRITICAL]
    warnings = [one for one in open_ones if one.severity is Severity.WARNING and one not in statements]
    best = best_candidates(advice.findings)
    return tuple(dict.fromkeys((*statements, *grave, *warnings[:MOST_WARNINGS], *best)))


def short_page(advice: Advice) -> Iterator[RenderableType]:
    """Yield the parts of the page down to what is folded; the commands come after it."""
    told = first_by_consequence(advice)
    yield from head(advice)
    statements = [one for one in told if is_about_statements(one)]
    yield from sql_first(statements, _told)
    others = [one for one in told if one not in statements]
    if others:
        yield heading("First, by consequence for this server")
        for number, finding in enumerate(others, 1):
            yield from _told(finding, number)
    elif not advice.answered(Answer.FINDING):
        yield heading("No findings")
        yield under(Text("No rule of this depth has anything to say."))
    elif not told:
        yield heading("Nothing to do now")
    yield from _folded(advice, told)


def _told(finding: Finding, number: int | None = None) -> Iterator[RenderableType]:
    mark, style = MARKS[finding.severity]
    title = Table.grid()  # two columns, so that a title of two lines keeps clear of the number
    title.add_column(no_wrap=True)
    title.add_column(overflow="fold")
    line = Text(mark, style=style).append(f" {finding.rule}", style="bold").append(f"  {finding.title}", "not bold")
    title.add_row("" if number is None else Text(f"{number}  ", style="bold"), line)
    yield under(title)
    grid = two_columns("dim")
    proposal = words.proposal_text(finding)
    if proposal:
        cost = f"; {finding.cost}" if finding.cost is not Cost.NONE else ""
        grid.add_row("change", Text(proposal, style="bold").append(cost, style="not bold"))
    if finding.evidence:
        grid.add_row("here", finding.evidence[0])
    if finding.effects or finding.proof is not None:
        grid.add_row("effect", words.effect_text(finding))
    yield Padding(grid, (0, 0, 0, 7))


def _folded(advice: Advice, told: Sequence[Finding]) -> Iterator[RenderableType]:
    grid = two_columns("bold", justify="right")
    for count, text in _folds(advice, told):
        grid.add_row(str(count), text)
    if grid.row_count:
        yield heading("Folded, shown by --all")
        yield under(grid)


def _folds(advice: Advice, told: Sequence[Finding]) -> Iterator[tuple[int, str]]:
    """Yield how many of each kind are not told, and what they are."""
    rest = [one for one in advice.answered(Answer.FINDING) if one not in told]
    waiting = [one for one in rest if is_waiting(one)]
    refuted = [one for one in rest if one.state is ProofState.REFUTED and one not in waiting]
    open_ones = [one for one in rest if one not in waiting and one not in refuted]
    if waiting:
        need = "needs" if len(waiting) == 1 else "need"
        yield len(waiting), f"{need} a load, and {words.seen_text(advice)}: {_names(waiting)}; --window 300 watches one"
    if refuted:
        yield len(refuted), f"refuted here: {_names(refuted)}"
    for severity in Severity:
        chosen = [one for one in open_ones if one.severity is severity]
        if chosen:
            more = "more of severity" if any(one.severity is severity for one in told) else "of severity"
            yield len(chosen), f"{more} {severity}: {_names(chosen)}"
    unknown, fine, other = (
        len(advice.answered(answer)) for answer in (Answer.UNKNOWN, Answer.OK, Answer.NOT_APPLICABLE)
    )
    if unknown:
        yield unknown, "unknown: neither good nor bad, a fact is missing"
    if fine:
        yield fine, "in order"
    if other:
        yield other, f"not for this target, of {plural(len(advice.findings), 'rule')}"


def _names(findings: Sequence[Finding]) -> str:
    return some_text([one.rule for one in findings], _NAMED, ", ")
