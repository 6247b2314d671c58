"""The page of a study that lists its runs: of an import without a form of its own, and of a sweep that is not over."""

from __future__ import annotations

from pgdyno.model.figure import Table
from pgdyno.model.results.imported import ImportedResult
from pgdyno.model.trial import Trial
from pgdyno.report import chapters
from pgdyno.report.judgement import Judgement
from pgdyno.report.page_frame import framed
from pgdyno.report.sections import Block, Prose, Report, Section, TableBlock, Tone
from pgdyno.report.study_record import StudyRecord
from pgdyno.report.wording import capital, rounded_text
from pgdyno.units import plural

COLUMNS = ("run", "what", "transactions/s", "p50 ms", "p99 ms", "state")


def runs_page(record: StudyRecord) -> Report:
    """Return the report: the result's own title and sentences, and a table of the runs."""
    study, result = record.study, record.study.told(ImportedResult)
    sentences = () if result is None else result.sentences
    told: tuple[Block, ...] = (Prose(sentences, points=len(sentences) > 1),) if sentences else ()
    runs = Section("runs", "Runs", "What was measured?", (TableBlock(runs_table(record.trials), _caption(record)),))
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


def runs_table(trials: tuple[Trial, ...]) -> Table:
    """Return one row a trial; what was not measured is empty."""
    return Table(COLUMNS, tuple(_row(trial) for trial in trials), COLUMNS[:1] + COLUMNS[2:5])


def _row(trial: Trial) -> tuple[str, ...]:
    outcome, latency = trial.outcome, trial.outcome.latency_ms if trial.outcome else None
    figures = (
        outcome.throughput if outcome else None,
        latency.p50 if latency else None,
        latency.p99 if latency else None,
    )
    what = " ".join([trial.spec.arm, *(f"{name}={value}" for name, value in trial.spec.factors.items())])
    return (str(trial.id), what, *(rounded_text(one) for one in figures), trial.state.value)


def _caption(record: StudyRecord) -> str:
    return f"{plural(len(record.trials), 'run')}, in the order in which they were made."
