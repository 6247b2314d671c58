"""`pgdyno experiment`: two configurations, what a rule proposes, or the steps of a plan, in interleaved pairs."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pgdyno.cli.apply import source, source_options
from pgdyno.cli.flags import Flags
from pgdyno.cli.options import (
    bounds,
    load_plan,
    open_store,
    store_option,
    target_options,
    target_request,
    workload_options,
    workload_parameters,
)
from pgdyno.cli.planned import PlannedCommand
from pgdyno.cli.safety import safety, safety_options
from pgdyno.cli.tune import METRICS
from pgdyno.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from pgdyno.cli.progress import Progress
    from pgdyno.model.configuration import Configuration
    from pgdyno.model.facts import Facts
    from pgdyno.model.trial import WorkloadSpec
    from pgdyno.stats.sequential import Design
    from pgdyno.store.catalogue import Store
    from pgdyno.studies.plan_file import Plan
    from pgdyno.studies.stand import Stand
    from pgdyno.target.outage import Outage
    from pgdyno.target.restart_budget import RestartBudget
    from pgdyno.target.target import Target

CODES = {
    "better": ExitCode.OK,
    "equivalent": ExitCode.OK,
    "worse": ExitCode.FINDINGS,
    "not resolved": ExitCode.NOT_RESOLVED,
}
OUTCOMES = {"better": "keep", "equivalent": "null", "worse": "drop", "not resolved": "null"}
"""What becomes of a step of a plan. A null step is left out of what follows, as a dropped one: it earned nothing."""


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
              help="Run a plan's steps, each against what was kept before; see pgdyno advise --plan.")  # fmt: skip
@click.option("--step", metavar="NAME", help="Run this step of the plan alone.")
@click.option(
    "--metric", type=click.Choice(METRICS), default="throughput", show_default=True, help="What the verdict is on."
)
@click.option("--smallest-effect", type=click.FloatRange(0, 1, min_open=True), default=0.02, show_default=True,
              help="Smallest effect of interest; within it A and B are equivalent.")  # fmt: skip
@click.option("--confidence", type=click.FloatRange(0.5, 0.999), default=0.9975, show_default=True,
              help="Confidence of the intervals.")  # fmt: skip
@click.option(
    "--pairs", nargs=2, type=click.IntRange(2), default=(4, 48), show_default=True, help="Fewest and most pairs."
)
@click.option("--restarts", metavar="BUDGET",
              help="Most restarts, and when: none, 20, 22:00-05:00 or 20@22:00-05:00; only where a knob needs one.  "
              "[default: before every trial]")  # fmt: skip
@click.option("--seed", type=int, default=None, help="Seed of the interleaving.  [default: drawn]")
@click.option("--report", type=click.Path(path_type=Path), help="Write the HTML report here.")
@click.option("--yes", is_flag=True, help="Do not ask before changing a --target.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@store_option
def command(**values: object) -> int:
    """Compare configuration B with A: interleaved, randomised pairs until the verdict is final.

    With --rule or --plan the verdict flows back to the rule: pgdyno advise then says that it was tested or refuted
    here. Exit code 0 for better or equivalent, 1 for worse, 3 for not resolved; of a plan 0 when a step was kept.
    """
    from pgdyno.cli.progress import Progress
    from pgdyno.cli.study import check_report_path

    flags = Flags(values)
    asked = [name for name in ("ab", "rule", "plan") if flags.values[name]]
    if len(asked) != 1:
        raise UsageError("give one of --ab, --rule and --plan", hint="pgdyno experiment --ab A.conf B.conf.")
    check_report_path(flags.path("report"))
    if flags.text("step") is not None and asked != ["plan"]:
        raise UsageError("--step is for --plan")
    store, progress = open_store(flags.text("store_url")), Progress()
    if asked == ["plan"]:
        return _run_plan(flags, store, progress)
    question = _of_files(flags) if asked == ["ab"] else _of_rule(flags, store, progress)
    result = run_question(question, flags, store, progress)
    _print(store, result, flags)
    return int(CODES[word_of(result)])


def run_question(question: Question, flags: Flags, store: Store, progress: Progress) -> dict[str, object]:
    """Run the study of one question and return its result."""
    from pgdyno.cli.study import confirm_changes, run_study
    from pgdyno.knobs.policy import check_settings
    from pgdyno.model.study import StudyKind
    from pgdyno.model.verdict import Metric
    from pgdyno.studies.ab import ab, ab_result, within_budget
    from pgdyno.studies.proofs import OPTION
    from pgdyno.studies.stand import StudyRequest, linux_knobs
    from pgdyno.target.restart_budget import RestartBudget

    design, metric = _design(flags), Metric(flags.choice("metric"))
    given = flags.number("seed")
    seed = secrets.randbelow(1 << 31) if given is None else int(given)
    restarts = flags.text("restarts")
    budget = None if restarts is None else RestartBudget.parse(restarts)

    def planned(facts: Facts) -> tuple[Configuration, Configuration, Design]:
        a, b = check_settings(question.a, facts), check_settings(question.b, facts)
        return a, b, within_budget(design, budget, a, b, facts=facts, seed=seed)

    def check(target: Target, facts: Facts, workload: WorkloadSpec, outage: Outage | None) -> None:
        pairs = planned(facts)[2].max_pairs
        if pairs < design.max_pairs:
            progress.announce(f"restart budget {budget}: enough for {pairs} of {design.max_pairs} pairs")
        words, ask = f"up to {pairs} pairs of trials", not flags.on("yes")
        confirm_changes(target, workload, words, _outage(budget, outage), ask=ask)

    server, bound, safe = target_request(flags), bounds(flags), safety(flags)
    options: dict[str, object] = {
        "target": server.to_json(),
        "bounds": asdict(bound),
        "design": asdict(design),
        "metric": metric.value,
        "seed": seed,
        "safety": safe.to_json(),
        "restarts": None if budget is None else str(budget),
    }
    request = StudyRequest(
        kind=StudyKind.AB,
        name=question.name,
        target=server,
        workload=flags.choice("workload"),
        parameters=workload_parameters(flags),
        plan=load_plan(flags),
        options=options if question.rule is None else {**options, OPTION: question.rule},
        bounds=bound,
        guards=safe.plan(),
        watch=safe.deadlines(),
        restart="always" if budget is None else "as-needed",
        budget=budget,
        check=check,
        kernel=lambda *_: linux_knobs(question.a, question.b),
    )

    def body(stand: Stand) -> dict[str, object]:
        a, b, within = planned(stand.facts)
        comparison, blocks = ab(
            stand.laboratory, a, b, metric=metric, design=within, seed=seed, announce=progress.announce
        )
        return ab_result(stand.laboratory, comparison, blocks)

    return run_study(request, store, progress, body, flags.path("report"))


def word_of(result: Mapping[str, object]) -> str:
    """Return the verdict's word."""
    verdict = result["verdict"]
    assert isinstance(verdict, dict), "an A/B always has a verdict"
    return str(verdict["word"])


