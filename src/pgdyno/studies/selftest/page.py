"""The page of a self-test: a table of cases with what was expected, what was found and whether they pass."""

from __future__ import annotations

from pgdyno.model.figure import Table
from pgdyno.model.results.selftest import CaseRecord, CaseWord, SelftestResult
from pgdyno.report import chapters
from pgdyno.report.judgement import Judgement, standing_text
from pgdyno.report.page_frame import framed
from pgdyno.report.runs_page import runs_table
from pgdyno.report.sections import Notice, Prose, Report, Section, TableBlock, Tone
from pgdyno.report.study_record import StudyRecord
from pgdyno.studies.selftest.kind import KIND
from pgdyno.units import digits_text, plural

COLUMNS = ("case", "what was done", "expected", "found", "throughput against before", "pairs", "result")


def selftest_page(record: StudyRecord) -> Report:
    """Return the report."""
    study, result = record.study, record.study.told(SelftestResult)
    cases = () if result is None else result.cases
    table = Table(COLUMNS, tuple(_row(case) for case in cases), ("pairs",))
    blocks: list[Prose | Notice | TableBlock] = [TableBlock(table, _CAPTION)]
    reasons = tuple(f"{case.name}: {case.reason}." for case in cases if case.reason)
    if reasons:
        blocks.append(Notice(reasons))
    answer = Section("cases", "Cases", "Does the method find what is there, and nothing else?", tuple(blocks))
    runs = Section(
        "runs",
        "Runs",
        "What was measured?",
        (TableBlock(runs_table(record.trials, study.metric), plural(len(record.trials), "run")),),
    )
    return framed(
        record,
        KIND.judged(study) or Judgement(f"No answer: {standing_text(study)}", study.state.value, Tone.UNSURE),
        (answer, runs, chapters.about(study, record.trials)),
        (answer,),
        lead=f"Self-test on {study.target}, {plural(study.plan.clients, 'client')}",
    )


_CAPTION = (
    "Each case is a comparison in interleaved pairs with the server as it is. A harm that is not resolved was not "
    "shown on this machine in this time; one that is called equivalent or better was missed, and fails."
)


def _row(case: CaseRecord) -> tuple[str, ...]:
    verdict = case.verdict
    found, against, pairs = "as it was" if case.result is CaseWord.AS_EXPECTED else "", "", ""
    if verdict is not None:
        span = verdict.interval
        found, pairs = verdict.word.value, str(verdict.pairs)
        against = str(span) if span.is_closed else f"{digits_text(span.ratio, 2)}x"
    expected = " or ".join(word.value for word in case.expected) or "as it was"
    return (case.name, case.what, expected, found, against, pairs, case.result.value)
