"""The rules: those of the package and those of a folder of the user's. Adding a file adds its rules.

The package's are read from `data/rules.json`, which `make docs` makes of the rule files and of `data/documents.toml`:
reading and checking those took a fifth of what `advise` takes. A rule of the package may be judged by a function of the
module beside its file; a rule of another folder has expressions only, so that a rule file never runs code of its own.
"""

from __future__ import annotations

import difflib
import importlib
import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, cast

from pgdyno.advisor.rule import Judge, Rule, Scope, Settle
from pgdyno.errors import UsageError, hinted
from pgdyno.model.finding import Provenance
from pgdyno.model.shapes import shaped
from pgdyno.outside.files import read_text

Version = tuple[int, int]

_HERE = Path(__file__).parent
_HOW = "docs/howto/write-a-rule.md has an example and every key."


@dataclass(frozen=True, slots=True)
class Document:
    """A document that rules rest on, and what its figures were measured on; empty text is "not measured"."""

    title: str
    year: int
    code: str
    architecture: str = ""
    virtualization: str = ""
    platform: str = ""
    version: str = ""
    major: int | None = None
    workload: str = ""
    load: str = ""
    kernel: str = ""
    """The kernel that the figures were measured on, as the document states it or its distribution shipped it."""


@dataclass(frozen=True, slots=True)
class SourceStatement:
    """One side of a contradiction: what which document says where."""

    document: str
    section: str
    text: str


@dataclass(frozen=True, slots=True)
class Contradiction:
    """Two statements of the sources that exclude each other, and the condition that decides between them."""

    first: SourceStatement
    second: SourceStatement
    resolution: str
    decided_by: str
    """A rule, or the part of pgdyno that keeps to it."""


@cache
def documents() -> Mapping[str, Document]:
    """Return the documents by key."""
    return {key: Document(**row) for key, row in _shipped()["documents"].items()}


@cache
def contradictions() -> Mapping[str, Contradiction]:
    """Return the contradictions of the sources, CON-01 to CON-45."""
    found: dict[str, Contradiction] = {}
    for _, text in _texts("data/contradictions"):
        for key, row in tomllib.loads(text).items():
            first, second = SourceStatement(**row.pop("first")), SourceStatement(**row.pop("second"))
            found[key] = Contradiction(first=first, second=second, **row)
    return dict(sorted(found.items()))


@cache
def shipped_rules() -> tuple[Rule, ...]:
    """Return the rules of the package in the order of their files."""
    rows = _shipped()["rules"]
    return ordered([rule for file, found in rows.items() for rule in _rules(found, file, shipped=True)])


def shipped_text() -> str:
    """Return what `data/rules.json` must be: made of the rule files and the documents."""
    from pgdyno.advisor.rule_files import checked_rows

    known = tomllib.loads((_HERE / "data/documents.toml").read_text("utf-8"))
    rules = {name: checked_rows(text, name) for name, text in _texts("rules")}
    return json.dumps({"documents": known, "rules": rules}, indent=1, ensure_ascii=False) + "\n"


@hinted(_HOW)
def load_rules(folders: Sequence[Path] = ()) -> tuple[Rule, ...]:
    """Return the package's rules and those of other folders. Raises UsageError that names file, rule and field."""
    found = list(shipped_rules())
    for folder in folders:
        files = sorted(folder.glob("*.toml"))
        if not files:
            raise UsageError(f'folder "{folder}" holds no rule file', hint="Rule files end in .toml.")
        for path in files:
            text = read_text(path, "rule file")
            found += parse_rules(text, str(path), shipped=False)
    return ordered(found)


def require_rule(name: str, rules: Sequence[str]) -> None:
    """Refuse a name that is not among those of the rules. Raises UsageError with those that are near."""
    if name not in rules:
        near = difflib.get_close_matches(name.casefold(), rules, n=3, cutoff=0.6)
        hint = f"Did you mean {' or '.join(near)}?" if near else "Run pgdyno rules for the list."
        raise UsageError(f'there is no rule "{name}"', hint=hint)


@hinted(_HOW)
def parse_rules(text: str, file: str, *, shipped: bool) -> list[Rule]:
    """Return the rules of one file. Raises UsageError that names file, rule and field."""
    from pgdyno.advisor.rule_files import checked_rows

    return _rules(checked_rows(text, file), file, shipped=shipped)


