"""The page of a study that lists its runs: of an import without a form of its own, and of a sweep that is not over."""

from __future__ import annotations

from collections.abc import Sequence

from pgdyno.model.figure import Table
from pgdyno.model.results.imported import ImportedResult
from pgdyno.model.trial import Trial
from pgdyno.model.verdict import RUN_METRICS, Metric
from pgdyno.report import chapters
from pgdyno.report.judgement import Judgement
from pgdyno.report.page_frame import framed
from pgdyno.report.sections import Block, Prose, Report, Section, TableBlock, Tone
from pgdyno.report.study_record import StudyRecord
from pgdyno.report.wording import capital, rounded_text
from pgdyno.units import plural

USUAL = (Metric.THROUGHPUT, Metric.LATENCY_P50, Metric.LATENCY_P99)


def runs_page(record: StudyRecord) -> Report:
    """Return the report: the result's own title and sentences, and a table of the runs."""
    study, result = record.study, record.study.told(ImportedResult)
    sentences = () if result is None else result.sentences
    told: tuple[Block, ...] = (Prose(sentences, points=len(sentences) > 1),) if sentences else ()
    runs = Section(
        "runs", "Runs", "What was measured?", (TableBlock(runs_table(record.trials, study.metric), _caption(record)),)
    )
    answer = (Section("answer", "Answer", "What came of it?", told),) if told else ()
    return framed(
        record,
        Judgement(
            result.title if result else f"{capital(study.kind.value)}: {study.state.value}",
            result.word if result else study.state.value,
            Tone.NEUTRAL if result else Tone.UNSURE,
        ),
        (*answer, chapters.flight(record.traces), runs, chapters.about(study, record.trials)),
        (*answer, runs),
    )


def runs_table(trials: tuple[Trial, ...], metric: Metric) -> Table:
    """Return one row a trial, with the metric that was asked for among its figures; not measured is empty."""
    metrics = tuple(one for one in dict.fromkeys((*USUAL, metric)) if one in RUN_METRICS)
    named = tuple("transactions/s" if one is Metric.THROUGHPUT else f"{one.short} {one.unit}" for one in metrics)
    rows = tuple(_row(trial, metrics) for trial in trials)
    return Table(("run", "what", *named, "state"), rows, ("run", *named))


def _row(trial: Trial, metrics: Sequence[Metric]) -> tuple[str, ...]:
    figures = (None if trial.outcome is None else trial.outcome.figure(one) for one in metrics)
    what = " ".join([trial.spec.arm, *(f"{name}={value}" for name, value in trial.spec.factors.items())])
    return (str(trial.id), what, *(rounded_text(one) for one in figures), trial.state.value)


def _caption(record: StudyRecord) -> str:
    return f"{plural(len(record.trials), 'run')}, in the order in which they were made."
