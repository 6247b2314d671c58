"""An experiment plan: steps of one factor each, with what they change, where they come from, and what is checked after.

The file is TOML; docs/reference/plan.md describes it and plan.schema.json is its JSON Schema. Reading is strict: what
is not in the form is refused with its line and the step's name, so that nobody's typing slip becomes an unmeasured
change.

Version 2 refuses two settings in a step that declares no `group`. In version 1 the single rule of a step is its group.
"""

from __future__ import annotations

import re
from dataclasses import replace

from pgdyno.errors import hinted
from pgdyno.knobs.policy import refuse
from pgdyno.model.linux import is_linux_knob
from pgdyno.model.tables import near_hint, one_of
from pgdyno.studies.plan_reader import PlanTable
from pgdyno.studies.session.plan_load import TABLES
from pgdyno.studies.staircase.plan import FactorLevel, Plan, Step, level_of

VERSION = 2
READABLE = (1, VERSION)
ORIGINS = ("document", "documentation", "list post", "run-time analysis", "own idea")
MODES = ("accumulate", "isolate")
STAGES = ("sandbox", "large")
TOP = ("version", "plan", "step")
PLAN = ("target", "environment", "created", "mode", "stage", "baseline")
"""The keys of [plan], which are fields of a `Plan`."""
NAME = re.compile(r"[a-z0-9][a-z0-9-]*")
REQUIRED_IN_1 = ("name", "rules", "origin", "cost", "check")


@hinted("docs/reference/plan.md has every key; pgdyno advise --plan FILE writes a plan.")
def parse_plan(text: str, *, source: str = "plan") -> Plan:
    """Read a plan, but for its load. Raises UsageError with line, name and value on anything but the documented form.

    Knobs that the policy refuses are a PolicyError.
    """
    file = PlanTable.of_text(text, source)
    version = file.head((*TOP, *TABLES), TOP[:2], *READABLE)
    if "step" not in file.values:  # an empty list is a plan that found nothing to try
        file.refuse("", '"step" is missing')
    table = file.needed("plan")
    table.values = {**dict.fromkeys(PLAN[:3], ""), **table.values}
    head = table.fields(Plan, PLAN)
    tables = file.tables("step")
    order = [str(one.values.get("name")) for one in tables]
    steps: list[Step] = []
    for one in tables:
        steps.append(_step(one, [step.name for step in steps], order, version))
    for knob in head.get("baseline", {}):
        _refuse(knob, table, "baseline")
    _one_of(table, "mode", head.get("mode", MODES[0]), MODES)
    _one_of(table, "stage", head.get("stage", ""), ("", *STAGES))
    return Plan(**head, steps=tuple(steps))


def _step(table: PlanTable, earlier: list[str], order: list[str], version: int) -> Step:
    if version == 1:
        for key in REQUIRED_IN_1:
            if key not in table.values:
                table.refuse("", f'"{key}" is missing')
    step = table.read(Step)
    if not NAME.fullmatch(step.name):
        table.refuse("name", f'name "{step.name}" is not of lower-case letters, digits and hyphens')
    if step.name in earlier:
        table.refuse("name", f'name "{step.name}" is taken by an earlier step', hint="Give each step its own name.")
    _check_after(table, step, earlier, order)
    _check_factor(table, step)
    for knob in step.knobs:
        _refuse(knob, table, "sweep" if step.sweep else "settings")
    group = step.group
    if version == 1 and not group and len(step.rules) == 1:
        group = f"rule {step.rules[0]}"
    if len(step.settings) > 1 and not group:
        table.refuse(
            "settings",
            f"{len(step.settings)} factors in one step: {', '.join(step.settings)}",
            hint='One factor a step: make two steps of it, or say with group = "why" that they mean nothing apart.',
        )
    _one_of(table, "stage", step.stage, ("", *STAGES))
    origin = _one_of(table, "origin", step.origin or ORIGINS[-1], ORIGINS)
    level = _level(table, step) if "level" in table.values else level_of(step.knobs)
    return replace(step, group=group, origin=origin, level=level)


def _check_after(table: PlanTable, step: Step, earlier: list[str], order: list[str]) -> None:
    """Refuse what is no earlier step; steps run in the order of the file, so that a circle has a later one in it."""
    for word in step.after:
        if word == step.name:
            table.refuse("after", f'after = "{word}" is the step itself', hint="Leave it out.")
        if word in order and word not in earlier:
            table.refuse(
                "after",
                f'after = "{word}" is not an earlier step but a later one: steps run in the order of the file',
                hint=f"Put {word} before {step.name}, or leave it out of after: no two can wait for each other.",
            )
        if word not in earlier:
            table.refuse(
                "after",
                f'after = "{word}" is not an earlier step: the plan has none of that name',
                hint=near_hint(word, order),
            )


def _check_factor(table: PlanTable, step: Step) -> None:
    """Refuse a step without a factor, one with several kinds of them, and one whose factor lacks a part."""
    settings, sweep, manual = step.settings, step.sweep, step.manual
    if not settings and not step.commands and sweep is None and manual is None:
        table.refuse("", "there is nothing to do", hint="Give settings, a sweep, a manual part, or commands.")
    kinds = [word for word, given in (("settings", settings), ("sweep", sweep), ("manual", manual)) if given]
    if len(kinds) > 1:
        table.refuse(
            kinds[1], f"{' and '.join(kinds)} in one step are two factors", hint="Make a step of each of them."
        )
    if sweep is not None and (len(sweep.values) < 2 or len(set(sweep.values)) < len(sweep.values)):
        table.needed("sweep").refuse("values", "values are fewer than two, or one is named twice")
    if manual is None:
        return
    part = table.needed("manual")
    if manual.alternate and not manual.undo:
        part.refuse("alternate", "alternate needs undo", hint="Say how a person takes it back.")
    if not manual.instructions:
        part.refuse("instructions", "instructions are empty", hint="Say what a person has to do.")
    if manual.expect and not manual.verify:
        part.refuse("expect", "expect needs verify", hint='Write verify = ["cat", "/sys/..."].')


def _level(table: PlanTable, step: Step) -> FactorLevel:
    follows = level_of(step.knobs)
    if step.knobs and step.level is not follows:
        table.refuse("level", f'level "{step.level}" does not fit {", ".join(step.knobs)}', hint=f'It is "{follows}".')
    if not step.knobs and step.level not in (FactorLevel.STORAGE, FactorLevel.MANUAL):
        table.refuse(
            "level",
            f'level "{step.level}" needs settings or a sweep',
            hint='What people do is "storage" or "manual".',
        )
    return step.level


def _one_of(table: PlanTable, key: str, word: str, words: tuple[str, ...]) -> str:
    with table.at(key) as where:
        return one_of(word, words, key, where)


def _refuse(knob: str, table: PlanTable, key: str) -> None:
    if is_linux_knob(knob):
        return
    with table.at(key):
        refuse(knob)
