"""The staircase on a simulated laboratory: modes, outcomes, product against end, drift, stop, resume."""

from dataclasses import asdict, replace

import pytest

import staircase_climbing
from pgdyno.model.facts import KernelFact
from pgdyno.model.shapes import shaped
from pgdyno.model.trial import Role
from pgdyno.model.verdict import Metric, Word
from pgdyno.stats.compound import product, quotient
from pgdyno.studies.staircase.by_hand import GatedRuns, gate_of
from pgdyno.studies.staircase.manual_step import AFTER, BEFORE
from pgdyno.studies.staircase.options import StaircaseOptions
from pgdyno.studies.staircase.result import common_fingerprint, differences
from pgdyno.studies.staircase.run import Staircase
from simulated_laboratory import SimulatedLaboratory
from staircase_climbing import climb, options, surface, thin_laboratory


@pytest.mark.requirement("R-EXP-02", "R-EXP-03", "R-EXP-04", "R-EXP-16")
def test_good_harmful_and_neutral_steps_and_the_product_is_the_end():
    found, result, _, said = climb(options(min_pairs=8))
    assert found.outcomes == {
        "good": "keep", "harmful": "drop", "neutral": "null", "better": "keep", "after-harm": "skipped",
    }  # fmt: skip
    steps = {step["step"]: step for step in result["steps"]}
    assert steps["harmful"]["verdict"]["ratio"] < 1
    assert steps["neutral"]["verdict"]["word"] in ("equivalent", "not resolved")
    assert result["kept"] == {"work_mem": "64MB", "jit": "off"}
    expected = product(c.comparison.verdict.interval for c in found.kept)
    end = found.proof.comparison.verdict.interval
    rest = quotient(end, expected)
    assert rest.lo <= 1 <= rest.hi
    assert result["interaction"]["word"] == "explained"
    assert result["product"]["ratio"] == pytest.approx(1.4 * 1.2, rel=0.05)
    assert set(found.proof.effects) == {"good", "better"}
    assert found.proof.effects["better"].interval.ratio == pytest.approx(1.2, rel=0.05)
    assert result["exit_code"] == 0
    assert any("step 2/5 harmful" in line and "left" in line for line in said), "progress says k of n and time left"


@pytest.mark.requirement("R-EXP-02")
def test_accumulate_builds_on_what_was_kept_and_isolate_on_the_baseline():
    grown, _, _, _ = climb(options())
    alone, result, _, _ = climb(options(mode="isolate"))
    assert dict(grown.climbs[3].blocks.arms[BEFORE]) == {"work_mem": "64MB"}
    assert dict(alone.climbs[3].blocks.arms[BEFORE]) == {}
    assert alone.outcomes == grown.outcomes
    assert result["product"]["ratio"] == pytest.approx(1.4 * 1.2, rel=0.05)


@pytest.mark.requirement("R-EXP-04")
@pytest.mark.parametrize("metric", [Metric.THROUGHPUT, Metric.SERVER_CPU])
def test_steps_that_act_on_each_other_show_as_less_than_their_product(metric):
    """Each of two steps alone gives 40 %, both together no more than one; of a metric where less is better, too."""

    def either(settings):
        return 1.4 if {"work_mem", "jit"} & set(settings) else 1.0

    found, result, _, _ = climb(options(mode="isolate", metric=metric), surface=either)
    assert [c.step.name for c in found.kept] == ["good", "better"]
    assert result["interaction"]["word"] == "less"
    gain = result["product"]["ratio"]
    assert (gain if metric.higher_is_better else 1 / gain) == pytest.approx(1.96, rel=0.05)


@pytest.mark.requirement("R-EXP-07", "R-EXP-17")
def test_the_two_runs_of_a_pair_are_equal_but_for_the_factor():
    found, result, laboratory, _ = climb(options())
    for taken in found.climbs:
        for block in taken.blocks.complete if taken.blocks else ():
            a, b = block[BEFORE], block[AFTER]
            assert common_fingerprint(laboratory.study, a) == common_fingerprint(laboratory.study, b)
            assert differences(a, b) == tuple(taken.step.settings)
            assert b.spec.configuration[differences(a, b)[0]] == next(iter(taken.step.settings.values()))
    same = result["steps"][0]["same"]
    assert (same["before"] == same["after"], same["differs"]) == (True, ["work_mem"])
    other = replace(laboratory.study, plan=replace(laboratory.study.plan, clients=9))
    assert common_fingerprint(other, a) != common_fingerprint(laboratory.study, a)


