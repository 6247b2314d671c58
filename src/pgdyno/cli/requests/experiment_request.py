"""A study of `pgdyno experiment`, new or resumed: what an A/B, a staircase and a sweep have in common."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pgdyno.cli.arguments.advice_source import SourceFlags
from pgdyno.cli.arguments.flags import flag, least_and_most
from pgdyno.cli.requests.study_request import (
    CONFIDENCE,
    METRICS,
    PAIRS,
    Check,
    Course,
    StudyFlags,
    carry_out,
    load_of,
    new_request,
    resumed_request,
)
from pgdyno.model.verdict import STRICT_CONFIDENCE, STRICT_MIN_PAIRS

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


class ExperimentFlags(StudyFlags, SourceFlags):
    """The flags of `pgdyno experiment`."""

    ab: tuple[Path, Path] | None = flag(
        "Two files of `name = value` lines; an empty file is the server as it is.", metavar="A.conf B.conf"
    )
    rule: str | None = flag("Compare the server as it is with what this rule proposes.", metavar="RULE")
    plan: Path | None = flag("Run a plan's steps one at a time, a staircase; see pgdyno advise --plan.", metavar="FILE")
    from_advice: bool = flag("Make the plan of what the advisor proposes on this target.")
    document: str | None = flag(
        "Of --from-advice: only what this document recommends: its key, code or year.", "--source", metavar="DOC"
    )
    sweep: str | None = flag("Measure a series of values and find where a plateau begins.", metavar="KNOB=V1,V2,...")
    factorial: tuple[str, str] | None = flag(
        "Measure two factors with and without each other, and how they interact.", metavar="A=X B=Y"
    )
    resume: str | None = flag("Continue an interrupted plan or sweep with its own options.", metavar="STUDY")
    step: str | None = flag("Run this step of the plan alone.", metavar="NAME")
    mode: str | None = flag(
        "Each step against what was kept before, or the baseline.  [default: the plan's]",
        type=click.Choice(["accumulate", "isolate"]),
    )
    stage: str | None = flag(
        "Short runs for candidates, or the environment that counts.  [default: the plan's]",
        type=click.Choice(["sandbox", "large"]),
    )
    candidates: str | None = flag("Of --stage large: run only what this sandbox stage proposed.", metavar="STUDY")
    confirm: tuple[str, ...] = flag(
        "This step for people is done (STEP=undone: taken back); may be given again.", metavar="STEP"
    )
    manual: bool = flag("Wait for people at steps that are only commands, too.")
    skip_manual: bool = flag("Skip every step that needs a person.")
    stop_after: int | None = flag(
        "End the plan after N steps in a row without a gain.  [default: run all]", type=click.IntRange(1), metavar="N"
    )
    noise_runs: int = flag("Baseline runs before the first step of a plan.", default=4, type=click.IntRange(2))
    baseline_runs: int = flag(
        "Baseline runs between the steps of a plan, against drift.", default=2, type=click.IntRange(0)
    )
    sweep_blocks: int = flag("How often each level of a sweep is measured.", default=6, type=click.IntRange(3))
    metric: str = flag("Metric of the verdict.", default="throughput", type=click.Choice(METRICS))
    smallest_effect: float = flag(
        "Smallest effect of interest; below it A and B are equivalent.",
        default=0.02,
        type=click.FloatRange(0, 1, min_open=True),
    )
    confidence: float = flag("Confidence of the intervals.", default=STRICT_CONFIDENCE, type=CONFIDENCE)
    pairs: tuple[int, int] = flag("Minimum and maximum number of pairs.", default=(STRICT_MIN_PAIRS, 48), type=PAIRS)
    restarts: str | None = flag(
        (
            "Maximum number of restarts, and when: none, 20, 22:00-05:00 or 20@22:00-05:00; only if a knob needs one.  "
            "[default: before every trial]"
        ),
        metavar="BUDGET",
    )
    seed: int | None = flag("Seed of the interleaving.  [default: drawn]")


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
    flags: ExperimentFlags,
    store: Store,
    progress: Progress,
    body: Callable[[StudySession], StudyResult],
    resumed: Study | None = None,
) -> StudyResult:
    """Run an experiment, or go on with `resumed`, print its result and return it.

    `body` is what the study does in its session and returns its result. `flags` name the server and say how it is
    treated and what is printed; for a new study they have the load, too. The study is kept in `store`; `progress` shows
    how it goes. Of a resumed one a new --restarts bounds the restarts, but whether they are made only where a knob
    needs one stays.
    """
    from pgdyno.studies.session.study_session import linux_knobs

    kept = resumed.options.get("restarts") if resumed is not None else flags.restarts
    budget = budget_of(flags.restarts) or budget_of(None if kept is None else str(kept))
    course = Course(
        check=_check(experiment, budget, ask=not flags.yes),
        kernel=lambda *_: linux_knobs(experiment.knobs),
        restart="always" if kept is None else "as-needed",
        budget=budget,
        other_environment=experiment.other_environment,
    )
    if resumed is not None:
        request = resumed_request(flags, resumed, **course)
    else:
        options = {"restarts": None if budget is None else str(budget), **experiment.options}
        request = new_request(
            flags, kind=experiment.kind, name=experiment.name, options=options, load=load_of(flags), **course
        )
    return carry_out(request, flags, store, progress, body)


def _check(experiment: Experiment, budget: RestartBudget | None, *, ask: bool) -> Check:
    def check(target: Target, facts: Facts, workload: WorkloadSpec, outage: Outage | None) -> None:
        from pgdyno.cli.requests.study import confirm_changes, outage_of

        plan, knobs = experiment.purpose(facts), sorted(experiment.knobs)
        plan = f"{plan}; sets {', '.join(knobs)}" if knobs else plan
        confirm_changes(target, workload, plan, outage_of(budget, outage), ask=ask)

    return check


def drawn_seed(flags: ExperimentFlags) -> int:
    """Return the seed of the interleaving: the one given, else one drawn now and kept with the study."""
    return secrets.randbelow(1 << 31) if flags.seed is None else flags.seed


def design_of(flags: ExperimentFlags) -> Design:
    """Return the rule for the verdicts."""
    from pgdyno.stats.sequential import Design

    least, most = least_and_most("pairs", flags.pairs)
    return Design(
        smallest_effect=flags.smallest_effect,
        confidence=flags.confidence,
        min_pairs=least,
        max_pairs=most,
    )


def budget_of(text: str | None) -> RestartBudget | None:
    """Return the restart budget, None without a bound."""
    from pgdyno.control.restart_budget import RestartBudget

    return None if text is None else RestartBudget.parse(text)
