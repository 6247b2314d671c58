"""A proof one of whose arms cannot be measured: it does without it, or with another winner."""

from dataclasses import replace

import pytest

from pgdyno.errors import ApplyError, ExitCode
from pgdyno.model.configuration import Configuration
from pgdyno.model.shapes import plain
from pgdyno.model.trial import TUNE_PROOF_BLOCKS
from pgdyno.model.verdict import Metric
from pgdyno.studies.kinds import judged
from pgdyno.studies.pairs.blocks import WINNER
from pgdyno.studies.pairs.judging import Unjudged
from pgdyno.studies.tune import run as tune_module
from pgdyno.studies.tune.frugal import FrugalWinner
from pgdyno.studies.tune.options import TuneOptions
from pgdyno.studies.tune.proof import Proof
from pgdyno.studies.tune.result import tune_result
from pgdyno.studies.tune.run import tune
from pgdyno.studies.tune.search import Search
from simulated_laboratory import SimulatedLaboratory, shared_buffers_cliff, work_mem_and_buffers
from staircase_climbing import thin_laboratory

pytestmark = pytest.mark.usefixtures("kept_asks")
SHORT = TuneOptions(trials=14, noise_runs=4, confirm_max=8)


def tuned_with(fails_in_proof, options=SHORT, laboratory_class=SimulatedLaboratory):
    """Run a tune in whose proof some settings fail that the search could measure."""
    runs = []

    def fails(settings):
        runs.append(settings)
        return len(runs) > SHORT.noise_runs + SHORT.trials + 4 and fails_in_proof(settings)

    laboratory = laboratory_class(shared_buffers_cliff, fails=fails)
    tuned = tune(laboratory, options, lambda _: None)
    result = tune_result(laboratory, tuned, options)
    return tuned, result, judged(replace(laboratory.study, result=result))


def test_a_setting_without_which_the_load_fails_stays_and_is_said_to():
    laboratory = SimulatedLaboratory(work_mem_and_buffers, seed=1, fails=lambda s: set(s) == {"shared_buffers"})
    options = TuneOptions(seed=1, rivals={"larger": {"shared_buffers": "4GB"}})
    laboratory.budget(options.budget_s)
    tuned = tune(laboratory, options, lambda _: None)
    assert tuned.is_offered
    assert set(tuned.winner) == {"shared_buffers", "work_mem"}
    assert set(tuned.proof.effects) == {"shared_buffers"}
    result = plain(tune_result(laboratory, tuned, options))
    assert [one["knob"] for one in result["unmeasured"]] == ["work_mem"]
    for arm in ("without work_mem", "rival larger"):
        assert any(note.startswith(f"{arm} could not be measured") for note in result["notes"])


def test_the_name_of_a_rival_decides_nothing():
    """Its own verdict is not waited for, though it is called like an arm of the winner."""
    rival = {"shared_buffers": "4GB", "work_mem": "64MB"}
    blocks = []
    for name in ("larger", "ours without huge pages"):
        options = TuneOptions(seed=1, rivals={name: rival})
        laboratory = SimulatedLaboratory(work_mem_and_buffers, seed=1)
        laboratory.budget(options.budget_s)
        blocks.append(len(tune(laboratory, options, lambda _: None).proof.blocks.complete))
    assert blocks[0] == blocks[1]


def test_a_winner_that_fails_in_its_proof_gives_way_to_another_part_of_what_was_found():
    first = tuned_with(lambda _: False)[0].winner
    tuned, result, _ = tuned_with(lambda settings: settings == first)
    assert tuned.is_offered
    assert "shared_buffers" in tuned.winner
    assert tuned.winner != first
    assert any(note.startswith("not offered, as it could not be measured") for note in result.notes)
    assert "did not start" in str(result.notes)


