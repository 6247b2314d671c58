"""Of what the search found only the settings win that matter, each measured alone or vetoed in the proof."""

from dataclasses import replace

import pytest

from fix_postgres import NIGHT
from pgdyno.errors import ExitCode
from pgdyno.model.configuration import Configuration
from pgdyno.model.shapes import plain
from pgdyno.model.trial import Role
from pgdyno.model.verdict import Word
from pgdyno.studies.kinds import judged
from pgdyno.studies.tune import proof as proof_module
from pgdyno.studies.tune import run as tune_module
from pgdyno.studies.tune.frugal import FrugalWinner
from pgdyno.studies.tune.missing import ARM
from pgdyno.studies.tune.options import TuneOptions
from pgdyno.studies.tune.proof_notes import which_settings
from pgdyno.studies.tune.result import tune_result
from pgdyno.units import parse_quantity
from simulated_laboratory import SimulatedLaboratory, shared_buffers_cliff, work_mem_and_buffers
from simulated_tune import OPTIONS, run

pytestmark = pytest.mark.usefixtures("kept_asks")


@pytest.mark.parametrize("seed", [1, 3, 5] if NIGHT else [3])
def test_of_what_the_search_found_only_the_settings_that_matter_win_each_measured_alone(seed):
    options = TuneOptions(seed=seed)
    laboratory = SimulatedLaboratory(work_mem_and_buffers, seed=seed)
    tuned, _ = run(laboratory, options)
    assert len(tuned.found) > 6
    assert set(tuned.winner) == {"shared_buffers", "work_mem"}
    typed = tune_result(laboratory, tuned, options)
    result = plain(typed)
    assert not result["keep"]
    assert {one["knob"] for one in result["effects"]} == set(tuned.winner)
    assert result["unmeasured"] == []
    assert {one["knob"] for one in result["dropped"]} == set(tuned.found) - set(tuned.winner)
    assert all("expects" in one["why"] for one in result["dropped"])
    assert not [trial for trial in laboratory.store.kept if trial.spec.role is Role.PRUNE]


@pytest.mark.requirement("R-TUN-08")
def test_of_buffers_only_what_the_data_need_is_taken(monkeypatch):
    laboratory, data = SimulatedLaboratory(shared_buffers_cliff), 919 << 20
    measure = laboratory._outcome

    def told(spec, chance):
        outcome = measure(spec, chance)
        return replace(outcome, counters={**outcome.counters, "database_bytes": float(data)})

    monkeypatch.setattr(laboratory, "_outcome", told)
    tuned, _ = run(laboratory)
    found, taken = (parse_quantity(one["shared_buffers"], "8kB") * 8192 for one in (tuned.found, tuned.winner))
    assert data < taken < 1.5 * data < found
    said = f"not {tuned.found['shared_buffers']}, as the search found it: more is not expected to do anything"
    assert any(f"{said}; the data are 919 MB" in note for note in tuned.notes)
    assert tuned.proof.unpruned.word is not Word.WORSE


OFF = {"io_method": "sync"}


def wrong_at_first(monkeypatch, *settings, rounds=1):
    """Let the model choose these settings of what was found in its first rounds."""
    asked, choose = [], tune_module.frugal

    def chosen(search, found, *, most, refused, **learnt):
        asked.append(refused[-1])
        if len(asked) > rounds:
            return choose(search, found, most=most, refused=refused, **learnt)
        part = Configuration.of(
            {name: found.get(name, OFF.get(name, "off")) for name in settings[: len(settings) + 1 - len(asked)]}
        )
        return FrugalWinner(part, {}, ())

    monkeypatch.setattr(tune_module, "frugal", chosen)
    return asked


