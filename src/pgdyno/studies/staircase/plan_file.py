"""An experiment plan: steps of one factor each, with what they change, where they come from, and what is checked after.

The file is TOML; docs/reference/plan.md describes it and plan.schema.json is its JSON Schema. Reading is strict: what
is not in the form is refused with the step's name, so that nobody's typing slip becomes an unmeasured change.

Version 2 refuses two settings in a step that declares no `group`. In version 1 the single rule of a step is its group.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import cast

from pgdyno.errors import PgdynoError, UsageError, hinted
from pgdyno.knobs.policy import refuse
from pgdyno.model.finding import Confidence, Cost
from pgdyno.model.linux import is_linux_knob
from pgdyno.outside.documents import load_toml
from pgdyno.studies.session.plan_load import without_load
from pgdyno.studies.staircase.plan import Expected, FactorLevel, Manual, Plan, Step, Sweep, level_of

VERSION = 2
READABLE = (1, VERSION)
ORIGINS = ("document", "documentation", "list post", "run-time analysis", "own idea")
MODES = ("accumulate", "isolate")
STAGES = ("sandbox", "large")
_NAME = re.compile(r"[a-z0-9][a-z0-9-]*")
_SHAPE: Mapping[str, Mapping[str, type]] = {
    "the plan": {"version": int, "plan": dict, "step": list},
    "[plan]": {
        "target": str,
        "environment": str,
        "created": str,
        "mode": str,
        "stage": str,
        "baseline": dict,
    },
    "step": {
        "name": str,
        "rules": list,
        "group": str,
        "level": str,
        "stage": str,
        "after": list,
        "origin": str,
        "sources": list,
        "cost": str,
        "confidence": str,
        "risk": str,
        "why": str,
        "expected": dict,
        "settings": dict,
        "sweep": dict,
        "manual": dict,
        "found": dict,
        "commands": list,
        "undo": list,
        "check": str,
    },
    "expected": {"text": str, "low": float, "high": float, "metric": str},
    "sweep": {"knob": str, "values": list},
    "manual": {"instructions": list, "undo": list, "verify": list, "expect": str, "alternate": bool},
}
REQUIRED: Mapping[str, tuple[str, ...]] = {
    "the plan": ("version", "plan", "step"),
    "[plan]": (),
    "step": ("name",),
    "expected": ("text",),
    "sweep": ("knob", "values"),
    "manual": ("instructions",),
}
REQUIRED_IN_1 = ("name", "rules", "origin", "cost", "check")


@hinted("docs/reference/plan.md has every key; pgdyno advise --plan FILE writes a plan.")
def parse_plan(text: str, *, source: str = "plan") -> Plan:
    """Read a plan. Raises UsageError on anything but the documented form, and on knobs that the policy refuses."""
    try:
        document = load_toml(text)
    except ValueError as error:
        raise UsageError(f"{source}: not TOML: {error}") from error
    document = without_load(document)
    _check_shape(document, "the plan", source)
    version = document["version"]
    if version not in READABLE:
        words = " or ".join(map(str, READABLE))
        raise UsageError(f"{source}: version {version} is not {words}", hint="Upgrade pgdyno.")
    head = document["plan"]
    _check_shape(head, "[plan]", f"{source}: [plan]")
    steps: list[Step] = []
    order = [str(table.get("name")) for table in document["step"] if isinstance(table, dict)]
    for number, table in enumerate(document["step"], start=1):
        if not isinstance(table, dict):
            raise UsageError(f"{source}: step {number} is not a table", hint="Write [[step]].")
        where = f"{source}: step {table.get('name', number)}"
        steps.append(_step(table, where, [step.name for step in steps], order, version))
    baseline = _texts(head, "baseline", f"{source}: [plan]")
    for knob in baseline:
        _refuse(knob, f"{source}: [plan]")
    return Plan(
        target=head.get("target", ""),
        environment=head.get("environment", ""),
        created=head.get("created", ""),
        steps=tuple(steps),
        mode=_one_of(head.get("mode", MODES[0]), MODES, "mode", f"{source}: [plan]"),
        stage=_one_of(head.get("stage", ""), ("", *STAGES), "stage", f"{source}: [plan]"),
        baseline=baseline,
    )


def _step(table: Mapping[str, object], where: str, earlier: list[str], order: list[str], version: int) -> Step:
    _check_shape(table, "step", where)
    if version == 1:
        _require(table, REQUIRED_IN_1, where)
    name, after = str(table["name"]), _words(table, "after", where)
    if not _NAME.fullmatch(name):
        raise UsageError(f'{where}: name "{name}" is not of lower-case letters, digits and hyphens')
    if name in earlier:
        raise UsageError(f'{where}: name "{name}" is taken by an earlier step', hint="Give each step its own name.")
    _check_after(name, after, earlier, order, where)
    rules = _words(table, "rules", where)
    settings, commands = _texts(table, "settings", where), _words(table, "commands", where)
    sweep, manual = _sweep(table.get("sweep"), where), _manual(table.get("manual"), where)
    _check_factor(settings, commands, sweep, manual, where)
    for knob in (*settings, *((sweep.knob,) if sweep else ())):
        _refuse(knob, where)
    group = str(table.get("group", ""))
    if version == 1 and not group and len(rules) == 1:
        group = f"rule {rules[0]}"
    if len(settings) > 1 and not group:
        raise UsageError(
            f"{where}: {len(settings)} factors in one step: {', '.join(settings)}",
            hint='One factor a step: make two steps of it, or say with group = "why" that they mean nothing apart.',
        )
    return Step(
        name=name,
        rules=rules,
        level=_level(table, (*settings, *((sweep.knob,) if sweep else ())), where),
        stage=_one_of(str(table.get("stage", "")), ("", *STAGES), "stage", where),
        origin=_one_of(str(table.get("origin", ORIGINS[-1])), ORIGINS, "origin", where),
        cost=Cost(_one_of(str(table.get("cost", Cost.NONE)), tuple(Cost), "cost", where)),
        check=str(table.get("check", "")),
        group=group,
        after=after,
        sources=_words(table, "sources", where),
        confidence=Confidence(
            _one_of(str(table.get("confidence", Confidence.UNKNOWN)), tuple(Confidence), "confidence", where)
        ),
        risk=str(table.get("risk", "")),
        why=str(table.get("why", "")),
        expected=_expected(table.get("expected"), where),
        settings=settings,
        sweep=sweep,
        manual=manual,
        found=_texts(table, "found", where),
        commands=commands,
        undo=_words(table, "undo", where),
    )


def _check_after(name: str, after: tuple[str, ...], earlier: list[str], order: list[str], where: str) -> None:
    """Refuse what is no earlier step; steps run in the order of the file, so that a circle has a later one in it."""
    for word in after:
        if word == name:
            raise UsageError(f'{where}: after = "{word}" is the step itself', hint="Leave it out.")
        if word in order and word not in earlier:
            raise UsageError(
                f'{where}: after = "{word}" is not an earlier step but a later one',
                detail="Steps run in the order of the file, and none can come after each other in a circle.",
                hint=f"Put {word} before {name}, or leave it out of after.",
            )
        if word not in earlier:
            raise UsageError(
                f'{where}: after = "{word}" is not an earlier step: the plan has none of that name',
                hint=_near(word, order),
            )


def _near(word: str, names: Iterable[str]) -> str:
    """Return a hint with the name that comes nearest, and all of them."""
    known = list(names)
    near = get_close_matches(word, known, n=1)
    return f"{f'Did you mean {near[0]}? ' if near else ''}There are {', '.join(known)}."


def _check_factor(
    settings: Mapping[str, str], commands: tuple[str, ...], sweep: Sweep | None, manual: Manual | None, where: str
) -> None:
    """Refuse a step without a factor, and one with several kinds of them."""
    if not settings and not commands and sweep is None and manual is None:
        raise UsageError(f"{where}: there is nothing to do", hint="Give settings, a sweep, a manual part, or commands.")
    kinds = [word for word, given in (("settings", settings), ("sweep", sweep), ("manual", manual)) if given]
    if len(kinds) > 1:
        raise UsageError(
            f"{where}: {' and '.join(kinds)} in one step are two factors", hint="Make a step of each of them."
        )


def _level(table: Mapping[str, object], knobs: tuple[str, ...], where: str) -> FactorLevel:
    follows = level_of(knobs)
    if "level" not in table:
        return follows
    given = FactorLevel(_one_of(str(table["level"]), tuple(FactorLevel), "level", where))
    if knobs and given is not follows:
        raise UsageError(f'{where}: level "{given}" does not fit {", ".join(knobs)}', hint=f'It is "{follows}".')
    if not knobs and given not in (FactorLevel.STORAGE, FactorLevel.MANUAL):
        raise UsageError(
            f'{where}: level "{given}" needs settings or a sweep', hint='What people do is "storage" or "manual".'
        )
    return given


def _sweep(value: object, where: str) -> Sweep | None:
    if value is None:
        return None
    table = cast(Mapping[str, object], value)
    _check_shape(table, "sweep", f"{where}: sweep")
    values = _words(table, "values", f"{where}: sweep")
    if len(values) < 2 or len(set(values)) < len(values):
        raise UsageError(f"{where}: sweep: values are fewer than two, or one is named twice")
    return Sweep(str(table["knob"]), values)


def _manual(value: object, where: str) -> Manual | None:
    if value is None:
        return None
    table, place = cast(Mapping[str, object], value), f"{where}: manual"
    _check_shape(table, "manual", place)
    manual = Manual(
        instructions=_words(table, "instructions", place),
        undo=_words(table, "undo", place),
        verify=_words(table, "verify", place),
        expect=str(table.get("expect", "")),
        alternate=table.get("alternate") is True,
    )
    if manual.alternate and not manual.undo:
        raise UsageError(f"{place}: alternate needs undo", hint="Say how a person takes it back.")
    if not manual.instructions:
        raise UsageError(f"{place}: instructions are empty", hint="Say what a person has to do.")
    if manual.expect and not manual.verify:
        raise UsageError(f"{place}: expect needs verify", hint='Write verify = ["cat", "/sys/..."].')
    return manual


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
            raise UsageError(f'{where}: unknown key "{name}"', hint=_near(name, shape))
        wanted = (int, float) if shape[name] is float else shape[name]
        if not isinstance(value, wanted) or (isinstance(value, bool) and wanted is not bool):
            raise UsageError(f'{where}: "{name}" is {_kind(type(value))} and not {_kind(shape[name])}')
    _require(table, REQUIRED[kind], where)


def _kind(of: type) -> str:
    """Return what TOML calls a type."""
    words = {dict: "a table", list: "an array", str: "text", bool: "true or false", int: "a number", float: "a number"}
    return words.get(of, of.__name__)


def _require(table: Mapping[str, object], names: tuple[str, ...], where: str) -> None:
    missing = [name for name in names if name not in table]
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
