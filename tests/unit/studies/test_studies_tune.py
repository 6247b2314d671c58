"""The whole tune on response surfaces that are known."""

from dataclasses import replace
from functools import cache

import pytest

from fix_postgres import NIGHT
from pgdyno.errors import EnvironmentUnsuitable, ExitCode
from pgdyno.model.shapes import plain
from pgdyno.model.study import StudyState
from pgdyno.model.trial import TrialState
from pgdyno.model.verdict import Metric, Word
from pgdyno.optimizer import rank
from pgdyno.report.drawing import html, markdown
from pgdyno.report.study_record import StudyRecord
from pgdyno.studies.kinds import judged
from pgdyno.studies.reports import compose
from pgdyno.studies.tune.result import tune_result
from simulated_asks import asked_anew
from simulated_laboratory import SimulatedLaboratory, flat, shared_buffers_cliff
from simulated_tune import OPTIONS, run

pytestmark = pytest.mark.usefixtures("kept_asks")


@cache
def whole_tune():
    """Return the laboratory and the answer of the tune that most tests look at. They change neither."""
    laboratory = SimulatedLaboratory(shared_buffers_cliff)
    tuned, _ = run(laboratory)
    return laboratory, tuned


def test_the_one_knob_that_matters_is_found_proved_and_left_alone():
    laboratory, tuned = whole_tune()
    assert set(tuned.winner) == {"shared_buffers"}
    assert tuned.proof is not None
    verdict = tuned.proof.headline.verdict
    assert verdict.word is Word.BETTER
    assert verdict.interval.lo < 3.4 < verdict.interval.hi
    assert tuned.proof.rival_shares["4GB"].lo < 1 < tuned.proof.rival_shares["4GB"].hi
    typed = tune_result(laboratory, tuned, OPTIONS)
    result = plain(typed)
    assert [effect["knob"] for effect in result["effects"]] == ["shared_buffers"]
    assert result["effects"][0]["from"] == "128MB"
    assert not result["keep"]
    assert any("Reads became hits" in sentence for sentence in result["explanation"])
    assert judged(replace(laboratory.study, result=typed)).code is ExitCode.OK


def test_the_page_says_which_knob_moved_the_load_and_where_to():
    laboratory = SimulatedLaboratory(shared_buffers_cliff, seed=0)  # 1 never lowers one knob without the other
    few = replace(OPTIONS, only=("shared_buffers", "work_mem", "jit", "random_page_cost"), trials=16)
    tuned, _ = run(laboratory, few)
    typed = tune_result(laboratory, tuned, few)
    first = typed.model.knobs[0]
    assert first.knob == "shared_buffers"
    assert first.span.lo > 1.5, "the cliff is 3.4x"
    assert first.default == "128MB"
    assert [one.ratio.ratio for one in first.values if one.value == "128MB"] == [1.0]
    study = replace(laboratory.study, state=StudyState.COMPLETE, result=typed)
    page = compose(StudyRecord(study, laboratory.store.trials(study.id)))
    drawn = {one.id: one for one in page.figures()}
    assert drawn["importance"].title.startswith("shared_buffers moves the load most")
    assert any(row[0] == "128MB the default" for row in drawn["slice-shared_buffers"].table.rows)
    lines = drawn["lines"]
    assert first.tried[0] == "128MB"
    assert lines.marks[0].label == f"shared_buffers\n128MB to {first.tried[-1]}"
    assert (lines.y.lo, lines.y.hi) == (0.0, 100.0)
    ratios = [float(row[1]) for row in lines.table.rows]
    assert ratios == sorted(ratios, reverse=True)
    assert all(one.y[0] is not None for one in lines.series), "every value that ran has its place"
    for draw in (html.render, markdown.render):
        assert "moves the load most" in draw(page)


def test_a_search_of_few_runs_over_many_knobs_says_that_importance_is_unknown():
    laboratory = SimulatedLaboratory(flat)
    tuned, _ = run(laboratory)
    typed = tune_result(laboratory, tuned, OPTIONS)
    assert not typed.model.knobs
    page = compose(StudyRecord(replace(laboratory.study, state=StudyState.COMPLETE, result=typed), []))
    (section,) = (one for one in page.sections if one.id == "knobs")
    assert section.blocks[0].sentences[0].startswith("Importance of the knobs: unknown. ")


