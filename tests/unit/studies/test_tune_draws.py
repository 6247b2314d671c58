"""A tune whose first proof shows nothing makes another: what may follow, how strictly it is judged, what is told."""

from dataclasses import replace

import pytest

from pgdyno.errors import EnvironmentUnsuitable
from pgdyno.model.configuration import BASELINE, Configuration
from pgdyno.model.trial import Role
from pgdyno.model.verdict import Word
from pgdyno.studies.tune import proof as proof_module
from pgdyno.studies.tune import run as tune_module
from pgdyno.studies.tune.frugal import FrugalWinner
from pgdyno.studies.tune.missing import ARM
from pgdyno.studies.tune.options import TuneOptions
from pgdyno.studies.tune.search import Search
from pgdyno.studies.tune.tuned import Tuned
from simulated_asks import asked_anew
from simulated_laboratory import SimulatedLaboratory, flat, shared_buffers_cliff
from simulated_tune import OPTIONS, run

pytestmark = pytest.mark.usefixtures("kept_asks")
IDLE, LARGE = Configuration.of({"jit": "off"}), Configuration.of({"shared_buffers": "2GB"})
BOTH = Configuration.of({"jit": "off", "shared_buffers": "2GB"})


def draws(monkeypatch, *winners):
    """Let the search find these, one after the other, and nothing beyond them; return what it had learnt each time."""
    drawn, learnt = iter(winners), []

    def winner(search):
        learnt.append(len(search.fresh))
        return next(drawn, BASELINE)

    monkeypatch.setattr(Search, "winner", winner)
    return learnt


def parts(monkeypatch, *chosen):
    """Let these parts of what was found be proved, one after the other."""
    left = iter(chosen)
    monkeypatch.setattr(tune_module, "frugal", lambda *_, **__: FrugalWinner(next(left), {}, ()))


def confidences(monkeypatch):
    """Return where the confidence of each proof is kept."""
    found, prove = [], tune_module.prove

    def proved(laboratory, winner, whole, options, **more):
        found.append(options.confidence)
        return prove(laboratory, winner, whole, options, **more)

    monkeypatch.setattr(tune_module, "prove", proved)
    return found


def test_where_nothing_found_shows_the_model_learns_and_another_draw_is_judged_more_strictly(monkeypatch):
    learnt = draws(monkeypatch, IDLE, LARGE)
    tuned, said = run(SimulatedLaboratory(shared_buffers_cliff))
    assert "proof: the setting that the search found is not shown to be better: the model learns from that" in said
    assert learnt[0] == 0 < learnt[1]
    assert tuned.is_offered
    assert dict(tuned.found) == {"shared_buffers": "2GB"}
    assert set(tuned.winner) == {"shared_buffers"}
    assert tuned.headline.verdict.interval.confidence == pytest.approx(0.975)


def test_what_else_was_proved_is_told_and_that_the_intervals_are_wider_for_it(monkeypatch):
    draws(monkeypatch, IDLE, LARGE)
    tuned, _ = run(SimulatedLaboratory(shared_buffers_cliff))
    (other,) = (note for note in tuned.notes if note.startswith("proved too, and not taken: "))
    assert "jit = off has throughput" in other
    assert "another proof came before the one that is told, so its intervals are of 97.5 %" in tuned.notes


def test_a_tune_of_one_proof_tells_of_no_other(monkeypatch):
    draws(monkeypatch, LARGE)
    tuned, _ = run(SimulatedLaboratory(shared_buffers_cliff))
    assert tuned.is_offered
    assert tuned.headline.verdict.interval.confidence == OPTIONS.confidence
    assert not any("proof" in note or "proved too" in note for note in tuned.notes)