def _rules(rows: Sequence[Mapping[str, Any]], file: str, *, shipped: bool) -> list[Rule]:
    theme = Path(file).stem
    try:
        return [_rule(row, theme, file, shipped=shipped) for row in rows]
    except UsageError as error:
        raise UsageError(f'rule file "{file}": {error.message}', hint=error.hint) from error


def ordered(rules: Sequence[Rule]) -> tuple[Rule, ...]:
    """Return the rules so that each follows those it comes `after`. Raises UsageError on a double id or a circle."""
    by_id = {rule.id: rule for rule in rules}
    if len(by_id) != len(rules):
        double = next(rule.id for rule in rules if sum(other.id == rule.id for other in rules) > 1)
        raise UsageError(f'rule "{double}" appears twice')
    done: dict[str, Rule] = {}

    def place(rule: Rule, above: tuple[str, ...]) -> None:
        if rule.id in done:
            return
        if rule.id in above:
            raise UsageError(f"rules come after each other in a circle: {' -> '.join((*above, rule.id))}")
        for name in rule.after:
            if name not in by_id:
                raise UsageError(f'rule "{rule.id}" comes after "{name}", which is not a rule')
            place(by_id[name], (*above, rule.id))
        done[rule.id] = rule

    for rule in rules:
        place(rule, ())
    return tuple(done.values())


def _rule(row: Mapping[str, Any], theme: str, file: str, *, shipped: bool) -> Rule:
    try:
        judge = cast(Judge | None, _function("judge", row.get("judge"), theme, shipped=shipped))
        settle = cast(Settle | None, _function("settle", row.get("settle"), theme, shipped=shipped))
        given = {
            **{name: value for name, value in row.items() if name not in ("judge", "settle")},
            "theme": theme,
            "file": file,
            "why": " ".join(row["why"].split()),
            "mechanism": " ".join(row.get("mechanism", "").split()),
            "scope": _scope(row.get("scope", {})),
            "source": [provenance(**one) for one in row["source"]],
            "effect": [
                {**one, "source": provenance(one["document"], one.get("section", ""))} for one in row.get("effect", ())
            ],
        }
        return replace(shaped(Rule, given, "the rule", strict=False), judge=judge, settle=settle)
    except UsageError as error:
        raise UsageError(f"{row['id']}: {error.message}", hint=error.hint) from error


def provenance(document: str, section: str) -> Provenance:
    """Return where a statement comes from. Raises UsageError on a document that documents.toml does not have."""
    known = documents().get(document)
    if known is None:
        raise UsageError(f'document "{document}" is not one of {", ".join(documents())}')
    return Provenance(document, section, known.year, known.platform, known.version, known.load)


def _scope(row: Mapping[str, Any]) -> Scope:
    """Return the scope: kernels as numbers, lists as tuples."""
    found: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in row.items()}
    kernels = {name: _kernel(row[name]) for name in ("from_kernel", "below_kernel") if name in row}
    return Scope(**found | kernels)


def _kernel(text: str) -> Version:
    major, _, minor = text.partition(".")
    if not (major.isdigit() and minor.isdigit()):
        raise UsageError(f'"{text}" is not a kernel version such as 5.13')
    return int(major), int(minor)


def _function(field: str, name: str | None, theme: str, *, shipped: bool) -> object:
    """Return the function that a rule names, of the module of its theme. Raises UsageError."""
    if name is None:
        return None
    if not shipped:
        raise UsageError(
            f'{field} "{name}": only rules of the package are judged by code', hint="Write `when` and `change` instead."
        )
    module = importlib.import_module(f"pgdyno.advisor.rules.{theme}")
    function = getattr(module, name, None)
    if function is None:
        raise UsageError(f'{field} "{name}" is not a function of {module.__name__}')
    return function


@cache
def _shipped() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((_HERE / "data/rules.json").read_text("utf-8"))
    return found


def _texts(folder: str) -> list[tuple[str, str]]:
    """Return names and texts of the package's TOML files in a folder, in their order."""
    return sorted((file.name, file.read_text("utf-8")) for file in (_HERE / folder).glob("*.toml"))
