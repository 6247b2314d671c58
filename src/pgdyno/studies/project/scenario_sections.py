"""The sections of a project's report that are of its scenarios: planned against actual, then each by itself. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pgdyno.model.figure import Axis, Figure, FigureKind, Series, Table
from pgdyno.model.project import ProjectRow, Scenario, row_metric
from pgdyno.report.scales import zero_based
from pgdyno.report.sections import Block, Charts, FactList, Notice, PageLinks, Prose, Section, TableBlock
from pgdyno.report.wording import capital, rounded_text
from pgdyno.studies.project.build import ScenarioFacts
from pgdyno.studies.project.judged import Judged, bound_text, figure_text
from pgdyno.studies.project.replays import qualified_facts, qualified_warnings, replays_table
from pgdyno.units import plural, ranges_text, seconds_text

NOT_RECORDED = "not recorded"
_ROWS_OF_FILE = "Rows that were measured elsewhere, as the file has them."
_ROWS_OF_RUN = "Rows that pgdyno computed of the studies above, and those of the file."


def plan_section(scenarios: Sequence[Judged]) -> Section:
    """Return what was planned of all scenarios beside what came of it."""
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
    measured = "not measured" if one.facts.measured is None else figure_text(scenario.criterion, one.facts.measured)
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
         f"{plan:g} planned" if day is None else f"{day:g} of {_days_text(plan)}")
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


def scenario_section(one: Judged, number: int, pages: Mapping[str, str]) -> Section:
    """Return what was asked, done and found in one scenario; `pages` says by study where its own page lies."""
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
        ("verdict", verdict_sentence(one)),
    )
    blocks.append(FactList(rows))
    if facts.studies:
        lines = tuple((line.id, line.kind, ranges_text(line.runs), line.sentence) for line in facts.studies)
        blocks.append(
            TableBlock(Table(("study", "kind", "run numbers", "what came of it"), lines), "Studies in the store.")
        )
        links = tuple((f"{line.kind} {line.id}", pages[line.id]) for line in facts.studies if line.id in pages)
        blocks += [Prose(("The page of each study:",)), PageLinks(links)] if links else []
    if facts.replays:
        blocks.append(TableBlock(replays_table(facts.replays), "The last run that counts is the qualified one."))
        blocks += [FactList(told)] if (told := qualified_facts(facts.replays)) else []
        blocks += [Notice(against)] if (against := qualified_warnings(facts.replays)) else []
    if scenario.rows:
        blocks.append(
            TableBlock(_rows_table(scenario.rows), _ROWS_OF_RUN if facts.took_s is not None else _ROWS_OF_FILE)
        )
    blocks += [Prose(tuple(headline_of(scenario)))] if scenario.headline else []
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


def verdict_sentence(one: Judged) -> str:
    """Say how a scenario stands, by which figure against which bound."""
    criterion, found = one.scenario.criterion, one.facts.measured
    if found is None:
        runs = f"; runs: {one.facts.states}" if one.facts.states else ""
        return f"{one.standing.value}, no usable figure of what the criterion names ({criterion.metric}{runs})."
    return f"{one.standing.value}; {figure_text(criterion, found)} against {bound_text(criterion)} ({found.how})."


def headline_of(scenario: Scenario) -> tuple[str, ...]:
    """Return the headline that a scenario's rows come to, none where the plan asks for none."""
    if scenario.headline is None:
        return ()
    found = row_metric(scenario.rows, scenario.headline.metric)
    if found is None:
        return (f"{capital(scenario.headline.text)}: no row says how much.",)
    unit = "" if scenario.headline.metric in ("total", "largest", "smallest") else " %"
    return (f"{capital(scenario.headline.text)}: {rounded_text(found.value)}{unit} ({found.how}).",)


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