def test_a_part_after_one_that_lacks_something_is_judged_as_strictly_as_another_draw(monkeypatch):
    """Each could make a claim: one that follows a veto gave a setting that does nothing for a gain of 5 % once."""
    draws(monkeypatch, BOTH)
    parts(monkeypatch, IDLE, LARGE)
    asked = confidences(monkeypatch)
    monkeypatch.setattr(proof_module, "is_hopeless", lambda *_: False)
    tuned, said = run(SimulatedLaboratory(shared_buffers_cliff))
    assert any("1 of the 2 settings that the search found is worse than all of them" in line for line in said)
    assert asked == [pytest.approx(0.95), pytest.approx(0.975)]
    assert tuned.is_offered


def test_a_part_that_was_given_up_before_its_fewest_pairs_could_claim_nothing_and_costs_no_error(monkeypatch):
    draws(monkeypatch, BOTH)
    parts(monkeypatch, IDLE, LARGE)
    asked = confidences(monkeypatch)
    tuned, _ = run(SimulatedLaboratory(shared_buffers_cliff))
    assert asked == [OPTIONS.confidence, OPTIONS.confidence]
    assert tuned.is_offered
    (given_up,) = (note for note in tuned.notes if note.startswith("given up after "))
    assert given_up == "given up after 2 pairs, as all that was found is better: jit = off"
    assert not any("another proof came before" in note for note in tuned.notes)


def test_a_part_that_is_not_shown_to_lose_is_neither_halved_nor_called_idle(monkeypatch):
    """As good as all that was found, it lacked what chance said: a setting that does nothing was proved."""
    draws(monkeypatch, BOTH)
    learnt, left = [], iter((IDLE, LARGE))

    def chosen(search, found, *, idle, needed, **_):
        learnt.append((set(idle), tuple(needed)))
        return FrugalWinner(next(left), {}, ())

    monkeypatch.setattr(tune_module, "frugal", chosen)
    monkeypatch.setattr(proof_module, "is_hopeless", lambda *_: False)
    monkeypatch.setattr(proof_module, "_is_vetoed", lambda *_: False)
    laboratory = SimulatedLaboratory(shared_buffers_cliff)
    tuned, said = run(laboratory)
    assert any("not shown to be better, and all of them are: the model learns" in line for line in said)
    assert learnt == [(set(), ()), (set(), ())]
    assert not [trial for trial in laboratory.store.kept if trial.spec.arm == ARM]
    assert tuned.is_offered


def test_all_proofs_of_a_tune_claim_a_gain_of_nothing_as_seldom_as_one_interval_misses(monkeypatch):
    draws(monkeypatch, IDLE, LARGE, BOTH)
    asked = confidences(monkeypatch)
    tuned, _ = run(SimulatedLaboratory(flat))
    assert not tuned.is_offered
    assert len(asked) == OPTIONS.MOST_PROOFS
    assert sum((1 - confidence) / 2 for confidence in asked) == pytest.approx(0.05)


def test_draws_end_where_the_model_knows_nothing_better_than_the_baseline(monkeypatch):
    draws(monkeypatch, IDLE)
    tuned, _ = run(SimulatedLaboratory(shared_buffers_cliff))
    assert not tuned.is_offered
    assert dict(tuned.found) == dict(tuned.winner) == {"jit": "off"}


def test_a_gain_that_is_shown_and_not_explained_ends_the_tune_and_is_told(monkeypatch):
    """It is no draw that showed nothing; the next one would take its place in the result."""
    learnt = draws(monkeypatch, BOTH, IDLE)
    monkeypatch.setattr(Tuned, "unexplained", ["jit"])
    tuned, said = run(SimulatedLaboratory(shared_buffers_cliff))
    assert not tuned.is_offered
    assert len(learnt) == 1
    assert tuned.headline.verdict.word is Word.BETTER
    assert not any("not shown" in line for line in said)
    assert "not offered, as these settings were not measured alone: jit" in tuned.notes


