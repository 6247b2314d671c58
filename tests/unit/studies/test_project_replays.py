"""Replays in a benchmark project: how many runs, which one is qualified, and what is judged of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from certification_example import certification
from pgdyno.model.project import Criterion, CriterionStatus, Measured, Scenario, judge
from pgdyno.model.replay_comparison import Fidelity, Limits
from pgdyno.model.results.replay import ReplayResult
from pgdyno.model.study import Study, StudyKind
from pgdyno.studies.project.build import scenario_facts
from pgdyno.studies.project.judged import Judged
from pgdyno.studies.project.replays import qualified, replays_table
from pgdyno.studies.project.run_plan import parse_run
from pgdyno.studies.project.run_record import ProjectRunRecord, RunStepRecord
from pgdyno.studies.project.run_steps import run_steps
from pgdyno.studies.project.scenario_sections import scenario_section
from pgdyno.trace.schema import AnswerClass
from study_example import make_study

BEGAN = 1_790_000_000.0
ANSWERS = dict.fromkeys([one.value for one in AnswerClass], 0)
GOOD = ReplayResult(
    study="s", trace="t", outcome="o", engine="e", speed=1.0, level=60.0, clock="schedule", ended="complete",
    answers=ANSWERS | {"success": 990, "new": 6, "changed": 4}, fidelity=Fidelity(statements=1000, sent=1000),
    response_ms={"p99": 12.5},
)  # fmt: skip
LATE = replace(GOOD, fidelity=replace(GOOD.fidelity, invalid=("the injector was late",)), response_ms={"p99": 99.0})


def scenario(metric: str, limit: float) -> Scenario:
    return Scenario("oltp", "", "replay the day", Criterion("as fixed", metric, at_most=limit), planned_days=12)


def runs(*results: ReplayResult) -> list[tuple[Study, tuple[()]]]:
    made = make_study(StudyKind.REPLAY)
    return [
        (replace(made, id=f"r{n}", created_at=BEGAN + n * 86_400, result=one, options={}), ())
        for n, one in enumerate(results, 1)
    ]


@pytest.mark.requirement("R-RPL-12")
def test_runs_are_counted_and_the_last_one_that_counts_is_qualified() -> None:
    pairs = runs(GOOD, LATE, replace(GOOD, response_ms={"p99": 8.25}), replace(GOOD, ended="SIGTERM"))
    facts = scenario_facts(scenario("replay_p99_ms", 10), pairs[::-1])
    assert (facts.actual.runs, facts.actual.days) == (4, 4.0)
    assert facts.measured == Measured(8.25, 8.25, 8.25, "study r3, the qualified run of 4 replays")
    assert judge(scenario("replay_p99_ms", 10).criterion, facts.measured) is CriterionStatus.MET
    rows = {row[1]: row[-1] for row in replays_table(facts.replays).rows}
    assert rows == {"r1": "yes", "r2": "the injector was late", "r3": "qualified", "r4": "ended early: SIGTERM"}
    assert [line.sentence for line in facts.studies if line.id == "r2"] == [
        "The run does not count: the injector was late"
    ]


@pytest.mark.requirement("R-RPL-13", "R-RPL-14", "R-RPL-15")
def test_the_report_says_of_the_qualified_run_its_steps_the_errors_accepted_and_what_is_against_it() -> None:
    """A certification by 1,302 transactions was met without a word on their number."""
    small = "1,302 transactions are fewer than the 1,000,000 of a certification."
    fidelity = replace(GOOD.fidelity, warnings=(small,), limits=Limits(error_percent=2.0))
    steps = {"prepare": 4.0, "inject": 60.0, "analyse": 2.0, "tune": 900.0}
    asked, run = scenario("replay_p99_ms", 20), replace(GOOD, fidelity=fidelity, phases=steps)

    def told(*results: ReplayResult) -> str:
        facts = scenario_facts(asked, runs(*results))
        standing = judge(asked.criterion, facts.measured)
        section = scenario_section(Judged(asked, facts, standing), 1, {})
        return " ".join(map(str, section.blocks))

    page = told(GOOD, run)
    assert f"Study r2: {small}" in page
    assert "at most 2 %, fixed before it" in page
    assert "prepare 4.0 s, inject 1:00 min, analyse 2.0 s, tune 15:00 min" in page
    assert small not in told(run, GOOD), "that run is not the qualified one"
    assert "qualified run" not in told(LATE)


@pytest.mark.requirement("R-RPL-12")
def test_a_run_of_the_reference_never_stands_for_the_platform_that_is_judged(tmp_path: Path) -> None:
    """Sides take turns: of two runs of each the last one is the old platform's, and its p99 met the criterion."""
    plan = certification(tmp_path / "bank", programs=tmp_path)
    steps = [
        one
        for one in run_steps(parse_run(plan.read_text(), source=plan.name, folder=plan.parent))
        if one.kind is StudyKind.REPLAY
    ]
    made = {
        one.key: RunStepRecord(one.scenario, 1.0, 1, 2.0, 0, f"r{n}", side=one.side) for n, one in enumerate(steps, 1)
    }
    record = ProjectRunRecord(files={}, planned={}, steps=made)
    old = {f"r{n}" for n, one in enumerate(steps, 1) if one.side == "old"}
    (name,) = {one.scenario for one in steps}
    assert record.references(name) == old
    assert len(old) == len(steps) / 2
    slow = replace(GOOD, response_ms={"p99": 99.0})
    pairs = runs(GOOD, slow, slow, GOOD)  # as of two runs: old, new, new, old
    facts = scenario_facts(scenario("replay_p99_ms", 20), pairs, frozenset({"r1", "r4"}))
    assert facts.measured == Measured(99.0, 99.0, 99.0, "study r3, the qualified run of 4 replays")
    assert judge(scenario("replay_p99_ms", 20).criterion, facts.measured) is CriterionStatus.MISSED
    told = {row[1]: row[-1] for row in replays_table(facts.replays).rows}
    assert told == {"r1": "of the reference", "r2": "yes", "r3": "qualified", "r4": "of the reference"}


def test_without_a_run_that_counts_nothing_is_measured() -> None:
    facts = scenario_facts(scenario("replay_unlike_pct", 1), runs(LATE))
    assert (qualified(facts.replays), facts.measured) == (None, None)
    assert (facts.actual.runs, judge(scenario("x", 1).criterion, facts.measured)) == (1, CriterionStatus.OPEN)


def test_the_share_of_unlike_answers_can_be_the_criterion() -> None:
    found = scenario_facts(scenario("replay_unlike_pct", 0.5), runs(GOOD)).measured
    assert found is not None
    assert found.value == pytest.approx(1.0)
    assert judge(scenario("replay_unlike_pct", 0.5).criterion, found) is CriterionStatus.MISSED
    unknown = replays_table(scenario_facts(scenario("replay_p99_ms", 1), runs(replace(GOOD, response_ms={}))).replays)
    assert unknown.rows[0][-2] == "unknown"
