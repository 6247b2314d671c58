"""A study of `pgdyno experiment`, new or resumed: what an A/B, a staircase and a sweep have in common."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pgdyno.cli.arguments.flags import Flags
from pgdyno.cli.requests.study_request import Check, Course, carry_out, new_request, resumed_request

if TYPE_CHECKING:
    from pgdyno.cli.terminal.progress import Progress
    from pgdyno.control.restart_budget import RestartBudget
    from pgdyno.model.facts import Facts
    from pgdyno.model.results.parts import StudyResult
    from pgdyno.model.study import Study, StudyKind
    from pgdyno.model.trial import WorkloadSpec
    from pgdyno.server.outage import Outage
    from pgdyno.stats.sequential import Design
    from pgdyno.store.catalogue import Store
    from pgdyno.studies.session.study_session import StudySession
    from pgdyno.targets.target import Target


@dataclass(frozen=True, slots=True)
class Experiment:
    """What is asked: `knobs` are all that the study may set, `options` what it keeps to be resumed.

    `purpose` refuses what target or policy do not allow, and says for the owner of the server what will be done.
    """

    kind: StudyKind
    name: str
    options: Mapping[str, object]
    knobs: Collection[str]
    purpose: Callable[[Facts], str]
    other_environment: bool = False


def conduct(
    experiment: Experiment,
    flags: Flags,
    store: Store,
    progress: Progress,
    body: Callable[[StudySession], StudyResult],
    resumed: Study | None = None,
) -> StudyResult:
    """Run an experiment, or go on with `resumed`, print its result and return it.

    Of a resumed one a new --restarts bounds the restarts, but whether they are made only where a knob needs one stays.
    """
    from pgdyno.studies.session.study_session import linux_knobs

    kept = resumed.options.get("restarts") if resumed is not None else flags.text("restarts")
    budget = budget_of(flags.text("restarts")) or budget_of(None if kept is None else str(kept))
    course = Course(
        check=_check(experiment, budget, ask=not flags.on("yes")),
        kernel=lambda *_: linux_knobs(experiment.knobs),
        restart="always" if kept is None else "as-needed",
        budget=budget,
        other_environment=experiment.other_environment,
    )
    if resumed is not None:
        request = resumed_request(flags, resumed, **course)
    else:
        options = {"restarts": None if budget is None else str(budget), **experiment.options}
        request = new_request(flags, kind=experiment.kind, name=experiment.name, options=options, **course)
    return carry_out(request, flags, store, progress, body)


def _check(experiment: Experiment, budget: RestartBudget | None, *, ask: bool) -> Check:
    def check(target: Target, facts: Facts, workload: WorkloadSpec, outage: Outage | None) -> None:
        from pgdyno.cli.requests.study import confirm_changes

        plan, knobs = experiment.purpose(facts), sorted(experiment.knobs)
        plan = f"{plan}; sets {', '.join(knobs)}" if knobs else plan
        confirm_changes(target, workload, plan, outage_of(budget, outage), ask=ask)

    return check


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
    from pgdyno.control.restart_budget import RestartBudget

    return None if text is None else RestartBudget.parse(text)


def outage_of(budget: RestartBudget | None, outage: Outage | None) -> str:
    """Say how often the server will be away."""
    from pgdyno.cli.requests.study import outage_text

    if budget is None:
        return outage_text("a restart before every trial", outage)
    if budget.is_reload_only:
        return "reloads only"
    return outage_text(f"restarts only where a knob needs one, budget {budget}", outage)