def test_the_proof_rests_on_trials_of_its_own():
    _, tuned = whole_tune()
    proof = {trial.id for block in tuned.proof.blocks.complete for trial in block.values()}
    searched = {trial.id for trial in (*tuned.search.trials, *tuned.search.baselines)}
    assert proof
    assert not proof & searched


def test_where_nothing_helps_the_answer_is_to_keep_the_configuration():
    for seed in range(5 if NIGHT else 2):
        laboratory = SimulatedLaboratory(flat, seed=seed)
        tuned, _ = run(laboratory)
        typed = tune_result(laboratory, tuned, OPTIONS)
        result = plain(typed)
        assert result["keep"]
        assert result["fragment"] == ""
        assert result["verdict"]["word"] in (Word.EQUIVALENT, Word.NOT_RESOLVED, Word.WORSE)


def test_a_tune_that_had_no_time_to_try_anything_claims_nothing():
    laboratory = SimulatedLaboratory(shared_buffers_cliff)
    tuned, _ = run(laboratory, replace(OPTIONS, budget_s=70.0))
    typed = tune_result(laboratory, tuned, OPTIONS)
    result = plain(typed)
    assert result["search"]["trials"] == 0
    assert result["verdict"] is None
    assert judged(replace(laboratory.study, result=typed)).code is ExitCode.NOT_RESOLVED
    (note,) = [note for note in result["notes"] if "no configuration was tried" in note]
    assert "with the proof that has to follow, 9 trials take 1:12 min, and" in note, "by figures: time is left"
    assert "of the 1:10 min are left; a longer --budget, or a shorter" in note


def test_a_tune_whose_candidates_all_fail_claims_nothing():
    laboratory = SimulatedLaboratory(shared_buffers_cliff, fails=lambda settings: bool(settings))
    tuned, _ = run(laboratory)
    typed = tune_result(laboratory, tuned, OPTIONS)
    result = plain(typed)
    assert judged(replace(laboratory.study, result=typed)).code is ExitCode.NOT_RESOLVED
    assert any("none of the" in note for note in result["notes"])


def test_drift_of_the_machine_is_not_credited_to_knobs():
    for seed in range(5 if NIGHT else 2):
        tuned, _ = run(SimulatedLaboratory(flat, seed=seed, drift_per_h=3.0))
        assert tuned.headline is None or tuned.headline.verdict.word is not Word.BETTER


@pytest.mark.parametrize("kill_after", [0, 1, 3, 9, 17, 24, 30] if NIGHT else [0, 3, 17, 30])
def test_a_killed_tune_resumes_to_the_same_answer_without_measuring_anything_twice(kill_after):
    whole, tuned = whole_tune()
    killed = SimulatedLaboratory(shared_buffers_cliff, kill_after=kill_after)
    with pytest.raises(KeyboardInterrupt):
        run(killed)
    resumed = SimulatedLaboratory(shared_buffers_cliff, recorded=killed.store.kept)
    with asked_anew():
        again, _ = run(resumed)
    assert resumed.measured == whole.measured - kill_after
    assert [trial.spec for trial in resumed.store.kept] == [trial.spec for trial in whole.store.kept]
    assert again.winner == tuned.winner
    assert again.proof.headline == tuned.proof.headline


@pytest.mark.parametrize(("surely", "winner"), [({}, "ranked"), ({"work_mem": 8192}, "sure")])
def test_the_winner_is_the_point_that_surely_leads_and_else_the_one_that_ranks_first(monkeypatch, surely, winner):
    tuned, _ = run(SimulatedLaboratory(shared_buffers_cliff), replace(OPTIONS, only=("shared_buffers", "work_mem")))
    default = tuned.search.space.default_point()
    monkeypatch.setattr(rank, "choose", lambda dimensions, history: default | surely)
    found = tuned.search.winner()
    assert (dict(found) == {"work_mem": "8MB"}) if winner == "sure" else ("shared_buffers" in found)


