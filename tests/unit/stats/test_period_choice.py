"""Which period a live study takes, and what it promises for it."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from live_simulation import LiveSimulation, SimulatedLoad, simulated_study
from pgdyno.stats.body_index import StatementReference, added
from pgdyno.stats.period_choice import (
    LENGTHS,
    PeriodNoise,
    chosen,
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
