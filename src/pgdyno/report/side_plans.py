"""The plans of sides that a study has no pairs of: configurations of a matrix, levels of a sweep, arms. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pgdyno.model.record import PlanRecord
from pgdyno.report.run_details import side_plan_section
from pgdyno.report.sections import Section
from pgdyno.report.study_record import StudyRecord
from pgdyno.trial.plan_changes import plan_changes

Sides = Sequence[tuple[str, Sequence[int], Sequence[int]]]
"""A name, the runs of the reference, and the runs of the side that is compared with it."""


def plans_of_sides(record: StudyRecord, sides: Sides, what: str, names: tuple[str, str]) -> Section | None:
    """List the statements whose plans differ between each side and its reference; None where no plan was recorded.

    `what` is the noun of a side, `names` are how the reference and the side are called in the table.
    """
    places = []
    for name, before, after in sides:
        places.append((name, plan_changes(*([_plans(record, run) for run in runs] for runs in (before, after)))))
    return side_plan_section(places, what, names)


def plans_of_arms(record: StudyRecord, arms: Sequence[str], what: str) -> Section | None:
    """List them for each arm against the first one."""
    runs: Mapping[str, Sequence[int]] = {
        arm: [trial.id for trial in record.trials if trial.spec.arm == arm] for arm in arms
    }
    sides = [(arm, runs[arms[0]], runs[arm]) for arm in arms[1:]]
    return plans_of_sides(record, sides, what, (arms[0], f"the {what}")) if sides else None


def _plans(record: StudyRecord, run: int) -> list[PlanRecord]:
    return [one for one in record.records.get(run, ()) if isinstance(one, PlanRecord)]
