"""`pgdyno compare RUN RUN`: what two recorded runs allow to say."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from pgdyno.cli.flags import Flags
from pgdyno.cli.options import open_store, store_option
from pgdyno.cli.tune import METRICS
from pgdyno.errors import ExitCode

if TYPE_CHECKING:
    from pgdyno.model.trial import Trial
    from pgdyno.studies.comparison import RunComparison

CODES = {
    "better": ExitCode.OK,
    "equivalent": ExitCode.OK,
    "worse": ExitCode.FINDINGS,
    "not resolved": ExitCode.NOT_RESOLVED,
}


@click.command("compare")
@click.argument("runs", nargs=2, type=int, metavar="RUN RUN")
@click.option(
    "--metric", type=click.Choice(METRICS), default="throughput", show_default=True, help="What the verdict is on."
)
@click.option("--smallest-effect", type=click.FloatRange(0, 1, min_open=True), default=0.02, show_default=True,
              help="Smallest effect of interest; within it the runs are equivalent.")  # fmt: skip
@click.option("--confidence", type=click.FloatRange(0.5, 0.999), default=0.9975, show_default=True,
              help="Confidence of the interval.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@store_option
def command(**values: object) -> int:
    """Compare the second run with the first, by their numbers in `pgdyno store show`.

    Runs that are arms of one interleaved study are compared by all of its pairs. Other runs are shown side by side,
    and the verdict is "not resolved": a difference between two moments is not an effect.
    """
    from pgdyno.model.verdict import Metric
    from pgdyno.stats.sequential import Design
    from pgdyno.studies.comparison import compare_runs

    flags = Flags(values)
    design = Design(smallest_effect=flags.real("smallest_effect"), confidence=flags.real("confidence"))
    first, second = (int(word) for word in flags.words("runs"))
    with open_store(flags.text("store_url")) as store:
        comparison = compare_runs(store, first, second, Metric(flags.choice("metric")), design)
    if flags.on("as_json"):
        click.echo(json.dumps(_as_json(comparison)))
    else:
        _print(comparison)
    return int(CODES[comparison.verdict.word.value])


def _as_json(comparison: RunComparison) -> dict[str, object]:
    from pgdyno.studies.result import run_json, verdict_json

    return {
        "verdict": verdict_json(comparison.verdict),
        "interleaved": comparison.interleaved,
        "note": comparison.note,
        "a": run_json(comparison.a),
        "b": run_json(comparison.b),
        "differences": [{"knob": n, "a": a, "b": b} for n, a, b in comparison.differences],
    }


def _print(comparison: RunComparison) -> None:
    from rich.console import Console
    from rich.table import Table

    from pgdyno.model.verdict import Metric
    from pgdyno.studies.blocks import metric_of

    def cell(trial: Trial, metric: Metric) -> str:
        figure = metric_of(trial.outcome, metric) if trial.outcome else None
        return "unknown" if figure is None else f"{figure:,.4g}"

    console = Console()
    table = Table("metric", f"run {comparison.a.id}", f"run {comparison.b.id}", "B / A", box=None, pad_edge=False)
    for metric in Metric:
        a, b = (metric_of(t.outcome, metric) if t.outcome else None for t in (comparison.a, comparison.b))
        ratio = f"{b / a:.3f}" if a and b is not None else "unknown"
        table.add_row(metric.value, cell(comparison.a, metric), cell(comparison.b, metric), ratio)
    console.print(table)
    for name, before, after in comparison.differences:
        console.print(f"{name}: {before or 'as found'} -> {after or 'as found'}", highlight=False)
    if comparison.interleaved:
        console.print(f"verdict  {comparison.verdict.sentence()}", highlight=False)
    else:
        console.print("verdict  not resolved: one pair that is not interleaved proves nothing", highlight=False)
    console.print(comparison.note, highlight=False)
