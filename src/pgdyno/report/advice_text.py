"""Draw advice in the terminal: the best candidates first, then by severity and group, then what is not known.

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
from pgdyno.advisor.settable import can_be_applied, parts_of
from pgdyno.model.advice import Advice, Again
from pgdyno.model.finding import Answer, ChangeKind, Finding, ProofState, RuleGroup, Severity
from pgdyno.report import advice_words as words
from pgdyno.report.console import PlainConsole
from pgdyno.report.text import PIPE_WIDTH

MARKS = {
    Severity.CRITICAL: ("[critical]", "bold red"),
    Severity.WARNING: ("[warning]", "bold yellow"),
    Severity.ADVICE: ("[advice]", "bold cyan"),
    Severity.NOTE: ("[note]", "bold"),
}
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
    """Print advice to a stream: as wide as the terminal, or 120 columns into a file.

    `again` are the flags that the commands at the end need to be about this target.
    """
    if stream.isatty() and width is None:
        console = PlainConsole(stream)
        _draw(console, advice, console.width, show_all=show_all, again=again)
        return
    buffer, columns = StringIO(), width or PIPE_WIDTH
    console = PlainConsole(buffer, columns)
    _draw(console, advice, columns, show_all=show_all, again=again)
    stream.write("".join(f"{line.rstrip()}\n" for line in buffer.getvalue().splitlines()))


def _draw(console: Console, advice: Advice, width: int, *, show_all: bool, again: Again | None) -> None:
    """Print the page; commands at its end that are wider than it stay one line each, so that they can be copied."""
    rows = _next_rows(advice, again or Again())
    fits = max(len(command) + len(why) for command, why in rows) + _AROUND <= width
    console.print(render(advice, width, show_all=show_all, again=again if fits else None, end=fits))
    if not fits:
        console.print(_heading("Next"))
        for command, why in rows:
            console.print(Text().append(f"  {why}", style="dim").append(f"\n    {command}"), soft_wrap=True)


def render(
    advice: Advice, width: int, *, show_all: bool = False, again: Again | None = None, end: bool = True
) -> RenderableType:
    """Return the page for rich, with what to do next at its end; `width` is that of the console in columns."""
    return Group(
        *_head(advice),
        *_statements_first(advice),
        *_best(advice, width),
        *_findings(advice),
        *_unknown(advice),
        *_in_order(advice, show_all=show_all),
        *_not_applicable(advice, show_all=show_all),
        *(_next_steps(_next_rows(advice, again or Again())) if end else ()),
    )


def _head(advice: Advice) -> Iterator[RenderableType]:
    yield Text(f"{words.server_text(advice)} at {advice.target}", style="bold")
    machine = words.machine_text(advice)
    yield Text(f"{machine}\n" if machine else "", style="dim").append(
        f"{words.count_text(advice)}; depth {advice.depth}"
    )
    load = words.load_text(advice)
    if load:
        yield Text(f"load: {load}", style="dim")
    yield Text(f"evidence: {words.window_text(advice)}", style="dim")
    for remark in advice.remarks:
        yield Text(f"mind: {remark}", style="yellow")


def _statements_first(advice: Advice) -> Iterator[RenderableType]:
    found = [finding for finding in advice.findings if is_about_statements(finding)]
    if found:
        yield _heading("SQL first")
        yield _under(Text("SQL and index work usually yields more than any setting, and statements stand out here:"))
        for finding in found:
            yield from _finding(finding)


def _best(advice: Advice, width: int) -> Iterator[RenderableType]:
    best = best_candidates(advice.findings)
    if not best:
        return
    yield _heading(
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
    yield _under(grid)


def _findings(advice: Advice) -> Iterator[RenderableType]:
    findings = [finding for finding in advice.answered(Answer.FINDING) if not is_about_statements(finding)]
    for severity in Severity:
        for group in RuleGroup:
            chosen = [finding for finding in findings if finding.severity is severity and finding.group is group]
            if chosen:
                yield _heading(f"{severity.capitalize()} · {group}")
                for finding in chosen:
                    yield from _finding(finding)
    if not advice.answered(Answer.FINDING):
        yield _heading("No findings")
        yield _under(Text("No rule of this depth has anything to say. What could not be judged is listed as unknown."))


def _finding(finding: Finding) -> Iterator[RenderableType]:
    mark, style = MARKS[finding.severity]
    yield _under(
        Text(mark, style=style).append(f" {finding.rule}", style="bold").append(f"  {finding.title}", "not bold")
    )
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
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
    yield _heading("Unknown: neither good nor bad, a fact is missing")
    grid = Table.grid(padding=(0, 2))
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    reasons: dict[str, list[str]] = {}
    for finding in unknown:
        reasons.setdefault(finding.reason, []).append(finding.rule)
    for reason, rules in reasons.items():
        mark = Text("[unknown]", style="bold magenta")
        grid.add_row(mark, Text(", ".join(rules), style="bold").append(f"\n{reason}", "not bold"))
    yield _under(grid)


def _in_order(advice: Advice, *, show_all: bool) -> Iterator[RenderableType]:
    fine = advice.answered(Answer.OK)
    if not fine:
        return
    yield _heading(f"In order: {len(fine)}")
    if not show_all:
        yield _under(Text("[ok] ", style="bold green").append(", ".join(finding.rule for finding in fine), "not bold"))
        return
    yield _under(_reasons(fine, "[ok]", "bold green"))


def _not_applicable(advice: Advice, *, show_all: bool) -> Iterator[RenderableType]:
    other = advice.answered(Answer.NOT_APPLICABLE)
    if other and show_all:
        yield _heading(f"Not for this target: {len(other)}")
        yield _under(_reasons(other, "[n/a]", "dim"))


def _reasons(findings: tuple[Finding, ...], mark: str, style: str) -> Table:
    grid = Table.grid(padding=(0, 2))
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    for finding in findings:
        grid.add_row(Text(mark, style=style).append(f" {finding.rule}", "not bold"), Text(finding.reason))
    return grid


def _next_rows(advice: Advice, again: Again) -> list[tuple[str, str]]:
    best = best_candidates(advice.findings)
    found = best or advice.answered(Answer.FINDING)[:1]
    rule = found[0].rule if found else None
    ours = next((one for one in best if can_be_applied(one)), None)
    look, act = (f" {flags}" if flags else "" for flags in (again.look, again.act))
    rows = []
    if rule is not None:
        rows.append((f"pgdyno advise{look} --explain {rule}", "everything about one rule: source, doubts, undo"))
    if ours is not None:
        it = "it" if ours.rule == rule else ours.rule
        rows += [
            (f"pgdyno experiment{act} --rule {ours.rule}", f"prove {it} here, in interleaved pairs"),
            (f"pgdyno advise{look} --plan plan.toml", "an experiment of one factor a step"),
        ]
    form = next((form for one in best for form in _forms(one)), None)
    if form is not None:
        rows.append((f"pgdyno advise{look} --emit {form}", "the changes as files, each with its undo"))
    if ours is not None:
        rows.append((f"pgdyno apply{act} {ours.rule}", f"put {it} in force, with an undo on disk first"))
    if not advice.answered(Answer.NOT_APPLICABLE) or rule is None:
        rows.append((f"pgdyno advise{look} --all", "with the reasons of what is in order"))
    return rows


_FORMS = {
    ChangeKind.POSTGRESQL: "postgresql.conf",
    ChangeKind.LINUX: "sysctl",
    ChangeKind.DDL: "ddl",
    ChangeKind.COMMAND: "commands",
}


def _forms(finding: Finding) -> Iterator[str]:
    """Yield the formats of --emit that hold changes of a finding."""
    if not parts_of([finding]).refused:
        yield from (_FORMS[change.kind] for change in finding.changes if change.kind in _FORMS)


def _next_steps(rows: list[tuple[str, str]]) -> Iterator[RenderableType]:
    yield _heading("Next")
    grid = Table.grid(padding=(0, 2))
    grid.add_column(no_wrap=True)
    grid.add_column(style="dim", overflow="fold")
    for command, why in rows:
        grid.add_row(command, why)
    yield _under(grid)


def _heading(text: str) -> Text:
    return Text(f"\n{text}", style="bold underline")


def _under(part: RenderableType) -> Padding:
    return Padding(part, (0, 0, 0, 2))
