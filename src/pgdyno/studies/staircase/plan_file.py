"""An experiment plan: steps of one factor each, with what they change, where they come from, and what is checked after.

The file is TOML; docs/reference/plan.md describes it and plan.schema.json is its JSON Schema. Reading is strict: what
is not in the form is refused with the step's name, so that nobody's typing slip becomes an unmeasured change.

Version 2 refuses two settings in a step that declares no `group`. In version 1 the single rule of a step is its group.
"""

from __future__ import annotations

import re
from dataclasses import replace

from pgdyno.errors import UsageError, hinted, placed
from pgdyno.knobs.policy import refuse
from pgdyno.model.linux import is_linux_knob
from pgdyno.model.tables import Table, fields_of, near_hint, one_of, read_table, table_of, tables_of, toml_of
from pgdyno.studies.session.plan_load import without_load
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
    """Read a plan. Raises UsageError on anything but the documented form, and on knobs that the policy refuses."""
    document = table_of(without_load(toml_of(text, source)), source, TOP)
    _require(document, TOP, source)
    version = document["version"]
    if version not in READABLE:
        words = " or ".join(map(str, READABLE))
        raise UsageError(f"{source}: version {version} is not {words}", hint="Upgrade pgdyno.")
    given = table_of(document["plan"], f"{source}: [plan]", PLAN)
    head = fields_of(Plan, {**dict.fromkeys(PLAN[:3], ""), **given}, f"{source}: [plan]", PLAN)
    rows = [row for row, _ in tables_of(document, "step", source)]
    order = [str(row.get("name")) for row in rows]
    steps: list[Step] = []
    for number, row in enumerate(rows, start=1):
        where = f"{source}: step {row.get('name', number)}"
        steps.append(_step(row, where, [step.name for step in steps], order, version))
    for knob in head.get("baseline", {}):
        _refuse(knob, f"{source}: [plan]")
    one_of(head.get("mode", MODES[0]), MODES, "mode", f"{source}: [plan]")
    one_of(head.get("stage", ""), ("", *STAGES), "stage", f"{source}: [plan]")
    return Plan(**head, steps=tuple(steps))


def _step(table: Table, where: str, earlier: list[str], order: list[str], version: int) -> Step:
    if version == 1:
        _require(table, REQUIRED_IN_1, where)
    step = read_table(Step, table, where)
    if not NAME.fullmatch(step.name):
        raise UsageError(f'{where}: name "{step.name}" is not of lower-case letters, digits and hyphens')
    if step.name in earlier:
        raise UsageError(
            f'{where}: name "{step.name}" is taken by an earlier step', hint="Give each step its own name."
        )
    _check_after(step.name, step.after, earlier, order, where)
    _check_factor(step, where)
    for knob in step.knobs:
        _refuse(knob, where)
    group = step.group
    if version == 1 and not group and len(step.rules) == 1:
        group = f"rule {step.rules[0]}"
    if len(step.settings) > 1 and not group:
        raise UsageError(
            f"{where}: {len(step.settings)} factors in one step: {', '.join(step.settings)}",
            hint='One factor a step: make two steps of it, or say with group = "why" that they mean nothing apart.',
        )
    one_of(step.stage, ("", *STAGES), "stage", where)
    origin = one_of(step.origin or ORIGINS[-1], ORIGINS, "origin", where)
    level = _level(step, where) if "level" in table else level_of(step.knobs)
    return replace(step, group=group, origin=origin, level=level)


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
                hint=near_hint(word, order),
            )


def _check_factor(step: Step, where: str) -> None:
    """Refuse a step without a factor, one with several kinds of them, and one whose factor lacks a part."""
    settings, sweep, manual = step.settings, step.sweep, step.manual
    if not settings and not step.commands and sweep is None and manual is None:
        raise UsageError(f"{where}: there is nothing to do", hint="Give settings, a sweep, a manual part, or commands.")
    kinds = [word for word, given in (("settings", settings), ("sweep", sweep), ("manual", manual)) if given]
    if len(kinds) > 1:
        raise UsageError(
            f"{where}: {' and '.join(kinds)} in one step are two factors", hint="Make a step of each of them."
        )
    if sweep is not None and (len(sweep.values) < 2 or len(set(sweep.values)) < len(sweep.values)):
        raise UsageError(f"{where}: sweep: values are fewer than two, or one is named twice")
    if manual is None:
        return
    if manual.alternate and not manual.undo:
        raise UsageError(f"{where}: manual: alternate needs undo", hint="Say how a person takes it back.")
    if not manual.instructions:
        raise UsageError(f"{where}: manual: instructions are empty", hint="Say what a person has to do.")
    if manual.expect and not manual.verify:
        raise UsageError(f"{where}: manual: expect needs verify", hint='Write verify = ["cat", "/sys/..."].')


def _level(step: Step, where: str) -> FactorLevel:
    follows = level_of(step.knobs)
    if step.knobs and step.level is not follows:
        raise UsageError(
            f'{where}: level "{step.level}" does not fit {", ".join(step.knobs)}', hint=f'It is "{follows}".'
        )
    if not step.knobs and step.level not in (FactorLevel.STORAGE, FactorLevel.MANUAL):
        raise UsageError(
            f'{where}: level "{step.level}" needs settings or a sweep', hint='What people do is "storage" or "manual".'
        )
    return step.level


def _require(table: Table, names: tuple[str, ...], where: str) -> None:
    missing = [name for name in names if name not in table]
    if missing:
        raise UsageError(f'{where}: "{missing[0]}" is missing')


def _refuse(knob: str, where: str) -> None:
    if is_linux_knob(knob):
        return
    with placed(where):
        refuse(knob)
