"""A part of what was found that a proof vetoed: what it keeps, and how the setting that it lacks is found."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field, replace

import pytest

from fix_postgres import NIGHT
from pgdyno.model.configuration import BASELINE, Configuration
from pgdyno.model.trial import Outcome, Role, Trial, TrialSpec, TrialState
from pgdyno.studies.pairs.blocks import BASE, FOUND, WINNER, Blocks
from pgdyno.studies.tune import run as tune_module
from pgdyno.studies.tune.frugal import FrugalWinner
from pgdyno.studies.tune.missing import (
    ARM,
    LOOK_TRIALS,
    TRIALS,
    WHOLE,
    loss_at_a_look,
    loss_in_proof,
    seek_missing,
    seek_seen,
)
from pgdyno.studies.tune.options import TuneOptions
from pgdyno.studies.tune.proof import WITHOUT, GivenUp, _is_settled, is_hopeless, needed_settings
from pgdyno.studies.tune.run import tune
from pgdyno.trial.stopwatch import BudgetSpent
from pgdyno.units import parse_quantity
from simulated_laboratory import SimulatedLaboratory, shared_buffers_cliff

pytestmark = pytest.mark.usefixtures("kept_asks")
OPTIONS = TuneOptions()
ALL = Configuration.of({f"knob{n:02}": "1" for n in range(16)})
NOISE = 0.05


def trial(configuration: Configuration, tps: float, arm: str = "") -> Trial:
    outcome = Outcome(TrialState.COMPLETE, throughput=tps)
    return Trial(1, "s1", TrialSpec(configuration, Role.CONFIRM, arm, 9000, 0), TrialState.COMPLETE, outcome)


def blocks(winner: Configuration, /, **tps: float) -> Blocks:
    """Return one block; the arms without a setting are named by it."""
    arms = {BASE: BASELINE, WINNER: winner, FOUND: ALL}
    arms |= {WITHOUT + name: winner.without(name) for name in winner if name in tps}
    figures = {BASE: 30.0, WINNER: tps["winner"], FOUND: tps["found"]}
    figures |= {WITHOUT + name: tps[name] for name in winner if name in tps}
    return Blocks(arms, [{arm: trial(arms[arm], figures[arm], arm) for arm in arms}])


@dataclass
class Searched:
    """A search whose trials are a sum of effects."""

    effects: dict[str, float]
    options: TuneOptions = OPTIONS
    fresh: list[Trial] = field(default_factory=list)
    refuses: str = ""
    noise_sd: float = NOISE

    @property
    def laboratory(self) -> Searched:
        return self

    def run(self, spec: TrialSpec) -> Trial:
        gain = sum(self.effects.get(name, 0.0) for name in spec.configuration)
        return replace(trial(spec.configuration, 30 * math.exp(gain)), spec=spec)

    def accepts(self, configuration: Configuration) -> bool:
        return not self.refuses or self.refuses in configuration

    def learn(self, one: Trial) -> None:
        self.fresh.append(one)

    def score(self, one: Trial) -> float:
        return math.log(one.figure(OPTIONS.metric) / 30)


@pytest.mark.parametrize("missing", range(1, 16))
def test_the_setting_that_was_left_out_is_found_in_four_trials(missing):
    effects = {"knob00": 0.5, f"knob{missing:02}": 1.2}
    winner = ALL.without(*(f"knob{n:02}" for n in range(1, 16)))
    one = GivenUp(blocks(winner, winner=30 * math.exp(0.5), found=30 * math.exp(1.7)))
    search = Searched(effects)
    assert seek_missing(search, loss_in_proof(one, search), ("knob00",), block=9001) == ("knob00", f"knob{missing:02}")
    assert 0 < len(search.fresh) <= TRIALS
    assert all("knob00" in one.spec.configuration for one in search.fresh)


def test_where_a_half_cannot_be_measured_nothing_is_said():
    one = GivenUp(blocks(ALL.without("knob01", "knob02"), winner=50.0, found=160.0))
    search = Searched({}, refuses="knob02")
    assert seek_missing(search, loss_in_proof(one, search), (), block=9001) is None


@pytest.mark.parametrize("trials", range(TRIALS))
def test_time_that_runs_out_while_the_missing_one_is_sought_ends_the_search_for_it_and_not_the_tune(trials):
    """What was proved before was told without its notes, such as that a veto came and who the rivals were."""
    one = GivenUp(blocks(ALL.without(*(f"knob{n:02}" for n in range(1, 16))), winner=50.0, found=160.0))
    search = Searched({"knob00": 0.5, "knob07": 1.2})
    run, left = search.run, iter(range(trials))

    def until_time_is_over(spec: TrialSpec) -> Trial:
        if next(left, None) is None:
            raise BudgetSpent
        return run(spec)

    search.run = until_time_is_over
    assert seek_missing(search, loss_in_proof(one, search), (), block=9001) is None
    assert len(search.fresh) == trials
    assert loss_at_a_look(search, ALL.without("knob07"), ALL, block=9002) is None


@pytest.mark.parametrize(("winner", "hopeless"), [(50.0, True), (110.0, True), (140.0, False), (160.0, False)])
def test_a_proof_is_given_up_where_its_winner_surely_loses_more_than_it_may(winner, hopeless):
    one = blocks(ALL.without("knob01"), winner=winner, found=160.0)
    assert not is_hopeless(one, OPTIONS, NOISE)
    one.complete *= 2
    assert is_hopeless(one, OPTIONS, NOISE) is hopeless


@pytest.mark.parametrize(
    ("winners", "is_settled"), [((60.0, 60.2, 59.9, 60.1), True), ((33.0, 29.0, 32.0, 30.0), False)]
)
def test_a_proof_goes_on_until_what_it_compares_is_resolved(winners, is_settled):
    several = [blocks(Configuration.of({"knob00": "1"}), winner=tps, found=tps) for tps in winners]
    design = OPTIONS.design(min_pairs=OPTIONS.confirm_min)
    look = Blocks(several[0].arms, [each.complete[0] for each in several])
    assert _is_settled(look, OPTIONS, design, design) is is_settled


def test_a_proof_is_not_given_up_for_unlucky_blocks_of_a_winner_that_loses_nothing():
    """From the first block on and at one standard error, one such proof in ten was."""
    rng, given_up = random.Random(1), 0
    for _ in range(300):
        figures = [[45 * math.exp(rng.gauss(0, NOISE)) for _ in range(2)] for _ in range(4)]
        several = [blocks(ALL.without("knob01"), winner=one, found=other) for one, other in figures]
        looks = [Blocks(several[0].arms, [each.complete[0] for each in several[:count]]) for count in range(1, 5)]
        given_up += any(is_hopeless(look, OPTIONS, NOISE) for look in looks)
    assert given_up < 6


def test_of_a_vetoed_winner_the_settings_that_do_something_are_kept():
    winner = Configuration.of({"knob00": "1", "knob01": "1", "knob02": "1"})
    one = blocks(winner, winner=100.0, found=200.0, knob00=60.0, knob01=97.0, knob02=40.0)
    assert needed_settings(one, OPTIONS, NOISE) == ("knob02", "knob00")
    alone = Configuration.of({"knob00": "1"})
    assert needed_settings(blocks(alone, winner=100.0, found=200.0), OPTIONS, NOISE) == ("knob00",)
    assert needed_settings(blocks(alone, winner=31.0, found=200.0), OPTIONS, NOISE) == ()


def two_that_matter(settings):
    work_mem = parse_quantity(settings.get("work_mem", "4MB"), "kB")
    return shared_buffers_cliff(settings) * (1.6 if work_mem >= 32 << 10 else 1.0)


def test_a_short_tune_whose_model_was_wrong_is_mended_in_its_time(monkeypatch):
    """The model took work_mem alone, and a look at it did not show that it is poor."""
    monkeypatch.setattr(tune_module, "loss_at_a_look", lambda *_, **__: None)
    choose, parts = tune_module.frugal, list[Configuration]()

    def wrong_at_first(search, found, **learnt):
        parts.append(found)
        if len(parts) > 2:  # a look, and a proof
            return choose(search, found, **learnt)
        return FrugalWinner(Configuration.of({"work_mem": found["work_mem"]}), {}, ())

    monkeypatch.setattr(tune_module, "frugal", wrong_at_first)
    options = TuneOptions(seed=11, trials=16, budget_s=420.0, noise_runs=4, baseline_every=6, confirm_max=4)
    laboratory = SimulatedLaboratory(two_that_matter, seed=11, duration=lambda number: 5.1)
    laboratory.budget(options.budget_s)
    said: list[str] = []
    tuned = tune(laboratory, options, said.append)
    assert any("worse than all of them" in line for line in said)
    assert {"shared_buffers", "work_mem"} <= set(tuned.winner)
    assert tuned.is_offered
    assert len(tuned.proof.blocks.complete) == options.confirm_min
    assert laboratory.clock_s <= laboratory.stopwatch.end_s


def buffers_and_a_little(settings):
    return shared_buffers_cliff(settings) * (1.3 if settings.get("io_method") == "sync" else 1.0)


@pytest.mark.parametrize("seed", range(1, 7) if NIGHT else [1, 2])
def test_no_proof_of_a_demo_s_time_is_spent_on_a_part_that_has_little_of_the_gain(monkeypatch, seed):
    """Such a demo took all of its time to prove 2 of 16 settings, with a third of what another one would have."""
    choose, asked = tune_module.frugal, []

    def wrong_at_first(search, found, *, refused, **learnt):
        asked.append(len(refused))
        if len(refused) > 1:
            return choose(search, found, refused=refused, **learnt)
        return FrugalWinner(Configuration.of({"io_method": "sync", "jit": "off"}), {}, ())

    monkeypatch.setattr(tune_module, "frugal", wrong_at_first)
    options = TuneOptions(
        seed=seed, trials=16, budget_s=280.0, noise_runs=4, confirm_max=4, rivals={"hand": {"jit": "off"}}
    )
    laboratory = SimulatedLaboratory(buffers_and_a_little, seed=seed, duration=lambda number: 5.1)
    laboratory.budget(options.budget_s)
    said: list[str] = []
    tuned = tune(laboratory, options, said.append)
    assert any("has less than half of their gain" in line for line in said)
    assert "shared_buffers" in tuned.winner
    assert tuned.is_offered
    looked = [one for one in laboratory.store.kept if one.spec.arm in (ARM, WHOLE)]
    assert len(looked) <= LOOK_TRIALS
    assert laboratory.clock_s <= laboratory.stopwatch.end_s


@pytest.mark.parametrize("seed", range(1, 5))
def test_a_part_that_fails_at_a_look_is_not_proved(monkeypatch, seed):
    """It was, failed again there, and the time for another proof was gone."""
    choose = tune_module.frugal
    lacking = Configuration.of({"io_method": "sync", "jit": "off"})

    def wrong_at_first(search, found, *, refused, **learnt):
        if lacking not in refused:
            return FrugalWinner(lacking, {}, ())
        return choose(search, found, refused=refused, **learnt)

    monkeypatch.setattr(tune_module, "frugal", wrong_at_first)
    options = TuneOptions(seed=seed, trials=16, budget_s=280.0, noise_runs=4, confirm_max=4)
    laboratory = SimulatedLaboratory(
        shared_buffers_cliff, seed=seed, duration=lambda number: 5.1, fails=lambda settings: settings == lacking
    )
    laboratory.budget(options.budget_s)
    said: list[str] = []
    tuned = tune(laboratory, options, said.append)
    assert any("fails" in line and "another part is proved" in line for line in said)
    assert [one.spec.arm for one in laboratory.store.kept if one.spec.configuration == lacking] == [ARM]
    assert tuned.is_offered
    assert "shared_buffers" in tuned.winner
    assert any(seen.value is None for seen in tuned.search.history()), "the model learns that it fails"


def test_a_part_that_fails_beside_a_whole_that_fails_too_says_nothing_of_what_it_lacks():
    both = Searched({})
    failed = Outcome(TrialState.FAILED, reason="out of memory")
    both.run = lambda spec: Trial(1, "s1", spec, TrialState.FAILED, failed)
    both.score = lambda one: None
    assert loss_at_a_look(both, ALL.without("knob03"), ALL, block=9001) is None


@pytest.mark.parametrize(("kept", "plain"), [(0.2, True), (0.45, True), (0.6, False), (1.0, False)])
def test_a_part_is_poor_where_it_plainly_lacks_half_of_the_gain(kept, plain):
    search = Searched({"knob00": 1.5 * kept, "knob01": 1.5 * (1 - kept)})
    assert bool(loss_at_a_look(search, ALL.without("knob01"), ALL, block=9001)) is plain


def test_noise_makes_no_part_poor_and_a_whole_that_gains_nothing_no_loss():
    small = Searched({"knob00": 0.05, "knob01": 0.15})
    assert loss_at_a_look(small, ALL.without("knob01"), ALL, block=9001) is None
    worse = Searched({"knob00": -0.9, "knob01": 0.9})
    assert loss_at_a_look(worse, ALL.without("knob01"), ALL, block=9001) is None


def test_what_a_look_comes_to_is_seen_in_a_trial_before_it_is_believed():
    """Spread over two settings that need each other, the gain is in no single one."""
    both = Searched({})
    both.run = lambda spec: replace(
        trial(spec.configuration, 200.0 if {"knob03", "knob12"} <= set(spec.configuration) else 30.0), spec=spec
    )
    loss = loss_at_a_look(both, ALL.without("knob03"), ALL, block=9001)
    assert seek_seen(both, loss, block=9002) is None
