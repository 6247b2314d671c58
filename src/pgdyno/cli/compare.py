"""`pgdyno compare`: what two recorded runs, platforms, replays or iostat reports allow to say."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pgdyno.cli.arguments.flags import verb
from pgdyno.cli.arguments.store import open_store
from pgdyno.cli.comparing.flags import CompareFlags
from pgdyno.cli.comparing.steps import generations_command, steps_command
from pgdyno.cli.terminal.files import read_text
from pgdyno.cli.terminal.reporting import emit, format_of, print_found
from pgdyno.errors import UsageError
from pgdyno.model.verdict import RUN_METRICS, Metric

if TYPE_CHECKING:
    from pgdyno.model.evidence import DeviceActivity
    from pgdyno.model.results.parts.pair import PairResult


@verb("compare")
def command(flags: CompareFlags) -> int:
    """Compare two runs, two platforms, two replays, two databases, two iostat reports, generations, or steps.

    RUN RUN are numbers of `pgdyno store show`, or studies with one complete run; the second is compared with the first.
    Runs that are arms of one interleaved study are compared by all of its pairs. Other runs are shown side by side, and
    the verdict is "not resolved": a difference between two moments is not an effect.

    --platforms states ratios of A over B by every denominator, and no verdict. Exit code 3 when the two were not
    measured alike: another load, data set, driver, period or configuration.

    --data reads every table of two databases once, each in one snapshot, and names the rows that differ. Exit code 1
    when any does.

    --replay holds B against A: server against server where both are traces (the capture, and the log of the target's
    server), client against client where both are outcomes. It is one pair of runs, which its words say: what drifted
    between them counts as a difference. Exit code 1 when B is worse, 3 when the run does not count or nothing can be
    told.
    """
    ways = (flags.runs, flags.platforms, flags.replay, flags.data, flags.iostat, flags.generations, flags.steps)
    if len(list(filter(None, ways))) != 1 or len(flags.runs) not in (0, 2):
        raise UsageError(
            "compare needs two runs, --platforms, --replay, --data, --iostat, --generation or --step, and only one",
            hint="Write pgdyno compare 12 15, or pgdyno compare --platforms STUDY FILE.",
        )
    if flags.platforms:
        from pgdyno.cli.comparing.platforms import compare_command

        return compare_command(flags, flags.platforms)
    if flags.replay:
        from pgdyno.cli.comparing.replays import replays_command

        return replays_command(flags, *flags.replay)
    if flags.data:
        return _contents(flags, flags.data)
    if flags.iostat:
        return _iostat(flags, flags.iostat)
    if flags.generations:
        return generations_command(flags)
    if flags.steps:
        return steps_command(flags)
    return _compare_runs(flags)


def _contents(flags: CompareFlags, conninfos: tuple[str, str]) -> int:
    from pgdyno.cli.terminal.progress import Progress
    from pgdyno.contents.comparing import compare_contents
    from pgdyno.server.postgres import Postgres

    first, second = (Postgres.reached(conninfo, side) for conninfo, side in zip(conninfos, "AB", strict=True))
    found = compare_contents(first, second, jobs=flags.jobs, announce=Progress().announce)
    print_found(found, found.lines(), as_json=flags.as_json)
    return int(found.exit_code)


def _iostat(flags: CompareFlags, files: tuple[Path, Path]) -> int:
    from pgdyno.probes.evidence.iostat import compare
    from pgdyno.report.iostat_page import change_sentences, iostat_page, new_device_sentences
    from pgdyno.store.codec import to_json

    before, after = (_devices(path, flags.devices) for path in files)
    comparison, output = compare(before, after), flags.output
    if flags.as_json and output is None:
        said = [*change_sentences(comparison), *new_device_sentences(before, comparison)]
        values = {"before": before, "after": after, "comparison": comparison, "sentences": said}
        click.echo(json.dumps(to_json(values)))
        return 0
    emit(iostat_page(before, after, comparison), flags.wanted, output)
    return 0


def _devices(path: Path, wanted: tuple[str, ...]) -> tuple[DeviceActivity, ...]:
    from pgdyno.probes.evidence.iostat import mean_devices, parse_iostat

    hint = "Record one with iostat -x 10 2 > FILE."
    rows = mean_devices(parse_iostat(read_text(path, hint=hint, lenient=True)))
    found = tuple(row for row in rows if not wanted or row.device in wanted)
    if not found:
        raise UsageError(
            f'"{path}" has no device row of iostat -x' if not rows else f'"{path}" has none of these devices',
            detail=", ".join(row.device for row in rows) or None,
            hint=hint if not rows else "Name one that it has with --device.",
        )
    return found


def _compare_runs(flags: CompareFlags) -> int:
    from pgdyno.model.results.parts import EXIT_CODES
    from pgdyno.model.shapes import plain
    from pgdyno.stats.sequential import Design
    from pgdyno.studies.pairs.comparison import compare_runs, run_meant

    chosen = format_of(flags.wanted, flags.output)
    design = Design(smallest_effect=flags.smallest_effect, confidence=flags.confidence)
    with open_store(flags.store_url) as store:
        first, second = (run_meant(store, word) for word in flags.runs)
        comparison = compare_runs(store, first, second, Metric(flags.metric), design)
        if flags.output is not None or chosen != "text":
            from pgdyno.studies.reports import build_pair_report

            emit(build_pair_report(store, comparison), chosen, flags.output)
    if flags.as_json:
        click.echo(json.dumps(plain(comparison)))
    elif flags.output is None and chosen == "text":
        _print(comparison)
    return int(EXIT_CODES[comparison.verdict.word])


def _print(comparison: PairResult) -> None:
    from rich.table import Table

    from pgdyno.report.drawing.console import PlainConsole, pipe_width
    from pgdyno.report.wording import number_text

    console = PlainConsole(width=None if sys.stdout.isatty() else pipe_width())
    names = f"run {comparison.a.run}", f"run {comparison.b.run}"
    table = Table("metric", *names, " / ".join(reversed(names)), box=None, pad_edge=False)
    for metric in RUN_METRICS:
        a, b = comparison.a.value(metric), comparison.b.value(metric)
        ratio = f"{b / a:.3f}" if a and b is not None else "unknown"
        shown = ("unknown" if one is None else number_text(one) for one in (a, b))
        table.add_row(f"{metric.label}, {metric.unit}", *shown, ratio)
    console.print(table)
    for one in comparison.differences:
        console.print(f"{one.knob}: {one.a or 'as found'} -> {one.b or 'as found'}")
    for other in comparison.environment:
        console.print(f"warning: {other.what} differs: {other.a} and {other.b}")
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
