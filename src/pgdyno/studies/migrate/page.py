"""The page of a rehearsal: verdict, phases as they overlapped, critical path, limits, findings, trend. Pure."""

from __future__ import annotations

import time
from collections.abc import Mapping

from pgdyno.model.figure import Table
from pgdyno.model.results.migrate import ItemEnd, MigrateResult
from pgdyno.report import provenance
from pgdyno.report.digest import pointer
from pgdyno.report.page_frame import framed, unfinished
from pgdyno.report.sections import Block, Charts, FactList, Notice, Prose, Report, Section, TableBlock
from pgdyno.report.study_record import StudyRecord
from pgdyno.studies.gantt import Span, spans_figure
from pgdyno.studies.migrate.timing import path_of
from pgdyno.studies.migrate.words import (
    against_plan,
    back_text,
    judgement,
    rate_text,
    replay_text,
    size_text,
    window_text,
)
from pgdyno.units import plural, seconds_text

MOST_ITEMS = 200
_NAMES = {"keep": "done", "drop": "failed", "null": "not done"}
_GROUPS = {ItemEnd.DONE: "keep", ItemEnd.FAILED: "drop"}
METHOD = (
    "A phase starts when the phases that it waits for are done; the chart shows which of them overlapped.",
    "An item is done as a whole or not at all: a killed rehearsal continues with those that are missing.",
    "MB/s are of the tables' size on the source, without indexes; rows/s of what the target counted.",
    "The way back and the replay come after everything has arrived, and are part of no total and no window.",
    "What limited a phase is judged as for every load, from one sample a second on each side.",
)


def migrate_page(record: StudyRecord) -> Report:
    """Return the page; of a study without a result only how it stands."""
    result = record.study.told(MigrateResult)
    if result is None:
        return unfinished(record, _about(record, None))
    answer = Section("answer", "Answer", "Does it fit into its window, and did everything arrive?", _answer(result))
    phases, validation, full = _phases(result), _validation(result), _forecast(result)
    sections = [answer, validation, _chart(result), phases, _path(result), _limits(result), _items(result),
                _assessment(result), _settings(result), _back(result), _trend(result), full,
                _about(record, result)]  # fmt: skip
    short = (answer, validation, phases, full, pointer(record.study))
    return framed(record, judgement(result), sections, short)


def _answer(result: MigrateResult) -> tuple[Block, ...]:
    blocks: list[Block] = [Notice(tuple(result.faults))] if result.faults else []
    outage = "unknown" if result.outage_s is None else seconds_text(result.outage_s)
    facts = [
        ("verdict", window_text(result)),
        ("outage", outage),
        ("planned", "not said" if result.planned_s is None else f"{seconds_text(result.planned_s)} for its phases"),
        ("size", f"{size_text(result.source_bytes)} on the source, {size_text(result.target_bytes)} on the target"),
        ("way back", result.way_back),
        ("back", back_text(result)),
        ("rehearsal", f"number {result.number} of this plan"),
    ]
    if result.replay is not None:
        facts.append(("replay", replay_text(result.replay)))
    if result.attempts > 1:
        stood = f"{seconds_text(result.paused_s)} in between, which is not part of any time here"
        facts.append(("resumed", f"{plural(result.attempts - 1, 'time')}, {stood}"))
    return (*blocks, FactList(tuple(facts)))


def _chart(result: MigrateResult) -> Section | None:
    spans = [
        Span(one.phase.value, one.began_s, one.ended_s, _GROUPS.get(one.end, "null"), one.end.value,
             seconds_text(one.ended_s - one.began_s))
        for one in result.phases
        if one.began_s is not None and one.ended_s is not None
    ]  # fmt: skip
    figure = spans_figure(
        spans, figure="gantt", title="Phases", question="Which phase ran when?", what="phase",
        since="the rehearsal began", names=_NAMES,
    )  # fmt: skip
    return None if figure is None else Section("gantt", "The phases", "Which phase ran when?", (Charts((figure,)),))


