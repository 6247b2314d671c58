"""The page of a sweep, and of a factorial of two factors. Pure."""

from __future__ import annotations

from pgdyno.model.figure import Table
from pgdyno.model.results.parts import SweepFigures
from pgdyno.model.results.sweep import FactorialFigures, SweepResult
from pgdyno.model.verdict import Metric
from pgdyno.report import chapters
from pgdyno.report.digest import pointer, shortened
from pgdyno.report.page_frame import framed, inside_runs
from pgdyno.report.run_details import plans_of_arms
from pgdyno.report.runs_page import runs_page, runs_table
from pgdyno.report.sections import Block, Charts, Prose, Report, Section, TableBlock
from pgdyno.report.study_record import StudyRecord
from pgdyno.report.wording import (
    change_text,
    number_text,
    range_text,
    settings_text,
)
from pgdyno.studies.kinds import judged
from pgdyno.studies.sweep.figure import sweep_figure
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
