"""Which period a live study takes, and what it promises for it."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from live_simulation import LiveSimulation, SimulatedLoad, simulated_study
from pgdyno.model.results.live import LiveEffect
from pgdyno.stats import period_choice
from pgdyno.stats.body_index import PeriodCounts, StatementReference, added, body_of
from pgdyno.stats.detect import at_most, detectable
from pgdyno.stats.period_choice import (
    LENGTHS,
    PeriodNoise,
    chosen,
    covering_s,
    effects_within,
    period_noise,
    wash_of,
)
from pgdyno.stats.sequential import Design
from simulation import run_studies

STEP_S = 5.0


def reference(seed, steps=360, **load):
    simulation = LiveSimulation(SimulatedLoad(**load), seed)
    parts = []
    while len(parts) < steps:  # a level holds for 30 s, as the simulation of a study has it
        parts += [simulation.period(STEP_S)] if not parts or len(parts) % 6 == 0 else [parts[-1]]
    whole = added(parts)
    mean = np.divide(whole.time_ms, whole.calls, out=np.zeros_like(whole.calls), where=whole.calls > 0)
    m2 = (simulation.cvs * mean) ** 2 * np.maximum(whole.calls - 1, 0)
    return parts, StatementReference(steps * STEP_S, whole.calls, whole.time_ms, m2)


USUAL = PeriodNoise(30.0, 5.0, 0.06, 19, 0.9, 0.8, 5000.0, 60)


def test_the_usual_length_is_left_only_for_one_that_is_clearly_better():
    design = Design()
    assert chosen([replace(USUAL, period_s=15.0, pair_sd=0.06), USUAL], design) is USUAL
    better = replace(USUAL, period_s=60.0, pair_sd=0.02)
    assert chosen([USUAL, better], design) is better
    assert chosen([better, replace(USUAL, covered=0.4)], design) is better


@pytest.mark.parametrize("lack", [{"covered": 0.49}, {"calls": 99.0}, {"pair_sd": None}, {"pair_sd": 5.0}])
def test_a_length_that_can_carry_no_claim_is_not_chosen(lack):
    assert chosen([replace(USUAL, **lack)], Design()) is None


def test_longer_studies_and_more_kept_pairs_show_smaller_effects():
    found = effects_within(USUAL, Design())
    assert [one.minutes for one in found] == [10, 30, 60]
    assert found[0].pairs == int(600 / 60.6 * 0.9)
    assert found[2].pairs <= Design().max_pairs
    assert found[0].effect > found[1].effect > found[2].effect
    assert all(one.at_most > one.effect for one in found)
    fewer = effects_within(replace(USUAL, kept=0.5), Design())
    assert all(one.effect > other.effect for one, other in zip(fewer, found, strict=True))


def test_the_scatter_is_not_told_from_a_handful_of_periods_nor_across_void_ones():
    parts, whole = reference(1, steps=30)
    short = period_noise(parts, STEP_S, whole, 30.0)
    assert short.pairs == 4
    assert period_noise(reference(1, steps=34)[0], STEP_S, whole, 30.0).pairs == 4, "four steps are no whole period"
    assert period_noise(parts, STEP_S, whole, 60.0).pair_sd is None
    holes = [None if at == 13 else one for at, one in enumerate(parts)]
    assert period_noise(holes, STEP_S, whole, 30.0).pairs == 2
    washed = [None if at == 12 else one for at, one in enumerate(parts)]
    assert period_noise(washed, STEP_S, whole, 30.0).pairs == 4, "what is washed out does not count"


def test_the_wash_out_is_at_most_a_third():
    assert [wash_of(length) for length in LENGTHS] == [5.0, 5.0, 5.0, 5.0]
    assert wash_of(9.0) == 3.0


def test_what_is_promised_is_met_within_a_factor():
    """The smallest effect in 30 minutes, planted: found in most studies of as many pairs, and a third of it is not."""
    design, told = Design(), []
    for load in range(12):
        parts, whole = reference(load)
        promised = effects_within(period_noise(parts, STEP_S, whole, 30.0), design, (30,))[0]
        made = simulated_study(SimulatedLoad(), effect=1.0, pairs=48, seed=load).log_ratios
        for factor in (1.5, 0.3):
            found = run_studies(np.array([made]) + math.log1p(factor * promised.effect), design, give_up=False)
            told.append((factor, bool(found.higher[0]) and found.pairs[0] <= promised.pairs))
    assert sum(shown for factor, shown in told if factor == 1.5) >= 9
    assert sum(shown for factor, shown in told if factor == 0.3) <= 6


def flat_reference(means, calls=200.0):
    """Steps of five seconds with one statement, three to each of these means."""
    steps = [PeriodCounts(np.array([calls]), np.array([calls * mean])) for mean in means for _ in range(3)]
    whole = added(steps)
    return steps, StatementReference(STEP_S * len(steps), whole.calls, whole.time_ms, 0.01 * whole.calls)


def test_the_scatter_is_the_root_of_the_mean_square_of_neighbours():
    """Four neighbours that differ by 3, 4, 3 and 4 hundredths in turn, of which two thirds of each period count."""
    steps, whole = flat_reference([math.exp(one) for one in (0.0, 0.03, -0.01, 0.02, -0.02)])
    found = period_noise(steps, STEP_S, whole, 15.0)
    assert found.pair_sd == pytest.approx(math.sqrt((0.03**2 + 0.04**2 + 0.03**2 + 0.04**2) / 4))
    assert (found.pairs, found.kept, found.wash_s, found.statements) == (4, 1.0, 5.0, 1)
    assert found.calls == pytest.approx(400.0), "two of the three steps of a period"
    assert found.covered == pytest.approx(1.0)
    fewer = period_noise(steps[:-3], STEP_S, whole, 15.0)
    assert (fewer.pairs, fewer.pair_sd) == (3, None)


def test_periods_are_whole_and_of_one_there_is_no_neighbour():
    steps, whole = flat_reference([1.0] * 5)
    assert period_noise(steps[:-1], STEP_S, whole, 15.0).pairs == 3, "two of the last three steps"
    alone = period_noise(steps[:3], STEP_S, whole, 15.0)
    assert (alone.pairs, alone.kept, alone.pair_sd) == (0, 0.0, None)


@pytest.mark.parametrize(("calls", "statements"), [(6.0, 1), (5.0, 1), (4.9, 0)])
def test_the_body_is_of_the_seconds_that_count(calls, statements):
    """Ten of fifteen seconds: two steps, in which ten calls are enough."""
    steps, whole = flat_reference([1.0] * 6, calls)
    assert period_noise(steps, STEP_S, whole, 15.0).statements == statements


def test_at_most_allows_for_how_few_neighbours_the_scatter_is_of():
    (found,) = effects_within(USUAL, Design(), (30,))
    assert found.at_most == detectable(at_most(0.06, 20), found.pairs, Design())


def test_half_of_the_time_is_enough():
    half = StatementReference(10.0, np.array([100.0, 50.0]), np.array([8.0, 8.0]), np.array([0.0, 0.0]))
    assert covering_s(half) == pytest.approx(1.0), "ten calls of the more frequent one"


def test_periods_of_unequal_work_are_compared_and_not_kept():
    steps, whole = flat_reference([1.0] * 6)
    steps[3:6] = [PeriodCounts(np.array([300.0]), np.array([300.0]))] * 3
    found = period_noise(steps, STEP_S, whole, 15.0)
    assert (found.pairs, found.kept) == (5, pytest.approx(0.6))


def test_the_numbers_are_those_that_are_told():
    assert LENGTHS == (15.0, 30.0, 60.0, 120.0)
    assert USUAL.pair_s == pytest.approx(60.6)
    assert replace(USUAL, covered=0.5, calls=100.0).is_usable


@pytest.mark.parametrize(("other", "is_better"), [(0.0899, True), (period_choice.MARGIN * 0.1, True), (0.0901, False)])
def test_another_length_is_taken_from_a_tenth_less_on(other, is_better, monkeypatch):
    effects = {30.0: 0.1, 60.0: other}

    def told(noise, design, minutes):
        assert minutes == (60,), "what an hour shows decides"
        return (LiveEffect(minutes=60, pairs=9, effect=effects[noise.period_s], at_most=None),)

    monkeypatch.setattr(period_choice, "effects_within", told)
    longer = replace(USUAL, period_s=60.0)
    assert chosen([USUAL, longer], Design()) is (longer if is_better else USUAL)


def test_a_period_that_counts_so_long_holds_half_of_the_time_and_no_shorter_one_does():
    """As on pgbench's own load: the update that waits for a row's lock takes most of the time, and scatters widely."""
    calls, cv = np.array([14_400.0, 14_400.0, 6.0, 0.0]), np.array([7.8, 1.5, 0.3, 0.0])
    time_ms = np.array([7200.0, 900.0, 300.0, 0.0])
    found = StatementReference(240.0, calls, time_ms, (cv * time_ms / np.maximum(calls, 1)) ** 2 * (calls - 1))
    seconds = covering_s(found)
    assert seconds == pytest.approx((7.8 / 0.15) ** 2 / 60)
    assert body_of(found, seconds + 0.1).covered > 0.9
    assert body_of(found, seconds - 0.1).covered < 0.5
    alone = StatementReference(240.0, np.ones(1), np.ones(1), np.zeros(1))
    assert covering_s(alone) == math.inf, "one call shows no scatter"
