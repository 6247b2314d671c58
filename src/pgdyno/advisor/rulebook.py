"""Read the rule files: those of the package and those of a folder of the user's. Adding a file adds its rules.

The only module of the advisor that imports pydantic. A rule of the package may be judged by a function of the module
beside its file; a rule of another folder has expressions only, so that a rule file never runs code of its own.
"""

from __future__ import annotations

import difflib
import importlib
import tomllib
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from pathlib import Path
from typing import cast

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, model_validator

from pgdyno.advisor.expression import parse_formula
from pgdyno.advisor.rule import ChangeRow, Judge, Rule, Scope, Settle
from pgdyno.errors import UsageError, hinted
from pgdyno.model.finding import ChangeKind, Cost, Depth, Provenance, RuleGroup, Severity, StatedEffect
from pgdyno.outside.documents import load_toml
from pgdyno.outside.files import read_text

Version = tuple[int, int]

_HOW = "docs/howto/write-a-rule.md has an example and every key."


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")


class _ScopeRow(_Strict):
    architectures: tuple[str, ...] = ()
    flavours: tuple[str, ...] = ()
    virtualization: tuple[str, ...] = ()
    workloads: tuple[str, ...] = ()
    not_workloads: tuple[str, ...] = ()
    from_version: int | None = None
    to_version: int | None = None
    from_kernel: str | None = None
    below_kernel: str | None = None


class _ChangeTable(_Strict):
    kind: ChangeKind = ChangeKind.POSTGRESQL
    knob: str = ""
    value: str = ""
    value_of: str | None = None
    device: str = ""
    commands: tuple[str, ...] = ()
    undo: tuple[str, ...] = ()


class _SourceRow(_Strict):
    document: str
    section: str = Field(min_length=3)


class _EffectRow(_Strict):
    text: str
    document: str
    section: str = ""
    low: float | None = None
    high: float | None = None
    metric: str = "throughput"
    together_with: str = ""
    buffers_share: float | None = None


class _RuleRow(_Strict):
    id: str = Field(pattern=r"^[a-z0-9-]+$")
    group: RuleGroup
    depth: Depth = Depth.BASIC
    severity: Severity = Severity.ADVICE
    title: str = Field(min_length=8)
    why: str = Field(min_length=40)
    mechanism: str = ""
    scope: _ScopeRow = _ScopeRow()
    when: str | None = None
    in_order: str = ""
    evidence: tuple[str, ...] = ()
    change: tuple[_ChangeTable, ...] = ()
    judge: str | None = None
    settle: str | None = None
    effect: tuple[_EffectRow, ...] = ()
    risk: str = Field(min_length=4)
    risk_level: int = Field(ge=0, le=3)
    cost: Cost = Cost.NONE
    apply: str = ""
    persist: str = ""
    verify: str = Field(min_length=8)
    revert: str = ""
    source: tuple[_SourceRow, ...] = Field(min_length=1)
    origin: str = "document"
    requirements: tuple[str, ...] = ()
    contradictions: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    alternatives: tuple[str, ...] = ()
    needs_test: bool = False
    under_load: bool = False

    @model_validator(mode="after")
    def _one_way_to_judge(self) -> _RuleRow:
        if (self.when is None) == (self.judge is None):
            raise ValueError("a rule has either `when` or `judge`")
        if self.when is not None and not self.in_order:
            raise ValueError("a rule with `when` says in `in_order` what holds when it does not fire")
        return self


class _File(_Strict):
    rule: tuple[_RuleRow, ...] = Field(min_length=1)


class Document(_Strict):
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


class SourceStatement(_Strict):
    """One side of a contradiction: what which document says where."""

    document: str
    section: str
    text: str


class Contradiction(_Strict):
    """Two statements of the sources that exclude each other, and the condition that decides between them."""

    first: SourceStatement
    second: SourceStatement
    resolution: str
    decided_by: str
    """A rule, or the part of pgdyno that keeps to it."""


