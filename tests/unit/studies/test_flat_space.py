"""A search in which nothing stands out at a quarter of its trials: fresh pairs agree and it ends, or it goes on."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from pgdyno.studies.tune import run as tune_module
from pgdyno.studies.tune import search as tune_search
from pgdyno.studies.tune.proof import prove
from pgdyno.studies.tune.result import tune_result
from simulated_asks import asked_anew
from simulated_laboratory import SimulatedLaboratory, flat, shared_buffers_cliff
from simulated_tune import OPTIONS as SHORT
from simulated_tune import run

pytestmark = pytest.mark.usefixtures("kept_asks")
FEW = ("shared_buffers", "work_mem", "jit", "random_page_cost", "effective_io_concurrency")
OPTIONS = replace(SHORT, trials=40, only=FEW, rivals={})


def looks(monkeypatch, answer):
    """Let each look say this; return how many runs each one saw."""
    seen = []

    def look(dimensions, history):
        seen.append(len(history))
        return answer

    monkeypatch.setattr(tune_search, "is_flat", look)
    return seen


def proofs(monkeypatch):
    """Return the confidence of each proof, as it is asked for."""
    asked = []

    def proved(laboratory, winner, found, options, **more):
        asked.append(options.confidence)
        return prove(laboratory, winner, found, options, **more)

    monkeypatch.setattr(tune_module, "prove", proved)
    return asked


@pytest.mark.parametrize(("trials", "many"), [(40, 1), (39, 0)])
def test_a_space_is_looked_at_once_and_not_where_a_quarter_is_few_trials(monkeypatch, trials, many):
    """It was looked at before each trial: an unlucky look of forty ended a search that had a gain to find."""
    seen = looks(monkeypatch, False)
    monkeypatch.setattr(tune_module, "prove", lambda *_, **__: None)
    tuned, _ = run(SimulatedLaboratory(shared_buffers_cliff), replace(OPTIONS, trials=trials))
    assert len(seen) == many
    assert tuned.search.seems_flat is (False if many else None)
    assert len(tuned.search.trials) == trials
    assert all(runs >= 10 + OPTIONS.noise_runs for runs in seen), "the noise floor is among what is compared"


@pytest.mark.parametrize("seed", range(3))
def test_a_flat_space_takes_a_quarter_of_the_trials_and_one_proof(monkeypatch, seed):
    """It took three proofs, each of another draw: more runs than the search had saved."""
    looks(monkeypatch, True)
    asked = proofs(monkeypatch)
    laboratory = SimulatedLaboratory(flat, seed=seed)
    options = replace(OPTIONS, trials=60)
    tuned, _ = run(laboratory, options)
    assert len(tuned.search.trials) == 15
    assert "stands out from the noise" in tuned.search.stopped
    assert asked == [options.confidence]
    assert not tuned.is_offered
    assert tune_result(laboratory, tuned, options).keep


def test_after_a_search_went_on_its_baselines_and_those_of_the_proof_are_in_order_of_time(monkeypatch):
    """The level of the baselines is followed from one run to the next."""
    looks(monkeypatch, True)
    times, score = [], tune_search.relative_scores

    def scores(trials, baselines):
        times.append([time for time, _ in baselines])
        return score(trials, baselines)

    monkeypatch.setattr(tune_search, "relative_scores", scores)
    tuned, _ = run(SimulatedLaboratory(shared_buffers_cliff), OPTIONS)
    proved = min(trial.outcome.began_at for trial in tuned.search.fresh)
    assert proved < tuned.search.baselines[-1].outcome.began_at, "some of the search's own came after the proof"
    assert all(each == sorted(each) for each in times)


def test_a_search_that_seemed_flat_goes_on_where_fresh_pairs_show_a_gain(monkeypatch):
    looks(monkeypatch, True)
    asked = proofs(monkeypatch)
    laboratory = SimulatedLaboratory(shared_buffers_cliff)
    tuned, said = run(laboratory, OPTIONS)
    assert "proof: fresh pairs show a gain: the space is not flat, and the search goes on" in said
    assert (len(tuned.search.trials), tuned.search.stopped) == (40, "the 40 search trials are used up")
    assert asked[0] == OPTIONS.confidence
    assert all(confidence == pytest.approx(0.975) for confidence in asked[1:]), "as of any later proof"
    assert len(asked) <= OPTIONS.MOST_PROOFS
    assert tuned.is_offered
    assert set(tuned.winner) == {"shared_buffers"}
    places = Counter((trial.spec.block, trial.spec.slot) for trial in (*tuned.search.trials, *tuned.search.baselines))
    assert max(places.values()) == 1, "no block of the search has another one's number"
    assert tuned.search.fresh, "the model knows the pairs"


def test_a_tune_that_was_killed_after_its_search_went_on_comes_to_the_same_end(monkeypatch):
    looks(monkeypatch, True)
    whole = SimulatedLaboratory(shared_buffers_cliff)
    tuned, _ = run(whole, OPTIONS)
    last = tuned.search.trials[-1].id - 2
    killed = SimulatedLaboratory(shared_buffers_cliff, kill_after=last)
    with pytest.raises(KeyboardInterrupt):
        run(killed, OPTIONS)
    resumed = SimulatedLaboratory(shared_buffers_cliff, recorded=killed.store.kept)
    with asked_anew():
        again, _ = run(resumed, OPTIONS)
    assert [trial.spec for trial in resumed.store.kept] == [trial.spec for trial in whole.store.kept]
    assert again.winner == tuned.winner


@pytest.mark.parametrize("budget_s", [300.0, 420.0])
def test_a_search_that_goes_on_keeps_to_the_time(monkeypatch, budget_s):
    looks(monkeypatch, True)
    options = replace(OPTIONS, budget_s=budget_s, confirm_max=4)
    laboratory = SimulatedLaboratory(shared_buffers_cliff, duration=lambda number: 5.1)
    tuned, _ = run(laboratory, options)
    assert laboratory.clock_s <= laboratory.stopwatch.end_s
    assert tuned.is_offered
