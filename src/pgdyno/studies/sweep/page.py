"""The page of a sweep, and of a factorial of two factors. Pure."""

from __future__ import annotations

from pgdyno.model.figure import Table
from pgdyno.model.results.parts import SweepFigures
from pgdyno.model.results.sweep import UNRESOLVED, FactorialFigures, SweepResult
from pgdyno.model.verdict import Metric
from pgdyno.report import chapters, provenance
from pgdyno.report.held_back_section import held_back_section
from pgdyno.report.run_details import run_details
from pgdyno.report.runs_page import runs_page, runs_table
from pgdyno.report.sections import Block, Charts, FactList, Prose, Report, Section, TableBlock, Tone
from pgdyno.report.side_plans import plans_of_arms
from pgdyno.report.study_record import StudyRecord
from pgdyno.report.wording import (
    capital,
    change_text,
    number_text,
    plural,
    range_text,
    settings_text,
)
from pgdyno.studies.sweep.figure import sweep_figure

EACH = (
    "Each level, against the first one in its own block: what all blocks say together need not be the ratio of the two "
    "medians, which are of the runs."
)


def sweep_page(record: StudyRecord) -> Report:
    """Return the report of a sweep or a factorial; of an unfinished one the list of its runs."""
    study, result = record.study, record.study.told(SweepResult)
    if result is None:
        return runs_page(record)
    if result.factorial is not None:
        answer = _factorial(result.factorial, result.metric)
    else:
        assert result.sweep is not None, "a sweep, or a factorial"
        answer = _sweep(result.sweep, result.metric)
    table = TableBlock(runs_table(record.trials), f"{plural(len(record.trials), 'run')}, in their order.", folded=True)
    runs = Section("runs", "Runs", "What was measured?", (table,))
    return Report(
        study=study.id,
        kind=study.kind.value,
        title=capital(result.title),
        word=result.word,
        tone=Tone.UNSURE if result.word == UNRESOLVED else Tone.NEUTRAL,
        lead=capital(f"{study.workload.description or study.workload.name}, on {study.target}"),
        stamp=provenance.stamp(study, record.trials, ()),
        tiles=(),
        sections=tuple(
            section
            for section in (
                answer,
                held_back_section(record.held_back),
                plans_of_arms(record, result.arms, "level" if result.sweep else "arm"),
                chapters.flight(record.traces),
                run_details(record.judged),
                runs,
                chapters.about(study, record.trials),
            )
            if section is not None
        ),
        digest=(_short(answer), _pointer(study.id)),
        provenance=provenance.provenance(study, record.trials, result.elapsed_s),
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
            number_text(arm.side.throughput),
            change_text(verdict.interval.ratio) if verdict else "",
            range_text(verdict.interval) if verdict else "",
            verdict.word.value if verdict else "",
        ))  # fmt: skip
    name = metric.label
    columns = ("arm", "settings", "transactions/s", f"{name} against neither", "interval", "word")
    rest = found.interaction if found.interaction.is_closed else None
    said = f"It is of {name}. Both times neither, over the one times the other: 1 when the two effects multiply."
    shown = f"The interaction ratio is {rest}. {said}" if rest is not None else said
    blocks: tuple[Block, ...] = (
        Prose((shown,)),
        TableBlock(Table(columns, tuple(rows), columns[2:5]), "The four arms, interleaved in blocks."),
    )
    return Section("factorial", "Two factors", "With and without each other, what are they worth?", blocks)


def _short(answer: Section) -> Section:
    blocks = tuple(block for block in answer.blocks if not isinstance(block, Charts))
    return Section(answer.id, answer.title, "", blocks)


def _pointer(study: str) -> Section:
    rows = (("in the terminal", f"pgdyno report {study}"), ("as a page", f"pgdyno report {study} -o report.html"))
    return Section("report", "The full report", "", (FactList(rows),))
