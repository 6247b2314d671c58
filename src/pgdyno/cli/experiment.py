"""`pgdyno experiment`: two configurations, what a rule proposes, or the steps of a plan, in interleaved pairs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pgdyno.cli.arguments.advice_source import source, source_options
from pgdyno.cli.arguments.flags import Flags
from pgdyno.cli.arguments.load import load_plan, workload_options
from pgdyno.cli.arguments.planned import PlannedCommand
from pgdyno.cli.arguments.safety import safety_options
from pgdyno.cli.arguments.store import open_store
from pgdyno.cli.arguments.target import target_options, target_request
from pgdyno.cli.requests.experiment_request import Experiment, budget_of, conduct, design_of, drawn_seed
from pgdyno.cli.requests.study_request import CONFIDENCE, METRICS, PAIRS, resumable, study_options
from pgdyno.errors import UsageError
from pgdyno.model.verdict import STRICT_CONFIDENCE, STRICT_MIN_PAIRS

if TYPE_CHECKING:
    from pgdyno.cli.terminal.progress import Progress
    from pgdyno.model.configuration import Configuration
    from pgdyno.model.facts import Facts
    from pgdyno.model.results.parts import StudyResult
    from pgdyno.stats.sequential import Design
    from pgdyno.store.catalogue import Store
    from pgdyno.studies.session.study_session import StudySession


QUESTIONS = ("ab", "rule", "plan", "from_advice", "sweep", "factorial", "resume")
_OF_PLANS = ("step", "mode", "stage", "candidates", "manual", "skip_manual", "stop_after")


@dataclass(frozen=True, slots=True)
class Question:
    """B against A, and where the question came from: `rule` is the study's option, see `studies.proofs`."""

    name: str
    a: Mapping[str, str]
    b: Mapping[str, str]
    rule: object = None
    by_hand: tuple[str, ...] = ()


@click.command("experiment", cls=PlannedCommand)
@target_options
@workload_options
@safety_options
@source_options
@click.option("--ab", nargs=2, type=click.Path(path_type=Path), default=None, metavar="A.conf B.conf",
              help="Two files of `name = value` lines; an empty file is the server as it is.")  # fmt: skip
@click.option("--rule", metavar="RULE", help="Compare the server as it is with what this rule proposes.")
@click.option("--plan", type=click.Path(path_type=Path), metavar="FILE",
              help="Run a plan's steps one at a time, a staircase; see pgdyno advise --plan.")  # fmt: skip
@click.option("--from-advice", is_flag=True, help="Make the plan of what the advisor proposes on this target.")
@click.option("--source", "document", metavar="DOC",
              help="Of --from-advice: only what this document recommends: its key, code or year.")  # fmt: skip
@click.option("--sweep", metavar="KNOB=V1,V2,...", help="Measure a series of values and find where a plateau begins.")
@click.option("--factorial", nargs=2, metavar="A=X B=Y",
              help="Measure two factors with and without each other, and how they interact.")  # fmt: skip
@click.option("--resume", metavar="STUDY", help="Continue an interrupted plan or sweep with its own options.")
@click.option("--step", metavar="NAME", help="Run this step of the plan alone.")
@click.option("--mode", type=click.Choice(["accumulate", "isolate"]),
              help="Each step against what was kept before, or the baseline.  [default: the plan's]")  # fmt: skip
@click.option("--stage", type=click.Choice(["sandbox", "large"]),
              help="Short runs for candidates, or the environment that counts.  [default: the plan's]")  # fmt: skip
@click.option("--candidates", metavar="STUDY", help="Of --stage large: run only what this sandbox stage proposed.")
@click.option("--confirm", multiple=True, metavar="STEP",
              help="This step for people is done (STEP=undone: taken back); may be given again.")  # fmt: skip
@click.option("--manual", is_flag=True, help="Wait for people at steps that are only commands, too.")
@click.option("--skip-manual", is_flag=True, help="Skip every step that needs a person.")
@click.option("--stop-after", type=click.IntRange(1), metavar="N",
              help="End the plan after N steps in a row without a gain.  [default: run all]")  # fmt: skip
@click.option("--noise-runs", type=click.IntRange(2), default=4, show_default=True,
              help="Baseline runs before the first step of a plan.")  # fmt: skip
@click.option("--baseline-runs", type=click.IntRange(0), default=2, show_default=True,
              help="Baseline runs between the steps of a plan, against drift.")  # fmt: skip
@click.option("--sweep-blocks", type=click.IntRange(3), default=6, show_default=True,
              help="How often each level of a sweep is measured.")  # fmt: skip
@click.option(
    "--metric", type=click.Choice(METRICS), default="throughput", show_default=True, help="What the verdict is on."
)
@click.option("--smallest-effect", type=click.FloatRange(0, 1, min_open=True), default=0.02, show_default=True,
              help="Smallest effect of interest; within it A and B are equivalent.")  # fmt: skip
@click.option("--confidence", type=CONFIDENCE, default=STRICT_CONFIDENCE, show_default=True,
              help="Confidence of the intervals.")  # fmt: skip
@click.option(
    "--pairs",
    nargs=2,
    type=PAIRS,
    default=(STRICT_MIN_PAIRS, 48),
    show_default=True,
    help="Minimum and maximum number of pairs.",
)
@click.option("--restarts", metavar="BUDGET",
              help="Most restarts, and when: none, 20, 22:00-05:00 or 20@22:00-05:00; only where a knob needs one.  "
              "[default: before every trial]")  # fmt: skip