def _phases(result: MigrateResult) -> Section:
    columns = ("phase", "end", "begins", "time", "planned", "against plan", "items", "MB/s", "rows/s", "reason")
    rows = tuple(
        (
            one.phase.value, one.end.value, _seconds(one.began_s), _seconds(one.seconds), _seconds(one.planned_s),
            against_plan(one), str(one.items or ""), *rate_text(one), one.reason,
        )
        for one in result.phases
    )  # fmt: skip
    table = TableBlock(Table(columns, rows, columns[2:9]), f"Phases with {plural(result.jobs, 'job')} at a time.")
    return Section("phases", "Planned against actual", "What did each phase take?", (table,))


def _path(result: MigrateResult) -> Section | None:
    found = path_of(result)
    if not found.path:
        return None
    rows = tuple(
        (key, seconds_text(found.jobs[key].end_s - found.jobs[key].start_s), seconds_text(found.jobs[key].end_s))
        for key in found.path
    )
    slack = tuple(
        (one.key, seconds_text(one.slack_s)) for one in found.jobs.values() if one.key not in found.path and one.end_s
    )
    total = "" if result.total_s is None else f" The rehearsal took {seconds_text(result.total_s)}."
    caption = f"The phases on the critical path add up to {seconds_text(found.end_s)}.{total}"
    blocks: list[Block] = [TableBlock(Table(("phase", "time", "ends"), rows, ("time", "ends")), caption)]
    if slack:
        told = "How much longer each of the other phases could take without delaying the end."
        blocks.append(TableBlock(Table(("phase", "slack"), slack, ("slack",)), told))
    return Section("path", "Critical path", "What would shorten it?", tuple(blocks))


def _limits(result: MigrateResult) -> Section | None:
    rows = tuple(
        (one.phase.value, one.source_limit or "unknown", one.target_limit or "unknown",
         _seen(one.limits))
        for one in result.phases
        if one.seconds is not None
    )  # fmt: skip
    table = Table(("phase", "source", "target", "what was seen"), rows)
    told = "The resource that limited each side."
    return Section.of_table("limits", "What limited it", "Which resource was short?", table, told)


def _seen(limits: Mapping[str, str]) -> str:
    texts = dict.fromkeys(limits.values())
    return next(iter(texts)) if len(texts) == 1 else " ".join(f"{side}: {text}" for side, text in limits.items())


def _items(result: MigrateResult) -> Section | None:
    ran = sorted((one for one in result.items if one.seconds is not None), key=lambda one: -(one.seconds or 0.0))
    columns = ("phase", "item", "kind", "end", "begins", "time", "size", "rows", "attempt")
    rows = tuple(
        (
            one.phase.value, one.item, one.kind, one.end.value, _seconds(one.began_s), _seconds(one.seconds),
            "" if one.bytes is None else size_text(one.bytes), "" if one.rows is None else f"{one.rows:,}",
            str(one.attempt),
        )
        for one in ran[:MOST_ITEMS]
    )  # fmt: skip
    left = f"The {MOST_ITEMS} longest of {len(ran)}." if len(ran) > MOST_ITEMS else "The longest first."
    table, question = Table(columns, rows, columns[4:]), "What did each table and index take?"
    return Section.of_table("items", "The items", question, table, left, folded=True)


def _validation(result: MigrateResult) -> Section:
    found = result.validation
    if found is None:
        told = Prose(("Nothing was validated: the rehearsal did not get that far.",))
        return Section("validation", "Validation", "Did everything arrive?", (told,))
    compared = _compared(found.compared)
    notes = (Prose(("No fault:", *found.notes), points=True),) if found.notes else ()
    if found.is_same:
        told = Prose((f"No difference. Compared: {compared}.",))
        return Section("validation", "Validation", "Did everything arrive?", (told, *notes))
    rows = tuple((one.topic, one.object, one.expected, one.found, "; ".join(one.rows)) for one in found.findings)
    blocks: list[Block] = [Prose((f"Compared: {compared}.", *found.unread), points=True)]
    if rows:
        blocks.append(TableBlock(Table(("topic", "object", "expected", "found", "rows"), rows), "What differs."))
    return Section("validation", "Validation", "Did everything arrive?", (*blocks, *notes))


