"""Scenarios with their standing: what the pages and the command line of a project say of them. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pgdyno.model.project import Criterion, CriterionStatus, Fixed, Measured, Project, Scenario, judge
from pgdyno.report.wording import rounded_text
from pgdyno.studies.project.build import ProjectFacts, ScenarioFacts
from pgdyno.studies.project.fix import moment_of


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


def late_scenarios(fixed: Fixed, scenarios: Sequence[Judged]) -> tuple[str, ...]:
    """Return the scenarios whose first run began before the criteria were fixed."""
    fixed_at = moment_of(fixed.at)
    return tuple(
        one.scenario.name
        for one in scenarios
        if one.facts.actual.first is not None and one.facts.actual.first < fixed_at
    )


def bound_text(criterion: Criterion) -> str:
    """Write the bounds of a criterion: `at least 95 %`."""
    unit = f" {criterion.unit}" if criterion.unit else ""
    parts = [
        f"{word} {value:,.15g}{unit}"
        for word, value in (("at least", criterion.at_least), ("at most", criterion.at_most))
        if value is not None
    ]
    return " and ".join(parts)


def figure_text(criterion: Criterion, found: Measured) -> str:
    """Write what was measured in the unit of a criterion, with its interval."""
    unit = f" {criterion.unit}" if criterion.unit else ""
    span = "" if found.lo == found.hi else f" [{rounded_text(found.lo)}, {rounded_text(found.hi)}]"
    return f"{rounded_text(found.value)}{unit}{span}"
