"""What closes every report, whatever its kind: environment, what the figures do not promise, sources, changes. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from pgdyno.model.change import ChangeRecord
from pgdyno.model.figure import Figure, Table
from pgdyno.model.study import Study
from pgdyno.model.trial import Trial
from pgdyno.report import chapters
from pgdyno.report.facts_image import server_of
from pgdyno.report.provenance import levels, listed
from pgdyno.report.sections import (
    Block,
    Charts,
    FactList,
    Prose,
    Report,
    Section,
    Snippet,
    TableBlock,
)
from pgdyno.units import moment_text, plural, ranges_text

if TYPE_CHECKING:
    from pgdyno.report.study_record import StudyRecord

ABOUT = "about"
SQL = (
    "select id, arm, state, throughput, latency_p99_ms from trial where study_id = '{study}' order by id;\n"
    "select t, usr_pct, sys_pct, iowait_pct from cpu where run_id = {run} order by t;"
)
"""Shown, never run: what a reader types into sqlite3 or psql."""
IMPORTED_LIMIT = (
    "These figures were read from files that others made: under which conditions they were measured is not known here, "
    "and elsewhere a difference may be smaller, absent or reversed."
)
CHANGE_COLUMNS = ("when", "who", "action", "knob", "from", "to", "why", "session")


def closed(record: StudyRecord, report: Report) -> Report:
    """Return the report with its circumstances told: every kind has them, its page need not think of them."""
    study, trials = record.study, record.trials
    runs = ranges_text([trial.id for trial in trials])
    sections = [_sourced(section, runs) for section in report.sections]
    if not any(section.id == ABOUT for section in sections):
        sections.append(chapters.about(study, trials))
    more = (*limits(study, trials), *sources(record.store, study, trials))
    sections = [replace(one, blocks=(*one.blocks, *more)) if one.id == ABOUT else one for one in sections]
    if record.changes:
        sections.append(changes_section(record.changes))
    return replace(report, sections=tuple(sections))


def _sourced(section: Section, runs: str) -> Section:
    """Give figures that name no run the runs of the study."""
    if not runs:
        return section
    blocks = tuple(
        replace(block, figures=tuple(_from_runs(one, runs) for one in block.figures))
        if isinstance(block, Charts)
        else block
        for block in section.blocks
    )
    return replace(section, blocks=blocks)


def _from_runs(figure: Figure, runs: str) -> Figure:
    known = figure.provenance
    return figure if "run" in known or "runs" in known else replace(figure, provenance={**known, "runs": runs})


def limits(study: Study, trials: Sequence[Trial] = ()) -> tuple[Block, ...]:
    """Say what the figures of a study do not promise."""
    version = server_of(study).text("version")
    what = f"PostgreSQL {version} and the versions listed here" if version else "one version of PostgreSQL"
    load = listed(levels(trials, "mode"), "and") or study.workload.description or study.workload.name
    said = limit_sentences(study.target, what, load)
    if study.is_observed:
        said = ("This holds for the load of that time, on this server; next week's load may be another.",)
    elif study.was_read:
        said = (IMPORTED_LIMIT, *said[1:])
    return (Prose(said, points=True),)


def limit_sentences(where: str, versions: str, load: str) -> tuple[str, ...]:
    """Say what figures do not promise: another place, another version, another system, another load."""
    return (
        f"These runs were made under laboratory conditions on {where}. Elsewhere, with other hardware, "
        "neighbours or data, a difference may be smaller, absent or reversed.",
        f"They hold for {versions}. Another release, kernel or driver has to be measured again.",
        "They say nothing about other database systems: what helps PostgreSQL can do harm there.",
        f"They hold for this load: {load}. A load of another kind, such as long analytical queries instead of "
        "short transactions, can behave the other way.",
        "Sizes are written as PostgreSQL writes them: 1 GB is 1024 MB, which others call 1 GiB. Shares and "
        "ratios are computed from the rows of this report; figures in tables are rounded half up.",
    )


def sources(store: str, study: Study, trials: Sequence[Trial]) -> tuple[Block, ...]:
    """Say where the raw figures of every table and chart lie, and how to ask for them."""
    if not store or not trials:
        return ()
    first = trials[0].id
    rows = (
        ("store", store),
        ("runs", ranges_text([trial.id for trial in trials])),
        ("every figure", f"pgdyno store export {study.id} --format csv"),
        ("one run", f"pgdyno store show {first}"),
    )
    return (
        FactList(rows),
        Snippet("The raw figures behind this report, by SQL", SQL.format(study=study.id, run=first)),
    )


def changes_section(changes: Sequence[ChangeRecord]) -> Section:
    """Return the audit trail: who put what in force on this target, or took it back, when and why."""
    count = plural(len(changes), "change")
    caption = f"{count} of this target on record, the newest last. A session is undone with pgdyno rollback."
    return Section(
        "changes",
        "Changes on record",
        "Who changed what on this server, when and why?",
        (TableBlock(changes_table(changes), caption),),
    )


def changes_table(changes: Sequence[ChangeRecord]) -> Table:
    """Return one row a change."""
    return Table(CHANGE_COLUMNS, tuple(_change_row(one) for one in changes))


def _change_row(one: ChangeRecord) -> tuple[str, ...]:
    when = moment_text(one.at)
    why = f"rule {one.rule}" if one.rule else "winner of a tune" if one.study else "no rule named"
    proof = f", proved by {one.study}" if one.study else ""
    values = ("unknown" if value is None else value for value in (one.old, one.new))
    return (when, one.who, one.action.value, one.knob, *values, f"{why}{proof}", one.session)