def _compared(counts: Mapping[str, int]) -> str:
    """Return what was compared; a topic is one word for one object of it and for many."""
    rows = f"{plural(counts.get('rows', 0), 'row')} of {plural(counts.get('tables', 0), 'table')}"
    others = [f"{topic} {count:,}" for topic, count in counts.items() if count and topic not in ("rows", "tables")]
    return f"{rows}; objects: {', '.join(others) or 'none'}"


def _assessment(result: MigrateResult) -> Section | None:
    rows = tuple((one.weight.value, one.topic, one.object, one.text, one.hint) for one in result.assessment)
    table, question = (
        Table(("weight", "topic", "object", "what", "hint"), rows),
        "What must be known about both servers?",
    )
    return Section.of_table("assessment", "Assessment", question, table, "Found before anything was moved.")


def _settings(result: MigrateResult) -> Section | None:
    words = {True: "yes", False: "no", None: "unknown"}
    rows = tuple(
        (one.name, one.before, one.during, "not read again" if one.after is None else one.after,
         words[one.is_reverted])
        for one in result.settings
    )  # fmt: skip
    table = Table(("setting", "before", "during the load", "after", "reverted"), rows)
    told = "Each read back from the target by a new session, a Linux knob from its kernel."
    return Section.of_table("settings", "Settings for the load", "Is the target as it was?", table, told)


def _back(result: MigrateResult) -> Section | None:
    if result.back is None:
        return None
    words = {True: "yes", False: "no", None: "proves nothing"}
    rows = tuple((one.what, one.found, words[one.is_alike]) for one in result.back.evidence)
    told = f"The source after the rehearsal, compared with before it; seen within {seconds_text(result.back.seconds)}."
    block = TableBlock(Table(("of the source", "found", "as it was"), rows), told)
    return Section("back", "The way back", "Is the old server still what it was?", (block,))


def _trend(result: MigrateResult) -> Section | None:
    if not result.earlier or result.total_s is None:
        return None
    own = (result.study, result.began_at, result.total_s, result.jobs, result.source_bytes)
    runs = [*((one.study, one.began_at, one.total_s, one.jobs, one.source_bytes) for one in result.earlier), own]
    rows = tuple(
        (str(number), time.strftime("%Y-%m-%d %H:%M", time.gmtime(began)), study, seconds_text(total), str(jobs),
         size_text(size), f"{100 * (total / runs[0][2] - 1):+.0f} %" if runs[0][2] else "")
        for number, (study, began, total, jobs, size) in enumerate(runs, 1)
    )  # fmt: skip
    columns = ("rehearsal", "begun (UTC)", "study", "total", "jobs", "source", "against the first")
    spans = [Span(f"rehearsal {number}", 0.0, one[2], "keep", "done", seconds_text(one[2]))
             for number, one in enumerate(runs, 1)]  # fmt: skip
    figure = spans_figure(
        spans, figure="trend", title="Rehearsals", question="Is it getting faster?", what="rehearsal",
        since="each began", names=_NAMES,
    )  # fmt: skip
    blocks: list[Block] = [TableBlock(Table(columns, rows, (columns[3], columns[4], columns[6])), "Every rehearsal.")]
    if figure is not None:
        blocks.insert(0, Charts((figure,)))
    return Section("trend", "Trend", "How do the rehearsals of this plan compare?", tuple(blocks))


def _forecast(result: MigrateResult) -> Section | None:
    if not result.forecast:
        return None
    told = Prose(result.forecast, points=True)
    return Section("forecast", "The full size", "How long will the real migration take?", (told,))


def _about(record: StudyRecord, result: MigrateResult | None) -> Section:
    environment = provenance.environment(record.study, record.trials)
    driver = f"the programs of the mover, started by {record.study.began_by}"
    facts = FactList(tuple((name, driver if name == "driver" else value) for name, value in environment.rows))
    told = () if result is None else (
        ("source", f"{result.source}, PostgreSQL {result.source_version}"),
        ("target", f"{record.study.target}, PostgreSQL {result.target_version}"),
        ("mover", result.mover),
    )  # fmt: skip
    return Section("about", "Environment and method", "What exactly was moved, where and how?",
                   (facts, FactList(told), Prose(METHOD, points=True)))  # fmt: skip


def _seconds(value: float | None) -> str:
    return "" if value is None else seconds_text(value)