@pytest.mark.parametrize(("budget_s", "held"), [(None, ["jit"]), (600.0, [])])
def test_what_a_part_that_failed_lacks_stays_in_the_next_where_more_can_be_proved(monkeypatch, budget_s, held):
    """Three parts of what was found failed for lack of one and the same setting, and nothing was offered."""
    found, asked = Configuration.of({"shared_buffers": "2GB", "jit": "off"}), []

    def part(*_, needed=(), **__):
        asked.append(list(needed))
        return FrugalWinner(found if "jit" in needed else found.without("jit"), {}, ())

    monkeypatch.setattr(Search, "winner", lambda _: found)
    monkeypatch.setattr(tune_module, "frugal", part)
    laboratory = SimulatedLaboratory(shared_buffers_cliff, fails=lambda settings: "jit" not in settings and settings)
    options = replace(SHORT, budget_s=budget_s)
    laboratory.budget(budget_s)
    tuned = tune(laboratory, options, lambda _: None)
    assert asked[0] == []
    assert asked[-1] == held
    assert tuned.is_offered == bool(held)
    if held:
        assert tuned.winner == found
        assert [one.knob for one in tune_result(laboratory, tuned, options).unmeasured] == ["jit"]


def test_where_every_winner_fails_the_configuration_stays_and_why_is_said():
    """As on a server that is short of memory by then."""
    tuned, result, said = tuned_with(lambda settings: "shared_buffers" in settings)
    assert result.keep
    assert tuned.proof is None
    assert said.title == f"Not resolved: none of the {SHORT.trials} configurations that were tried was proved"
    assert said.code is ExitCode.NOT_RESOLVED
    assert sum("could not be measured in its proof (did not start)" in note for note in result.notes) > 1
    assert not any("no time" in note for note in result.notes)


def test_a_baseline_that_fails_in_a_proof_ends_the_tune():
    with pytest.raises(ApplyError, match="arm baseline cannot be measured"):
        tuned_with(lambda settings: not settings)


@pytest.mark.parametrize("first", [{"jit": "off"}, {"shared_buffers": "2GB"}])
def test_a_baseline_that_fails_in_a_later_proof_takes_nothing_from_the_one_before(monkeypatch, first):
    drawn, begun = iter([first, {"shared_buffers": "4GB"}]), []
    monkeypatch.setattr(Search, "winner", lambda _: Configuration.of(next(drawn, {})))
    prove = tune_module.prove

    def proved(*arguments, **more):
        begun.append(arguments)
        return prove(*arguments, **more)

    monkeypatch.setattr(tune_module, "prove", proved)
    monkeypatch.setattr(Proof, "lacks_something", property(lambda proof: "jit" not in proof.blocks.arms[WINNER]))
    laboratory = SimulatedLaboratory(shared_buffers_cliff, fails=lambda settings: not settings and len(begun) > 1)
    tuned = tune(laboratory, replace(SHORT, seed=1), lambda _: None)
    result = tune_result(laboratory, tuned, SHORT)
    assert len(begun) == 2
    assert set(tuned.winner) == set(first)
    assert result.keep == ("jit" in first)
    ended = "another proof was begun and counts for nothing: the baseline could not be measured in it (did not start)"
    assert ended in result.notes


def test_a_proof_that_is_too_thin_to_judge_leaves_the_configuration_and_says_why():
    thin = thin_laboratory(lambda trial: trial.spec.block >= TUNE_PROOF_BLOCKS)
    options = replace(SHORT, metric=Metric.LATENCY_P99)
    tuned, result, said = tuned_with(lambda settings: False, options, thin)
    assert tuned.proof is None
    assert said.code is ExitCode.NOT_RESOLVED
    assert any("too few transactions" in note and "Lengthen --measure" in note for note in result.notes)
    assert not any("no time" in note for note in result.notes)


def test_a_load_too_thin_for_its_metric_ends_a_tune_before_the_search():
    laboratory = thin_laboratory(lambda trial: True)(shared_buffers_cliff)
    with pytest.raises(Unjudged, match="too few transactions") as error:
        tune(laboratory, replace(SHORT, metric=Metric.LATENCY_P99), lambda _: None)
    assert "(11 transactions)" in (error.value.detail or "")
    assert len(laboratory.store.kept) == SHORT.noise_runs
