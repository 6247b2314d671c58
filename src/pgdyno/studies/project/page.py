"""The report of a benchmark project: planned against actual, a verdict a scenario, conclusion and sizing. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pgdyno import __version__
from pgdyno.model.figure import Axis, Figure, FigureKind, Series, Table
from pgdyno.model.project import (
    GOALS,
    Amendment,
    Criterion,
    CriterionStatus,
    Fixed,
    Item,
    Measured,
    Peak,
    Project,
    ProjectRow,
    Scenario,
    judge,
    row_metric,
)
from pgdyno.report.appendix import limit_sentences
from pgdyno.report.scales import zero_based
from pgdyno.report.sections import (
    Block,
    Charts,
    FactList,
    Notice,
    PageLinks,
    Prose,
    Report,
    Section,
    TableBlock,
    Tone,
)
from pgdyno.report.wording import capital, rounded_text
from pgdyno.studies.project.build import ProjectFacts, ScenarioFacts
from pgdyno.studies.project.replays import replays_table
from pgdyno.units import binary_text, plural, ranges_text, seconds_text

TONES = {
    CriterionStatus.MET: Tone.GOOD,
    CriterionStatus.MISSED: Tone.BAD,
    CriterionStatus.NOT_RESOLVED: Tone.UNSURE,
    CriterionStatus.OPEN: Tone.UNSURE,
}
NOT_RECORDED = "not recorded"
_ROWS_OF_FILE = "Rows that were measured elsewhere, as the file has them."
_ROWS_OF_RUN = "Rows that pgdyno computed of the studies above, and those of the file."


@dataclass(frozen=True, slots=True)
class Judged:
    """A scenario with what is known of it and its standing."""

    scenario: Scenario
    facts: ScenarioFacts
    standing: CriterionStatus


def judged(project: Project, facts: ProjectFacts) -> tuple[Judged, ...]:
    """Return every scenario with its standing."""
    return tuple(
        Judged(one, facts.scenarios[one.name], judge(one.criterion, facts.scenarios[one.name].measured))
        for one in project.scenarios
    )


def overall(scenarios: Sequence[Judged]) -> CriterionStatus:
    """Return the standing of the whole: missed when one is, met when all are."""
    standings = [one.standing for one in scenarios]
    for standing in (CriterionStatus.MISSED, CriterionStatus.NOT_RESOLVED, CriterionStatus.OPEN):
        if standing in standings:
            return standing
    return CriterionStatus.MET


def project_page(
    project: Project,
    facts: ProjectFacts,
    fixed: Fixed | None,
    edits: Sequence[Amendment] = (),
    pages: Mapping[str, str] | None = None,
) -> Report:
    """Return the report. `edits` are changes of fixed terms that are not on record yet.

    `pages` says by study where its own page lies, from the folder of this one.
    """
    scenarios = judged(project, facts)
    whole = overall(scenarios)
    counts = {standing: sum(one.standing is standing for one in scenarios) for standing in CriterionStatus}
    told = ", ".join(f"{count} {standing.value}" for standing, count in counts.items() if count)
    amendments = (*(fixed.amendments if fixed else ()), *edits)
    sections = (
        _conclusion(project, scenarios),
        _plan(scenarios),
        *(_scenario(one, number, pages or {}) for number, one in enumerate(scenarios, 1)),
        _sizing(project, facts.peaks),
        _goals(project, scenarios),
        _before(project),
        _terms(fixed, amendments, scenarios, facts.edits),
        _sources(project, facts),
    )
    return Report(
        study="",
        kind="project",
        title=f"{capital(project.name)}: {told} of {plural(len(scenarios), 'scenario')}",
        word=whole.value,
        tone=TONES[whole],
        lead=project.background or f"Benchmark project {project.name}",
        stamp=_stamp(fixed, amendments, scenarios),
        tiles=(),
        sections=sections,
        digest=sections[:2],
        provenance={"written by": f"pgdyno {__version__}"},
        label=f"project {project.name}",
    )


def _stamp(fixed: Fixed | None, amendments: Sequence[Amendment], scenarios: Sequence[Judged]) -> str:
    if fixed is None:
        return "criteria are not fixed"
    changed = f"; {plural(len(amendments), 'amendment')} since" if amendments else ", unchanged since"
    return f"criteria fixed {fixed.at} by {fixed.by}{changed}"


def _conclusion(project: Project, scenarios: Sequence[Judged]) -> Section:
    sentences = [f"{capital(one.scenario.name)}: {_verdict_sentence(one)}" for one in scenarios]
    headlines = [text for one in scenarios for text in _headlines(one.scenario)]
    blocks: list[Block] = [Prose(tuple(sentences), points=True)]
    if headlines:
        blocks.append(Prose(tuple(headlines), points=True))
    stated = tuple(
        f"{capital(one.scenario.name)}: {one.scenario.conclusion}" for one in scenarios if one.scenario.conclusion
    )
    if stated:
        blocks.append(Prose(("Stated by the authors:", *stated)))
    return Section("conclusion", "Conclusion", "Were the criteria met, and what was gained?", tuple(blocks))


def _headlines(scenario: Scenario) -> tuple[str, ...]:
    if scenario.headline is None:
        return ()
    found = row_metric(scenario.rows, scenario.headline.metric)
    if found is None:
        return (f"{capital(scenario.headline.text)}: no row says how much.",)
    unit = "" if scenario.headline.metric in ("total", "largest", "smallest") else " %"
    return (f"{capital(scenario.headline.text)}: {rounded_text(found.value)}{unit} ({found.how}).",)


def _verdict_sentence(one: Judged) -> str:
    criterion, found = one.scenario.criterion, one.facts.measured
    if found is None:
        runs = f"; runs: {one.facts.states}" if one.facts.states else ""
        return f"{one.standing.value}, no usable figure of what the criterion names ({criterion.metric}{runs})."
    return f"{one.standing.value}; {_figure_text(criterion, found)} against {bound_text(criterion)} ({found.how})."


def _figure_text(criterion: Criterion, found: Measured) -> str:
    unit = f" {criterion.unit}" if criterion.unit else ""
    span = "" if found.lo == found.hi else f" [{rounded_text(found.lo)}, {rounded_text(found.hi)}]"
    return f"{rounded_text(found.value)}{unit}{span}"


def bound_text(criterion: Criterion) -> str:
    """Write the bounds of a criterion: `at least 95 %`."""
    unit = f" {criterion.unit}" if criterion.unit else ""
    parts = [
        f"{word} {value:g}{unit}"
        for word, value in (("at least", criterion.at_least), ("at most", criterion.at_most))
        if value is not None
    ]
    return " and ".join(parts)


def _plan(scenarios: Sequence[Judged]) -> Section:
    columns: tuple[str, ...] = (
        "scenario",
        "goal",
        "criterion",
        "days planned",
        "days actual",
        "runs",
        "measured",
        "verdict",
    )
    rows: tuple[tuple[str, ...], ...] = tuple(_plan_row(one) for one in scenarios)
    if any(one.facts.took_s is not None for one in scenarios):
        columns = (*columns[:5], "run took", *columns[5:])
        rows = tuple((*row[:5], _took_text(one.facts), *row[5:]) for row, one in zip(rows, scenarios, strict=True))
    table = TableBlock(Table(columns, rows, ("days planned", "days actual", "runs")),
                       "Planned against actual. Days are calendar days.")  # fmt: skip
    return Section(
        "plan", "Planned against actual", "What was planned, and what came of it?", (table, Charts((_days(scenarios),)))
    )


def _plan_row(one: Judged) -> tuple[str, ...]:
    scenario, actual = one.scenario, one.facts.actual
    measured = "not measured" if one.facts.measured is None else _figure_text(scenario.criterion, one.facts.measured)
    return (
        scenario.name,
        scenario.goal,
        f"{scenario.criterion.text} ({bound_text(scenario.criterion)})",
        f"{scenario.planned_days:g}",
        NOT_RECORDED if actual.days is None else f"{actual.days:g}",
        NOT_RECORDED if actual.runs is None else f"{actual.runs}",
        measured,
        one.standing.value,
    )


def _took_text(facts: ScenarioFacts) -> str:
    if facts.took_s is None:
        return NOT_RECORDED
    of = f" of {seconds_text(facts.planned_s)}" if facts.planned_s else ""
    return f"{seconds_text(facts.took_s)}{of}"


def _days(scenarios: Sequence[Judged]) -> Figure:
    actual = [one.facts.actual.days for one in scenarios]
    planned = [one.scenario.planned_days for one in scenarios]
    late = sum(1 for plan, day in zip(planned, actual, strict=True) if day is not None and day > plan)
    known = sum(day is not None for day in actual)
    most = zero_based([*planned, *(day for day in actual if day is not None)])
    notes = tuple(
        (one.scenario.name, f"{plan:g}", NOT_RECORDED if day is None else f"{day:g}",
         f"{plan:g} planned" if day is None else f"{day:g} of {plan:g} days")
        for one, plan, day in zip(scenarios, planned, actual, strict=True)
    )  # fmt: skip
    return Figure(
        FigureKind.BARS,
        "days",
        f"{known - late} of {known} scenarios with known days kept to the plan",
        "Was the planned time enough?",
        Axis("scenario"),
        Axis("calendar days", "days", lo=most[0], hi=most[1]),
        (
            Series(
                "days",
                tuple(float(at) for at in range(len(scenarios))),
                tuple(day or 0.0 for day in actual),
                tuple(day or 0.0 for day in actual),
                tuple(max(plan, day or 0.0) for plan, day in zip(planned, actual, strict=True)),
                "bars",
                tuple(one.scenario.name for one in scenarios),
                "total",
            ),
        ),
        table=Table(("scenario", "planned", "actual", "days"), notes, ("planned", "actual")),
        caption="Solid: days used; light: days planned beyond them.",
        n=len(scenarios),
    )


def _scenario(one: Judged, number: int, pages: Mapping[str, str]) -> Section:
    scenario, facts = one.scenario, one.facts
    blocks: list[Block] = []
    if scenario.description:
        blocks.append(Prose((scenario.description,)))
    if scenario.constraints:
        blocks.append(Prose(tuple(f"Constraint: {text}" for text in scenario.constraints), points=True))
    rows = (
        ("goal", scenario.goal),
        ("criterion", scenario.criterion.text),
        ("judged by", f"{scenario.criterion.metric}, {bound_text(scenario.criterion)}"),
        ("planned", _days_text(scenario.planned_days)),
        ("actual", _actual_text(facts)),
        *((("run by pgdyno", f"{_took_text(facts)} that were planned"),) if facts.planned_s else ()),
        ("verdict", _verdict_sentence(one)),
    )
    blocks.append(FactList(rows))
    if facts.studies:
        lines = tuple((line.id, line.kind, ranges_text(line.runs), line.sentence) for line in facts.studies)
        blocks.append(TableBlock(Table(("study", "kind", "runs", "what came of it"), lines), "Studies in the store."))
        links = tuple((f"{line.kind} {line.id}", pages[line.id]) for line in facts.studies if line.id in pages)
        blocks += [Prose(("The page of each study:",)), PageLinks(links)] if links else []
    if facts.replays:
        blocks.append(TableBlock(replays_table(facts.replays), "The last run that counts is the qualified one."))
    if scenario.rows:
        blocks.append(
            TableBlock(_rows_table(scenario.rows), _ROWS_OF_RUN if facts.took_s is not None else _ROWS_OF_FILE)
        )
    blocks += [Prose(tuple(_headlines(scenario)))] if scenario.headline else []
    if scenario.notes:
        blocks.append(Prose(scenario.notes, points=True))
    if scenario.conclusion:
        blocks.append(Prose((f"Conclusion of the authors: {scenario.conclusion}",)))
    return Section(f"scenario-{number}", capital(scenario.name), "What was asked, done and found?", tuple(blocks))


def _days_text(days: float) -> str:
    return "1 day" if days == 1 else f"{days:g} days"


def _actual_text(facts: ScenarioFacts) -> str:
    actual = facts.actual
    days = "days " + NOT_RECORDED if actual.days is None else _days_text(actual.days)
    runs = "runs " + NOT_RECORDED if actual.runs is None else plural(actual.runs, "run")
    return f"{days}, {runs} ({actual.source})"


def _rows_table(rows: Sequence[ProjectRow]) -> Table:
    """Return the rows, with the share or saving that follows from each; columns that no row has are left out."""
    wanted = ("value", "count", "of", "before", "after")
    used = [name for name in wanted if any(getattr(row, name) is not None for row in rows)]
    derived = [(name, metric) for name, metric in (("share, %", "share"), ("saved, %", "saved"))
               if any(row_metric((row,), metric) for row in rows)]  # fmt: skip
    cells = []
    for row in rows:
        values = [getattr(row, name) for name in used]
        found = [row_metric((row,), metric) for _, metric in derived]
        cells.append(
            (row.name, *(_plain(value) for value in values), *(rounded_text(one.value) if one else "" for one in found))
        )
    columns = ("row", *used, *(name for name, _ in derived))
    return Table(columns, tuple(cells), columns[1:])


def _plain(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if value.is_integer() else f"{value:,}"


def _sizing(project: Project, peaks: Sequence[Peak]) -> Section:
    question = "How large must the system be?"
    if not peaks:
        told = "No peak was measured: no study of the project has samples, and the file names none."
        return Section("sizing", "Sizing", question, (Prose((told,)),))
    columns = ("host", "busy cores at peak", "cores to have", "memory at peak", "memory to have", "from")
    rows = tuple(_sizing_row(peak, project.headroom_pct) for peak in peaks)
    sentences = (
        f"So much that {project.headroom_pct:g} % stays free at the measured peak; cores are rounded up.",
        "A peak is the greatest mean of ten seconds in a row. Cores are those of the server's processes. "
        "Memory is what others could not have had (total less "
        "available): the page cache is not in it, though hits may depend on it. A smaller machine has to be "
        "measured before it is bought.",
    )
    table = TableBlock(Table(columns, rows, columns[1:5]), "Peaks of all runs, and what follows from them.")
    return Section("sizing", "Sizing", question, (table, Prose(sentences)))


def _sizing_row(peak: Peak, headroom_pct: float) -> tuple[str, ...]:
    left = 1 - headroom_pct / 100
    cores = "" if peak.cores is None else str(math.ceil(round(peak.cores / left, 6)))
    memory = "" if peak.memory_bytes is None else binary_text(peak.memory_bytes / left)
    used = "" if peak.memory_bytes is None else binary_text(peak.memory_bytes)
    return (peak.host, rounded_text(peak.cores), cores, used, memory, peak.source)


def _goals(project: Project, scenarios: Sequence[Judged]) -> Section:
    rows = tuple((text, *_goal_state(word, project, scenarios)) for word, text in GOALS.items())
    table = TableBlock(Table(("goal", "state", "by"), rows), "A goal is reached when every scenario that serves it is.")
    return Section("goals", "Goals", "Which goals are reached?", (table,))


def _goal_state(word: str, project: Project, scenarios: Sequence[Judged]) -> tuple[str, str]:
    serving = [one for one in scenarios if word in one.scenario.serves]
    said = project.statements.get(word, "")
    if serving:
        names = ", ".join(one.scenario.name for one in serving)
        state = {CriterionStatus.MET: "reached", CriterionStatus.MISSED: "missed"}.get(
            overall(serving), overall(serving).value
        )
        return state, f"{names}; {said}" if said else names
    return ("stated", said) if said else ("not addressed", "no scenario serves it")


def _before(project: Project) -> Section:
    blocks = (
        TableBlock(_checklist(project.phases), "Phases before the measuring."),
        TableBlock(_checklist(project.deliverables), "Deliverables."),
    )
    return Section("phases", "Phases and deliverables", "What came before, and what is handed over?", blocks)


def _checklist(items: Sequence[Item]) -> Table:
    rows = tuple(("✓" if one.done else "–", one.name, one.done or NOT_RECORDED, one.note) for one in items)
    return Table(("", "what", "done", "note"), rows)


def _terms(
    fixed: Fixed | None, amendments: Sequence[Amendment], scenarios: Sequence[Judged], edits: Sequence[str] = ()
) -> Section:
    title, question = "Terms and amendments", "Were the criteria fixed before the first run?"
    if fixed is None:
        told = "The criteria are not fixed: a reader cannot know that they were set before the first run."
        return Section("terms", title, question, (Notice((told, "pgdyno project fix FILE fixes them.")),))
    rows = (("fixed", f"{fixed.at} by {fixed.by}"), ("hash", fixed.sha256))
    blocks: list[Block] = [FactList(rows)]
    late = late_scenarios(fixed, scenarios)
    if late:
        blocks.insert(0, Notice((f"Runs of {', '.join(late)} are older than the fixed criteria.",)))
    if edits:
        blocks.insert(0, Notice(tuple(edits)))
    if any(one.at is None for one in amendments):
        blocks.insert(0, Notice(("Edits are not on record: pgdyno project amend FILE --reason TEXT records them.",)))
    if amendments:
        columns = ("when", "by", "scenario", "what", "old", "new", "reason")
        cells = tuple((one.at or one.by, one.by if one.at else "unknown", one.scenario, one.field, one.old or "none",
                       one.new or "none", one.reason or "not given") for one in amendments)  # fmt: skip
        blocks.append(TableBlock(Table(columns, cells), "Later edits of what was fixed, with the old text."))
    else:
        blocks.append(Prose(("Nothing that was fixed has been edited since.",)))
    return Section("terms", title, question, tuple(blocks))


def late_scenarios(fixed: Fixed, scenarios: Sequence[Judged]) -> tuple[str, ...]:
    """Return the scenarios whose first run began before the criteria were fixed."""
    from datetime import UTC, datetime

    fixed_at = datetime.strptime(fixed.at, "%Y-%m-%d %H:%M UTC").replace(tzinfo=UTC).timestamp()
    return tuple(
        one.scenario.name
        for one in scenarios
        if one.facts.actual.first is not None and one.facts.actual.first < fixed_at
    )


def _sources(project: Project, facts: ProjectFacts) -> Section:
    studies = [line.id for one in facts.scenarios.values() for line in one.studies]
    rows = (
        ("store", facts.store if studies else "no study of the store is named: figures are rows of the project's file"),
        ("studies", ", ".join(studies)),
        ("runs", ranges_text(facts.runs) if facts.runs else ""),
        ("every figure", "pgdyno store export STUDY --format csv" if studies else ""),
        ("environment of a study", "pgdyno report STUDY" if studies else ""),
    )
    told = limit_sentences("the systems of this project", "the versions of its studies", "the loads of its scenarios")
    blocks = (FactList(tuple(row for row in rows if row[1])), Prose(told, points=True))
    return Section("about", "Sources and limits", "Where do the figures come from, and what do they cover?", blocks)
