"""Put a report together: the headline, the tiles, and the sections in the order in which a reader asks.

Pure: everything comes in `StudyRecord`, and nothing here opens the store. Which sections appear follows from what
the study has: a bench run has no verdict, an unfinished study no result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from pgdyno.model.results.ab import AbResult
from pgdyno.model.results.bench import BenchResult, RunSummary
from pgdyno.model.results.parts import Compared, Side, StudyResult
from pgdyno.model.results.tune import TuneResult
from pgdyno.model.study import StudyKind
from pgdyno.model.verdict import Metric, Verdict
from pgdyno.report import chapters, provenance, reliability
from pgdyno.report.appendix import closed
from pgdyno.report.data_checks import with_checks
from pgdyno.report.digest import digest
from pgdyno.report.held_back_section import held_back_section
from pgdyno.report.judgement import judged
from pgdyno.report.reads import reads_section
from pgdyno.report.run_details import plan_section, run_details
from pgdyno.report.sections import Report, Section, Tile, Tone
from pgdyno.report.side_names import names_of
from pgdyno.report.sizes import sizes_of
from pgdyno.report.study_record import StudyRecord as StudyRecord
from pgdyno.report.wording import capital, number_text, plural, tile
from pgdyno.studies.imported.page import imported_page
from pgdyno.studies.matrix.page import matrix_page
from pgdyno.studies.noise.page import noise_page
from pgdyno.studies.selftest.page import selftest_page
from pgdyno.studies.staircase.page import staircase_page
from pgdyno.studies.sweep.page import sweep_page
from pgdyno.studies.tune.gain_memory import gain_memory

BENCH_METRICS = (Metric.THROUGHPUT, Metric.LATENCY_P50, Metric.LATENCY_P99, Metric.SERVER_CPU)
TILE_METRICS = (Metric.THROUGHPUT, Metric.LATENCY_P99, Metric.SERVER_CPU)


def compose(record: StudyRecord) -> Report:
    """Return the report of a study, by the page of its kind where it has one, with what closes every report."""
    page = _PAGES.get(record.study.kind)
    made = compared(record) if page is None else page(record)
    return closed(record, with_checks(made, record))


def compared(record: StudyRecord) -> Report:
    """Return the report of a bench, an A/B or a tune: one side, or one against the other."""
    study, result = record.study, record.study.result
    verdict = result.headline if isinstance(result, Compared) else None
    retained = result.retained if isinstance(result, TuneResult) else ()
    origin = provenance.provenance(study, record.trials, result.elapsed_s if result else None)
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
        tiles=_tiles(result),
        sections=_sections(record, result, verdict),
        digest=digest(study, record.trials, result),
        provenance=origin,
    )


def _own(record: StudyRecord) -> str:
    """Say beside the figures of a bench that they are not those of the server as it was found."""
    own = len(record.trials[-1].spec.configuration) if record.trials and record.study.kind is StudyKind.BENCH else 0
    return f", with {plural(own, 'setting')} of its own" if own else ""


def _tiles(result: StudyResult | None) -> tuple[Tile, ...]:
    if isinstance(result, BenchResult):
        return _bench_tiles(result.usable[-1].figures) if result.usable else ()
    if not isinstance(result, Compared) or result.baseline is None or result.winner is None:
        return ()
    before, after, verdict = result.baseline, result.winner, result.verdict
    keep = isinstance(result, TuneResult) and result.keep
    if keep and verdict is None:
        return _one_sided(before)
    verdicts = {one.metric: one for one in (*result.closed_others, *((verdict,) if verdict else ()))}
    tiles = tuple(
        tile(verdicts.get(metric), metric, before.value(metric), after.value(metric))
        for metric in dict.fromkeys((*((verdict.metric,) if verdict else ()), *TILE_METRICS))
    )
    return tuple(replace(one, label=f"best candidate: {one.label}") for one in tiles) if keep else tiles


def _bench_tiles(run: RunSummary) -> tuple[Tile, ...]:
    nopm = run.counters.get("nopm")
    orders = () if nopm is None else (Tile("new orders", f"{number_text(nopm)} NOPM", "", "", "", Tone.NEUTRAL),)
    return (*orders, *_one_sided(run))


def _one_sided(side: RunSummary | Side) -> tuple[Tile, ...]:
    measured = [(metric, value) for metric in BENCH_METRICS if (value := side.value(metric)) is not None]
    return tuple(tile(None, metric, None, value) for metric, value in measured)


def _sections(record: StudyRecord, result: StudyResult | None, verdict: Verdict | None) -> tuple[Section, ...]:
    study, trials = record.study, record.trials
    tune = result if isinstance(result, TuneResult) else None
    pairs = result.confirmation.pairs if isinstance(result, Compared) else ()
    names = names_of(study.kind, keep=tune is not None and tune.keep)
    metric = verdict.metric if verdict else study.metric
    is_tune, is_bench = study.kind is StudyKind.TUNE, study.kind is StudyKind.BENCH
    candidates = (
        None if tune is None else chapters.change(tune, verdict, provenance.data_bytes(trials)),
        chapters.arms(result) if isinstance(result, AbResult) else None,
        chapters.own_settings(trials) if is_bench else None,
        None if tune is None else chapters.explanation(tune),
        None if tune is None else gain_memory(tune.pareto, metric),
        reliability.confidence(trials, result, verdict, names.subject, names.reference),
        reads_section(trials, pairs, (names.reference, names.subject)),
        chapters.search(trials, metric, tune) if is_tune else None,
        held_back_section(record.held_back),
        plan_section(result.plans, (names.reference, names.subject)) if isinstance(result, Compared) else None,
        chapters.flight(record.traces),
        run_details(record.judged),
        sizes_of(trials) if is_bench else None,
        reliability.unsuccessful(trials, tune, metric) if is_tune else None,
        chapters.about(study, trials),
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
