"""From the flags of `pgdyno experiment` to the request of a study, and back from the store to go on with one."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING

from pgdyno.cli.flags import Flags
from pgdyno.cli.options import bounds, load_plan, target_request, workload_parameters
from pgdyno.cli.safety import safety
from pgdyno.errors import UsageError

if TYPE_CHECKING:
    from pgdyno.model.facts import Facts
    from pgdyno.model.study import StudyKind
    from pgdyno.stats.sequential import Design
    from pgdyno.store.catalogue import Store
    from pgdyno.studies.stand import StudyRequest
    from pgdyno.target.outage import Outage
    from pgdyno.target.restart_budget import RestartBudget


def drawn_seed(flags: Flags) -> int:
    """Return the seed of the interleaving: the one given, else one drawn now and kept with the study."""
    given = flags.number("seed")
    return secrets.randbelow(1 << 31) if given is None else int(given)


def design_of(flags: Flags) -> Design:
    """Return the rule for the verdicts."""
    from pgdyno.stats.sequential import Design

    least, most = flags.least_and_most("pairs")
    return Design(
        smallest_effect=flags.real("smallest_effect"),
        confidence=flags.real("confidence"),
        min_pairs=least,
        max_pairs=most,
    )


def budget_of(text: str | None) -> RestartBudget | None:
    """Return the restart budget, None without a bound."""
    from pgdyno.target.restart_budget import RestartBudget

    return None if text is None else RestartBudget.parse(text)


def outage_of(budget: RestartBudget | None, outage: Outage | None) -> str:
    """Say how often the server will be away."""
    from pgdyno.cli.study import outage_text

    if budget is None:
        return outage_text("a restart before every trial", outage)
    if budget.is_reload_only:
        return "reloads only"
    return outage_text(f"restarts only where a knob needs one, budget {budget}", outage)


def new_request(
    flags: Flags,
    *,
    kind: StudyKind,
    name: str,
    options: Mapping[str, object],
    knobs: Collection[str],
    words: str,
    refuse: Callable[[Facts], object],
) -> StudyRequest:
    """Build the request of a new study. `refuse` raises on what target or policy do not allow; then the owner is asked.

    `knobs` are all that the study may set, `words` what will be done.
    """
    from pgdyno.studies.stand import StudyRequest

    server, bound, safe, budget = target_request(flags), bounds(flags), safety(flags), budget_of(flags.text("restarts"))
    return StudyRequest(
        kind=kind,
        name=name,
        target=server,
        workload=flags.choice("workload"),
        parameters=workload_parameters(flags),
        plan=load_plan(flags),
        options={
            "target": server.to_json(),
            "bounds": asdict(bound),
            "safety": safe.to_json(),
            "restarts": None if budget is None else str(budget),
            **options,
        },
        bounds=bound,
        guards=safe.plan(),
        watch=safe.deadlines(),
        restart="always" if budget is None else "as-needed",
        budget=budget,
        check=_check(flags, budget, words, refuse),
        kernel=lambda *_: _linux(knobs),
    )


def resumed_request(
    flags: Flags,
    store: Store,
    name: str,
    *,
    knobs: Collection[str],
    words: str,
    refuse: Callable[[Facts], object],
    other_environment: bool = False,
) -> StudyRequest:
    """Rebuild the request of an interrupted study from the store; a new --restarts is the only option that counts."""
    from pgdyno.studies.stand import StudyRequest
    from pgdyno.studies.target_request import TargetRequest
    from pgdyno.trial.assess import Bounds

    study = store.study(name)
    parts = {key: value for key, value in study.options.items() if isinstance(value, Mapping)}
    safe, kept = safety(flags, parts.get("safety")), study.options.get("restarts")
    budget = budget_of(flags.text("restarts")) or budget_of(None if kept is None else str(kept))
    return StudyRequest(
        kind=study.kind,
        name=study.name,
        target=TargetRequest.from_json(parts["target"], flags.text("target")),
        workload=study.workload.name,
        parameters=study.workload.parameters,
        plan=study.plan,
        options=study.options,
        bounds=Bounds(**parts["bounds"]),
        guards=safe.plan(),
        watch=safe.deadlines(),
        restart="always" if kept is None else "as-needed",
        budget=budget,
        resume=study.id,
        other_environment=other_environment,
        check=_check(flags, budget, words, refuse),
        kernel=lambda *_: _linux(knobs),
    )


def resumable(store: Store, name: str) -> str:
    """Return the id of the study that --resume names. Raises UsageError when it cannot be resumed here."""
    from pgdyno.model.study import StudyKind

    kinds = (StudyKind.STAIRCASE, StudyKind.SWEEP)
    if name == "last":
        found = [study for study in store.studies() if study.kind in kinds]
        if not found:
            raise UsageError("the store has no staircase or sweep that could be resumed")
        return found[0].id
    study = store.study(name)
    if study.kind not in kinds:
        raise UsageError(
            f"study {study.id} is of kind {study.kind.value}, which experiment does not resume",
            hint="A tune is resumed with pgdyno tune --resume; an A/B is begun anew.",
        )
    return study.id


def _check(
    flags: Flags, budget: RestartBudget | None, words: str, refuse: Callable[[Facts], object]
) -> Callable[..., None]:
    def check(target: object, facts: Facts, workload: object, outage: Outage | None) -> None:
        from pgdyno.cli.study import confirm_changes
        from pgdyno.model.trial import WorkloadSpec
        from pgdyno.target.target import Target

        assert isinstance(target, Target), "the stand hands over a target"
        assert isinstance(workload, WorkloadSpec), "the stand hands over a workload's spec"
        refuse(facts)
        confirm_changes(target, workload, words, outage_of(budget, outage), ask=not flags.on("yes"))

    return check


def _linux(knobs: Collection[str]) -> tuple[str, ...]:
    from pgdyno.studies.stand import linux_knobs

    return linux_knobs(knobs)
