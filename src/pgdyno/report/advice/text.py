"""Draw advice in the terminal: the short page, or all of it, by severity and group, with what is not known.

Colour only repeats what a word says; NO_COLOR and pipes are honoured by rich.
"""

from __future__ import annotations

from collections.abc import Iterator
from io import StringIO
from typing import TextIO

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from pgdyno.advisor.selection import best_candidates, is_about_statements
from pgdyno.model.advice import Advice, Again
from pgdyno.model.finding import Answer, Finding, ProofState, RuleGroup, Severity
from pgdyno.report.advice import words
from pgdyno.report.advice.parts import MARKS, head, heading, next_rows, next_steps, sql_first, two_columns, under
from pgdyno.report.advice.short import short_page
from pgdyno.report.drawing.console import PlainConsole, pipe_width

_STATES = {ProofState.TESTED: "bold green", ProofState.REFUTED: "bold red", ProofState.NEEDS_TEST: "yellow"}
_WIDE = 110
"""From so many columns on, the best candidates have a column each for effect and cost."""
_AROUND = 6
"""Columns that indent and gap take beside a command and its reason."""
_MANY = 3
"""So many evidence sentences are shown of a finding; --explain shows all."""


def print_advice(
    advice: Advice, stream: TextIO, *, show_all: bool = False, width: int | None = None, again: Again | None = None
) -> None:
    """Print advice to a stream, the short page or all of it: as wide as the terminal; into a file COLUMNS, else 120.

    `show_all` asks for all of `advice`. `width` is in columns and replaces these widths, None keeps them. `again` are
    the flags that the commands at the end need to be about this target, None for no flags.
    """
    if stream.isatty() and width is None:
        console = PlainConsole(stream)
        _draw(console, advice, console.width, show_all=show_all, again=again)
        return
    buffer, columns = StringIO(), width or pipe_width()
    console = PlainConsole(buffer, columns)
    _draw(console, advice, columns, show_all=show_all, again=again)
    stream.write("".join(f"{line.rstrip()}\n" for line in buffer.getvalue().splitlines()))


def _draw(console: Console, advice: Advice, width: int, *, show_all: bool, again: Again | None) -> None:
    """Print the page; commands at its end that are wider than it stay one line each, so that they can be copied."""
    rows = next_rows(advice, again or Again(), is_whole=show_all)
    console.print(render(advice, width) if show_all else Group(*short_page(advice)))
    if max((len(command) + len(why) for command, why in rows), default=0) + _AROUND <= width:
        console.print(Group(*next_steps(rows)))
        return
    console.print(heading("Next"))
    for command, why in rows:
        console.print(Text().append(f"  {why}", style="dim").append(f"\n    {command}"), soft_wrap=True)


def render(advice: Advice, width: int) -> RenderableType:
    """Return all of the advice for rich, without what to do next; `width` is that of the console in columns."""
    return Group(
        *head(advice),
        *_statements_first(advice),
        *_best(advice, width),
        *_findings(advice),
        *_unknown(advice),
        *_nothing_to_do(advice),
    )


def _statements_first(advice: Advice) -> Iterator[RenderableType]:
    found = [finding for finding in advice.findings if is_about_statements(finding)]
    yield from sql_first(found, _finding)


def _best(advice: Advice, width: int) -> Iterator[RenderableType]:
    best = best_candidates(advice.findings)
    if not best:
        return
    yield heading(
        "The best candidate" if len(best) == 1 else f"The {('', '', 'two', 'three')[len(best)]} best candidates"
    )
    grid = Table.grid(padding=(0, 2))
    if width >= _WIDE:
        for _ in range(5):
            grid.add_column(overflow="fold")
        for number, finding in enumerate(best, 1):
            grid.add_row(
                Text(str(number), style="bold"),
                Text(finding.rule, style="bold"),
                words.proposal_text(finding) or finding.title,
                words.effect_text(finding),
                str(finding.cost),
            )
    else:
        grid.add_column()
        grid.add_column(overflow="fold")
        for number, finding in enumerate(best, 1):
            text = Text(f"{finding.rule}  ", style="bold")
            text.append(words.proposal_text(finding) or finding.title, style="not bold")
            text.append(f"\n{words.effect_text(finding)}; cost {finding.cost}", style="not bold dim")
            grid.add_row(Text(str(number), style="bold"), text)
    yield under(grid)


def _findings(advice: Advice) -> Iterator[RenderableType]:
    findings = [finding for finding in advice.answered(Answer.FINDING) if not is_about_statements(finding)]
    for severity in Severity:
        for group in RuleGroup:
            chosen = [finding for finding in findings if finding.severity is severity and finding.group is group]
            if chosen:
                yield heading(f"{severity.capitalize()} · {group}")
                for finding in chosen:
                    yield from _finding(finding)
    if not advice.answered(Answer.FINDING):
        yield heading("No findings")
        yield under(Text("No rule of this depth has anything to say. What could not be judged is listed as unknown."))


def _finding(finding: Finding) -> Iterator[RenderableType]:
    mark, style = MARKS[finding.severity]
    yield under(
        Text(mark, style=style).append(f" {finding.rule}", style="bold").append(f"  {finding.title}", "not bold")
    )
    grid = two_columns("dim")
    proposal = words.proposal_text(finding)
    if proposal:
        grid.add_row("change", Text(proposal, style="bold"))
    for number, sentence in enumerate(finding.evidence[:_MANY]):
        grid.add_row("here" if number == 0 else "", Text(sentence))
    more = len(finding.evidence) - _MANY
    if more > 0:
        grid.add_row("", Text(f"and {more} more", style="dim"))
    proposes = bool(finding.changes or finding.proposed)
    if proposes or finding.effects or finding.proof is not None:
        grid.add_row("effect", Text(words.effect_text(finding)))
    for number, doubt in enumerate(finding.doubts):
        grid.add_row("doubt" if number == 0 else "", Text(doubt))
    for resolution in finding.resolutions:
        grid.add_row("decided", Text(f"{resolution.id}: {resolution.decided}"))
    if finding.changes or finding.risk_level or finding.cost.rank:
        grid.add_row("cost", Text(words.cost_text(finding)))
    if finding.changes or finding.proof is not None:
        grid.add_row("state", Text(words.state_text(finding), style=_STATES.get(finding.state, "")))
    yield Padding(grid, (0, 0, 1, 4))


def _unknown(advice: Advice) -> Iterator[RenderableType]:
    unknown = advice.answered(Answer.UNKNOWN)
    if not unknown:
        return
    yield heading("Unknown: neither good nor bad, a fact is missing")
    grid = two_columns()
    reasons: dict[str, list[str]] = {}
    for finding in unknown:
        reasons.setdefault(finding.reason, []).append(finding.rule)
    for reason, rules in reasons.items():
        mark = Text("[unknown]", style="bold magenta")
        grid.add_row(mark, Text(", ".join(rules), style="bold").append(f"\n{reason}", "not bold"))
    yield under(grid)


def _nothing_to_do(advice: Advice) -> Iterator[RenderableType]:
    for answer, title, mark, style in (
        (Answer.OK, "In order", "[ok]", "bold green"),
        (Answer.NOT_APPLICABLE, "Not for this target", "[n/a]", "dim"),
    ):
        if found := advice.answered(answer):
            grid = two_columns()
            for finding in found:
                grid.add_row(Text(mark, style=style).append(f" {finding.rule}", "not bold"), finding.reason)
            yield heading(f"{title}: {len(found)}")
            yield under(grid)
