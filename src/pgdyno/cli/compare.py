"""`pgdyno compare`: what two recorded runs, platforms, replays or iostat reports allow to say."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pgdyno.cli.arguments.flags import Flags
from pgdyno.cli.arguments.help_groups import GroupedCommand
from pgdyno.cli.arguments.store import open_store, store_option
from pgdyno.cli.requests.study_request import METRICS
from pgdyno.cli.terminal.reporting import emit, format_of, format_option
from pgdyno.errors import UsageError
from pgdyno.model.verdict import STRICT_CONFIDENCE

if TYPE_CHECKING:
    from pgdyno.model.results.pair import PairResult
    from pgdyno.model.trial import Trial
    from pgdyno.studies.pairs.comparison import RunComparison


@click.command("compare", cls=GroupedCommand)
@click.argument("runs", nargs=-1, type=int, metavar="[RUN RUN]")
@click.option("--platforms", nargs=2, metavar="A B",
              help="Two platforms: studies of this store or files of pgdyno bundle; NAME=STUDY names one.")  # fmt: skip
@click.option("--iostat", nargs=2, type=click.Path(path_type=Path, exists=True, dir_okay=False),
              metavar="BEFORE AFTER", help="Two texts of iostat -x.")  # fmt: skip
@click.option("--replay", nargs=2, type=click.Path(path_type=Path, exists=True), metavar="A B",
              help="Two outcomes of a replay, or the trace of the capture or of a server's log.")  # fmt: skip
@click.option("--trace", type=click.Path(path_type=Path, exists=True, dir_okay=False),
              help="The trace that was replayed.  [default: as the outcome says, or A]")  # fmt: skip
@click.option("--again", type=click.Path(path_type=Path, exists=True), metavar="AA",
              help="A second replay on the platform of A: what equal platforms give.")  # fmt: skip
@click.option("--outcome", type=click.Path(path_type=Path, exists=True),
              help="The outcome of B, where B is the log of its server: whether the schedule was kept.")  # fmt: skip
@click.option("--required", type=click.FloatRange(0, 100), default=95.0, show_default=True, metavar="PERCENT",
              help="How many transactions of a replay must not be slower.")  # fmt: skip
@click.option("--error-limit", type=click.FloatRange(0, 100), metavar="PERCENT",
              help="Unexpected answers that void a replay.  [default: as fixed before it, or 1]")  # fmt: skip
@click.option("--effect-percent", type=click.FloatRange(0, 1000, min_open=True), default=5.0, show_default=True,
              help="A class of a replay that changed by less is not named.")  # fmt: skip
@click.option("--effect-ms", type=click.FloatRange(0, 1e6), default=1.0, show_default=True,
              help="The same in milliseconds; both limits must be passed.")  # fmt: skip
@click.option("--duration-classes", metavar="MS,MS,...",
              help="Ends of the duration classes of a replay.  [default: 101,201,501,1001,2001,5001]")  # fmt: skip
@click.option("--generation", "generations", multiple=True, metavar="STEP=METRIC/CLOCK",
              help="A step between machines, such as 'z900->z990=2.2/1.6'; may be given again.")  # fmt: skip
@click.option("--step", "steps", multiple=True, metavar="NAME=PERCENT",
              help="What a step of a printed tuning gained over the one before; may be given again.")  # fmt: skip
@click.option("--stated", type=click.FloatRange(0, 1e6, min_open=True), metavar="PERCENT",
              help="Where the steps are said to end, in percent of their baseline.")  # fmt: skip
@click.option(
    "--metric", type=click.Choice(METRICS), default="throughput", show_default=True, help="What the verdict is on."
)
@click.option("--smallest-effect", type=click.FloatRange(0, 1, min_open=True), default=0.02, show_default=True,
              help="Smallest effect of interest; within it the runs are equivalent.")  # fmt: skip
@click.option("--confidence", type=click.FloatRange(0.5, 0.999), default=STRICT_CONFIDENCE, show_default=True,
              help="Confidence of the interval of two runs.")  # fmt: skip
@click.option("--count", "counts", multiple=True, metavar="NAME.WHAT=N",
              help="Cores, threads, sockets or vcpus, such as A.cores=8; may be given again.")  # fmt: skip
@click.option("--price", "prices", multiple=True, metavar="NAME=PRICE[/core]",
              help="What a platform costs, in any currency; for both of them.")  # fmt: skip
@click.option("--own-settings", is_flag=True, help="Each platform has settings of its own: list them, do not refuse.")
@click.option("--device", "devices", multiple=True, metavar="NAME", help="Only this device of iostat; again for more.")
@click.option(
    "--of",
    "subject",
    default="the metric",
    show_default=True,
    help="What the figures of --generation and --step are of.",
)
@format_option
@click.option("--output", "-o", type=click.Path(path_type=Path, dir_okay=False), help="Write the report here.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@store_option
def command(**values: object) -> int:
    """Compare two runs, two platforms, two replays, two iostat reports, machine generations, or steps.

    RUN RUN are numbers of `pgdyno store show`; the second is compared with the first. Runs that are arms of one
    interleaved study are compared by all of its pairs. Other runs are shown side by side, and the verdict is
    "not resolved": a difference between two moments is not an effect.

    --platforms states ratios of A over B by every denominator, and no verdict. Exit code 3 when the two were not
    measured alike: another load, data set, driver, period or configuration.

    --replay holds B against A: server against server where both are traces (the capture, and the log of the target's
    server), client against client where both are outcomes. Exit code 1 when B is worse, 3 when the run does not count
    or nothing can be told.
    """
    flags = Flags(values)
    ways = [name for name in ("runs", "platforms", "replay", "iostat", "generations", "steps") if flags.words(name)]
    if len(ways) != 1 or len(flags.words("runs")) not in (0, 2):
        raise UsageError(
            "compare needs two runs, --platforms, --replay, --iostat, --generation or --step, and one of them only",
            hint="Write pgdyno compare 12 15, or pgdyno compare --platforms STUDY FILE.",
        )
    if ways == ["platforms"]:
        from pgdyno.cli.comparing.platforms import compare_command

        return compare_command(flags)
    if ways == ["replay"]:
        from pgdyno.cli.comparing.replays import replays_command

        return replays_command(flags)
    if ways == ["iostat"]:
        from pgdyno.cli.comparing.iostat import iostat_command

        return iostat_command(flags)
    if ways == ["generations"]:
        from pgdyno.cli.comparing.generations import generations_command

        return generations_command(flags)
    if ways == ["steps"]:
        from pgdyno.cli.comparing.steps import steps_command

        return steps_command(flags)
    return _compare_runs(flags)


def _compare_runs(flags: Flags) -> int:
    from pgdyno.model.results.parts import EXIT_CODES
    from pgdyno.model.shapes import plain
    from pgdyno.model.verdict import Metric
    from pgdyno.stats.sequential import Design
    from pgdyno.studies.pairs.comparison import compare_runs

    output = flags.path("output")
    chosen = format_of(flags.text("wanted"), output)
    design = Design(smallest_effect=flags.real("smallest_effect"), confidence=flags.real("confidence"))
    first, second = (int(word) for word in flags.words("runs"))
    with open_store(flags.text("store_url")) as store:
        comparison = compare_runs(store, first, second, Metric(flags.choice("metric")), design)
        if output is not None or chosen != "text":
            from pgdyno.studies.reports import build_pair_report

            emit(build_pair_report(store, _record(comparison)), chosen, output)
    if flags.on("as_json"):
        click.echo(json.dumps(plain(_record(comparison))))
    elif output is None and chosen == "text":
        _print(comparison)
    return int(EXIT_CODES[comparison.verdict.word])


def _record(comparison: RunComparison) -> PairResult:
    from pgdyno.model.results.pair import Different, PairResult, Setting
    from pgdyno.studies.pairs.result import run_figures

    return PairResult(
        verdict=comparison.verdict,
        interleaved=comparison.interleaved,
        note=comparison.note,
        a=run_figures(comparison.a),
        b=run_figures(comparison.b),
        differences=tuple(Setting(knob=n, a=a, b=b) for n, a, b in comparison.differences),
        plans=comparison.plans,
        environment=tuple(Different(what=what, a=a, b=b) for what, a, b in comparison.environment),
    )


def _print(comparison: RunComparison) -> None:
    from rich.table import Table

    from pgdyno.model.verdict import RUN_METRICS, Metric
    from pgdyno.report.drawing.console import PIPE_WIDTH, PlainConsole
    from pgdyno.report.wording import number_text
    from pgdyno.studies.pairs.blocks import metric_of

    def cell(trial: Trial, metric: Metric) -> str:
        figure = metric_of(trial.outcome, metric) if trial.outcome else None
        return "unknown" if figure is None else number_text(figure)

    console = PlainConsole(width=None if sys.stdout.isatty() else PIPE_WIDTH)
    table = Table("metric", f"run {comparison.a.id}", f"run {comparison.b.id}", "B / A", box=None, pad_edge=False)
    for metric in RUN_METRICS:
        a, b = (metric_of(t.outcome, metric) if t.outcome else None for t in (comparison.a, comparison.b))
        ratio = f"{b / a:.3f}" if a and b is not None else "unknown"
        table.add_row(f"{metric.label}, {metric.unit}", cell(comparison.a, metric), cell(comparison.b, metric), ratio)
    console.print(table)
    for name, before, after in comparison.differences:
        console.print(f"{name}: {before or 'as found'} -> {after or 'as found'}")
    for what, on_a, on_b in comparison.environment:
        console.print(f"warning: {what} differs: {on_a} and {on_b}")
    for change in comparison.plans:
        if change.word != "same":
            before, after = " or ".join(change.before), " or ".join(change.after)
            console.print(f"plan {change.word}  {change.statement}: {before} -> {after}")
            for what in change.what:
                console.print(f"  {what}")
    if comparison.interleaved:
        console.print(f"verdict  {comparison.verdict.sentence()}")
    else:
        console.print("verdict  not resolved: one pair that is not interleaved proves nothing")
    console.print(comparison.note)
