"""What a proof does not show to do anything is not offered: the smaller set is proved, or said to be a group."""

from dataclasses import replace

import pytest

from pgdyno.model.configuration import BASELINE, Configuration
from pgdyno.model.shapes import plain
from pgdyno.model.trial import Role
from pgdyno.model.verdict import Metric, Word
from pgdyno.studies.pairs.blocks import BASE, WINNER, ArmUnmeasured, run_blocks
from pgdyno.studies.tune import run as tune_module
from pgdyno.studies.tune import smaller
from pgdyno.studies.tune.frugal import FrugalWinner
from pgdyno.studies.tune.result import tune_result
from pgdyno.studies.tune.smaller import LARGER
from simulated_laboratory import SimulatedLaboratory, shared_buffers_cliff
from simulated_tune import OPTIONS, run

pytestmark = pytest.mark.usefixtures("kept_asks")
IDLE = {"shared_buffers": "2GB", "jit": "off", "random_page_cost": "1.1"}


def proposed(monkeypatch, settings):
    """Let the model propose these settings, all of which the proof leaves out one by one."""
    part = FrugalWinner(Configuration.of(settings), {}, ())
    monkeypatch.setattr(tune_module, "frugal", lambda *_, **__: part)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_setting_whose_effect_is_lost_in_the_noise_is_not_offered(monkeypatch, seed):
    """A demo offered io_method with +0.9 % [-25, +36]."""
    proposed(monkeypatch, {"shared_buffers": "2GB", "io_method": "sync"})
    laboratory = SimulatedLaboratory(shared_buffers_cliff, cv=0.12, seed=seed)
    options = replace(OPTIONS, confirm_max=4)
    tuned, _ = run(laboratory, options)
    assert tuned.is_offered
    assert set(tuned.winner) == {"shared_buffers"}
    assert tuned.dropped_because["io_method"].startswith("io_method dropped: ")


def test_several_that_are_not_shown_go_together_and_the_rest_is_proved_anew(monkeypatch):
    proposed(monkeypatch, IDLE)
    laboratory = SimulatedLaboratory(shared_buffers_cliff)
    tuned, said = run(laboratory)
    assert tuned.is_offered
    assert set(tuned.winner) == {"shared_buffers"}
    assert any("not shown to do anything alone; fresh pairs" in line for line in said)
    assert LARGER in tuned.proof.blocks.arms
    typed = tune_result(laboratory, tuned, OPTIONS)
    result = plain(typed)
    assert [one["knob"] for one in result["effects"]] == ["shared_buffers"]
    assert (result["unmeasured"], result["fragment"]) == ([], "shared_buffers = '2GB'\n")
    assert {one["knob"] for one in result["dropped"]} >= {"jit", "random_page_cost"} & set(tuned.found)
    runs = {pair["b_run"] for pair in result["confirmation"]["pairs"]}
    assert {laboratory.store.trial(run).spec.configuration for run in runs} == {tuned.winner}
    (rival,) = result["rivals"]
    assert rival["name"] == "4GB"
    assert not any("too few figures" in note for note in tuned.notes), "it was compared"
    taken = [one for one in result["pareto"] if one["taken"]]
    assert [one["settings"] for one in taken] == [{"shared_buffers": "2GB"}]


def either(settings):
    """Two settings stand in for each other: one of them is worth what both are."""
    helped = settings.get("jit") == "off" or settings.get("random_page_cost") == "1.1"
    return shared_buffers_cliff(settings) * (1.6 if helped else 1.0)


def test_settings_that_stand_in_for_each_other_stay_or_one_of_them_does(monkeypatch):
    proposed(monkeypatch, IDLE)
    laboratory = SimulatedLaboratory(either)
    tuned, _ = run(laboratory)
    assert tuned.is_offered
    assert len(tuned.winner) == 2, "one of the two goes in its proof; the other is missed without it"
    assert "shared_buffers" in tuned.winner


def any_of_three(settings):
    helped = settings.get("jit") == "off" or settings.get("random_page_cost") == "1.1" or "work_mem" in settings
    return shared_buffers_cliff(settings) * (1.6 if helped else 1.0)


def test_of_a_group_that_is_missed_one_is_left_that_stands_for_all(monkeypatch):
    proposed(monkeypatch, {**IDLE, "work_mem": "64MB"})
    options = replace(OPTIONS, confirm_max=24)
    laboratory = SimulatedLaboratory(any_of_three, cv=0.03)
    tuned, _ = run(laboratory, options)
    assert tuned.is_offered
    assert any(note.startswith("not shown to do anything alone: ") for note in tuned.notes)
    assert len(tuned.winner) == 2, "either half of the group is enough"
    assert "shared_buffers" in tuned.winner
    result = plain(tune_result(laboratory, tuned, options))
    assert {one["knob"]: one["word"] for one in result["effects"]} == dict.fromkeys(tuned.winner, Word.BETTER)
    assert (result.get("joint"), result["unmeasured"]) == (None, [])


def test_without_time_for_it_what_is_not_shown_is_kept_and_said_to_be(monkeypatch):
    monkeypatch.setattr(tune_module, "SMALLER_ARMS", 0)
    monkeypatch.setattr(tune_module, "_can_look", lambda *_: False)  # its trials are not in this sum of times
    proposed(monkeypatch, IDLE)
    options = replace(OPTIONS, budget_s=360.0, confirm_max=4, rivals={})
    laboratory = SimulatedLaboratory(shared_buffers_cliff)
    tuned, _ = run(laboratory, options)
    assert laboratory.clock_s <= laboratory.stopwatch.end_s
    assert set(tuned.winner) == set(IDLE)
    assert any(note.startswith("kept: ") and note.endswith("for lack of time") for note in tuned.notes)


def test_an_arm_that_is_answered_runs_no_more_and_keeps_its_pairs():
    laboratory = SimulatedLaboratory(shared_buffers_cliff)
    arms = {BASE: BASELINE, WINNER: Configuration.of(IDLE), "other": Configuration.of({"jit": "off"})}
    blocks = run_blocks(
        laboratory,
        arms,
        dict.fromkeys(arms, Role.ARM),
        seed=1,
        first_block=1,
        max_blocks=5,
        is_enough=lambda _: False,
        answered=lambda found: ["other"] if len(found.complete) == 2 else [],
    )
    assert [len(block) for block in blocks.complete] == [3, 3, 2, 2, 2]
    assert set(blocks.arms) == set(arms)
    assert len(blocks.trials("other")) == 2
    left, right = blocks.pairs("other", WINNER, Metric.THROUGHPUT)
    assert len(left) == len(right) == 2
    assert len(blocks.pairs(BASE, WINNER, Metric.THROUGHPUT)[0]) == 5


def test_blocks_after_a_smaller_set_that_cannot_be_measured_have_numbers_of_their_own(monkeypatch):
    proposed(monkeypatch, IDLE)
    failed, began = list[int](), list[int]()

    def fail(tuned, _proof, _smaller, options, first_block):
        failed.append(first_block + 2 * options.confirm_max)  # so many may be lost before
        trial = tuned.proof.blocks.complete[0][WINNER]
        raise ArmUnmeasured(WINNER, replace(trial, spec=replace(trial.spec, block=failed[0])))

    monkeypatch.setattr(smaller, "_measured", fail)
    monkeypatch.setattr(tune_module, "split_group", lambda *_, first_block, **__: began.append(first_block))
    run(SimulatedLaboratory(shared_buffers_cliff))
    assert began == [failed[0] + 1]