@pytest.mark.requirement("R-EXP-12")
def test_the_baseline_is_measured_between_steps_and_its_drift_is_told():
    still, quiet, laboratory, _ = climb(options())
    between = [t for t in laboratory.store.kept if t.spec.role is Role.BASELINE and 0 < t.spec.block < 1_000_000]
    assert len(between) == 2 * 4
    assert quiet["drift"]["sentence"] == ""
    assert len(still.drift.ratios) == 4
    _, drifting, _, said = climb(options(), drift_per_h=1.0)
    assert "the baseline drifted" in drifting["drift"]["sentence"]
    assert any(line.startswith("warning: the baseline drifted") for line in said)
    assert drifting["steps"][1]["outcome"] == "drop", "pairs side by side do not mind the drift"


@pytest.mark.requirement("R-EXP-19")
def test_a_plan_ends_when_its_steps_gain_nothing():
    found, result, _, _ = climb(options(stop_after=2), surface=lambda settings: 1.0)
    assert list(found.outcomes.values()) == ["null", "null"]
    assert "2 steps in a row" in result["stopped"]
    assert result["stopped"].endswith("; not run: neutral, better, after-harm"), "nobody misses them unseen"
    assert result["exit_code"] == 3
    _, all_run, _, _ = climb(options(), surface=lambda settings: 1.0)
    assert all_run["stopped"].startswith("no step of 3 gave more than the noise")
    assert all_run["verdict"] is None


@pytest.mark.requirement("R-EXP-05", "R-EXP-06")
def test_the_sandbox_stage_chooses_candidates_and_the_large_stage_runs_only_those():
    found, result, _, _ = climb(options(stage="sandbox"))
    assert result["candidates"] == ["good", "better"]
    assert found.proof is None
    assert found.plan.mode == "isolate"
    assert not result["kept_steps"]
    chosen = options(stage="large", candidates=("good", "better"), candidates_from="s0")
    large, told, _, _ = climb(chosen)
    assert large.outcomes == {
        "good": "keep", "harmful": "skipped", "neutral": "skipped", "better": "keep", "after-harm": "skipped",
    }  # fmt: skip
    assert "only the candidates of sandbox study s0" in told["sentences"][1]
    _, straight, _, _ = climb(options(stage="large"))
    assert "without a sandbox stage" in straight["sentences"][1]


@pytest.mark.requirement("R-EXP-15", "R-EXP-22")
def test_each_step_has_its_four_phases_and_one_qualified_run_an_arm():
    found, result, _, _ = climb(options())
    step = result["steps"][0]
    assert [phase["phase"] for phase in step["phases"]] == ["prepare", "run and monitor", "analyse", "adjust"]
    times = [time for phase in step["phases"] for time in (phase["began_at"], phase["ended_at"])]
    assert times == sorted(times)
    for arm, trials in ((BEFORE, found.climbs[0].blocks.trials(BEFORE)), (AFTER, found.climbs[0].blocks.trials(AFTER))):
        runs = step["runs"][arm]
        assert runs["all"] == [trial.id for trial in trials]
        assert runs["qualified"] in runs["all"]


@pytest.mark.requirement("R-EXP-21")
@pytest.mark.parametrize("killed_after", [0, 3, 7, 20, 31])
def test_a_killed_staircase_goes_on_where_it_was(killed_after):
    _, whole, laboratory, _ = climb(options())
    first = SimulatedLaboratory(surface, cv=0.01, kill_after=killed_after)
    gate = gate_of(options().read_plan(), first.study, (), ask=lambda _: None, verify=None, announce=lambda _: None)
    with pytest.raises(KeyboardInterrupt):
        Staircase(GatedRuns(first, gate), first.facts, options(), lambda _: None).climb()
    _, again, second, _ = climb(options(), recorded=first.store.kept, resumed=True)
    assert [t.spec for t in second.store.kept] == [t.spec for t in laboratory.store.kept]
    assert second.measured == laboratory.measured - killed_after
    assert again == whole


def test_a_step_that_cannot_be_measured_is_dropped_and_the_plan_goes_on():
    found, result, _, _ = climb(options(), fails=lambda settings: "random_page_cost" in settings)
    assert found.outcomes["harmful"] == "drop"
    assert "cannot be measured" in found.climbs[1].why
    assert found.outcomes["better"] == "keep"
    assert result["refused"]


SWEEP = """version = 2
[plan]
[[step]]
name = "sweep"
[step.sweep]
knob = "work_mem"
values = ["4MB", "16MB", "64MB", "256MB"]
"""


@pytest.mark.requirement("R-EXP-14")
def test_a_sweep_chooses_where_the_plateau_begins_and_proves_it_in_fresh_pairs():
    levels = {"4MB": 1.0, "16MB": 1.2, "64MB": 1.5, "256MB": 1.5}
    found, result, _, _ = climb(options(SWEEP), surface=lambda settings: levels[settings.get("work_mem", "4MB")])
    sweep = result["steps"][0]["sweep"]
    assert (sweep["plateau"], sweep["chosen"]) == ("64MB", "64MB")
    assert [level["number"] for level in sweep["levels"]] == [4, 16, 64, 256]
    assert found.climbs[0].comparison.verdict.word is Word.BETTER
    assert found.climbs[0].settings == {"work_mem": "64MB"}


