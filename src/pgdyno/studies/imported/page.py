"""The page of an imported study: what another tool's files say, and that nothing else is known. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from pgdyno.model.figure import Table
from pgdyno.model.results.imported import ImportedResult
from pgdyno.model.study import files_of
from pgdyno.model.trial import Trial
from pgdyno.report.digest import pointer
from pgdyno.report.judgement import Judgement
from pgdyno.report.page_frame import framed
from pgdyno.report.runs_page import runs_page
from pgdyno.report.sections import Block, FactList, Prose, Report, Section, Tone
from pgdyno.report.study_record import StudyRecord
from pgdyno.report.wording import number_text
from pgdyno.units import plural

_UNKNOWN = (
    "The files say nothing of {}the server's settings, or of what else ran: a comparison with runs that pgdyno "
    "measured would compare two unlike things."
)
TIMES = (("calls", "calls"), ("avg_ms", "mean ms"), ("p50_ms", "p50 ms"), ("p95_ms", "p95 ms"), ("p99_ms", "p99 ms"))


def imported_page(record: StudyRecord) -> Report:
    """Return the page; runs that have no orders a minute keep the plain form of any list of runs."""
    study, result = record.study, record.study.told(ImportedResult)
    if not any(trial.outcome and "nopm" in trial.outcome.counters for trial in record.trials):
        return runs_page(record)
    sentences = () if result is None else result.sentences
    unknown = _UNKNOWN.format("" if result is not None and result.machine_told else "the machine, of ")
    told: tuple[Block, ...] = (Prose(sentences, points=True), Prose((unknown,)))
    answer = Section("answer", "Answer", "What do the files say?", told)
    caption = "Each procedure for itself: percentiles of several cannot be put together."
    times = Section.of_table("times", "Times", "How long did a procedure take?", _times(record.trials), caption)
    files = [(name, f"sha256 {seal}") for name, seal in files_of(study)]
    facts = FactList((("said to be made on", study.target), ("workload", study.workload.description), *files))
    about = Section("about", "Environment and method", "Where do these figures come from?", (facts,))
    title = result.title if result else f"{plural(len(record.trials), 'run')}, imported"
    return framed(
        record,
        Judgement(title, result.word if result else study.state.value, Tone.NEUTRAL),
        (answer, times, about),
        (answer, pointer(study)),
        lead=f"{study.workload.description}, on {study.target}",
        stamp="Read from files: environment, settings and disturbances unknown",
    )


def _times(trials: Sequence[Trial]) -> Table:
    columns = ("run", "procedure", *(label for _, label in TIMES))
    rows: list[tuple[str, ...]] = []
    for trial in trials:
        counters = trial.outcome.counters if trial.outcome else {}
        for name in sorted(key.removesuffix("_calls") for key in counters if key.endswith("_calls")):
            cells = [counters.get(f"{name}_{key}") for key, _ in TIMES]
            figures = ("" if cell is None else number_text(cell) for cell in cells)
            rows.append((str(trial.id), name, *figures))
    return Table(columns, tuple(rows), (columns[0], *columns[2:]))