def test_a_later_winner_that_fails_leaves_the_proof_before_it_with_what_it_was_found_in(monkeypatch):
    draws(monkeypatch, IDLE, LARGE, BOTH)

    def fails(settings):
        return "shared_buffers" in settings and laboratory.measured > 30

    laboratory = SimulatedLaboratory(flat, fails=fails)
    tuned, _ = run(laboratory)
    assert any(note.startswith("not offered, as it could not be measured in its proof") for note in tuned.notes)
    assert dict(tuned.found) == dict(tuned.winner) == {"jit": "off"}
    assert not any("whether all" in left for left in tuned.search.left_out)


@pytest.mark.parametrize("blocks", [0, 2])
def test_a_machine_that_is_disturbed_in_another_draw_leaves_the_answer_of_the_first(monkeypatch, blocks):
    """It ended the tune with an error, and two pairs without an interval took the place of a whole proof."""
    draws(monkeypatch, IDLE)
    whole = SimulatedLaboratory(flat)
    expected, _ = run(whole, replace(OPTIONS, rivals={}))
    draws(monkeypatch, IDLE, LARGE)
    last = len(whole.store.kept) + 3 * blocks  # the whole runs beside baseline and winner
    laboratory = SimulatedLaboratory(flat, disturbed=lambda number, settings: number > last)
    tuned, _ = run(laboratory, replace(OPTIONS, rivals={}))
    assert tuned.headline.verdict == expected.headline.verdict
    assert dict(tuned.winner) == {"jit": "off"}
    told = "could not be ended" if not blocks else "shared_buffers = "
    assert any(told in note for note in tuned.notes)


def test_a_machine_that_is_disturbed_in_the_first_proof_is_unsuitable(monkeypatch):
    draws(monkeypatch, IDLE, LARGE)
    laboratory = SimulatedLaboratory(flat, disturbed=lambda number, settings: number > 25)
    with pytest.raises(EnvironmentUnsuitable):
        run(laboratory, replace(OPTIONS, rivals={}))


@pytest.mark.parametrize("budget_s", [300.0, 400.0, 600.0, 900.0])
def test_another_draw_keeps_within_the_time_and_leaves_the_way_back_its_own(monkeypatch, budget_s):
    draws(monkeypatch, IDLE, LARGE, BOTH)
    laboratory = SimulatedLaboratory(flat)
    tuned, _ = run(laboratory, replace(OPTIONS, budget_s=budget_s))
    assert laboratory.clock_s <= laboratory.stopwatch.end_s
    assert not tuned.is_offered
    assert len(tuned.proof.blocks.complete) >= OPTIONS.confirm_min


@pytest.mark.parametrize("restarts", [14, 30, 60])
def test_another_draw_keeps_within_the_restarts(monkeypatch, restarts):
    draws(monkeypatch, LARGE, Configuration.of({"shared_buffers": "1GB"}), Configuration.of({"shared_buffers": "4GB"}))
    laboratory = SimulatedLaboratory(flat)
    run(laboratory, replace(OPTIONS, rivals={}, restarts=str(restarts)))
    assert laboratory.restarts.used <= restarts


def test_a_tune_that_was_killed_in_another_draw_goes_on_to_the_same_end(monkeypatch):
    options = TuneOptions(trials=14, noise_runs=4, confirm_max=8)
    draws(monkeypatch, IDLE, LARGE)
    whole = SimulatedLaboratory(shared_buffers_cliff)
    expected, _ = run(whole, options)
    proofs = [trial.id for trial in whole.store.kept if trial.spec.role is Role.CONFIRM]
    draws(monkeypatch, IDLE, LARGE)
    killed = SimulatedLaboratory(shared_buffers_cliff, kill_after=proofs[-2])
    with pytest.raises(KeyboardInterrupt):
        run(killed, options)
    draws(monkeypatch, IDLE, LARGE)
    resumed = SimulatedLaboratory(shared_buffers_cliff, recorded=killed.store.kept)
    with asked_anew():
        tuned, _ = run(resumed, options)
    assert resumed.measured == whole.measured - killed.measured
    assert tuned.winner == expected.winner
    assert tuned.headline.verdict == expected.headline.verdict
    assert tuned.notes == expected.notes
