"""Replays in a benchmark project: how many runs, which one is qualified, and what is judged of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pgdyno.model.project import Criterion, CriterionStatus, Measured, Scenario, judge
from pgdyno.model.replay_comparison import Fidelity
from pgdyno.model.results.replay import ReplayResult
from pgdyno.model.study import Study, StudyKind
from pgdyno.studies.project.build import scenario_facts
from pgdyno.studies.project.replays import qualified, replays_table
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
