"""Batch chains and scalability levels as a project's scenarios: criteria judged by the newest study, and its words."""

from __future__ import annotations

from dataclasses import replace

import pytest

from batch_example import csv_of, month_chain, month_rows, recorded
from pgdyno.model.project import Criterion, CriterionStatus, Measured, Scenario, judge
from pgdyno.model.results.migrate import SIDE, MigrateResult, ValidationFinding, ValidationResult
from pgdyno.model.results.parts import StudyResult
from pgdyno.model.results.scale import ScaleResult
from pgdyno.model.study import Study, StudyKind, StudyState
from pgdyno.studies.project.build import ScenarioFacts, scenario_facts
from pgdyno.studies.project.certified import CERTIFIED
from pgdyno.studies.project.file import parse_project
from pgdyno.studies.scale.runs import levels_of
from scale_example import Shape, judged, made_runs, planned
from study_example import make_study


def scenario(metric: str, **bounds: float) -> Scenario:
    return Scenario("levels", "", "levels of production", Criterion("as fixed", metric, **bounds), planned_days=7)


def levels(path: Shape = lambda _: 1.0, noise: float = 0.01) -> ScaleResult:
    plan = planned()
    found = levels_of(plan, made_runs(plan, path=path, noise=noise), judged)
    return ScaleResult(study="s", plan=plan.name, reference=100, response="latency_p95", levels=found)


def facts(asked: Scenario, *results: StudyResult) -> ScenarioFacts:
    kinds = [StudyKind.SCALE if isinstance(one, ScaleResult) else StudyKind.BATCH for one in results]
    studies: list[Study] = [
        replace(make_study(kind), id=f"s{number}", created_at=1e9 + number, state=StudyState.COMPLETE, result=one)
        for number, (kind, one) in enumerate(zip(kinds, results, strict=True), 1)
    ]
    return scenario_facts(asked, [(study, ()) for study in studies])


@pytest.mark.requirement("R-SCA-02")
def test_levels_are_judged_by_the_newest_study_and_its_interval() -> None:
    grown = levels(lambda percent: 1.0 if percent < 150 else 1.3)
    asked = scenario("scale_constant_pct", at_least=100)
    found = facts(asked, grown, levels())
    assert found.measured is not None
    assert (found.measured.value, found.measured.how) == (100, "study s2, 3 levels")
    assert judge(asked.criterion, found.measured) is CriterionStatus.MET
    assert judge(asked.criterion, facts(asked, levels(), grown).measured) is CriterionStatus.MISSED
    assert judge(asked.criterion, facts(asked, levels(noise=0.4)).measured) is CriterionStatus.NOT_RESOLVED
    assert found.studies[0].sentence.startswith("certification: 2 constant, 1 not constant of 3 levels")


def test_the_greatest_change_of_the_path_length_is_a_figure() -> None:
    asked = scenario("scale_path_change_pct", at_most=5)
    grown = facts(asked, levels(lambda percent: 1.0 if percent < 150 else 1.3)).measured
    assert grown is not None
    assert grown.lo <= grown.value <= grown.hi
    assert "the 150 % level" in grown.how
    assert judge(asked.criterion, grown) is CriterionStatus.MISSED
    assert judge(asked.criterion, facts(asked, levels()).measured) is CriterionStatus.MET


@pytest.mark.requirement("R-BAT-02")
def test_a_batch_window_and_its_unsuccessful_jobs_are_figures() -> None:
    result = recorded(month_chain(), csv_of(month_rows(3, new=True)))
    asked = scenario("batch_window_s", at_most=1e9)
    found = facts(asked, result).measured
    assert found is not None
    assert found.lo <= found.value <= found.hi
    assert judge(asked.criterion, found) is CriterionStatus.MET
    assert judge(scenario("batch_window_s", at_most=1).criterion, found) is CriterionStatus.MISSED
    jobs = facts(scenario("batch_unsuccessful_jobs", at_most=0), result).measured
    assert jobs is not None
    assert jobs.value == len(result.unsuccessful)
    assert facts(asked, levels()).measured is None


def test_the_hint_of_a_project_file_lists_them() -> None:
    from pgdyno.errors import UsageError

    text = 'version = 1\n[project]\nname = "x"\n[[scenario]]\nname = "a"\ngoal = "g"\nplanned_days = 1\n'
    with pytest.raises(UsageError) as caught:
        parse_project(text + '[scenario.criterion]\ntext = "t"\nmetric = "No metric"\nat_least = 1\n')
    assert caught.value.hint


def test_a_migration_is_judged_by_a_rehearsal_by_which_all_arrived() -> None:
    rehearsed = MigrateResult(study="m", plan="shop", total_s=54_000.0, validation=ValidationResult())
    lost = ValidationFinding(topic="rows", object="t", expected="2", found="1")
    wanting = replace(rehearsed, validation=ValidationResult(findings=(lost,)))
    study = replace(make_study(StudyKind.MIGRATE), id="m1", state=StudyState.COMPLETE)

    def measured(metric: str, result: MigrateResult) -> Measured | None:
        return CERTIFIED[metric](replace(study, result=result))

    whole = measured("migrate_total_s", rehearsed)
    assert whole is not None
    assert judge(scenario("migrate_total_s", at_most=144_000).criterion, whole) is CriterionStatus.MET
    assert measured("migrate_total_s", wanting) is None
    found = measured("migrate_differences", wanting)
    assert found is not None
    assert judge(scenario("migrate_differences", at_most=0).criterion, found) is CriterionStatus.MISSED


def test_a_rehearsal_is_one_run_though_both_of_its_sides_are_sampled() -> None:
    trials = tuple(one.trial for one in made_runs(planned())[:2])
    sides = tuple(
        replace(one, spec=replace(one.spec, factors={SIDE: side}))
        for one, side in zip(trials, ("source", "target"), strict=True)
    )
    killed = replace(make_study(StudyKind.MIGRATE), id="m1", state=StudyState.INTERRUPTED)
    whole = replace(killed, state=StudyState.COMPLETE, result=MigrateResult(study="m", plan="shop", total_s=7.0))
    asked = scenario("migrate_total_s", at_most=600)
    for study in (whole, killed):
        assert scenario_facts(asked, [(study, sides)]).actual.runs == 1
    assert scenario_facts(asked, [(replace(whole, result=levels()), trials)]).actual.runs == 2
