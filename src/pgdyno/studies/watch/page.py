"""The page of a watch: what happened, and how much could have been seen."""

from __future__ import annotations

from pgdyno.model.figure import Table
from pgdyno.model.results.watch import WatchResult
from pgdyno.model.study import StudyState
from pgdyno.report.judgement import Judgement
from pgdyno.report.page_frame import observed
from pgdyno.report.sections import FactList, Notice, Prose, Report, Section, TableBlock, Tone
from pgdyno.report.study_record import StudyRecord
from pgdyno.studies.watch.telling import clock_text
from pgdyno.units import digits_text, percent_text, plural, seconds_text

_METHOD = (
    "The counters of pg_stat_statements and the settings are read at equal intervals, without texts. No statement "
    "of the users is run or planned, no statistics are reset, nothing is installed or set.",
    "Of each statement the medians of a call's time before and after a moment are compared, over 1, 2, 5 and 10 "
    "readings. A step is reported where it is 1.3 times or more, costs 1 % of the time or more, lasts for 5 "
    "readings, and lies 5.5 standard deviations beyond what this statement does by itself. What all statements "
    "share is reported as the server's. A slow change over hours is not reported.",
    "Another plan is inferred from the blocks that a call touches for as many rows; no plan is looked at.",
)


def watch_page(record: StudyRecord) -> Report:
    """Return the report, of a watch that still runs too."""
    study, result = record.study, record.study.told(WatchResult)
    sections = () if result is None else _sections(result)
    tone = Tone.UNSURE if result is None or result.detectable is None else Tone.BAD if result.found else Tone.NEUTRAL
    said = Judgement(
        result.title if result else f"No answer: the study is {study.state.value}",
        result.word if result else study.state.value,
        tone if study.state in (StudyState.COMPLETE, StudyState.RUNNING) else Tone.UNSURE,
    )
    lead = f"The load of its users, watched on {study.target}; nothing was changed"
    return observed(record, said, sections, sections, _METHOD, done="watched", lead=lead)


def _sections(result: WatchResult) -> tuple[Section, ...]:
    found = []
    if result.events:
        rows = tuple((clock_text(one.since), one.what.value, one.text) for one in result.events)
        table = Table(("since", "what", "in words"), rows, ())
        caption = "Texts of statements are not kept: SELECT query FROM pg_stat_statements WHERE queryid = ..."
        found.append(
            Section("events", "What happened", "What became slower, and what else?", (TableBlock(table, caption),))
        )
    lost = ", ".join(f"{count} x {cause}" for cause, count in result.void.items())
    facts = (
        ("watched", f"{seconds_text(result.seconds)} in {plural(result.readings, 'reading')}"),
        *((("readings lost", lost),) if lost else ()),
        ("statements judged", f"{result.statements}, with {percent_text(result.covered)} of the time"),
        (
            "smallest slowdown reported",
            "not known yet"
            if result.detectable is None
            else f"{digits_text(result.detectable, 2)} times as long, for statements that hold half of the time",
        ),
        ("our own CPU", "unknown" if result.own_cpu_pct is None else f"{result.own_cpu_pct:.2f} % of a core"),
    )
    notes = (Notice(result.notes),) if result.notes else ()
    found.append(
        Section("sight", "What could be detected", "How much of the load was watched?", (FactList(facts), *notes))
    )
    if result.proposals:
        question = "Which settings were put in force so long ago that they should be compared again?"
        found.append(Section("old", "Worth another look", question, (Prose(result.proposals, points=True),)))
    return tuple(found)
