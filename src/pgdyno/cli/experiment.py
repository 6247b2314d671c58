"""`pgdyno experiment --ab A.conf B.conf`: two configurations in interleaved pairs."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

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
from pgdyno.cli.safety import safety, safety_options
from pgdyno.cli.tune import METRICS
from pgdyno.errors import ExitCode

if TYPE_CHECKING:
    from pgdyno.model.configuration import Configuration
    from pgdyno.model.facts import Facts
    from pgdyno.model.trial import WorkloadSpec
    from pgdyno.stats.sequential import Design
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


@click.command("experiment")
@target_options
@workload_options
@safety_options
@click.option("--ab", nargs=2, type=click.Path(path_type=Path), required=True, metavar="A.conf B.conf",
              help="Two files of `name = value` lines; an empty file is the server as it is.")  # fmt: skip
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

    Exit code 0 for better or equivalent, 1 for worse, 3 for not resolved.
    """
    import secrets

    from pgdyno.cli.progress import Progress
    from pgdyno.cli.study import (
        check_report_path,
        confirm_changes,
        print_result,
        run_study,
        settings_from,
    )
    from pgdyno.knobs.policy import check_settings
    from pgdyno.model.study import StudyKind
    from pgdyno.model.verdict import Metric
    from pgdyno.studies.ab import ab, ab_result, within_budget
    from pgdyno.studies.stand import StudyRequest, linux_knobs
    from pgdyno.target.restart_budget import RestartBudget

    flags = Flags(values)
    report, files = flags.path("report"), flags.paths("ab")
    first, second = (settings_from(file) for file in files)
    check_report_path(report)
    design = _design(flags)
    metric = Metric(flags.choice("metric"))
    given = flags.number("seed")
    seed = secrets.randbelow(1 << 31) if given is None else int(given)
    restarts = flags.text("restarts")
    budget = None if restarts is None else RestartBudget.parse(restarts)
    store, progress = open_store(flags.text("store_url")), Progress()

    def planned(facts: Facts) -> tuple[Configuration, Configuration, Design]:
        a, b = check_settings(first, facts), check_settings(second, facts)
        return a, b, within_budget(design, budget, a, b, facts=facts, seed=seed)

    def check(target: Target, facts: Facts, workload: WorkloadSpec, outage: Outage | None) -> None:
        pairs = planned(facts)[2].max_pairs
        if pairs < design.max_pairs:
            progress.announce(f"restart budget {budget}: enough for {pairs} of {design.max_pairs} pairs")
        words, ask = f"up to {pairs} pairs of trials", not flags.on("yes")
        confirm_changes(target, workload, words, _outage(budget, outage), ask=ask)

    server, bound, safe = target_request(flags), bounds(flags), safety(flags)
    request = StudyRequest(
        kind=StudyKind.AB,
        name=f"A/B {files[0].name} {files[1].name}",
        target=server,
        workload=flags.choice("workload"),
        parameters=workload_parameters(flags),
        plan=load_plan(flags),
        options={
            "target": server.to_json(),
            "bounds": asdict(bound),
            "design": asdict(design),
            "metric": metric.value,
            "seed": seed,
            "safety": safe.to_json(),
            "restarts": None if budget is None else str(budget),
        },
        bounds=bound,
        guards=safe.plan(),
        watch=safe.deadlines(),
        restart="always" if budget is None else "as-needed",
        budget=budget,
        check=check,
        kernel=lambda *_: linux_knobs(first, second),
    )

    def body(stand: Stand) -> dict[str, object]:
        a, b, within = planned(stand.facts)
        comparison, blocks = ab(
            stand.laboratory, a, b, metric=metric, design=within, seed=seed, announce=progress.announce
        )
        return ab_result(stand.laboratory, comparison, blocks)

    result = run_study(request, store, progress, body, report)
    print_result(store, result, flags.on("as_json"))
    verdict = result["verdict"]
    assert isinstance(verdict, dict), "an A/B always has a verdict"
    return int(CODES[verdict["word"]])


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