def test_the_proof_vetoes_a_model_that_was_wrong_and_the_model_learns_from_it(monkeypatch):
    asked = wrong_at_first(monkeypatch, "random_page_cost")
    laboratory = SimulatedLaboratory(shared_buffers_cliff)
    tuned, said = run(laboratory)
    assert any("worse than all of them" in line for line in said)
    assert [set(part) for part in asked] == [set(), {"random_page_cost"}]
    assert tuned.search.fresh
    assert tuned.is_offered
    assert set(tuned.winner) == {"shared_buffers"}
    assert not tuned.proof.is_vetoed
    fresh = {trial.id for trial in tuned.search.fresh}
    assert not fresh & {trial.id for block in tuned.proof.blocks.complete for trial in block.values()}


def test_a_winner_that_shows_nothing_where_the_whole_is_better_is_not_the_last_one(monkeypatch):
    asked = wrong_at_first(monkeypatch, "random_page_cost")
    monkeypatch.setattr(proof_module, "is_hopeless", lambda *_: False)
    monkeypatch.setattr(proof_module, "_is_vetoed", lambda *_: False)
    tuned, said = run(SimulatedLaboratory(shared_buffers_cliff))
    assert any("not shown to be better, and all of them are: the model learns" in line for line in said)
    assert len(asked) == 2
    assert tuned.is_offered
    assert set(tuned.winner) == {"shared_buffers"}


def test_a_proof_that_was_given_up_with_the_fewest_pairs_is_followed_by_another_one(monkeypatch):
    asked = wrong_at_first(monkeypatch, "random_page_cost")
    monkeypatch.setattr(proof_module, "FEWEST_LOST", OPTIONS.confirm_min)
    monkeypatch.setattr(proof_module, "_is_vetoed", lambda *_: False)
    monkeypatch.setattr(proof_module.Proof, "is_only_together", False)
    tuned, _ = run(SimulatedLaboratory(shared_buffers_cliff))
    assert len(asked) == 2
    assert tuned.is_offered
    assert not tuned.proof.is_given_up


def test_what_a_vetoed_winner_lacks_is_sought_though_its_proof_was_not_given_up(monkeypatch):
    wrong_at_first(monkeypatch, "random_page_cost")
    monkeypatch.setattr(proof_module, "is_hopeless", lambda *_: False)
    sought = []
    monkeypatch.setattr(tune_module, "seek_seen", lambda _search, _loss, needed, **_: sought.append(needed))
    run(SimulatedLaboratory(shared_buffers_cliff))
    assert sought == [()]


def test_what_only_proved_better_as_a_whole_is_not_offered(monkeypatch):
    wrong_at_first(monkeypatch, "random_page_cost", "jit", "io_method", rounds=3)
    laboratory = SimulatedLaboratory(shared_buffers_cliff)
    tuned, _ = run(laboratory)
    assert tuned.proof.is_vetoed
    assert tuned.proof.together.word is Word.BETTER
    typed = tune_result(laboratory, tuned, OPTIONS)
    result = plain(typed)
    assert result["keep"]
    assert result["fragment"] == ""
    assert any("a setting that is not explained is not offered" in note for note in result["notes"])
    judgement = judged(replace(laboratory.study, result=typed))
    assert judgement.code is ExitCode.NOT_RESOLVED
    assert "none of them is explained" in judgement.title


def test_a_setting_that_costs_nothing_in_the_proof_goes(monkeypatch):
    wrong_at_first(monkeypatch, "jit", "shared_buffers")
    laboratory = SimulatedLaboratory(shared_buffers_cliff, cv=0.01)
    tuned, _ = run(laboratory)
    assert list(tuned.proof.gone) == ["jit"]
    assert set(tuned.winner) == {"shared_buffers"}
    typed = tune_result(laboratory, tuned, OPTIONS)
    result = plain(typed)
    assert result["verdict"]["word"] == Word.BETTER
    assert [one["knob"] for one in result["effects"]] == ["shared_buffers"]
    assert result["unmeasured"] == []
    runs = {pair["b_run"] for pair in result["confirmation"]["pairs"]}
    assert {laboratory.store.trial(run).spec.arm for run in runs} == {"without jit"}


