"""`pgdyno rules`: list the advisor's rules, without a target."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pgdyno.cli.arguments.flags import Flags, flag, verb
from pgdyno.cli.terminal.columns import print_columns
from pgdyno.units import plural

if TYPE_CHECKING:
    from pgdyno.advisor.rule import Rule


class _Flags(Flags):
    folders: tuple[Path, ...] = flag(
        "A folder of further rule files; may be given again.",
        "--rules",
        type=click.Path(path_type=Path, file_okay=False),
        metavar="DIR",
    )
    group: str | None = flag("Only this group.", type=click.Choice(["throughput", "response time", "general"]))
    depth: str | None = flag("Only rules of this depth or above.", type=click.Choice(["leave-alone", "basic", "deep"]))
    as_json: bool = flag("Print JSON.", "--json")


@verb("rules")
def command(flags: _Flags) -> int:
    """List every rule of `pgdyno advise`: what it says, its group, its source and for whom it is."""
    from pgdyno.advisor.rulebook import load_rules
    from pgdyno.model.finding import Depth

    most = Depth.DEEP if flags.depth is None else Depth(flags.depth)
    rules = [
        rule
        for rule in load_rules(flags.folders)
        if flags.group in (None, rule.group.value) and rule.depth.rank <= most.rank
    ]
    if flags.as_json:
        click.echo(json.dumps([_rule_json(rule) for rule in rules], indent=2))
    else:
        _print(rules)
    return 0


def _rule_json(rule: Rule) -> dict[str, object]:
    from pgdyno.advisor.rule import title_without_target
    from pgdyno.report.rule_words import scope_text

    return {
        "id": rule.id,
        "title": title_without_target(rule),
        "group": rule.group.value,
        "depth": rule.depth.value,
        "severity": rule.severity.value,
        "scope": scope_text(rule.scope),
        "why": rule.why,
        "mechanism": rule.mechanism,
        "effects": [
            {"text": e.text, "low": e.low, "high": e.high, "metric": e.metric, "document": e.source.document}
            for e in rule.effects
        ],
        "risk": rule.risk,
        "risk_level": rule.risk_level,
        "cost": rule.cost.value,
        "needs_test": rule.needs_test,
        "sources": [{"document": one.document, "section": one.section, "year": one.year} for one in rule.provenance],
        "origin": rule.origin,
        "requirements": list(rule.requirements),
        "contradictions": list(rule.contradictions),
        "after": list(rule.after),
        "file": rule.file,
    }


def _print(rules: list[Rule]) -> None:
    from pgdyno.advisor.rule import title_without_target

    rows = [(one.id, one.group.value, one.depth.value, one.severity.value, title_without_target(one)) for one in rules]
    print_columns(("rule", "group", "depth", "severity", "what"), rows)
    click.echo(f"{plural(len(rules), 'rule')}; pgdyno advise --explain ID says everything about one")