ONE = """version = 2
[plan]
[[step]]
name = "same"
settings = { temp_buffers = "16MB" }
"""
COUNTERPARTS = """version = 2
[plan]
[[step]]
name = "bytes"
settings = { "vm.dirty_background_bytes" = "67108864" }
[[step]]
name = "ratio"
settings = { "vm.dirty_background_ratio" = "7" }
[[step]]
name = "ratio-once-more"
settings = { "vm.dirty_background_ratio" = "7" }
"""


@pytest.mark.requirement("R-EXP-02")
def test_a_setting_takes_the_place_of_its_counterpart_and_what_is_in_force_is_not_measured_again():
    def gains(settings):
        return 1.6 if "vm.dirty_background_ratio" in settings else 1.3 if settings else 1.0

    found, _, laboratory, _ = climb(
        options(COUNTERPARTS),
        surface=gains,
        kernel={name: KernelFact(name, value) for name, value in (("vm.dirty_background_bytes", "0"),
                                                                  ("vm.dirty_background_ratio", "10"))},
    )  # fmt: skip
    assert found.outcomes == {"bytes": "keep", "ratio": "keep", "ratio-once-more": "skipped"}
    assert found.climbs[2].why == "what it sets is in force already"
    kept = next(t for t in laboratory.store.kept if t.spec.arm == "all kept")
    assert dict(kept.spec.configuration) == {"vm.dirty_background_ratio": "7"}


def test_one_step_alone():
    found, result, _, _ = climb(options(only="better"))
    assert found.outcomes == {"better": "keep"}
    assert found.proof is None
    assert result["exit_code"] == 0


def test_options_survive_the_store():
    import json

    wanted = options(stage="large", candidates=("good",), stop_after=3)
    assert shaped(StaircaseOptions, json.loads(json.dumps(asdict(wanted))), "the options", strict=False) == wanted


@pytest.mark.requirement("R-EXP-11")
def test_what_changes_nothing_is_hardly_ever_kept():
    kept = sum(
        climb(options(ONE, confidence=0.95, min_pairs=3, max_pairs=8), surface=lambda _: 1.0, cv=0.03, seed=seed)[
            0
        ].outcomes["same"]
        != "null"
        for seed in range(200)
    )
    assert kept <= 0.05 * 200


def test_a_thin_run_costs_its_block_and_not_the_staircase(monkeypatch):
    monkeypatch.setattr(staircase_climbing, "SimulatedLaboratory", thin_laboratory(lambda trial: trial.id == 9))
    found, result, _, _ = climb(options(metric=Metric.LATENCY_P99))
    assert found.outcomes["good"] == "keep"
    assert "run 9 (11 transactions)" in next(step for step in result["steps"] if step["step"] == "good")["why"]


def test_a_step_that_is_too_thin_to_judge_is_dropped_and_what_was_judged_stays(monkeypatch):
    def is_thin(trial):
        return trial.spec.block // 1000 == 3

    monkeypatch.setattr(staircase_climbing, "SimulatedLaboratory", thin_laboratory(is_thin))
    wanted = options(metric=Metric.LATENCY_P99)
    found, result, laboratory, _ = climb(wanted)
    assert found.outcomes["good"] == found.outcomes["better"] == "keep"
    spent = [trial for trial in laboratory.store.kept if is_thin(trial) and trial.spec.role is Role.ARM]
    assert len(spent) == 2 * wanted.min_pairs, "more runs of the same length would be no better"
    dropped = next(step for step in result["steps"] if step["step"] == "neutral")
    assert dropped["why"].startswith(
        "p99 latency cannot be judged: its runs have too few transactions, it takes 500 in each: run "
    )
    assert "left out" not in dropped["why"], "nothing was judged that it could be left out of"
    assert result["verdict"]["word"] == "better"


def test_a_sweep_that_is_too_thin_to_judge_costs_its_step_alone(monkeypatch):
    monkeypatch.setattr(
        staircase_climbing,
        "SimulatedLaboratory",
        thin_laboratory(lambda trial: trial.spec.block // 1000 == 1 and trial.spec.role is Role.CELL),
    )
    plan = SWEEP + '[[step]]\nname = "good"\nsettings = { jit = "off" }\n'
    found, result, _, _ = climb(options(plan, metric=Metric.LATENCY_P99))
    assert found.outcomes == {"sweep": "drop", "good": "keep"}
    assert "too few transactions" in result["steps"][0]["why"]
