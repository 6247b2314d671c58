"""The page of two runs side by side: the verdict where they are arms of one interleaved study, else none. Pure."""

from __future__ import annotations

from pgdyno.model.figure import Table
from pgdyno.model.results.bench import RunSummary
from pgdyno.model.results.parts.pair import PairResult
from pgdyno.model.verdict import RUN_METRICS
from pgdyno.report import chapters, provenance
from pgdyno.report.appendix import closed
from pgdyno.report.bottleneck_section import bottleneck_section
from pgdyno.report.data_checks import with_checks
from pgdyno.report.run_details import plan_section, run_details
from pgdyno.report.sections import Block, Prose, Report, Section, TableBlock
from pgdyno.report.study_record import StudyRecord
from pgdyno.report.tiles import COMPARED, judged_tile, tile
from pgdyno.report.wording import TONES, Tone, capital, quantity_text, sentence

QUESTION = "How does the second run compare with the first?"


def pair_page(record: StudyRecord, result: PairResult) -> Report:
    """Return the report of two runs; `result` is what `compare --json` prints, the record holds these runs alone."""
    study = record.study
    a, b = result.a, result.b
    names = f"run {a.run}", f"run {b.run}"
    verdict = result.verdict if result.interleaved and result.verdict.interval.is_closed else None
    title = f"{capital(names[1])} beside {names[0]}: not resolved, one pair that is not interleaved proves nothing"
    blocks: list[Block] = [
        Prose((f"{capital(result.note)}.",)),
        TableBlock(_figures(a, b, names), "Figures of these two runs alone."),
    ]
    differ = tuple((one.knob, one.a or "as found", one.b or "as found") for one in result.differences)
    if differ:
        blocks.append(
            TableBlock(Table(("setting", *names), differ), "Settings, and factors of a plan, in which they differ.")
        )
    unlike = tuple((one.what, one.a, one.b) for one in result.environment)
    if unlike:
        blocks.append(TableBlock(Table(("what", *names), unlike), "Where their servers and hosts differ."))
    method = None if verdict else (chapters.COUNTED,)
    found = (
        Section("answer", "Answer", QUESTION, tuple(blocks)),
        bottleneck_section(record.bottlenecks),
        plan_section(result.plans, names),
        chapters.flight(record.traces),
        run_details(record.judged),
        chapters.about(study, record.trials, method),
    )
    report = Report(
        study=study.id,
        kind="comparison",
        title=title if verdict is None else sentence(verdict, names[1], names[0]),
        word="not resolved" if verdict is None else verdict.word.value,
        tone=Tone.UNSURE if verdict is None else TONES[verdict.word],
        lead=capital(f"{study.workload.description or study.workload.name}, on {study.target}"),
        stamp=provenance.stamp(study, record.trials, ()),
        tiles=tuple(
            judged_tile(verdict, f"of {result.note}")
            if verdict is not None and verdict.metric is metric
            else tile(None, metric, a.value(metric), b.value(metric))
            for metric in dict.fromkeys((*((verdict.metric,) if verdict else ()), *COMPARED))
        ),
        sections=tuple(section for section in found if section is not None),
        provenance=provenance.provenance(study, record.trials, None),
        label=f"comparison of {names[0]} and {names[1]}",
    )
    return closed(record, with_checks(report, record))


def _figures(a: RunSummary, b: RunSummary, names: tuple[str, str]) -> Table:
    rows = []
    for metric in RUN_METRICS:
        before, after = a.value(metric), b.value(metric)
        shown = ("unknown" if one is None else quantity_text(one, metric.unit) for one in (before, after))
        ratio = f"{after / before:.3f}" if before and after is not None else "unknown"
        rows.append((metric.label, *shown, ratio))
    return Table(("metric", *names, "second / first"), tuple(rows), (*names, "second / first"))
