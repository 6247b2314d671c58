"""Verbs with --plan FILE: what the file says of its load are defaults of the flags, and flags that are given win."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast

import click

from pgdyno.cli.arguments.flags import Flags, flag
from pgdyno.cli.arguments.help_groups import GroupedCommand
from pgdyno.cli.terminal.files import read_text

_META = "pgdyno.plan"
Parameters = dict[str, str | int | float | bool]


class PlannedCommand(GroupedCommand):
    """A command whose --plan is read before its other flags, for their defaults."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the plan that is named, if one is, then parse."""
        path = named_plan(args)
        if path is not None:
            from pgdyno.studies.session.plan_load import planned_load

            load = planned_load(plan_file_text(path), source=path.name)
            ctx.default_map = {**(ctx.default_map or {}), **load.flags}
            ctx.meta[_META] = (load.flags.get("workload"), dict(load.parameters))
        return super().parse_args(ctx, args)


class PlanFlag(Flags):
    """The flag for verbs that take only the load from a plan."""

    plan: Path | None = flag(
        "Take workload, load and sandbox from this plan; its steps are for pgdyno experiment. Other flags win.",
        metavar="FILE",
    )


def planned_parameters(workload: object) -> Parameters:
    """Return the parameters that the plan of this call has for the workload; none when another one was asked for."""
    context = click.get_current_context(silent=True)
    name, parameters = cast(tuple[object, Mapping[str, str | int | float | bool]], (None, {}))
    if context is not None:
        name, parameters = context.meta.get(_META, (name, parameters))
    return dict(parameters) if name == workload else {}


def named_plan(args: Sequence[str]) -> Path | None:
    """Return the file of --plan among the arguments, the last one that is named."""
    found = None
    for place, word in enumerate(args):
        if word == "--plan" and place + 1 < len(args):
            found = args[place + 1]
        elif word.startswith("--plan="):
            found = word.removeprefix("--plan=")
        elif word == "--":
            break
    return None if found is None else Path(found)


def plan_file_text(path: Path) -> str:
    """Return the text of a plan. Raises UsageError when it cannot be read."""
    return read_text(path, "plan", hint="pgdyno advise --plan FILE writes one; docs/reference/plan.md has every key.")
