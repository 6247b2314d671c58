"""The whole tune on response surfaces that are known."""

from dataclasses import replace

import pytest

from fix_postgres import NIGHT
from pgdyno.errors import EnvironmentUnsuitable, ExitCode
from pgdyno.model.configuration import Configuration
from pgdyno.model.shapes import plain
from pgdyno.model.trial import Role, TrialState
from pgdyno.model.verdict import Metric, Word
from pgdyno.optimizer import rank
from pgdyno.studies.kinds import judged
from pgdyno.studies.tune import run as tune_module
from pgdyno.studies.tune.frugal import FrugalWinner
from pgdyno.studies.tune.options import TuneOptions
from pgdyno.studies.tune.result import tune_result
from pgdyno.studies.tune.run import tune
from pgdyno.units import parse_quantity
from simulated_laboratory import SimulatedLaboratory, flat, shared_buffers_cliff, work_mem_and_buffers

OPTIONS = TuneOptions(trials=14, noise_runs=4, confirm_max=8, rivals={"4GB": {"shared_buffers": "4GB"}})


def run(laboratory, options=OPTIONS):
    said = []
    laboratory.budget(options.budget_s)
    return tune(laboratory, options, said.append), said


def test_the_one_knob_that_matters_is_found_proved_and_left_alone():
    laboratory = SimulatedLaboratory(shared_buffers_cliff)
    tuned, _ = run(laboratory)
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


def test_the_proof_rests_on_trials_of_its_own():
    laboratory = SimulatedLaboratory(shared_buffers_cliff)
    tuned, _ = run(laboratory)
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
    assert any("no configuration was tried" in note and "--budget" in note for note in result["notes"])


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
    whole = SimulatedLaboratory(shared_buffers_cliff)
    tuned, _ = run(whole)
    killed = SimulatedLaboratory(shared_buffers_cliff, kill_after=kill_after)
    with pytest.raises(KeyboardInterrupt):
        run(killed)
    resumed = SimulatedLaboratory(shared_buffers_cliff, recorded=killed.store.kept)
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


@pytest.mark.parametrize("seed", [1, 3, 5])
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
    assert any("as found: more is not expected to do anything; the data are 919 MB" in note for note in tuned.notes)
    assert tuned.proof.unpruned.word is not Word.WORSE


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
    assert any("are worse than all of them" in line for line in said)
    assert [set(part) for part in asked] == [set(), {"random_page_cost"}]
    assert tuned.search.fresh
    assert tuned.is_offered
    assert set(tuned.winner) == {"shared_buffers"}
    assert not tuned.proof.is_vetoed
    fresh = {trial.id for trial in tuned.search.fresh}
    assert not fresh & {trial.id for block in tuned.proof.blocks.complete for trial in block.values()}


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


def part_of_the_search(monkeypatch, settings, rest):
    part = FrugalWinner(Configuration.of(settings), {}, (), rest)
    monkeypatch.setattr(tune_module, "frugal", lambda *_, **__: part)


LARGE = {"shared_buffers": "2GB", "work_mem": "64MB", "jit": "off"}


def test_settings_that_were_left_out_together_are_offered_where_that_shows_them_to_matter(monkeypatch):
    part_of_the_search(monkeypatch, LARGE, ("work_mem", "jit"))
    laboratory = SimulatedLaboratory(work_mem_and_buffers)
    tuned, _ = run(laboratory)
    assert tuned.is_offered
    assert dict(tuned.winner) == LARGE
    assert tuned.proof.rest_effect.word is Word.BETTER
    typed = tune_result(laboratory, tuned, OPTIONS)
    result = plain(typed)
    assert [one["knob"] for one in result["effects"]] == ["shared_buffers"]
    assert [one["knob"] for one in result["unmeasured"]] == ["jit", "work_mem"]
    assert result["joint"]["knobs"] == ["work_mem", "jit"]
    assert result["joint"]["ratio"] == pytest.approx(1.6, rel=0.2)
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


def test_the_same_seed_asks_the_same_questions():
    one, two = SimulatedLaboratory(shared_buffers_cliff), SimulatedLaboratory(shared_buffers_cliff)
    run(one)
    run(two)
    assert [t.spec for t in one.store.kept] == [t.spec for t in two.store.kept]


def test_a_restart_budget_that_does_not_reach_for_a_proof_searches_reloads_only():
    laboratory = SimulatedLaboratory(shared_buffers_cliff)
    options = replace(OPTIONS, restarts="10", rivals={})
    tuned, said = run(laboratory, options)
    assert laboratory.restarts.used == 0
    assert "shared_buffers" not in tuned.search.space.names()
    assert any("restart budget 10" in line for line in said)


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
