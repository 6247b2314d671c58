"""The rules: those of the package and those of a folder of the user's. Adding a file adds its rules.

The package's are read from `data/rules.json`, which `make docs` makes of the rule files and of `data/documents.toml`:
reading and checking those took a fifth of what `advise` takes. A rule of the package may be judged by a function of the
module beside its file; a rule of another folder has expressions only, so that a rule file never runs code of its own.
"""

from __future__ import annotations

import difflib
import importlib
import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, cast

from pgdyno.advisor.rule import Judge, Rule, Scope, Settle
from pgdyno.errors import UsageError, hinted, placed
from pgdyno.model.finding import Provenance, StatedEffect
from pgdyno.model.shapes import members_of
from pgdyno.model.tables import Table, fields_of, keys_of, read_table, table_of, tables_of, toml_of
from pgdyno.outside.files import read_text
from pgdyno.units import plural

Version = tuple[int, int]

_HERE = Path(__file__).parent
_ID = re.compile(r"[a-z0-9-]+")
_KERNELS = ("from_kernel", "below_kernel")
_READ_APART = ("theme", "file", "judge", "settle", "source", "scope", "effect")
"""Keys of a rule whose values in a file are not those of its fields."""
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
    rows = [pair for _, text in _texts("data/contradictions") for pair in tomllib.loads(text).items()]
    return {key: read_table(Contradiction, row, key) for key, row in sorted(rows, key=lambda pair: pair[0])}


@cache
def shipped_rules() -> tuple[Rule, ...]:
    """Return the rules of the package in the order of their files."""
    rows = _shipped()["rules"]
    return ordered([rule for file, found in rows.items() for rule in _rules(found, file, shipped=True)])


def shipped_text() -> str:
    """Return what `data/rules.json` must be: made of the rule files and the documents."""
    known = tomllib.loads((_HERE / "data/documents.toml").read_text("utf-8"))
    rules = {name: tomllib.loads(text)["rule"] for name, text in _texts("rules")}
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
    where = f'rule file "{file}"'
    table = table_of(toml_of(text, where), where, ("rule",))
    if not table.get("rule"):
        raise UsageError(f'{where}: "rule" is missing')
    return _rules([row for row, _ in tables_of(table, "rule", where)], file, shipped=shipped)


def _rules(rows: Sequence[Table], file: str, *, shipped: bool) -> list[Rule]:
    return [
        _rule(row, f'rule file "{file}": {row.get("id", f"rule {number}")}', Path(file).stem, file, shipped=shipped)
        for number, row in enumerate(rows, 1)
    ]


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


def _rule(table: Table, where: str, theme: str, file: str, *, shipped: bool) -> Rule:
    given = table_of(table, where, [key for key in keys_of(Rule) if key not in ("theme", "file")])
    plain = {key: value for key, value in given.items() if key not in _READ_APART}
    named = [one.name for one in members_of(Rule) if one.key not in _READ_APART]
    found = fields_of(Rule, plain, where, named)
    if ("when" in given) == ("judge" in given):
        raise UsageError(f"{where}: a rule has either `when` or `judge`")
    if "when" in given and not found.get("in_order"):
        raise UsageError(f"{where}: a rule with `when` says in `in_order` what holds when it does not fire")
    if not _ID.fullmatch(found["id"]):
        raise UsageError(f'{where}: "id" has small letters, digits and hyphens')
    if not 0 <= found["risk_level"] <= 3:
        raise UsageError(f'{where}: "risk_level" {found["risk_level"]} is not from 0 to 3')
    _require_long(found, where, id=1, title=8, why=40, risk=4, verify=8)
    sources = tables_of(given, "source", where)
    if not sources:
        raise UsageError(f'{where}: "source" is missing')
    for row, place in sources:
        _require_long(row, place, document=1, section=3)
    with placed(where):
        judge, settle = (_function(key, given.get(key), theme, shipped=shipped) for key in ("judge", "settle"))
    texts = {key: " ".join(found.get(key, "").split()) for key in ("why", "mechanism")}
    return Rule(
        **{**found, **texts},
        theme=theme,
        file=file,
        provenance=tuple(_source(row, place) for row, place in sources),
        scope=_scope(given.get("scope", {}), f"{where}: scope"),
        effects=tuple(_effect(row, place) for row, place in tables_of(given, "effect", where)),
        judge=cast(Judge | None, judge),
        settle=cast(Settle | None, settle),
    )


def _require_long(table: Table, where: str, **least: int) -> None:
    for key, length in least.items():
        if len(str(table.get(key, ""))) < length:
            raise UsageError(f'{where}: "{key}" is shorter than {plural(length, "character")}')


def _source(row: Table, where: str) -> Provenance:
    given = fields_of(SourceStatement, {"section": "", **row}, where, ("document", "section"))
    with placed(where):
        return provenance(**given)


def _effect(row: Table, where: str) -> StatedEffect:
    own = {key: value for key, value in row.items() if key not in ("document", "section")}
    named = [key for key in keys_of(StatedEffect) if key != "source"]
    said = {key: row[key] for key in ("document", "section") if key in row}
    return StatedEffect(**fields_of(StatedEffect, own, where, named), source=_source(said, where))


def provenance(document: str, section: str) -> Provenance:
    """Return where a statement comes from. Raises UsageError on a document that documents.toml does not have."""
    known = documents().get(document)
    if known is None:
        raise UsageError(f'document "{document}" is not one of {", ".join(documents())}')
    return Provenance(document, section, known.year, known.platform, known.version, known.load)


def _scope(table: object, where: str) -> Scope:
    """Return the scope: kernels as numbers."""
    given = table_of(table, where, keys_of(Scope))
    with placed(where):
        kernels = {key: _kernel(str(given[key])) for key in _KERNELS if key in given}
    plain = {key: value for key, value in given.items() if key not in kernels}
    found = fields_of(Scope, plain, where, [key for key in keys_of(Scope) if key not in _KERNELS])
    return Scope(**{**found, **kernels})


def _kernel(text: str) -> Version:
    major, _, minor = text.partition(".")
    if not (major.isdigit() and minor.isdigit()):
        raise UsageError(f'"{text}" is not a kernel version such as 5.13')
    return int(major), int(minor)


def _function(field: str, name: object, theme: str, *, shipped: bool) -> object:
    """Return the function that a rule names, of the module of its theme. Raises UsageError."""
    if name is None:
        return None
    if not shipped:
        raise UsageError(
            f'{field} "{name}": only rules of the package are judged by code', hint="Write `when` and `change` instead."
        )
    module = importlib.import_module(f"pgdyno.advisor.rules.{theme}")
    function = getattr(module, str(name), None)
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
