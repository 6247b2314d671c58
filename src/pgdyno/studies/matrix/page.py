"""The page of a matrix: the published table, curves by clients, locks, one factor at a time, what was skipped."""

from __future__ import annotations

from collections.abc import Sequence

from pgdyno.model.bottleneck import WORDS
from pgdyno.model.figure import Table
from pgdyno.model.matrix import BASELINE_NAME, MatrixRow, SkippedCell
from pgdyno.model.results.matrix import MatrixResult
from pgdyno.report import chapters, provenance
from pgdyno.report.bottleneck_section import QUESTION
from pgdyno.report.judgement import Judgement
from pgdyno.report.page_frame import framed
from pgdyno.report.run_details import failures_text, plans_of_sides
from pgdyno.report.sections import Block, FactList, Notice, Prose, Report, Section, TableBlock, Tile, Tone
from pgdyno.report.sizes import sizes_section
from pgdyno.report.study_record import StudyRecord
from pgdyno.report.wording import number_text
from pgdyno.stats.matrix import best_by_mode, contrasts, little
from pgdyno.studies.matrix.curves import curve_sentences, curves_sections
from pgdyno.studies.matrix.names import MODE_WORDS, CellNames, load_text
from pgdyno.studies.matrix.words import (
    best_sentences,
    contrast_table,
    little_table,
    matrix_table,
    notices,
    side_table,
)
from pgdyno.units import plural

CAPTION = (
    "TPS is the sum of all load generators over the window in which all ran, LAT their mean latency in ms. "
    "CPU % is that of the database's host alone. Locks are concurrencies: the mean number held at the samples, one a "
    "second, and the largest in parentheses, our own session excluded."
)

PRINTED_CAPTION = "TPS, LAT in ms, CPU % and locks as the table has them, which is not of pgdyno's making."


def matrix_page(record: StudyRecord) -> Report:
    """Return the report of a matrix; one that is not finished has no rows yet and says so."""
    study, result = record.study, record.study.told(MatrixResult)
    rows = [] if result is None else [one.row for one in result.rows]
    skipped = () if result is None else result.skipped
    printed = result is not None and result.printed
    answer = _answer(rows, skipped, () if result is None else result.notes)
    table = Section("matrix", "Matrix", "What did each cell reach?", _table_blocks(rows, result) if result else ())
    title = _title(rows) or f"No rows: the matrix is {study.state.value}"
    whole = bool(rows) and all(row.usable for row in rows)
    comparisons = _comparisons(rows) if rows else None
    return framed(
        record,
        Judgement(title, "" if rows else study.state.value, Tone.NEUTRAL if whole else Tone.UNSURE),
        (
            answer,
            table if rows else None,
            *(curves_sections(rows) if rows else ()),
            comparisons,
            _beside(rows) if contrasts(rows) else None,
            _plans(rows, record),
            None if printed else _bottlenecks(rows, record),
            _checks(rows) if rows else None,
            _sizes(rows),
            _skipped(skipped) if skipped else None,
            _method(result),
            chapters.about(study, record.trials),
        ),
        (one for one in (answer, table, comparisons) if one is not None and one.blocks),
        lead=f"{plural(len(rows), 'cell')}, on {study.target}",
        stamp=provenance.stamp(study, record.trials, ()) + _durability(rows),
        tiles=_tiles(rows),
    )


def _title(rows: Sequence[MatrixRow]) -> str | None:
    sentences = best_sentences(rows)
    if sentences:
        return sentences[0].rstrip(".")
    return "No cell was measured completely" if rows else None


def _durability(rows: Sequence[MatrixRow]) -> str:
    return " · some cells of class X: can lose committed data" if any(row.durability == "X" for row in rows) else ""


def _tiles(rows: Sequence[MatrixRow]) -> tuple[Tile, ...]:
    row = next(iter(best_by_mode(rows)), None)
    if row is None:
        return ()
    demand = little(row)
    latency = "unknown" if row.latency_ms is None else f"{number_text(row.latency_ms)} ms"
    detail = "" if demand is None else f"Little's law: {demand.busy:.1f} of {row.cell.connections} connections"
    return (
        Tile("greatest throughput", f"{number_text(row.tps)} tps", "", row.cell.configuration, "", Tone.NEUTRAL),
        Tile("at connections", str(row.cell.connections), "", f"{row.cell.instances} x {load_text(row.cell)}", "",
             Tone.NEUTRAL),
        Tile("mean latency there", latency, "", detail, "", Tone.NEUTRAL),
    )  # fmt: skip


def _answer(rows: Sequence[MatrixRow], skipped: Sequence[SkippedCell], notes: Sequence[str]) -> Section | None:
    if not rows:
        return None
    sentences = [*best_sentences(rows), *curve_sentences(rows)]
    blocks: list[Block] = [Prose(tuple(sentences), points=True)]
    if notice := [*notices(rows, skipped), *notes]:
        blocks.append(Notice(tuple(notice)))
    return Section("answer", "Answer", "Which cell is best, and where does more load stop to help?", tuple(blocks))


