"""What a tune searches on this target, and what it says of the knobs that it cannot reach or moves elsewhere."""

from __future__ import annotations

from pgdyno.errors import EnvironmentUnsuitable
from pgdyno.knobs.budget import TrialBudget
from pgdyno.knobs.catalogue import load_catalogue
from pgdyno.knobs.space import SearchSpace, build_space
from pgdyno.model.facts import Facts
from pgdyno.model.trial import LoadPlan, WorkloadSpec
from pgdyno.studies.tune.options import TuneOptions


def search_space(facts: Facts, workload: WorkloadSpec, plan: LoadPlan, options: TuneOptions) -> SearchSpace:
    """Return the knobs to search and their ranges on this target under this load, with the reasons of the others.

    `facts` are those of the target. `workload` says whether the load only reads; `plan` has the seconds of a trial,
    whether its data are restored, and the clients, for which memory must do; `options` say which knobs are asked for.
    Raises UsageError for a knob of them that does not exist, PolicyError for one that may not be touched,
    EnvironmentUnsuitable when nothing is left to search.
    """
    space = build_space(
        load_catalogue(),
        facts,
        include=options.include or None,
        exclude=options.exclude,
        only=options.only or None,
        reload_only=options.never_restarts,
        linux=options.linux,
        budget=TrialBudget(
            warmup_s=plan.warmup_s,
            measure_s=plan.measure_s,
            read_only=workload.read_only,
            restores=plan.reset != "never" and not workload.read_only,
            connections=plan.clients,
        ),
    )
    if not space.dimensions:
        asked = [out for out in space.excluded if not options.only or out.name in options.only]
        remedies = dict.fromkeys(facts.obstacles[out.name].remedy for out in asked if out.name in facts.obstacles)
        raise EnvironmentUnsuitable(
            "there is no knob to search",
            detail="; ".join(f"{out.name}: {out.reason}" for out in asked),
            hint=" ".join(remedies) or "Lengthen --measure, allow restarts, or name knobs with --include.",
        )
    return space


def reach_sentences(space: SearchSpace, facts: Facts, options: TuneOptions) -> list[str]:
    """Return, for the plan, which knobs ALTER SYSTEM sets here, and why others are left out.

    Those are the knobs that could not come into force, and those that were asked for by name.
    """
    asked = {*options.only, *options.include}
    moved = [name for name in space.names() if name in facts.by_alter_system]
    said = [f"{', '.join(moved)} by ALTER SYSTEM, because postgresql.auto.conf sets them"] if moved else []
    out = [f"{out.name} {out.reason}" for out in space.excluded if out.name in facts.obstacles or out.name in asked]
    return [*said, *(f"left out: {words}" for words in out)]