@pytest.mark.parametrize("odd", [1, 2, OPTIONS.noise_runs])
def test_one_odd_baseline_is_asked_again_and_left_out_of_the_noise(odd):
    laboratory = SimulatedLaboratory(shared_buffers_cliff, odd={odd: 0.065})
    tuned, said = run(laboratory)
    assert any("is an outlier" in line for line in said)
    assert tuned.noise.odd.id == odd
    assert tuned.noise.odd_ratio == pytest.approx(0.065, rel=0.3)
    assert odd not in [trial.id for trial in (*tuned.noise.runs, *tuned.search.baselines)]
    assert tuned.noise.floor.cv < 0.15
    assert 0 < tune_result(laboratory, tuned, OPTIONS).noise_floor.detectable < 1


def test_baselines_that_all_differ_are_noise_and_tell_no_effect():
    odd = dict(enumerate((1, 8, 0.1, 3, 20, 0.5), start=1))
    laboratory = SimulatedLaboratory(shared_buffers_cliff, odd=odd)
    tuned, _ = run(laboratory)
    assert tuned.noise.odd is None
    assert tune_result(laboratory, tuned, OPTIONS).noise_floor.detectable is None


def test_disturbed_trials_are_repeated_and_not_used():
    laboratory = SimulatedLaboratory(shared_buffers_cliff, disturbed=0.2)
    tuned, _ = run(laboratory)
    repeats = [trial for trial in laboratory.store.kept if trial.spec.repeats is not None]
    assert repeats
    used = [trial for block in tuned.proof.blocks.complete for trial in block.values()]
    assert all(trial.state is TrialState.COMPLETE for trial in used)


def test_a_machine_that_is_never_quiet_is_called_unsuitable():
    with pytest.raises(EnvironmentUnsuitable, match="could be measured"):
        run(SimulatedLaboratory(flat, disturbed=1.0))


@pytest.mark.requirement("R-EXP-10")
def test_a_machine_with_a_busy_core_gets_an_answer_that_is_called_less_certain():
    laboratory = SimulatedLaboratory(shared_buffers_cliff, disturbed=1.0, shared=True, drowned=0.3)
    tuned, said = run(laboratory)
    typed = tune_result(laboratory, tuned, OPTIONS)
    result = plain(typed)
    states = [trial.state for trial in laboratory.store.kept]
    assert states.count(TrialState.DISTURBED) == 2, "no run more is burnt than it takes to know"
    assert not result["keep"]
    assert result["verdict"]["metric"] == Metric.SERVER_CPU
    assert any("server CPU per transaction" in line and "that decides" in line for line in said)
    assert any("that decides" in note for note in result["notes"])
    judgement = judged(replace(laboratory.study, result=typed))
    assert judgement.code is ExitCode.OK
    assert "less certain, as others used the machine" in judgement.title
    assert Metric.THROUGHPUT in {one["metric"] for one in result["others"]}


def test_throughput_that_is_not_drowned_decides_also_beside_others():
    laboratory = SimulatedLaboratory(shared_buffers_cliff, disturbed=1.0, shared=True, cv=0.005)
    tuned, _ = run(laboratory)
    assert tuned.proof.headline.verdict.metric is Metric.THROUGHPUT
    assert tuned.drowned == ""


def test_beside_others_where_nothing_helps_nothing_is_offered():
    for seed in range(4):
        laboratory = SimulatedLaboratory(flat, seed=seed, disturbed=1.0, shared=True, drowned=0.3)
        tuned, _ = run(laboratory)
        typed = tune_result(laboratory, tuned, OPTIONS)
        result = plain(typed)
        assert result["keep"]
        assert "less certain" in judged(replace(laboratory.study, result=typed)).title


def test_failing_configurations_are_learned_from_and_never_win():
    laboratory = SimulatedLaboratory(shared_buffers_cliff, fails=lambda s: s.get("io_method") == "sync")
    tuned, _ = run(laboratory)
    assert tuned.winner.get("io_method") != "sync"
    typed = tune_result(laboratory, tuned, OPTIONS)
    result = plain(typed)
    failed = [trial for trial in laboratory.store.kept if trial.state is TrialState.FAILED]
    assert len(result["refused"]) >= len(failed)


@pytest.mark.requirement("R-TUN-19")
def test_the_same_seed_asks_the_same_questions():
    (one, _), two = whole_tune(), SimulatedLaboratory(shared_buffers_cliff)
    run(two)
    assert [t.spec for t in one.store.kept] == [t.spec for t in two.store.kept]
