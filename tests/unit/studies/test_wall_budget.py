"""A budget of time is the time of the whole command: what does not fit is left out, and a resume decides the same."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pgdyno.errors import ExitCode, OutOfTime
from pgdyno.model.trial import TrialState
from pgdyno.studies.kinds import judged
from pgdyno.studies.tune.options import TuneOptions
from pgdyno.studies.tune.result import tune_result
from pgdyno.studies.tune.run import tune
from pgdyno.trial.stopwatch import CLOSING_S
from simulated_asks import asked_anew
from simulated_laboratory import SimulatedLaboratory, flat, shared_buffers_cliff

pytestmark = pytest.mark.usefixtures("kept_asks")
OPTIONS = TuneOptions(trials=5, noise_runs=4, confirm_max=5, rivals={"4GB": {"shared_buffers": "4GB"}})


def laboratory_of(seed: int, budget_s: float, mean_s: float, spread: float, startup_s: float, **more):
    def duration(number: int) -> float:
        return mean_s * random.Random(f"{seed}/{number}").uniform(1 - spread, 1 + spread)

    surface = shared_buffers_cliff if seed % 2 else flat
    made = SimulatedLaboratory(surface, seed=seed, duration=duration, startup_s=startup_s, **more)
    made.budget(budget_s)
    return made


@settings(max_examples=12, deadline=None)
@given(
    seed=st.integers(0, 999),
    budget_s=st.floats(1, 2000),
    mean_s=st.floats(0.5, 90),
    spread=st.floats(0, 0.9),
    startup_s=st.floats(0, 300),
)
def test_trials_never_outlast_the_budget(
    seed: int, budget_s: float, mean_s: float, spread: float, startup_s: float
) -> None:
    laboratory = laboratory_of(seed, budget_s, mean_s, spread, startup_s)
    options = replace(OPTIONS, budget_s=budget_s)
    try:
        tuned = tune(laboratory, options, lambda _: None)
    except OutOfTime:
        assert OutOfTime.exit_code is ExitCode.NOT_RESOLVED
        assert len([t for t in laboratory.store.kept if t.state is TrialState.COMPLETE]) <= options.noise_runs
    else:
        result = tune_result(laboratory, tuned, options)
        assert tuned.proof is not None or result.keep
        if tuned.proof is None:
            assert judged(replace(laboratory.study, result=result)).code is ExitCode.NOT_RESOLVED
            assert tuned.notes
    ways_back = 2 * laboratory.stopwatch.restart_s + CLOSING_S
    assert laboratory.clock_s <= max(startup_s, budget_s - ways_back, 0.0)
    assert laboratory.stopwatch.end_s <= max(0.0, budget_s - ways_back)


@settings(max_examples=5, deadline=None)
@given(seed=st.integers(0, 999), budget_s=st.floats(60, 1500), mean_s=st.floats(1, 20))
def test_where_trials_are_alike_none_is_cut_off(seed: int, budget_s: float, mean_s: float) -> None:
    laboratory = laboratory_of(seed, budget_s, mean_s, 0.0, 1.0)
    try:
        tuned = tune(laboratory, replace(OPTIONS, budget_s=budget_s), lambda _: None)
    except OutOfTime:
        assert 3 * mean_s + 1.0 > laboratory.stopwatch.end_s
    else:
        assert not any("in mid-work" in note for note in tuned.notes)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("budget_s", [250.0, 700.0])
def test_a_resumed_study_decides_as_it_did_before(seed: int, budget_s: float) -> None:
    options = replace(OPTIONS, budget_s=budget_s)
    whole = laboratory_of(seed, budget_s, 8.0, 0.5, 20.0)
    expected = tune_result(whole, tune(whole, options, lambda _: None), options)
    for kept in (1, len(whole.store.kept) // 2, len(whole.store.kept)):
        again = laboratory_of(seed, budget_s, 8.0, 0.5, 0.0, recorded=whole.store.kept[:kept])
        again.clock_s = 0.0
        with asked_anew():
            tuned = tune(again, options, lambda _: None)
        first = whole.store.kept[:kept]
        assert again.store.kept[:kept] == first
        if kept == len(whole.store.kept):
            assert len(again.store.kept) == kept
            assert tune_result(again, tuned, options).verdict == expected.verdict