def _of_files(flags: Flags) -> Question:
    from pgdyno.cli.study import settings_from

    files = flags.paths("ab")
    first, second = (settings_from(file) for file in files)
    return Question(f"A/B {files[0].name} {files[1].name}", first, second)


def _of_rule(flags: Flags, store: Store, progress: Progress) -> Question:
    """Ask the advisor on the target, and return the rule's proposal as B."""
    from pgdyno.errors import PolicyError
    from pgdyno.studies import advised
    from pgdyno.studies.proofs import rule_option
    from pgdyno.studies.settable import parts_of
    from pgdyno.studies.stand import opened

    name = flags.choice("rule")
    # The sandbox is opened twice, for the advice and for the study: it has to outlive the first time.
    with opened(replace(target_request(flags), keep=True)) as target:
        findings, _ = advised.advise_on(target, source(flags), store=store, progress=progress.announce)
    parts = parts_of(advised.chosen(findings, [name]))
    if parts.refused:
        raise PolicyError(f'rule "{name}" names {", ".join(parts.refused)} of class X, which is never tried')
    if not parts.settings:
        raise UsageError(
            f'rule "{name}" proposes nothing that a session could set',
            detail="\n".join(parts.commands) or None,
            hint="Measure before and after by hand: pgdyno bench, then pgdyno compare.",
        )
    _say_by_hand(parts.commands, progress)
    return Question(f"rule {name}", {}, parts.settings, rule_option((name,), parts.settings), parts.commands)


