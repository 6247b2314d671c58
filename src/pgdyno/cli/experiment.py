"""`pgdyno experiment`: two configurations, what a rule proposes, or the steps of a plan, in interleaved pairs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from pgdyno.cli.arguments.advice_source import source
from pgdyno.cli.arguments.flags import verb
from pgdyno.cli.arguments.load import load_plan
from pgdyno.cli.arguments.planned import PlannedCommand
from pgdyno.cli.arguments.store import open_store
from pgdyno.cli.arguments.target import target_request
from pgdyno.cli.requests.experiment_request import (
    Experiment,
    ExperimentFlags,
    budget_of,
    conduct,
    design_of,
    drawn_seed,
)
from pgdyno.cli.requests.study_request import named_server, resumable
from pgdyno.errors import UsageError
from pgdyno.units import plural

if TYPE_CHECKING:
    from pgdyno.cli.terminal.progress import Progress
    from pgdyno.model.configuration import Configuration
    from pgdyno.model.facts import Facts
    from pgdyno.model.results.parts import StudyResult
    from pgdyno.stats.sequential import Design
    from pgdyno.store.catalogue import Store
    from pgdyno.studies.session.study_session import StudySession


@dataclass(frozen=True, slots=True)
class Question:
    """B against A, and where the question came from: `rule` is the study's option, see `studies.proofs`."""

    name: str
    a: Mapping[str, str]
    b: Mapping[str, str]
    rule: object = None
    by_hand: tuple[str, ...] = ()


@verb("experiment", cls=PlannedCommand)
def command(flags: ExperimentFlags) -> int:
    """Compare configuration B with A, climb the steps of a plan, or sweep the values of a knob.

    All in interleaved, randomised blocks until the verdict is final. With --rule, --plan or --from-advice the verdicts
    flow back to the rules: pgdyno advise then says that they were tested or refuted here. Exit code 0 for better or
    equivalent, 1 for worse, 3 for not resolved; of a plan 0 when a step was kept; 6 when a step waits for a person.
    """
    from pgdyno.cli.requests.study import check_report_path
    from pgdyno.cli.terminal.progress import Progress

    questions = {
        "--ab": flags.ab,
        "--rule": flags.rule,
        "--plan": flags.plan,
        "--from-advice": flags.from_advice,
        "--sweep": flags.sweep,
        "--factorial": flags.factorial,
        "--resume": flags.resume,
    }
    if len([name for name, given in questions.items() if given]) != 1:
        raise UsageError(f"give one of {', '.join(questions)}", hint="pgdyno experiment --ab A.conf B.conf.")
    check_report_path(flags.report)
    _check_companions(flags)
    store, progress = open_store(flags.store_url), Progress()
    if flags.ab or flags.rule:
        question = _of_files(*flags.ab) if flags.ab else _of_rule(flags.rule or "", flags, store, progress)
        return int(run_question(question, flags, store, progress).exit_code)
    return _other(flags, store, progress)


def _check_companions(flags: ExperimentFlags) -> None:
    """Refuse flags that mean nothing beside the question."""
    is_plan = flags.plan is not None or flags.from_advice
    of_plans = {
        "--step": flags.step,
        "--mode": flags.mode,
        "--stage": flags.stage,
        "--candidates": flags.candidates,
        "--manual": flags.manual,
        "--skip-manual": flags.skip_manual,
        "--stop-after": flags.stop_after,
    }
    for name, given in of_plans.items():
        if given and not is_plan:
            raise UsageError(f"{name} is for --plan", hint="Leave it out, or add --plan FILE.")
    if flags.confirm and not (is_plan or flags.resume):
        raise UsageError("--confirm is for --plan and --resume", hint="Continue with pgdyno experiment --resume STUDY.")
    if flags.document is not None and not flags.from_advice:
        raise UsageError("--source is for --from-advice", hint="Leave it out, or add --from-advice.")
    if (document := flags.document) is not None:
        from pgdyno.studies.advice.steps import document_keys

        document_keys(document)


def _other(flags: ExperimentFlags, store: Store, progress: Progress) -> int:
    """Run what is not one pair of configurations."""
    from pgdyno.cli.requests import staircase, sweep
    from pgdyno.model.study import StudyKind

    if flags.plan is not None or flags.from_advice:
        return staircase.run_plan(flags, store, progress)
    if flags.resume is None:
        return sweep.run_sweep_study(flags, store, progress)
    resumed = {StudyKind.STAIRCASE: staircase.resume_plan, StudyKind.SWEEP: sweep.resume_sweep}
    study = resumable(store, flags.resume, *resumed, server=named_server(flags))
    return resumed[study.kind](flags, store, progress, study)


def run_question(question: Question, flags: ExperimentFlags, store: Store, progress: Progress) -> StudyResult:
    """Run the study of one question, print its result and return it.

    `flags` say on which server, under which load and by which design A and B are compared. The study is kept in
    `store`; `progress` shows how it goes.
    """
    from pgdyno.knobs.constraints import require
    from pgdyno.knobs.policy import check_settings
    from pgdyno.model.study import StudyKind
    from pgdyno.model.verdict import Metric
    from pgdyno.studies.ab.run import A, B, ab, ab_result, within_budget
    from pgdyno.studies.advice.proofs import OPTION

    design, metric = design_of(flags), Metric(flags.metric)
    seed, budget = drawn_seed(flags), budget_of(flags.restarts)

    def planned(facts: Facts) -> tuple[Configuration, Configuration, Design]:
        a, b = check_settings(question.a, facts), check_settings(question.b, facts)
        return a, b, within_budget(design, budget, a, b, facts=facts, seed=seed)

    def purpose(facts: Facts) -> str:
        a, b, within = planned(facts)
        for name, configuration in ((A, a), (B, b)):
            require(configuration, facts, connections=load_plan(flags).connections, what=f"arm {name}")
        pairs = within.max_pairs
        if pairs < design.max_pairs:
            progress.announce(f"restart budget {budget}: enough for {pairs} of {design.max_pairs} pairs")
        return f"up to {plural(pairs, 'pair')} of trials"

    def body(session: StudySession) -> StudyResult:
        a, b, within = planned(session.facts)
        comparison, blocks = ab(
            session.laboratory, a, b, metric=metric, design=within, seed=seed, announce=progress.announce
        )
        return ab_result(session.laboratory, comparison, blocks)

    options: dict[str, object] = {"design": asdict(design), "metric": metric.value, "seed": seed}
    if question.rule is not None:
        options[OPTION] = question.rule
    experiment = Experiment(StudyKind.AB, question.name, options, {*question.a, *question.b}, purpose)
    return conduct(experiment, flags, store, progress, body)


def _of_files(a: Path, b: Path) -> Question:
    from pgdyno.cli.requests.study import settings_from

    return Question(f"A/B {a.name} {b.name}", settings_from(a), settings_from(b))


def _of_rule(name: str, flags: ExperimentFlags, store: Store, progress: Progress) -> Question:
    """Ask the advisor on the target, and return the rule's proposal as B."""
    from pgdyno.studies.advice import advised
    from pgdyno.studies.advice.advised import proposed_by
    from pgdyno.studies.session.study_session import opened

    advised.require([name], source(flags))
    # The sandbox is opened twice, for the advice and for the study: it has to outlive the first time.
    with opened(replace(target_request(flags), keep=True)) as target:
        found = proposed_by(target, name, source(flags), store=store, progress=progress.announce)
    return Question(f"rule {name}", {}, found.settings, found.option, found.commands)
