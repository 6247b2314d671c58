"""Whether a plan fits a server: what policy or server do not allow, and steps that would change nothing. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from pgdyno.errors import UsageError, placed
from pgdyno.knobs.policy import check_settings
from pgdyno.model.configuration import Configuration
from pgdyno.model.facts import Facts
from pgdyno.model.linux import COUNTERPARTS
from pgdyno.studies.pairs.result import current_text
from pgdyno.studies.staircase.plan import Plan, Step


def check_plan(plan: Plan, facts: Facts, *, source: str = "plan", steps: Collection[Step] | None = None) -> None:
    """Refuse, before anything is changed, what cannot be measured here; `steps` are those that will be, None for all.

    `facts` are those of the server that `plan` is for; `source` is the plan's file name, with which errors begin.
    Raises what `check_settings` raises, with the plan's file and step, and UsageError for a step whose values are in
    force already: its pairs would compare a configuration with itself.
    """
    with placed(f"{source}: [plan] baseline"):
        baseline = check_settings(plan.baseline, facts)
    touched: set[str] = set()
    for step in plan.steps:
        with placed(f"{source}: step {step.name}"):
            check_settings(laid_over(plan.baseline, step.settings), facts)
            told = check_settings(step.settings, facts)
            for value in step.sweep.values if step.sweep else ():
                assert step.sweep is not None, "the values are the sweep's"
                check_settings(laid_over(plan.baseline, {step.sweep.knob: value}), facts)
        if steps is not None and step not in steps:
            continue
        if told and not touched & _with_counterparts(told) and is_in_force(told, baseline, facts):
            pairs = ", ".join(f"{name} = {value}" for name, value in told.items())
            raise UsageError(
                f"{source}: step {step.name}: {pairs} is in force already",
                detail="Its pairs would compare a configuration with itself.",
                hint="Leave the step out, or give another value.",
            )
        if plan.mode == "accumulate":
            touched |= _with_counterparts(step.knobs)


def laid_over(base: Mapping[str, str], settings: Mapping[str, str]) -> dict[str, str]:
    """Return `base` with `settings` on top; a setting takes the place of its counterpart, as in the kernel."""
    return {**{name: value for name, value in base.items() if COUNTERPARTS.get(name) not in settings}, **settings}


def is_in_force(settings: Mapping[str, str], incumbent: Configuration, facts: Facts) -> bool:
    """Tell whether an incumbent, or the server as it was found, has all these values already, in canonical text."""
    return all(
        incumbent.get(name, current_text(facts, name)) == value and COUNTERPARTS.get(name) not in incumbent
        for name, value in settings.items()
    )


def _with_counterparts(knobs: Collection[str]) -> set[str]:
    return {*knobs, *(COUNTERPARTS[knob] for knob in knobs if knob in COUNTERPARTS)}