_DOCUMENTS: TypeAdapter[dict[str, Document]] = TypeAdapter(dict[str, Document])
_CONTRADICTIONS: TypeAdapter[dict[str, Contradiction]] = TypeAdapter(dict[str, Contradiction])


@cache
def documents() -> Mapping[str, Document]:
    """Return the documents by key."""
    return _DOCUMENTS.validate_python(_shipped("data/documents.toml"))


@cache
def contradictions() -> Mapping[str, Contradiction]:
    """Return the contradictions of the sources, CON-01 to CON-45."""
    found: dict[str, Contradiction] = {}
    folder = resources.files("pgdyno.advisor").joinpath("data/contradictions")
    for name in sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".toml")):
        found |= _CONTRADICTIONS.validate_python(_shipped(f"data/contradictions/{name}"))
    return dict(sorted(found.items()))


@cache
def shipped_rules() -> tuple[Rule, ...]:
    """Return the rules of the package in the order of their files."""
    folder = resources.files("pgdyno.advisor").joinpath("rules")
    names = sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".toml"))
    found: list[Rule] = []
    for name in names:
        found += parse_rules(folder.joinpath(name).read_text("utf-8"), name, shipped=True)
    return ordered(found)


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
    try:
        document = load_toml(text)
    except ValueError as error:
        raise UsageError(f'rule file "{file}" is not TOML: {error}') from error
    try:
        rows = _File.model_validate(document).rule
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        raise UsageError(f'rule file "{file}": {place}: {first["msg"]}') from error
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
        raise UsageError(f'rule "{double}" is there twice')
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


def _rule(row: _RuleRow, theme: str, file: str, *, shipped: bool) -> Rule:
    try:
        return Rule(
            **row.model_dump(
                include={
                    "id",
                    "group",
                    "depth",
                    "severity",
                    "title",
                    "in_order",
                    "evidence",
                    "risk",
                    "risk_level",
                    "cost",
                    "apply",
                    "persist",
                    "verify",
                    "revert",
                    "origin",
                    "requirements",
                    "contradictions",
                    "after",
                    "alternatives",
                    "needs_test",
                    "under_load",
                }
            ),
            why=" ".join(row.why.split()),
            mechanism=" ".join(row.mechanism.split()),
            theme=theme,
            file=file,
            scope=_scope(row.scope),
            when=None if row.when is None else parse_formula(row.when),
            changes=tuple(_change(change) for change in row.change),
            judge=cast(Judge | None, _function("judge", row.judge, theme, shipped=shipped)),
            settle=cast(Settle | None, _function("settle", row.settle, theme, shipped=shipped)),
            effects=tuple(_effect(effect) for effect in row.effect),
            provenance=tuple(provenance(source.document, source.section) for source in row.source),
        )
    except UsageError as error:
        raise UsageError(f"{row.id}: {error.message}", hint=error.hint) from error


def provenance(document: str, section: str) -> Provenance:
    """Return where a statement comes from. Raises UsageError on a document that documents.toml does not have."""
    known = documents().get(document)
    if known is None:
        raise UsageError(f'document "{document}" is not one of {", ".join(documents())}')
    return Provenance(document, section, known.year, known.platform, known.version, known.load)


def _effect(row: _EffectRow) -> StatedEffect:
    source = provenance(row.document, row.section)
    return StatedEffect(row.text, source, row.low, row.high, row.metric, row.together_with, row.buffers_share)


def _change(row: _ChangeTable) -> ChangeRow:
    value_of = None if row.value_of is None else parse_formula(row.value_of)
    return ChangeRow(row.kind, row.knob, row.value, value_of, row.device, row.commands, row.undo)


def _scope(row: _ScopeRow) -> Scope:
    values = row.model_dump(exclude={"from_kernel", "below_kernel"})
    return Scope(**values, from_kernel=_kernel(row.from_kernel), below_kernel=_kernel(row.below_kernel))


def _kernel(text: str | None) -> Version | None:
    if text is None:
        return None
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


def _shipped(name: str) -> dict[str, object]:
    return tomllib.loads(resources.files("pgdyno.advisor").joinpath(name).read_text("utf-8"))
