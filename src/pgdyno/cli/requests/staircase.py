"""`pgdyno experiment --plan`, --from-advice and --resume: a staircase from flags to result."""

from __future__ import annotations

import sys
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

import click

from pgdyno.cli.arguments.advice_source import source
from pgdyno.cli.arguments.planned import plan_file_text
from pgdyno.cli.arguments.target import target_request
from pgdyno.cli.requests.experiment_request import Experiment, ExperimentFlags, conduct, design_of, drawn_seed
from pgdyno.cli.requests.study_request import kept_options
from pgdyno.errors import UsageError
from pgdyno.model.study import Study, StudyKind
from pgdyno.units import plural

if TYPE_CHECKING:
    from pgdyno.cli.terminal.progress import Progress
    from pgdyno.model.facts import Facts
    from pgdyno.model.results.parts import StudyResult
    from pgdyno.store.catalogue import Store
    from pgdyno.studies.session.study_session import StudySession
    from pgdyno.studies.staircase.options import StaircaseOptions
    from pgdyno.studies.staircase.plan import Plan

OPTION = "staircase"
"""The key of a study's options that holds those of its staircase."""


def run_plan(flags: ExperimentFlags, store: Store, progress: Progress) -> int:
    """Run the plan of --plan, or the one that is made of the advice on the target."""
    from pgdyno.studies.staircase.by_hand import check_confirmed

    text = plan_file_text(flags.plan) if flags.plan is not None else advice_text(flags, store, progress)
    options = _options(flags, store, text, flags.plan.name if flags.plan is not None else "advice")
    plan = options.read_plan()
    check_confirmed(plan, flags.confirm)
    if not options.chosen(plan):
        raise UsageError(f"{options.source} has no step for this stage", hint="See what it left out, and why.")
    return _climb(options, flags, store, progress)


def resume_plan(flags: ExperimentFlags, store: Store, progress: Progress, study: Study) -> int:
    """Go on with an interrupted staircase, `study`. Returns the exit code.

    Its own options hold; from `flags` come only the confirmed steps and what `conduct` takes for a resumed study. The
    study is kept in `store`; `progress` shows how it goes.
    """
    from pgdyno.studies.staircase.options import StaircaseOptions

    options = kept_options(StaircaseOptions, study, OPTION)
    return _climb(options, flags, store, progress, study)


def advice_text(flags: ExperimentFlags, store: Store, progress: Progress) -> str:
    """Return the plan that the advice on this target comes to; --source keeps one document's recommendations."""
    from pgdyno.studies.advice import advised
    from pgdyno.studies.advice.steps import from_document, plan_text
    from pgdyno.studies.session.study_session import opened

    # The sandbox is opened twice, for the advice and for the study: it has to outlive the first time.
    with opened(replace(target_request(flags), keep=True)) as target:
        findings, inventory = advised.advise_on(target, source(flags), store=store, progress=progress.announce)
    return plan_text(findings if flags.document is None else from_document(findings, flags.document), inventory)


def _climb(
    options: StaircaseOptions, flags: ExperimentFlags, store: Store, progress: Progress, resumed: Study | None = None
) -> int:
    from pgdyno.studies.staircase.by_hand import GatedRuns, gate_of
    from pgdyno.studies.staircase.course import StaircaseCourse
    from pgdyno.studies.staircase.plan_check import check_plan
    from pgdyno.studies.staircase.result import staircase_result, unfinished_result
    from pgdyno.studies.staircase.run import Staircase

    plan = options.read_plan()

    def purpose(facts: Facts) -> str:
        check_plan(plan, facts, source=options.source, steps=options.chosen(plan))
        return _words(plan, options)

    def body(session: StudySession) -> StudyResult:
        runner, here = session.target.runner, session.target.local and session.target.remote is None
        gate = gate_of(
            plan,
            session.study,
            flags.confirm,
            ask=_ask,
            verify=(lambda argv: runner.run(argv, check=False, timeout_s=60).stdout) if here else None,
            announce=progress.announce,
            resumed=resumed is not None,
        )
        runs = GatedRuns(session.laboratory, gate)

        def keep(found: StaircaseCourse) -> None:
            store.update_study(session.study.id, result=unfinished_result(session.laboratory, found, options))

        found = Staircase(runs, session.facts, options, progress.announce, keep).climb()
        gate.remind(climb.step.name for climb in found.kept)
        return staircase_result(session.laboratory, found, options)

    experiment = Experiment(
        StudyKind.STAIRCASE,
        f"plan {options.source}",
        {OPTION: asdict(options)},
        plan.knobs,
        purpose,
        other_environment=any(step.by_hand is not None for step in plan.steps),
    )
    return int(conduct(experiment, flags, store, progress, body, resumed).exit_code)


def _ask(question: str) -> bool | None:
    """Ask a person; None where there is no terminal."""
    return click.confirm(question, err=True) if sys.stdin.isatty() else None


def _options(flags: ExperimentFlags, store: Store, text: str, name: str) -> StaircaseOptions:
    from pgdyno.model.verdict import Metric
    from pgdyno.studies.staircase.options import StaircaseOptions

    design, given = design_of(flags), flags.candidates
    options = flags.into(
        StaircaseOptions,
        plan=text,
        source=name,
        metric=Metric(flags.metric),
        min_pairs=design.min_pairs,
        max_pairs=design.max_pairs,
        seed=drawn_seed(flags),
        mode=flags.mode or "",
        stage=flags.stage or "",
        candidates=None,
        only=flags.step or "",
    )
    if given is None:
        return options
    candidates, origin = _candidates(store, given, options)
    return replace(options, candidates=candidates, candidates_from=origin)


def _candidates(store: Store, name: str, options: StaircaseOptions) -> tuple[tuple[str, ...], str]:
    """Return which steps a sandbox study proposed, and its name; its figures stay where they are."""
    from pgdyno.model.results.staircase import StaircaseResult

    study = store.study(name)
    result = study.told(StaircaseResult)
    if result is None or result.stage != "sandbox" or result.unfinished:
        raise UsageError(
            f"study {study.id} is not a finished sandbox stage", hint="pgdyno experiment --plan FILE --stage sandbox"
        )
    if options.read_plan().stage != "large":
        raise UsageError("--candidates is for the stage large", hint="Add --stage large.")
    return result.candidates, study.id


def _words(plan: Plan, options: StaircaseOptions) -> str:
    """Say what will be done: steps that nobody waits for are passed over, and not announced as work for people."""
    steps = options.chosen(plan)
    by_hand = [step for step in steps if step.by_hand is not None]
    waits = [step for step in by_hand if options.waits_for(step)]
    people = f", {len(waits)} of them for you" if waits else ""
    left = len(by_hand) - len(waits)
    passed = f", {left} skipped because only people can do {'it' if left == 1 else 'them'}" if left else ""
    return f"{plural(len(steps), 'step')}{people}{passed}, each in up to {options.max_pairs} pairs"
