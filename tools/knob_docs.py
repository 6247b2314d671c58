"""Write docs/reference/knobs/ from the catalogue and the policy: one page a knob, an index, and what is never touched.

Run `python tools/knob_docs.py`, or with `--check` to exit 1 when the pages are not what the data says.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from generated import keep_folder
from pgdyno.advisor.rule import Rule
from pgdyno.advisor.rulebook import shipped_rules
from pgdyno.knobs.catalogue import Catalogue, Knob
from pgdyno.knobs.linux import load_all_knobs
from pgdyno.knobs.policy import Durability, Ruling, SearchPolicy, load_policy

FOLDER = Path(__file__).parents[1] / "docs" / "reference" / "knobs"
_HEAD = "<!-- Made by tools/knob_docs.py from src/pgdyno/knobs/data: edit there. -->\n\n"
_SEARCHED = {
    SearchPolicy.DEFAULT: "yes, where its needs are met",
    SearchPolicy.OPT_IN: "only with `--include`",
    SearchPolicy.MANUAL: "never; by hand in an experiment",
}


def rules_of_knob(knob: str, rules: Sequence[Rule]) -> list[str]:
    """Return the ids of the rules that change a knob or name it in their texts."""
    word = re.compile(rf"(?<![\w.]){re.escape(knob)}(?![\w.])")
    return [
        rule.id
        for rule in rules
        if any(change.knob == knob for change in rule.changes)
        or any(word.search(text) for text in (rule.title, rule.why, rule.apply, rule.id.replace("-", "_")))
    ]


def pages(catalogue: Catalogue, rulings: Mapping[str, Ruling]) -> dict[str, str]:
    """Return the text of each page by file name."""
    rules = shipped_rules()
    made = {
        f"{knob.name}.md": _page(knob, rulings[knob.name], rules_of_knob(knob.name, rules))
        for knob in catalogue.values()
    }
    return made | {"index.md": _index(catalogue), "policy.md": _policy(catalogue, rulings)}


def _page(knob: Knob, ruling: Ruling, rules: Sequence[str]) -> str:
    needs = "; ".join(knob.needs.sentences()) or "nothing special"
    rows = [
        ("Durability class", f"{knob.durability}: {knob.durability.meaning}"),
        ("Risk", ruling.why),
        ("Searched", _searched(knob)),
        ("Group", knob.group.value),
        ("Scale", knob.scale.value),
        ("Range", f"`{knob.range_text()}`".replace("|", "\\|")),
        ("A trial needs", needs),
        ("Source", knob.source),
    ]
    if knob.takes_effect is not None:
        rows.insert(-2, ("In force", f"{knob.takes_effect.meaning}; written by root, gone at a reboot"))
    table = "| | |\n|---|---|\n" + "".join(f"| {label} | {text} |\n" for label, text in rows)
    links = ", ".join(f"[{name}]({name}.md)" for name in knob.interactions)
    see_also = f"\nSee also: {links}.\n" if links else ""
    pages = ", ".join(f"[{rule}](../rules/{rule}.md)" for rule in rules)
    advised = f"\nAdvised by: {pages}.\n" if pages else ""
    return f"{_HEAD}# {knob.name}\n\n{knob.why}\n\n{table}{see_also}{advised}"


def _searched(knob: Knob) -> str:
    if knob.takes_effect is not None and knob.search is SearchPolicy.DEFAULT:
        return "with `--linux`, where its needs are met"
    return _SEARCHED[knob.search]


def _index(catalogue: Catalogue) -> str:
    rows = "".join(
        f"| [{knob.name}]({knob.name}.md) | {knob.group} | {knob.durability} | {_searched(knob)} |\n"
        for knob in sorted(catalogue.values(), key=lambda knob: knob.name)
    )
    return (
        f"{_HEAD}# Knobs\n\n"
        "What pgdyno may tune. Unit, bounds, words and the need of a restart are those of the running server; a range "
        "here is an expression over its facts, clipped to its bounds and widened to hold its current value. "
        "Linux knobs have the kernel's names and values (`pgdyno knobs host`). "
        "[What is never touched, and why](policy.md).\n\n"
        "| Class | Risk |\n|---|---|\n"
        + "".join(f"| {member} | {member.meaning} |\n" for member in Durability)
        + f"\n| Knob | Group | Class | Searched |\n|---|---|---|---|\n{rows}"
    )


def _policy(catalogue: Catalogue, rulings: Mapping[str, Ruling]) -> str:
    def names(wanted: list[Ruling]) -> str:
        reasons: dict[str, list[str]] = {}
        for ruling in wanted:
            reasons.setdefault(ruling.why, []).append(ruling.name)
        return "".join(
            f"- {why}: {', '.join(f'`{name}`' for name in sorted(found))}\n" for why, found in sorted(reasons.items())
        )

    refused = [ruling for ruling in rulings.values() if ruling.durability is Durability.X]
    other = [ruling for ruling in rulings.values() if ruling.durability is None]
    manual = [r for r in rulings.values() if r.search is SearchPolicy.MANUAL and r.name not in catalogue]
    return (
        f"{_HEAD}# What pgdyno never searches\n\n"
        "The policy is an allow-list: a parameter that it does not name is not touched.\n\n"
        "## Class X: refused always\n\n"
        "Never searched, never recommended, refused even with `--force`; only a measurement on a sandbox marked "
        f"disposable may touch it, and every number from it says so.\n\n{names(refused)}\n"
        f"## Not performance settings: refused\n\n{names(other)}\n"
        f"## Set by hand only\n\n{names(manual)}"
    )


if __name__ == "__main__":
    sys.exit(keep_folder(pages(load_all_knobs(), load_policy().rulings), FOLDER, sys.argv))
