"""Where a study stands: k of n, the best by the metric that was asked for, and the time left."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pgdyno.model.configuration import BASELINE
from pgdyno.model.study import StudyKind
from pgdyno.model.trial import LatencySummary, Outcome, Role, Trial, TrialSpec, TrialState
from pgdyno.model.verdict import Metric
from pgdyno.trial.pace import OVERHEAD_S, Outlook, Pace
from simulated_laboratory import simulated_study

SPEC = TrialSpec(BASELINE, Role.SEARCH, "local", 1, 0)


def ended(cpu_ms: float | None, tps: float = 100.0, state: TrialState = TrialState.COMPLETE) -> Trial:
    latency = LatencySummary(1.0, 2.0, 3.0, 4.0, 5.0, 1.5)
    outcome = Outcome(state, throughput=tps, latency_ms=latency, server_cpu_ms_per_tx=cpu_ms, elapsed_s=10.0)
    return Trial(1, "s", SPEC, state, outcome)


def test_the_best_is_the_best_of_the_metric_that_was_asked_for() -> None:
    pace = Pace(Metric.SERVER_CPU, 6.0)
    for trial in (ended(0.30, 900.0), ended(0.25, 100.0), ended(0.28, 999.0), ended(0.1, state=TrialState.DISTURBED)):
        pace.begin(SPEC)
        pace.end(trial)
    assert pace.outlook().best == pytest.approx(0.25), "less CPU is better, and a disturbed run is no best"
    assert pace.outlook().metric is Metric.SERVER_CPU


def test_a_repeated_trial_moves_the_end() -> None:
    pace = Pace(Metric.THROUGHPUT, 6.0)
    pace.expect(3)
    pace.begin(SPEC)
    assert pace.outlook().place == "1 of 3"
    assert pace.outlook().left_s == pytest.approx(3 * (6.0 + OVERHEAD_S))
    pace.end(ended(1.0, state=TrialState.DISTURBED))
    pace.begin(replace(SPEC, repeats=1))
    assert pace.outlook().place == "2 of 4"
    assert pace.outlook().left_s == pytest.approx(3 * 10.0), "as long as trials are here"
    pace.expect(8, at_most=True)
    pace.begin(SPEC)
    assert pace.outlook().place == "1 of at most 8"
    assert pace.outlook(until_s=42.0).left_s == 42.0, "a time budget is the better word"


def test_a_study_knows_the_metric_that_it_was_asked_for() -> None:
    study = simulated_study()
    cpu = {"metric": "server_cpu_ms_per_tx"}
    assert replace(study, kind=StudyKind.AB, options=cpu).metric is Metric.SERVER_CPU
    assert replace(study, kind=StudyKind.TUNE, options={"tune": cpu}).metric is Metric.SERVER_CPU
    assert replace(study, kind=StudyKind.BENCH, options={}).metric is Metric.THROUGHPUT


def test_a_trial_beyond_those_that_were_expected_moves_the_end_too() -> None:
    pace = Pace(Metric.THROUGHPUT, 6.0)
    assert OVERHEAD_S == 3.0
    assert (pace.outlook().place, pace.outlook().left_s) == ("0", None)
    pace.expect(1)
    pace.begin(SPEC)
    assert (pace.outlook().place, pace.outlook().left_s) == ("1 of 1", 9.0)
    pace.begin(SPEC)
    assert pace.outlook().place == "2 of 2"
    assert pace.outlook(until_s=-3.0).left_s == 0.0
    pace.end(Trial(1, "s", SPEC, TrialState.ABANDONED, None))
    assert pace.outlook().left_s == 9.0, "one that has no outcome took no time that is known"


def test_what_is_left_takes_as_long_as_the_mean_of_those_that_ended() -> None:
    pace = Pace(Metric.THROUGHPUT, 6.0)
    pace.expect(5)
    for took in (10.0, 20.0):
        pace.end(Trial(1, "s", SPEC, TrialState.FAILED, Outcome(TrialState.FAILED, elapsed_s=took)))
    assert pace.outlook().left_s == 3 * 15.0
    assert Outlook().place == "0"