def test_where_a_spread_gain_was_cut_too_far_all_that_is_no_loss_goes_into_the_next_proof(monkeypatch):
    choose, asked = tune_module.frugal, []

    def chosen(search, found, *, whole, **learnt):
        asked.append(whole)
        if not whole:
            left = found.without("shared_buffers")
            return FrugalWinner(left, {}, (), tuple(left)[4:])
        return choose(search, found, whole=whole, **learnt)

    monkeypatch.setattr(tune_module, "frugal", chosen)
    laboratory = SimulatedLaboratory(work_mem_and_buffers)
    tuned, _ = run(laboratory, TuneOptions())
    assert asked == [False, True]
    assert tuned.is_offered
    assert {"shared_buffers", "work_mem"} <= set(tuned.winner)
    assert not [trial for trial in laboratory.store.kept if trial.spec.arm == ARM]


def part_of_the_search(monkeypatch, settings, rest):
    part = FrugalWinner(Configuration.of(settings), {}, (), rest)
    monkeypatch.setattr(tune_module, "frugal", lambda *_, **__: part)


LARGE = {"shared_buffers": "2GB", "work_mem": "64MB", "jit": "off"}


def test_settings_that_were_left_out_together_are_offered_where_that_shows_them_to_matter(monkeypatch):
    def both(settings):
        return work_mem_and_buffers(settings) * (1.6 if settings.get("jit") == "off" else 1.0)

    part_of_the_search(monkeypatch, LARGE, ("work_mem", "jit"))
    laboratory = SimulatedLaboratory(both)
    tuned, _ = run(laboratory)
    assert tuned.is_offered
    assert dict(tuned.winner) == LARGE
    assert tuned.proof.rest_effect.word is Word.BETTER
    typed = tune_result(laboratory, tuned, OPTIONS)
    result = plain(typed)
    assert [one["knob"] for one in result["effects"]] == ["shared_buffers"]
    assert [one["knob"] for one in result["unmeasured"]] == ["jit", "work_mem"]
    assert result["joint"]["knobs"] == ["work_mem", "jit"]
    assert result["joint"]["ratio"] == pytest.approx(1.6 * 1.6, rel=0.2)
    assert not any("refused here" in note for note in result["notes"])


def test_settings_that_were_left_out_together_go_together_where_nothing_shows_them_to_matter(monkeypatch):
    def all_of_it(search, found, **_):
        return FrugalWinner(found, {}, (), tuple(name for name in found if name != "shared_buffers"))

    monkeypatch.setattr(tune_module, "frugal", all_of_it)
    laboratory = SimulatedLaboratory(shared_buffers_cliff)
    tuned, _ = run(laboratory)
    assert len(tuned.found) > 3
    assert tuned.is_offered
    assert set(tuned.winner) == {"shared_buffers"}
    typed = tune_result(laboratory, tuned, OPTIONS)
    result = plain(typed)
    assert ([one["knob"] for one in result["effects"]], result["unmeasured"]) == (["shared_buffers"], [])
    assert "joint" not in result
    why = {one["knob"]: one["why"] for one in result["dropped"]}
    assert set(why) == set(tuned.proof.rest)
    assert all(told.startswith("together they were not shown to do anything") for told in why.values())
    runs = {pair["b_run"] for pair in result["confirmation"]["pairs"]}
    assert {laboratory.store.trial(run).spec.arm for run in runs} == {"without the other settings"}


@pytest.mark.parametrize(
    ("count", "found", "words"),
    [(1, 1, "the setting"), (7, 7, "all 7 settings"), (1, 7, "1 of the 7 settings"), (3, 7, "3 of the 7 settings")],
)
def test_settings_found_are_counted_in_words(count: int, found: int, words: str) -> None:
    assert which_settings(count, found) == words