def _table_blocks(rows: Sequence[MatrixRow], result: MatrixResult) -> tuple[Block, ...]:
    systems = any(row.system or (row.cores is not None and row.vcpus is not None) for row in rows)
    said = " ".join(filter(None, (CAPTION, result.data, result.driver)))
    caption = PRINTED_CAPTION if result.printed else said
    return (TableBlock(matrix_table(rows, systems=systems), caption),)


def _comparisons(rows: Sequence[MatrixRow]) -> Section:
    found = contrasts(rows)
    if not found:
        block: Block = Prose(("No two complete rows differ in one factor alone at equal load.",))
    else:
        caption = (
            "Percentages are computed from the figures beside them: those of the rows, or with a claim geometric means "
            "over the repetitions that both have. A claim has the interval of interleaved repetitions, and all "
            "intervals of this table hold together with 95 % confidence."
        )
        block = TableBlock(contrast_table(found), caption)
    return Section("comparisons", "One factor at a time", "What does each factor do at equal load?", (block,))


def _beside(rows: Sequence[MatrixRow]) -> Section:
    caption = "What went with each comparison; locks are the mean number held."
    block = TableBlock(side_table(contrasts(rows)), caption)
    return Section("beside", "What went with it", "How did latency, CPU and locks change?", (block,))


def _plans(rows: Sequence[MatrixRow], record: StudyRecord) -> Section | None:
    """List the plans that a configuration changed against the baseline, by script and scale over all loads."""
    runs: dict[tuple[str, str, int], list[int]] = {}
    for row in rows:
        runs.setdefault((row.cell.configuration, row.cell.mode, row.cell.scale), []).extend(row.trials)
    several = len({(mode, scale) for _, mode, scale in runs}) > 1
    sides = [
        (f"{name}, {MODE_WORDS.get(mode, mode)}, scale {scale}" if several else name, before, after)
        for (name, mode, scale), after in runs.items()
        if name != BASELINE_NAME and (before := runs.get((BASELINE_NAME, mode, scale)))
    ]
    return plans_of_sides(record, sides, "configuration", (BASELINE_NAME, "the configuration"))


def _bottlenecks(rows: Sequence[MatrixRow], record: StudyRecord) -> Section | None:
    """Say what held the last complete run of each cell back, and what failed in it; None where nothing was kept."""
    names = CellNames.of_rows(rows)
    lines, evidence = [], []
    failures: dict[str, list[str]] = {}
    for row in rows:
        run = next((run for run in reversed(row.trials) if run in record.evidence), None)
        if run is None:
            continue
        found = record.evidence[run].bottleneck
        share = next((one.share for one in found.candidates if one.resource is found.resource), None)
        mark = " [X]" if row.durability == "X" else ""
        where = names.test(row.cell) + mark, f"{row.cell.instances} x {load_text(row.cell)}", str(run)
        second = "" if found.second is None else WORDS[found.second]
        lines.append((*where, WORDS[found.resource], "" if share is None else f"{100 * share:.0f} %", second))
        evidence += [(str(run), sentence) for sentence in (*found.evidence, *found.notes)]
        failures.setdefault(failures_text(record.evidence[run]), []).append(str(run))
    if not lines:
        return None
    columns = ("test", "load", "run", "limited by", "share of time", "next")
    said = tuple(f"{'Run' if len(runs) == 1 else 'Runs'} {', '.join(runs)}: {text}." for text, runs in failures.items())
    blocks = (
        TableBlock(Table(columns, tuple(lines), ("run", "share of time")), "The last complete run of each cell."),
        Prose(said, points=len(said) > 1),
        TableBlock(Table(("run", "evidence"), tuple(evidence), ("run",)), "The evidence, run by run.", folded=True),
    )
    return Section("bottleneck", "What limited it?", QUESTION, blocks)


def _checks(rows: Sequence[MatrixRow]) -> Section:
    caption = (
        "In a closed loop connections = throughput x latency; a row that is off by more than 1 % contradicts itself. "
        "The edges are sessions that were busy outside the window, which cuts transactions: they are taken off. "
        "Below, part of the clients' time is in no latency: load generators that waited for a CPU. "
        "The history table must have grown by exactly the transactions that were reported: a single number when it did."
    )
    return Section("checks", "Checks", "Do the rows hold together?", (TableBlock(little_table(rows), caption),))


def _sizes(rows: Sequence[MatrixRow]) -> Section | None:
    runs = [(str(row.trials[-1]) if row.trials else "", row.bytes_before, row.bytes_after) for row in rows]
    return sizes_section(
        runs, "Sizes of the database, and of its tables with their indexes, at the last run of each cell."
    )


def _skipped(skipped: Sequence[SkippedCell]) -> Section:
    names = CellNames.of([one.cell for one in skipped])
    lines = tuple(
        (one.cell.configuration, names.where(one.cell, "configuration"), one.cell.mode, one.reason) for one in skipped
    )
    table = Table(("configuration", "at", "mode", "why"), lines)
    return Section(
        "skipped",
        "Skipped",
        "Which cells were not measured, and why?",
        (TableBlock(table, f"{plural(len(lines), 'cell')}."),),
    )


def _method(result: MatrixResult | None) -> Section:
    rows = [] if result is None else list(result.method.items())
    rows += [] if result is None else [(f"{name} network", value) for name, value in result.network.items()]
    return Section("method", "How the cells were run", "What was the same for all cells?", (FactList(tuple(rows)),))