def _run_plan(flags: Flags, store: Store, progress: Progress) -> int:
    from pgdyno.studies.proofs import rule_option

    path = flags.path("plan")
    assert path is not None, "the flag was given"
    plan = _read_plan(path)
    only = flags.text("step")
    kept: dict[str, str] = {}
    results: list[dict[str, object]] = []
    for step in [plan.step(only)] if only else plan.steps:
        missing = [] if only else [name for name in step.after if _outcome_of(name, results) != "keep"]
        if missing or not step.settings:
            why = f"it depends on {', '.join(missing)}" if missing else "it is for people: see its commands"
            results.append({"step": step.name, "outcome": "skipped", "why": why})
            progress.announce(f"step {step.name}: skipped, {why}")
            continue
        _say_by_hand(step.commands, progress)
        option = rule_option(step.rules, step.settings, plan=path.name, step=step.name)
        question = Question(f"plan {path.name}, step {step.name}", dict(kept), {**kept, **step.settings}, option)
        result = run_question(question, flags, store, progress)
        outcome = OUTCOMES[word_of(result)]
        if outcome == "keep":
            kept.update(step.settings)
        results.append({"step": step.name, "outcome": outcome, "study": result["study"], "verdict": result["verdict"]})
        progress.announce(f"step {step.name}: {outcome}{_figure(result)}")
    _print_plan(results, kept, flags)
    return int(ExitCode.OK if kept else ExitCode.NOT_RESOLVED)


def _outcome_of(name: str, results: list[dict[str, object]]) -> object:
    return next((result["outcome"] for result in results if result["step"] == name), None)


def _read_plan(path: Path) -> Plan:
    from pgdyno.studies.plan_file import parse_plan

    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f'plan "{path}" cannot be read', detail=str(error)) from error
    return parse_plan(text, source=path.name)


def _say_by_hand(commands: tuple[str, ...], progress: Progress) -> None:
    for line in commands:
        progress.announce(f"not run, for you to decide: {line}")


def _figure(result: Mapping[str, object]) -> str:
    verdict = result["verdict"]
    ratio = verdict.get("ratio") if isinstance(verdict, dict) else None
    return f", {100 * (ratio - 1):+.1f} %" if isinstance(ratio, float) else ""


def _print(store: Store, result: Mapping[str, object], flags: Flags) -> None:
    from pgdyno.cli.study import print_result

    print_result(store, result, flags.on("as_json"))


def _print_plan(results: list[dict[str, object]], kept: Mapping[str, str], flags: Flags) -> None:
    import json

    if flags.on("as_json"):
        click.echo(json.dumps({"steps": results, "kept": dict(kept)}))
        return
    for result in results:
        verdict = result.get("verdict")
        words = f"{verdict['word']}{_figure(result)}" if isinstance(verdict, dict) else str(result.get("why"))
        click.echo(f"{result['outcome']!s:8} {result['step']!s:30} {words}  {result.get('study', '')}".rstrip())
    for name, value in kept.items():
        click.echo(f"{name} = '{value}'")


def _outage(budget: RestartBudget | None, outage: Outage | None) -> str:
    from pgdyno.cli.study import outage_text

    if budget is None:
        return outage_text("a restart before every trial", outage)
    if budget.is_reload_only:
        return "reloads only"
    return outage_text(f"restarts only where a knob needs one, budget {budget}", outage)


def _design(flags: Flags) -> Design:
    from pgdyno.stats.sequential import Design

    least, most = flags.least_and_most("pairs")
    return Design(
        smallest_effect=flags.real("smallest_effect"),
        confidence=flags.real("confidence"),
        min_pairs=least,
        max_pairs=most,
    )
