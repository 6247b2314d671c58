"""An experiment plan: steps of one factor each, with what they change, where they come from, and what is checked after.

The file is TOML; docs/reference/plan.md describes it and plan.schema.json is its JSON Schema. Reading is strict: what
is not in the form is refused with the step's name, so that nobody's typing slip becomes an unmeasured change.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import cast

from pgdyno.errors import PgdynoError, UsageError
from pgdyno.knobs.policy import refuse
from pgdyno.model.finding import Confidence, Cost
from pgdyno.model.linux import is_linux_knob
from pgdyno.studies.plan_load import without_load

VERSION = 1
ORIGINS = ("document", "documentation", "list post", "run-time analysis")
_NAME = re.compile(r"[a-z0-9][a-z0-9-]*")
_SHAPE: Mapping[str, Mapping[str, type]] = {
    "the plan": {"version": int, "plan": dict, "step": list},
    "[plan]": {"target": str, "environment": str, "created": str},
    "step": {
        "name": str,
        "rules": list,
        "group": str,
        "after": list,
        "origin": str,
        "sources": list,
        "cost": str,
        "confidence": str,
        "risk": str,
        "why": str,
        "expected": dict,
        "settings": dict,
        "found": dict,
        "commands": list,
        "undo": list,
        "check": str,
    },
    "expected": {"text": str, "low": float, "high": float, "metric": str},
}
REQUIRED: Mapping[str, tuple[str, ...]] = {
    "the plan": ("version", "plan", "step"),
    "[plan]": (),
    "step": ("name", "rules", "origin", "cost", "check"),
    "expected": ("text",),
}


@dataclass(frozen=True, slots=True)
class Expected:
    """The effect as the source states it; `low` and `high` are relative gains, None when there are only words."""

    text: str
    low: float | None = None
    high: float | None = None
    metric: str = "throughput"


@dataclass(frozen=True, slots=True)
class Step:
    """One factor. `settings` are what a session can set; `commands` are for people, before the step is measured.

    `found` are the values of the same knobs when the plan was made. A `group` names why several knobs are one factor.
    """

    name: str
    rules: tuple[str, ...]
    origin: str
    cost: Cost
    check: str
    group: str = ""
    after: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    confidence: Confidence = Confidence.MEDIUM
    risk: str = ""
    why: str = ""
    expected: Expected | None = None
    settings: Mapping[str, str] = field(default_factory=dict)
    found: Mapping[str, str] = field(default_factory=dict)
    commands: tuple[str, ...] = ()
    undo: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Plan:
    """A plan; its baseline is the server as it is when the plan is run."""

    target: str
    environment: str
    created: str
    steps: tuple[Step, ...]

    def step(self, name: str) -> Step:
        """Return a step by its name. Raises UsageError when there is none."""
        for step in self.steps:
            if step.name == name:
                return step
        raise UsageError(
            f'the plan has no step "{name}"', hint=f"It has {', '.join(step.name for step in self.steps) or 'none'}."
        )


def parse_plan(text: str, *, source: str = "plan") -> Plan:
    """Read a plan. Raises UsageError on anything but the documented form, and on knobs that the policy refuses."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{source}: not TOML: {error}") from error
    document = without_load(document)
    _check_shape(document, "the plan", source)
    if document["version"] != VERSION:
        raise UsageError(f"{source}: version {document['version']} is not {VERSION}", hint="Upgrade pgdyno.")
    head = document["plan"]
    _check_shape(head, "[plan]", source)
    steps: list[Step] = []
    for number, table in enumerate(document["step"], start=1):
        if not isinstance(table, dict):
            raise UsageError(f"{source}: step {number} is not a table", hint="Write [[step]].")
        steps.append(_step(table, f"{source}: step {table.get('name', number)}", [step.name for step in steps]))
    return Plan(head.get("target", ""), head.get("environment", ""), head.get("created", ""), tuple(steps))


def _step(table: Mapping[str, object], where: str, earlier: list[str]) -> Step:
    _check_shape(table, "step", where)
    name, after = str(table["name"]), _words(table, "after", where)
    if not _NAME.fullmatch(name) or name in earlier:
        raise UsageError(f'{where}: name "{name}" is taken, or not of lower-case letters, digits and hyphens')
    strangers = [word for word in after if word not in earlier]
    if strangers:
        raise UsageError(f'{where}: "{strangers[0]}" in after is not an earlier step')
    rules = _words(table, "rules", where)
    settings, commands = _texts(table, "settings", where), _words(table, "commands", where)
    if not settings and not commands:
        raise UsageError(f"{where}: there is nothing to do", hint="Give settings, or commands.")
    for knob in settings:
        _refuse(knob, where)
    return Step(
        name=name,
        rules=rules,
        origin=_one_of(str(table["origin"]), ORIGINS, "origin", where),
        cost=Cost(_one_of(str(table["cost"]), tuple(Cost), "cost", where)),
        check=str(table["check"]),
        group=str(table.get("group", "")),
        after=after,
        sources=_words(table, "sources", where),
        confidence=Confidence(
            _one_of(str(table.get("confidence", Confidence.MEDIUM)), tuple(Confidence), "confidence", where)
        ),
        risk=str(table.get("risk", "")),
        why=str(table.get("why", "")),
        expected=_expected(table.get("expected"), where),
        settings=settings,
        found=_texts(table, "found", where),
        commands=commands,
        undo=_words(table, "undo", where),
    )


def _expected(value: object, where: str) -> Expected | None:
    if value is None:
        return None
    table = cast(Mapping[str, object], value)
    _check_shape(table, "expected", f"{where}: expected")
    low, high = table.get("low"), table.get("high")
    return Expected(
        str(table["text"]),
        None if low is None else float(str(low)),
        None if high is None else float(str(high)),
        str(table.get("metric", "throughput")),
    )


def _check_shape(table: Mapping[str, object], kind: str, where: str) -> None:
    shape = _SHAPE[kind]
    for name, value in table.items():
        if name not in shape:
            raise UsageError(f'{where}: unknown key "{name}"', hint=f"The keys are {', '.join(shape)}.")
        wanted = (int, float) if shape[name] is float else shape[name]
        if not isinstance(value, wanted) or isinstance(value, bool):
            raise UsageError(f'{where}: "{name}" is {type(value).__name__} and not {shape[name].__name__}')
    missing = [name for name in REQUIRED[kind] if name not in table]
    if missing:
        raise UsageError(f'{where}: "{missing[0]}" is missing')


def _words(table: Mapping[str, object], key: str, where: str) -> tuple[str, ...]:
    values = cast(list[object], table.get(key, []))
    if not all(isinstance(value, str) for value in values):
        raise UsageError(f'{where}: "{key}" is not a list of text')
    return tuple(str(value) for value in values)


def _texts(table: Mapping[str, object], key: str, where: str) -> dict[str, str]:
    values = cast(Mapping[str, object], table.get(key, {}))
    for name, value in values.items():
        if not isinstance(value, str):
            raise UsageError(f'{where}: {name} in "{key}" is not text', hint=f'Write {name} = "{value}".')
    return {name: str(value) for name, value in values.items()}


def _refuse(knob: str, where: str) -> None:
    if is_linux_knob(knob):
        return
    try:
        refuse(knob)
    except PgdynoError as error:
        raise type(error)(f"{where}: {error.message}", detail=error.detail, hint=error.hint) from error


def _one_of(value: str, words: tuple[str, ...], key: str, where: str) -> str:
    if value not in words:
        raise UsageError(f'{where}: {key} "{value}" is not one of {", ".join(words)}')
    return value
