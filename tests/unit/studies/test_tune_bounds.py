"""A tune keeps to its time and to its restarts, and still proves what it offers."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from fix_postgres import NIGHT
from pgdyno.errors import OutOfTime
from pgdyno.model.facts import Unknown
from pgdyno.model.shapes import plain
from pgdyno.model.trial import TUNE_PROOF_BLOCKS, Role
from pgdyno.model.verdict import Word
from pgdyno.server.outage import Outage
from pgdyno.studies.tune.options import TuneOptions
from pgdyno.studies.tune.restart_room import has_restarts
from pgdyno.studies.tune.result import tune_result
from pgdyno.studies.tune.run import keep_restarts
from pgdyno.trial.stopwatch import Stopwatch
from simulated_laboratory import SimulatedLaboratory, flat, shared_buffers_cliff, work_mem_and_buffers
from simulated_tune import OPTIONS, run

pytestmark = pytest.mark.usefixtures("kept_asks")
SEED_OF_A_BASELINE_FIRST = 16
"""Its second block of search would begin with the baseline."""


def test_the_budget_in_time_bounds_the_search():
    options = TuneOptions(trials=500, budget_s=200.0, noise_runs=3, confirm_min=3, confirm_max=4)
    laboratory = SimulatedLaboratory(shared_buffers_cliff)
    tuned, said = run(laboratory, options)
    assert "share of the time" in tuned.search.stopped
    search = [t for t in laboratory.store.kept if t.spec.role in (Role.SEARCH, Role.BASELINE) and t.spec.block < 9000]
    assert sum(t.outcome.elapsed_s for t in search) <= 200.0 * options.SEARCH_SHARE
    assert any("search ended" in line for line in said)


def test_the_budget_bounds_the_proof_on_a_machine_too_noisy_to_resolve_it():
    options = TuneOptions(trials=14, budget_s=300.0, noise_runs=4, confirm_max=48)
    laboratory = SimulatedLaboratory(flat, cv=0.5)
    tuned, _ = run(laboratory, options)
    assert tuned.headline.verdict.word is Word.NOT_RESOLVED
    assert tuned.headline.verdict.pairs >= options.confirm_min
    assert laboratory.clock_s <= laboratory.stopwatch.end_s


@pytest.mark.parametrize("budget_s", [130.0, 145.0])
def test_the_last_of_the_time_is_not_spent_on_a_baseline_that_no_configuration_follows(budget_s):
    laboratory = SimulatedLaboratory(shared_buffers_cliff)
    tuned, _ = run(laboratory, replace(OPTIONS, budget_s=budget_s, seed=3))
    searched = [trial for trial in laboratory.store.kept if trial.spec.block < TUNE_PROOF_BLOCKS]
    assert searched[-1].spec.role is Role.SEARCH
    assert tuned.proof is not None


def test_a_proof_that_ran_out_of_time_is_not_said_to_have_had_none():
    laboratory = SimulatedLaboratory(
        shared_buffers_cliff, disturbed=lambda number, settings: number > 8 and bool(settings)
    )
    tuned, _ = run(laboratory, replace(OPTIONS, budget_s=145.0, seed=3))
    assert tuned.proof is None
    assert any("no time was left to end the proof, which had begun (8 trials take" in note for note in tuned.notes)


def test_no_baseline_follows_the_last_search_trial_that_was_asked_for():
    options = replace(OPTIONS, trials=OPTIONS.baseline_every, seed=SEED_OF_A_BASELINE_FIRST)
    laboratory = SimulatedLaboratory(flat)
    run(laboratory, options)
    searched = [trial for trial in laboratory.store.kept if 0 < trial.spec.block < TUNE_PROOF_BLOCKS]
    assert [trial.spec.block for trial in searched] == [1] * (options.baseline_every + 1)


@pytest.mark.parametrize("budget_s", [230.0, 260.0, 320.0, 420.0])
@pytest.mark.parametrize("seed", [1, 2, 6] if NIGHT else [6])
def test_however_short_the_time_nothing_is_offered_that_was_not_measured_alone(budget_s, seed):
    options = TuneOptions(
        seed=seed, trials=14, budget_s=budget_s, noise_runs=4, confirm_min=3, confirm_max=3, rivals=OPTIONS.rivals
    )
    laboratory = SimulatedLaboratory(work_mem_and_buffers, seed=seed)
    tuned, _ = run(laboratory, options)
    assert laboratory.clock_s <= laboratory.stopwatch.end_s
    typed = tune_result(laboratory, tuned, options)
    result = plain(typed)
    bound = [one["knob"] for one in result["unmeasured"]]
    assert not [name for name in bound if tuned.search.accepts(tuned.winner.without(name))]
    assert tuned.proof is not None
    assert len(tuned.proof.blocks.complete) == options.confirm_min
    if len(tuned.winner) > 1:
        measured = len({arm for block in tuned.proof.blocks.complete for arm in block if "without" in arm})
        assert measured + len(bound) >= len(tuned.winner)


def test_a_restart_budget_that_does_not_reach_for_a_proof_searches_reloads_only():
    laboratory = SimulatedLaboratory(shared_buffers_cliff)
    options = replace(OPTIONS, restarts="10", rivals={})
    tuned, said = run(laboratory, options)
    assert laboratory.restarts.used == 0
    assert "shared_buffers" not in tuned.search.space.names()
    assert any("restart budget 10" in line for line in said)


@pytest.mark.parametrize(("keep", "has_room"), [(0, True), (2, True), (3, False)])
def test_the_last_restart_of_a_budget_is_made(keep, has_room):
    laboratory = SimpleNamespace(restarts=SimpleNamespace(used=5, most=lambda _configurations: 3))
    assert has_restarts(laboratory, replace(OPTIONS, restarts="10"), (), keep=keep) is has_room


def test_a_restart_budget_keeps_enough_for_the_proof():
    options = replace(OPTIONS, restarts="24", rivals={})
    laboratory = SimulatedLaboratory(shared_buffers_cliff)
    tuned, _ = run(laboratory, options)
    unbounded, _ = run(SimulatedLaboratory(shared_buffers_cliff), replace(OPTIONS, rivals={}))
    restarting = [
        sum("shared_buffers" in t.spec.configuration for t in s.trials) for s in (tuned.search, unbounded.search)
    ]
    assert 0 < restarting[0] < restarting[1]
    assert set(tuned.winner) == {"shared_buffers"}


@pytest.mark.parametrize("limit", [22, 24, 30, 40])
@pytest.mark.parametrize("seed", [1, 2, 3] if NIGHT else [2])
def test_a_tune_keeps_to_its_restarts_and_still_proves(limit, seed):
    """40 restarts were 48 to 69: nothing bounded those of what followed the search."""
    laboratory = SimulatedLaboratory(shared_buffers_cliff, seed=seed)
    options = replace(OPTIONS, restarts=str(limit), seed=seed)
    tuned, _ = run(laboratory, options)
    assert laboratory.restarts.used <= limit
    assert tuned.proof is not None
    assert len(tuned.proof.blocks.complete) >= options.confirm_min
    asked = [t.spec.configuration for t in tuned.search.trials]
    assert len(set(asked)) == len(asked)


def test_a_proof_that_does_not_resolve_ends_with_the_restarts_that_there_are():
    """Nothing but the bound ends its pairs before they are 50 restarts, with those of the search."""
    laboratory = SimulatedLaboratory(slight, seed=2, cv=0.3)
    options = TuneOptions(trials=8, noise_runs=4, restarts="40", seed=2, only=("shared_buffers",))
    tuned, _ = run(laboratory, options)
    assert tuned.proof.headline.verdict.word is Word.NOT_RESOLVED
    assert 30 < laboratory.restarts.used <= 40


def slight(settings):
    return 1.1 if shared_buffers_cliff(settings) > 1 else 1.0


def test_a_tune_without_restarts_keeps_no_time_for_them() -> None:
    """A large cache makes the expected restart longer than the budget: nothing was tried, and it "ran out" at once."""
    outage = Outage(200.0, "at most", "6GB of shared_buffers")

    def stopwatch() -> Stopwatch:
        return Stopwatch(300.0, began=0.0, clock=lambda: 5.0)

    without = stopwatch()
    for options in (TuneOptions(reload_only=True), TuneOptions(restarts="0")):
        keep_restarts(without, outage, options)
    assert without.left_s() > 270
    with pytest.raises(OutOfTime, match="ran out before the first trial") as refused:
        keep_restarts(stopwatch(), outage, TuneOptions(budget_s=300.0))
    assert str(outage) in refused.value.detail
    assert "--restarts none" in refused.value.hint
    keep_restarts(longer := Stopwatch(900.0, began=0.0, clock=lambda: 5.0), outage, TuneOptions())
    assert longer.end_s == 900.0 - 2 * 200.0 - longer.closing_s
    keep_restarts(without, Outage(Unknown("not asked"), "unknown", ""), TuneOptions())
    assert without.left_s() > 270