@click.option("--seed", type=int, default=None, help="Seed of the interleaving.  [default: drawn]")
@study_options()
def command(**values: object) -> int:
    """Compare configuration B with A, climb the steps of a plan, or sweep the values of a knob.

    All in interleaved, randomised blocks until the verdict is final. With --rule, --plan or --from-advice the verdicts
    flow back to the rules: pgdyno advise then says that they were tested or refuted here. Exit code 0 for better or
    equivalent, 1 for worse, 3 for not resolved; of a plan 0 when a step was kept; 6 when a step waits for a person.
    """
    from pgdyno.cli.requests.study import check_report_path
    from pgdyno.cli.terminal.progress import Progress

    flags = Flags(values)
    asked = [name for name in QUESTIONS if flags.values[name]]
    if len(asked) != 1:
        names = ", ".join(f"--{name.replace('_', '-')}" for name in QUESTIONS)
        raise UsageError(f"give one of {names}", hint="pgdyno experiment --ab A.conf B.conf.")
    check_report_path(flags.path("report"))
    _check_companions(flags, asked[0])
    store, progress = open_store(flags.text("store_url")), Progress()
    if asked[0] not in ("ab", "rule"):
        return _other(asked[0], flags, store, progress)
    question = _of_files(flags) if asked[0] == "ab" else _of_rule(flags, store, progress)
    return int(run_question(question, flags, store, progress).exit_code)


def _check_companions(flags: Flags, asked: str) -> None:
    """Refuse flags that mean nothing beside the question."""
    for name in _OF_PLANS:
        if flags.values[name] and asked not in ("plan", "from_advice"):
            raise UsageError(
                f"--{name.replace('_', '-')} is for --plan",
                hint="Leave it out, or add --plan FILE.",
            )
    if flags.words("confirm") and asked not in ("plan", "from_advice", "resume"):
        raise UsageError("--confirm is for --plan and --resume", hint="Continue with pgdyno experiment --resume STUDY.")
    if flags.text("document") is not None and asked != "from_advice":
        raise UsageError("--source is for --from-advice", hint="Leave it out, or add --from-advice.")
    if (document := flags.text("document")) is not None:
        from pgdyno.studies.advice.steps import document_keys

        document_keys(document)


def _other(asked: str, flags: Flags, store: Store, progress: Progress) -> int:
    """Run what is not one pair of configurations."""
    from pgdyno.cli.requests import staircase, sweep
    from pgdyno.model.study import StudyKind

    if asked in ("plan", "from_advice"):
        return staircase.run_plan(flags, store, progress)
    if asked != "resume":
        return sweep.run_sweep_study(flags, store, progress)
    resumed = {StudyKind.STAIRCASE: staircase.resume_plan, StudyKind.SWEEP: sweep.resume_sweep}
    study = resumable(store, flags.choice("resume"), *resumed)
    return resumed[study.kind](flags, store, progress, study)


def run_question(question: Question, flags: Flags, store: Store, progress: Progress) -> StudyResult:
    """Run the study of one question, print its result and return it."""
    from pgdyno.knobs.constraints import require
    from pgdyno.knobs.policy import check_settings
    from pgdyno.model.study import StudyKind
    from pgdyno.model.verdict import Metric
    from pgdyno.studies.ab.run import A, B, ab, ab_result, within_budget
    from pgdyno.studies.advice.proofs import OPTION

    design, metric = design_of(flags), Metric(flags.choice("metric"))
    seed, budget = drawn_seed(flags), budget_of(flags.text("restarts"))

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
        return f"up to {pairs} pairs of trials"

    def body(stand: StudySession) -> StudyResult:
        a, b, within = planned(stand.facts)
        comparison, blocks = ab(
            stand.laboratory, a, b, metric=metric, design=within, seed=seed, announce=progress.announce
        )
        return ab_result(stand.laboratory, comparison, blocks)

    options: dict[str, object] = {"design": asdict(design), "metric": metric.value, "seed": seed}
    if question.rule is not None:
        options[OPTION] = question.rule
    experiment = Experiment(StudyKind.AB, question.name, options, {*question.a, *question.b}, purpose)
    return conduct(experiment, flags, store, progress, body)


def _of_files(flags: Flags) -> Question:
    from pgdyno.cli.requests.study import settings_from

    files = flags.paths("ab")
    first, second = (settings_from(file) for file in files)
    return Question(f"A/B {files[0].name} {files[1].name}", first, second)


def _of_rule(flags: Flags, store: Store, progress: Progress) -> Question:
    """Ask the advisor on the target, and return the rule's proposal as B."""
    from pgdyno.studies.advice import advised
    from pgdyno.studies.advice.proposed import proposed_by
    from pgdyno.studies.session.study_session import opened

    name = flags.choice("rule")
    advised.require([name], source(flags))
    # The sandbox is opened twice, for the advice and for the study: it has to outlive the first time.
    with opened(replace(target_request(flags), keep=True)) as target:
        found = proposed_by(target, name, source(flags), store=store, progress=progress.announce)
    return Question(f"rule {name}", {}, found.settings, found.option, found.commands)
