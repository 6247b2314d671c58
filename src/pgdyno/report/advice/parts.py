"""What both terminal pages of advice are drawn with: head, marks of severity, headings, and the commands at the end."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from rich.console import JustifyMethod, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from pgdyno.advisor.selection import best_candidates
from pgdyno.advisor.settable import can_be_applied, parts_of
from pgdyno.model.advice import Advice, Again
from pgdyno.model.facts import Unknown
from pgdyno.model.finding import Answer, ChangeKind, Finding, Severity
from pgdyno.report.advice import words

MARKS = {
    Severity.CRITICAL: ("[critical]", "bold red"),
    Severity.WARNING: ("[warning]", "bold yellow"),
    Severity.ADVICE: ("[advice]", "bold cyan"),
    Severity.NOTE: ("[note]", "bold"),
}
_FORMS = {
    ChangeKind.POSTGRESQL: "postgresql.conf",
    ChangeKind.LINUX: "sysctl",
    ChangeKind.DDL: "ddl",
    ChangeKind.COMMAND: "commands",
}


def heading(text: str) -> Text:
    """Return the heading of a section, with an empty line above it."""
    return Text(f"\n{text}", style="bold underline")


def under(part: RenderableType) -> Padding:
    """Return a part of a section, indented under its heading."""
    return Padding(part, (0, 0, 0, 2))


def two_columns(first: str = "", second: str = "", justify: JustifyMethod = "left") -> Table:
    """Return an empty grid: a column that keeps its lines whole, and one that folds, in these styles."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style=first, no_wrap=True, justify=justify)
    grid.add_column(style=second, overflow="fold")
    return grid


def head(advice: Advice) -> Iterator[RenderableType]:
    """Yield what was looked at: server, machine, load, time and what holds for all of it."""
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
        yield Text(f"note: {remark}", style="yellow")


def sql_first(
    findings: Sequence[Finding], told: Callable[[Finding], Iterator[RenderableType]]
) -> Iterator[RenderableType]:
    """Yield the section of what is about statements, each finding as `told` draws it; nothing where there is none."""
    if findings:
        yield heading("SQL first")
        yield under(Text("SQL and index work usually yields more than any setting, and statements stand out here:"))
        for finding in findings:
            yield from told(finding)


def next_rows(advice: Advice, again: Again, *, is_whole: bool) -> list[tuple[str, str]]:
    """Return the commands to type next, each with its reason; `is_whole`: nothing of the advice was folded."""
    best = best_candidates(advice.findings)
    found = best or advice.answered(Answer.FINDING)[:1]
    rule = found[0].rule if found else None
    able = () if _is_standby(advice) else best  # a standby takes neither an experiment nor what apply would set
    settable = [one for one in able if can_be_applied(one, may_set_linux=again.may_set_linux)]
    ours = next((one for one in settable if not advice.hindrance.bars("apply", one.rule)), None)
    look, act = (f" {flags}" if flags else "" for flags in (again.look, again.act))
    rows = []
    if rule is not None:
        rows.append((f"pgdyno advise{look} --explain {rule}", "everything about one rule: source, doubts, undo"))
    it = "" if ours is None else "it" if ours.rule == rule else ours.rule
    if ours is not None and not advice.hindrance.bars("experiment", ours.rule):
        rows += [
            (f"pgdyno experiment{act} --rule {ours.rule}", f"prove {it} here, in interleaved pairs"),
            (f"pgdyno advise{look} --plan plan.toml", "an experiment with one factor per step"),
        ]
    forms = dict.fromkeys(form for one in best for form in _forms(one))
    if forms:
        emitted = " ".join(f"--emit {form}" for form in forms)
        files = f"the changes as files, each with its undo{_why_files(advice, settable, ours)}"
        rows.append((f"pgdyno advise{look} {emitted}", files))
    if ours is not None:
        rows.append((f"pgdyno apply{act} {ours.rule}", f"put {it} in force, with an undo on disk first"))
    if settable:
        rows += _rights_row(advice, again)
    if not is_whole:
        rows.append((f"pgdyno advise{look} --all", "everything, with evidence, doubts and reasons"))
    return rows


def _why_files(advice: Advice, settable: Sequence[Finding], ours: Finding | None) -> str:
    """Say why they are not put in force from here, where something else than a right of the role is in the way."""
    if ours is not None or not settable:
        return ""
    reasons = (advice.hindrance.rules[one.rule] for one in settable if one.rule in advice.hindrance.rules)
    why = advice.hindrance.whole or next(reasons, "")
    return f"; from here apply is refused: {why}" if why else ""


def _rights_row(advice: Advice, again: Again) -> list[tuple[str, str]]:
    """Return the command that lists the rights which the role lacks for what is left out; none where it lacks none."""
    verb = next((verb for verb in ("apply", "experiment") if advice.hindrance.lacks.get(verb)), None)
    if verb is None:
        return []
    lacking = ", ".join(advice.hindrance.lacks["experiment"])
    flags = f" {again.target}" if again.target else ""
    what = "put it in force or prove it" if verb == "apply" else "prove it"
    return [(f"pgdyno privileges{flags} --for experiment", f"what this role lacks to {what}: {lacking}")]


def _is_standby(advice: Advice) -> bool:
    server = advice.inventory.server
    return not isinstance(server, Unknown) and server.in_recovery is True


def _forms(finding: Finding) -> Iterator[str]:
    """Yield the formats of --emit that hold changes of a finding."""
    if not parts_of([finding]).refused:
        yield from (_FORMS[change.kind] for change in finding.changes if change.kind in _FORMS)


def next_steps(rows: list[tuple[str, str]]) -> Iterator[RenderableType]:
    """Yield the section of the commands to type next."""
    yield heading("Next")
    grid = two_columns(second="dim")
    for command, why in rows:
        grid.add_row(command, why)
    yield under(grid)
