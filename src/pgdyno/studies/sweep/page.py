"""The page of a sweep, and of a factorial of two factors. Pure."""

from __future__ import annotations

from pgdyno.model.figure import Axis, Band, Figure, FigureKind, Mark, Series, Table
from pgdyno.model.results.parts import SweepFigures
from pgdyno.model.results.sweep import FactorialFigures, SweepResult
from pgdyno.model.verdict import Metric
from pgdyno.report import chapters
from pgdyno.report.digest import pointer, shortened
from pgdyno.report.page_frame import framed, inside_runs
from pgdyno.report.run_details import plans_of_arms
from pgdyno.report.runs_page import runs_page, runs_table
from pgdyno.report.scales import edge
from pgdyno.report.sections import Block, Charts, Prose, Report, Section, TableBlock
from pgdyno.report.study_record import StudyRecord
from pgdyno.report.wording import (
    capital,
    change_text,
    gained_text,
    number_text,
    range_text,
    settings_text,
)
from pgdyno.studies.kinds import judged
from pgdyno.studies.staircase.figure import CUT
from pgdyno.units import plural

EACH = (
    "Each level, against the first one in its own block: what all blocks say together need not be the ratio of the two "
    "medians, which are of the runs."
)


def sweep_page(record: StudyRecord) -> Report:
    """Return the report of a sweep or a factorial; of an unfinished one the list of its runs."""
    result = record.study.told(SweepResult)
    if result is None:
        return runs_page(record)
    if result.factorial is not None:
        answer = _factorial(result.factorial, result.metric)
    else:
        assert result.sweep is not None, "a sweep, or a factorial"
        answer = _sweep(result.sweep, result.metric)
    table = TableBlock(
        runs_table(record.trials, result.metric), f"{plural(len(record.trials), 'run')}, in their order.", folded=True
    )
    runs = Section("runs", "Runs", "What was measured?", (table,))
    return framed(
        record,
        judged(record.study),
        (
            answer,
            *inside_runs(record, plans_of_arms(record, result.arms, "level" if result.sweep else "arm")),
            runs,
            chapters.about(record.study, record.trials),
        ),
        (shortened(answer), pointer(record.study)),
    )


def _sweep(sweep: SweepFigures, metric: Metric) -> Section:
    said = [f"Levels of {sweep.knob}: {', '.join(one.level for one in sweep.levels)}."]
    if not sweep.flat:
        said.append(f"Optimum region: {', '.join(sweep.region)}. The plateau begins at {sweep.plateau}.")
        said.append(f"The level to take is {sweep.chosen}: nothing above it is shown to be better.")
    figure = sweep_figure(sweep, metric)
    blocks: list[Block] = [Prose((" ".join(said),))]
    if figure.table is not None:
        blocks.append(TableBlock(figure.table, EACH))
    return Section("sweep", "The sweep", figure.question, (*blocks, Charts((figure,))))


def _factorial(found: FactorialFigures, metric: Metric) -> Section:
    rows = []
    for arm in found.arms:
        verdict = arm.verdict if arm.verdict is not None and arm.verdict.interval.is_closed else None
        rows.append((
            arm.side.name,
            settings_text(arm.side.settings),
            number_text(arm.side.value(metric)),
            change_text(verdict.interval.ratio) if verdict else "",
            range_text(verdict.interval) if verdict else "",
            verdict.word.value if verdict else "",
        ))  # fmt: skip
    name = metric.label
    columns = ("arm", "settings", f"median {name}, {metric.unit}", f"{name} against neither", "interval", "word")
    rest = found.interaction if found.interaction.is_closed else None
    said = f"It is of {name}. Both times neither, over the one times the other: 1 when the two effects multiply."
    shown = f"The interaction ratio is {rest}. {said}" if rest is not None else said
    blocks: tuple[Block, ...] = (
        Prose((shown,)),
        TableBlock(
            Table(columns, tuple(rows), columns[2:5]),
            "The four arms, interleaved in blocks: figures are medians of their runs, ratios are of the blocks.",
        ),
    )
    return Section("factorial", "Two factors", "With and without each other, what are they worth?", blocks)


LOG_FROM = 8.0
"""A factor's axis is logarithmic when its largest level is so many times the smallest."""
COLUMNS = ("gain over the first level", "interval", "may be the best")


def sweep_figure(sweep: SweepFigures, metric: Metric) -> Figure:
    """Draw a sweep's result. Levels that are words stand in their order; gains are above 1 for better ones."""
    name, levels = metric.label, sweep.levels
    numbers = [level.number for level in levels]
    known = [number for number in numbers if number is not None]
    numeric = len(known) == len(levels)
    xs = tuple(known) if numeric else tuple(float(place) for place in range(len(levels)))
    gains = [level.gain if level.gain.is_closed else None for level in levels]
    scale = "log" if numeric and min(xs) > 0 and max(xs) / min(xs) >= LOG_FROM else "linear"
    rows = tuple(
        (
            level.level,
            number_text(level.figure),
            change_text(gain.ratio) if gain and place else "",
            range_text(gain) if gain and place else "",
            "yes" if level.in_region else "no",
        )
        for place, (level, gain) in enumerate(zip(levels, gains, strict=True))
    )
    region = [x for x, level in zip(xs, levels, strict=True) if level.in_region]
    taken = "" if sweep.flat else sweep.chosen  # where no level differs none is the one to take
    chosen = [x for x, level in zip(xs, levels, strict=True) if level.level == taken]
    drawn = [100 * gain.ratio for gain in gains if gain]
    top = edge(drawn, [100 * gain.hi for gain in gains if gain])
    said = (
        f"{plural(sweep.blocks, 'block')}, all levels once in each, in random order. The intervals of all "
        "pairs of levels hold together (Student on log ratios of the blocks, Bonferroni)."
    )
    return Figure(
        kind=FigureKind.LINES,
        id=f"sweep-{sweep.knob.replace('.', '-')}",
        title=capital(sweep.sentence),
        question=f"Which {sweep.knob} is the right one?",
        x=Axis(sweep.knob, unit=sweep.unit if numeric else "", scale=scale),
        y=Axis(f"{gained_text(metric)}, against the first level", unit="%", hi=top),
        series=(
            Series(
                "gain",
                xs,
                tuple(100 * gain.ratio if gain else None for gain in gains),
                tuple(100 * gain.lo if gain else None for gain in gains),
                tuple(100 * gain.hi if gain else None for gain in gains),
                labels=tuple(level.level for level in levels),
                group="total",
            ),
        ),
        bands=(Band("x", min(region), max(region), "may be the best"),) if len(region) > 1 else (),
        marks=(Mark("y", 100.0, "first level", "reference"), *(Mark("x", x, "taken") for x in chosen[:1])),
        table=Table(("level", f"median {name}", *COLUMNS), rows, (f"median {name}", *COLUMNS[:2])),
        caption=said if top is None else f"{said} {CUT}",
        n=sum(len(level.runs) for level in levels),
    )
