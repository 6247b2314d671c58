"""Put a report together: the headline, the tiles, and the sections in the order in which a reader asks.

Pure: everything comes in `StudyRecord`, and nothing here opens the store. Which sections appear follows from what
the study has: a bench run has no verdict, an unfinished study no result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from pgdyno.model.study import Retained, StudyKind
from pgdyno.model.verdict import Metric, Verdict
from pgdyno.report import chapters, provenance, reliability
from pgdyno.report.appendix import closed
from pgdyno.report.data_checks import with_checks
from pgdyno.report.digest import digest
from pgdyno.report.gain_memory import gain_memory
from pgdyno.report.held_back_section import held_back_section
from pgdyno.report.imported_page import imported_page
from pgdyno.report.judgement import judged, used_runs
from pgdyno.report.matrix_page import matrix_page
from pgdyno.report.noise_page import noise_page
from pgdyno.report.reading import (
    Fields,
    effects_of,
    measured_only_baseline,
    open_verdict_of,
    pairs_of,
    side_of,
    sides_of,
    unmeasured_of,
    verdicts_of,
)
from pgdyno.report.reads import reads_section
from pgdyno.report.run_details import plan_section, run_details
from pgdyno.report.sections import Report, Section, Tile, Tone
from pgdyno.report.selftest_page import selftest_page
from pgdyno.report.side_names import names_of
from pgdyno.report.sizes import sizes_of
from pgdyno.report.staircase_page import staircase_page
from pgdyno.report.study_record import StudyRecord as StudyRecord
from pgdyno.report.sweep_page import sweep_page
from pgdyno.report.wording import capital, number_text, plural, tile

BENCH_METRICS = (Metric.THROUGHPUT, Metric.LATENCY_P50, Metric.LATENCY_P99, Metric.SERVER_CPU)
TILE_METRICS = (Metric.THROUGHPUT, Metric.LATENCY_P99, Metric.SERVER_CPU)


def compose(record: StudyRecord) -> Report:
    """Return the report of a study, by the page of its kind where it has one, with what closes every report."""
    page = _PAGES.get(record.study.kind)
    made = compared(record) if page is None else page(record)
    return closed(record, with_checks(made, record))


def compared(record: StudyRecord) -> Report:
    """Return the report of a bench, an A/B or a tune: one side, or one against the other."""
    study, result = record.study, Fields(record.study.result or {})
    verdict = open_verdict_of(result.child("verdict"))
    measured = effects_of(result, verdict.interval.confidence if verdict else 0.95)
    retained: tuple[Retained, ...] = (*measured, *unmeasured_of(result))
    origin = provenance.provenance(study, record.trials, result.number("elapsed_s"))
    said = judged(study)
    return Report(
        study=study.id,
        kind=study.kind.value,
        title=said.title,
        word=said.word,
        tone=said.tone,
        lead=capital(
            f"{study.workload.description or study.workload.name}, "
            f"{plural(study.plan.clients, 'client')}, on {study.target}{_own(record)}"
        ),
        stamp=provenance.stamp(study, record.trials, retained),
        tiles=_tiles(study.kind, result, verdict),
        sections=_sections(record, result, verdict, retained),
        digest=digest(study, record.trials, result, verdict, retained),
        provenance=origin,
    )


def _own(record: StudyRecord) -> str:
    """Say beside the figures of a bench that they are not those of the server as it was found."""
    own = len(record.trials[-1].spec.configuration) if record.trials and record.study.kind is StudyKind.BENCH else 0
    return f", with {plural(own, 'setting')} of its own" if own else ""


def _tiles(kind: StudyKind, result: Fields, verdict: Verdict | None) -> tuple[Tile, ...]:
    if not result.members:
        return ()
    is_bench = kind is StudyKind.BENCH
    if is_bench or measured_only_baseline(result):
        used = used_runs(result)[0] if is_bench else []
        if is_bench and not used:
            return ()
        side = side_of(used[-1]) if is_bench else sides_of(result)[0]
        measured = [(metric, value) for metric in BENCH_METRICS if (value := side.value(metric)) is not None]
        tiles = tuple(tile(None, metric, None, value) for metric, value in measured)
        nopm = used[-1].child("counters").number("nopm") if is_bench else None
        orders = () if nopm is None else (Tile("new orders", f"{number_text(nopm)} NOPM", "", "", "", Tone.NEUTRAL),)
        return (*orders, *tiles)
    before, after = sides_of(result)
    verdicts = {one.metric: one for one in (*verdicts_of(result), *((verdict,) if verdict else ()))}
    tiles = tuple(
        tile(verdicts.get(metric), metric, before.value(metric), after.value(metric))
        for metric in dict.fromkeys((*((verdict.metric,) if verdict else ()), *TILE_METRICS))
    )
    if not result.flag("keep"):
        return tiles
    return tuple(replace(one, label=f"best candidate: {one.label}") for one in tiles)


def _sections(
    record: StudyRecord, result: Fields, verdict: Verdict | None, retained: Sequence[Retained]
) -> tuple[Section, ...]:
    study, names = record.study, names_of(record.study.kind, keep=result.flag("keep"))
    metric = verdict.metric if verdict else study.metric
    candidates = (
        chapters.change(result, retained, verdict, provenance.data_bytes(record.trials))
        if study.kind is StudyKind.TUNE
        else None,
        chapters.arms(sides_of(result)) if study.kind is StudyKind.AB and result.members else None,
        chapters.own_settings(record.trials) if study.kind is StudyKind.BENCH else None,
        chapters.explanation(result),
        gain_memory(result, metric),
        reliability.confidence(record.trials, result, verdict, names.subject, names.reference),
        reads_section(record.trials, pairs_of(result), (names.reference, names.subject)),
        chapters.search(record.trials, metric, result) if study.kind is StudyKind.TUNE else None,
        held_back_section(record.held_back),
        plan_section(result, (names.reference, names.subject)),
        chapters.flight(record.traces),
        run_details(record.judged),
        sizes_of(record.trials) if study.kind is StudyKind.BENCH else None,
        reliability.unsuccessful(record.trials, result, metric) if study.kind is StudyKind.TUNE else None,
        chapters.about(study, record.trials),
    )
    return tuple(section for section in candidates if section is not None)


_PAGES: Mapping[StudyKind, Callable[[StudyRecord], Report]] = {
    StudyKind.MATRIX: matrix_page,
    StudyKind.STAIRCASE: staircase_page,
    StudyKind.SWEEP: sweep_page,
    StudyKind.NOISE: noise_page,
    StudyKind.SELFTEST: selftest_page,
    StudyKind.IMPORTED: imported_page,
}
