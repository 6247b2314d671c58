"""Read a rule file: TOML that is checked row by row, into plain values that `rulebook` makes rules of.

The only module of the advisor that imports pydantic, and loaded for folders of the user's alone: what the package ships
was checked when `data/rules.json` was made of it (`make docs`).
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, Strict, ValidationError, model_validator

from pgdyno.errors import UsageError
from pgdyno.model.finding import ChangeKind, Cost, Depth, RuleGroup, Severity
from pgdyno.outside.documents import load_toml

_Flag = Annotated[bool, Strict()]
_Number = Annotated[float, Strict()]
_Whole = Annotated[int, Strict()]
"""`true` is no number, and 1 is not true; the strictness of a whole model would refuse words of enumerations."""


class _Row(BaseModel):
    model_config = ConfigDict(extra="forbid")


class _ScopeRow(_Row):
    architectures: tuple[str, ...] = ()
    flavours: tuple[str, ...] = ()
    virtualization: tuple[str, ...] = ()
    workloads: tuple[str, ...] = ()
    not_workloads: tuple[str, ...] = ()
    from_version: _Whole | None = None
    to_version: _Whole | None = None
    from_kernel: str | None = None
    below_kernel: str | None = None
    not_on_standby: str = ""


class _ChangeTable(_Row):
    kind: ChangeKind = ChangeKind.POSTGRESQL
    knob: str = ""
    value: str = ""
    value_of: str | None = None
    device: str = ""
    commands: tuple[str, ...] = ()
    undo: tuple[str, ...] = ()


class _SourceRow(_Row):
    document: str
    section: str = Field(min_length=3)


class _EffectRow(_Row):
    text: str
    document: str
    section: str = ""
    low: _Number | None = None
    high: _Number | None = None
    metric: str = "throughput"
    together_with: str = ""
    buffers_share: _Number | None = None


class _RuleRow(_Row):
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
    risk_level: _Whole = Field(ge=0, le=3)
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
    needs_test: _Flag = False
    under_load: _Flag = False

    @model_validator(mode="after")
    def _one_way_to_judge(self) -> _RuleRow:
        if (self.when is None) == (self.judge is None):
            raise ValueError("a rule has either `when` or `judge`")
        if self.when is not None and not self.in_order:
            raise ValueError("a rule with `when` says in `in_order` what holds when it does not fire")
        return self


class _File(_Row):
    rule: tuple[_RuleRow, ...] = Field(min_length=1)


def checked_rows(text: str, file: str) -> list[dict[str, Any]]:
    """Return the rules of one file as JSON values, without what is left out or as by default.

    Raises UsageError that names file and field.
    """
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
    return [row.model_dump(mode="json", exclude_defaults=True) for row in rows]
