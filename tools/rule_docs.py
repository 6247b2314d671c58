"""Write docs/reference/rules/ from the rule files: one page a rule, the index, the vocabulary, the contradictions.

Before them `advisor/data/rules.json`, the rules as the program reads them.

Run `python tools/rule_docs.py`, or with `--check` to exit 1 when the pages are not what the data says.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from generated import keep_folder, keep_page
from pgdyno.advisor.rule import Rule, title_without_target, without_target
from pgdyno.advisor.rulebook import (
    Contradiction,
    Document,
    SourceStatement,
    contradictions,
    documents,
    shipped_rules,
    shipped_text,
)
from pgdyno.advisor.vocabulary import FACTS, FUNCTIONS
from pgdyno.knobs.linux import load_all_knobs
from pgdyno.model.finding import Depth, RuleGroup
from pgdyno.report.advice.words import RISKS, gain, source_long
from pgdyno.report.rule_words import kernel_range, measured_on, scope_text, version_range

FOLDER = Path(__file__).parents[1] / "docs" / "reference" / "rules"
RULES = Path(__file__).parents[1] / "src" / "pgdyno" / "advisor" / "data" / "rules.json"
_HEAD = "<!-- Made by tools/rule_docs.py from src/pgdyno/advisor: edit there. -->\n\n"


def pages() -> dict[str, str]:
    """Return the text of each page by file name."""
    rules = shipped_rules()
    made = {f"{rule.id}.md": _page(rule) for rule in rules}
    return made | {
        "README.md": _index(rules),
        "contradictions.md": _contradictions(rules),
        "vocabulary.md": _vocabulary(),
    }


def _page(rule: Rule) -> str:
    parts = [
        f"{_HEAD}# {rule.id}\n\n**{title_without_target(rule)}**",
        without_target(rule.why),
        without_target(rule.mechanism),
        _table(tuple(_facts(rule))),
        _effects(rule),
        _sources(rule),
        _related(rule),
        "`pgdyno advise --explain " + rule.id + "` says what it finds on a target.",
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _facts(rule: Rule) -> Iterator[tuple[str, str]]:
    yield "Group", rule.group.value
    yield "Depth", rule.depth.value
    yield "Severity", rule.severity.value
    yield "For", scope_text(rule.scope)
    if rule.when is not None:
        yield "Fires when", f"`{rule.when.text}`"
    else:
        yield "Fires when", _judge_words(rule)
    for change in rule.changes:
        value = change.value if change.value_of is None else change.value_of.text
        shown = (
            f"`{change.knob} = {without_target(value)}`"
            if change.knob
            else ", ".join(f"`{line}`" for line in change.commands)
        )
        yield "Proposes", shown
    yield "Cost", rule.cost.value
    yield "Risk", f"{RISKS[rule.risk_level]}: {without_target(rule.risk)}"
    if rule.under_load:
        yield "Waits", "on a server that was seen idle it comes last: only a load could justify it"
    yield "State at first", "needs-test" if rule.needs_test else "proposed"
    for name, text in (
        ("Apply", rule.apply),
        ("Persist", rule.persist),
        ("Verify", rule.verify),
        ("Revert", rule.revert),
    ):
        if text:
            yield name, without_target(text)
    for text in rule.alternatives:
        yield "Alternative", without_target(text)
    yield "Origin", rule.origin
    if rule.requirements:
        yield "Requirements", ", ".join(rule.requirements)
    yield "File", f"`advisor/rules/{rule.file}`"


def _judge_words(rule: Rule) -> str:
    lines = (inspect.getdoc(rule.judge) or "").splitlines()
    return lines[0] if lines else f"judged by {rule.theme}.py"


def _effects(rule: Rule) -> str:
    if not rule.effects:
        return "No source gives a figure for it."
    cells = [(gain(one) or "words only", without_target(one.text), source_long(one.source)) for one in rule.effects]
    rows = "".join(f"| {' | '.join(_cell(cell) for cell in row)} |\n" for row in cells)
    return f"## What the sources measured\n\n| figure | in words | source |\n|---|---|---|\n{rows}".rstrip()


def _sources(rule: Rule) -> str:
    lines = "".join(f"- {source_long(source)}\n" for source in rule.provenance)
    evidence = "; ".join(measured_on(rule)) or "not measured by a source"
    versions = version_range(rule.scope) or "every version of PostgreSQL"
    kernels = kernel_range(rule.scope) or "every kernel"
    return f"## Sources\n\n{lines}\nEvidence from: {evidence}. Holds for {versions}, {kernels}."


def _related(rule: Rule) -> str:
    knobs = sorted({change.knob for change in rule.changes if change.knob in load_all_knobs()})
    links = [f"knob [{name}](../knobs/{name}.md)" for name in knobs]
    links += [f"comes after [{name}]({name}.md)" for name in rule.after]
    links += [f"[{name}](contradictions.md#{name.lower()})" for name in _decides(rule)]
    return f"See also: {', '.join(links)}." if links else ""


def _decides(rule: Rule) -> list[str]:
    found = contradictions()
    return [name for name in found if name in rule.contradictions or found[name].decided_by == rule.id]


def _index(rules: Sequence[Rule]) -> str:
    parts = [
        f"{_HEAD}# Rules of the advisor\n\n{len(rules)} rules. `pgdyno rules` lists them, `pgdyno advise` "
        "judges them on a target. [How a rule is written](../../howto/write-a-rule.md) · [the words of rule "
        "files](vocabulary.md) · [contradictions of the sources](contradictions.md)\n\n"
        "A rule answers on every target with a finding, *in order*, *unknown* (a fact is missing) or *does not "
        "apply*.\n\n"
        "| depth | rules |\n|---|---:|\n"
        + "".join(f"| {depth} | {sum(rule.depth is depth for rule in rules)} |\n" for depth in Depth)
    ]
    for group in RuleGroup:
        rows = "".join(
            f"| [{rule.id}]({rule.id}.md) | {_cell(title_without_target(rule))} | {rule.depth} | {_cell(_best(rule))} "
            f"| {_cell(_evidence(rule))} | {_cell(_range(rule))} | {_cell(_documents(rule))} |\n"
            for rule in sorted(rules, key=lambda one: one.id)
            if rule.group is group
        )
        if rows:
            parts.append(
                f"## {group.capitalize()}\n\n"
                "| rule | says | depth | the sources' figure | measured with | holds for | source |\n"
                f"|---|---|---|---|---|---|---|\n{rows}"
            )
    parts.append(_documents_table())
    return "\n\n".join(part.rstrip() for part in parts) + "\n"


def _best(rule: Rule) -> str:
    return "; ".join(dict.fromkeys(gain(effect) for effect in rule.effects if gain(effect))) or "none"


def _evidence(rule: Rule) -> str:
    found = [documents()[name] for name in dict.fromkeys(effect.source.document for effect in rule.effects)]
    texts = [f"{one.version}{f', kernel {one.kernel}' if one.kernel else ''}" for one in found if one.version]
    return "; ".join(texts) or "not measured"


def _range(rule: Rule) -> str:
    return ", ".join(part for part in (version_range(rule.scope), kernel_range(rule.scope)) if part) or "all"


def _documents(rule: Rule) -> str:
    return ", ".join(dict.fromkeys(f"{source.document}" for source in rule.provenance))


def _documents_table() -> str:
    rows = "".join(f"| {name} | {_document(one)} |\n" for name, one in documents().items())
    head = "| key | document | year | measured on | version | kernel | load |\n|---|---|---|---|---|---|---|\n"
    return f"## Sources\n\n{head}{rows}"


def _document(one: Document) -> str:
    cells = (one.title, str(one.year), one.platform or "not measured", one.version, one.kernel, one.load)
    return " | ".join(_cell(cell) for cell in cells)


def _contradictions(rules: Sequence[Rule]) -> str:
    names = {rule.id for rule in rules}
    parts = [
        f"{_HEAD}# Contradictions of the sources\n\nWhere two sources exclude each other, a condition decides. "
        "`pgdyno advise --explain ID` shows what decided on a target."
    ]
    parts += [_contradiction(name, one, names) for name, one in contradictions().items()]
    return "\n\n".join(parts) + "\n"


def _contradiction(name: str, one: Contradiction, rules: set[str]) -> str:
    by = f"rule [{one.decided_by}]({one.decided_by}.md)" if one.decided_by in rules else one.decided_by
    sides = f"- {_said(one.first)}\n- {_said(one.second)}"
    return f"## {name}\n\n{sides}\n\n**Resolution.** {one.resolution}\n\nDecided by {by}."


def _said(statement: SourceStatement) -> str:
    document = documents()[statement.document]
    return f'{statement.text} ({document.title}, "{statement.section}", {document.year})'


def _vocabulary() -> str:
    facts = "".join(f"- `{name}`\n" for name in sorted(FACTS))
    functions = "".join(f"- `{name}({', '.join(_arguments(name))})`\n" for name in sorted(FUNCTIONS))
    return (
        f"{_HEAD}# The words of rule files\n\nAn expression has `and`, `or`, `not`, comparisons, `in`, `+ - * /`, "
        "numbers, text, lists, the facts and the functions below. Numbers are bytes, seconds or bare. A fact that is "
        f"unknown makes the rule's answer *unknown*, unless the other side of an `and` or `or` decides.\n\n"
        f"## Facts\n\n{facts}\n## Functions\n\n{functions}"
    )


def _arguments(name: str) -> list[str]:
    signature = inspect.signature(FUNCTIONS[name])
    return [
        f"{one.name}, ..." if one.kind is inspect.Parameter.VAR_POSITIONAL else one.name
        for one in list(signature.parameters.values())[1:]
    ]


def _table(rows: Sequence[tuple[str, str]]) -> str:
    return "| | |\n|---|---|\n" + "\n".join(f"| {name} | {_cell(text)} |" for name, text in rows)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


if __name__ == "__main__":
    read = keep_page(shipped_text(), RULES, sys.argv)  # first: the pages are made of what is read of it
    sys.exit(keep_folder(pages(), FOLDER, sys.argv) or read)
