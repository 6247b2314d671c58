"""The page of a sweep, and of a factorial of two factors. Pure."""

from __future__ import annotations

from pgdyno.model.figure import Table
from pgdyno.report import chapters, provenance
from pgdyno.report.held_back_section import held_back_section
from pgdyno.report.reading import Fields, interval_of, verdict_of
from pgdyno.report.run_details import run_details
from pgdyno.report.runs_page import runs_page, runs_table
from pgdyno.report.sections import Block, Charts, FactList, Prose, Report, Section, TableBlock, Tone
from pgdyno.report.side_plans import plans_of_arms
from pgdyno.report.study_record import StudyRecord
from pgdyno.report.sweep_figure import sweep_figure
from pgdyno.report.wording import (
    capital,
    change_text,
    metric_named,
    number_text,
    plural,
    range_text,
    settings_text,
)

EACH = (
    "Each level, against the first one in its own block: what all blocks say together need not be the ratio of the two "
    "medians, which are of the runs."
)


def sweep_page(record: StudyRecord) -> Report:
    """Return the report of a sweep or a factorial; of an unfinished one the list of its runs."""
    study, result = record.study, Fields(record.study.result or {})
    if not result.members:
        return runs_page(record)
    sweep, metric = result.child("sweep"), result.text("metric")
    is_sweep = bool(sweep.members)
    answer = _sweep(sweep, metric) if is_sweep else _factorial(result.child("factorial"), metric)
    table = TableBlock(runs_table(record.trials), f"{plural(len(record.trials), 'run')}, in their order.", folded=True)
    runs = Section("runs", "Runs", "What was measured?", (table,))
    return Report(
        study=study.id,
        kind=study.kind.value,
        title=capital(result.text("title")),
        word=result.text("word"),
        tone=Tone.UNSURE if result.text("word") == "not resolved" else Tone.NEUTRAL,
        lead=capital(f"{study.workload.description or study.workload.name}, on {study.target}"),
        stamp=provenance.stamp(study, record.trials, ()),
        tiles=(),
        sections=tuple(
            section
            for section in (
                answer,
                held_back_section(record.held_back),
                plans_of_arms(record, _arms(result), "level" if is_sweep else "arm"),
                chapters.flight(record.traces),
                run_details(record.judged),
                runs,
                chapters.about(study, record.trials),
            )
            if section is not None
        ),
        digest=(_short(answer), _pointer(study.id)),
        provenance=provenance.provenance(study, record.trials, result.number("elapsed_s")),
    )


def _arms(result: Fields) -> list[str]:
    """Return the names of the levels, or of the arms of a factorial, the reference first."""
    levels = [one.text("level") for one in result.child("sweep").children("levels")]
    return levels or [one.text("name") for one in result.child("factorial").children("arms")]


def _sweep(sweep: Fields, metric: str) -> Section:
    region = ", ".join(sweep.texts("region"))
    said = [f"Levels of {sweep.text('knob')}: {', '.join(one.text('level') for one in sweep.children('levels'))}."]
    if not sweep.flag("flat"):
        said.append(f"Optimum region: {region}. The plateau begins at {sweep.text('plateau')}.")
        said.append(f"The level to take is {sweep.text('chosen')}: nothing above it is shown to be better.")
    figure = sweep_figure(sweep, metric)
    blocks: list[Block] = [Prose((" ".join(said),))]
    if figure.table is not None:
        blocks.append(TableBlock(figure.table, EACH))
    return Section("sweep", "The sweep", figure.question, (*blocks, Charts((figure,))))


def _factorial(found: Fields, metric: str) -> Section:
    rows = []
    for arm in found.children("arms"):
        verdict = verdict_of(arm.child("verdict"))
        rows.append((
            arm.text("name"),
            settings_text(arm.settings("settings")),
            number_text(arm.number("throughput")),
            change_text(verdict.interval.ratio) if verdict else "",
            range_text(verdict.interval) if verdict else "",
            verdict.word.value if verdict else "",
        ))  # fmt: skip
    name = metric_named(metric).label
    columns = ("arm", "settings", "transactions/s", f"{name} against neither", "interval", "word")
    rest = interval_of(found.child("interaction"))
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
