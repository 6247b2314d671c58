"""Rank, choose and the stopping rule."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from fix_postgres import NIGHT
from pgdyno.knobs.dimension import Dimension
from pgdyno.optimizer.ask import ask
from pgdyno.optimizer.model import fit_model, fit_sceptical
from pgdyno.optimizer.observation import ScoredPoint, gather
from pgdyno.optimizer.rank import choose, rank
from pgdyno.optimizer.stopping import (
    EARLIEST,
    FLAT_FROM,
    FLAT_REPEATS,
    FLAT_SHARE,
    PATIENCE,
    is_flat,
    should_stop,
)

SPACE = tuple(Dimension(f"k{i}", "integer", 8, 8192, True, default=32) for i in range(6))
SEEDS = 20 if NIGHT else 10
DEFAULT = {dimension.name: 32 for dimension in SPACE}
pytestmark = pytest.mark.xdist_group("optimizer-rank")  # they share histories


@cache
def history_of(trials: int, seed: int, noise: float, slope: float) -> tuple[ScoredPoint, ...]:
    rng = np.random.default_rng(seed)
    history: list[ScoredPoint] = []
    for trial in range(trials):
        point = DEFAULT if trial % 10 == 0 else ask(SPACE, history, seed=seed).point
        value = slope * math.log(float(point["k0"]) / 32) + noise * float(rng.normal())
        history.append(ScoredPoint(point, value))
    return tuple(history)


def test_rank_orders_by_posterior_mean_and_takes_back_luck() -> None:
    rng = np.random.default_rng(1)
    history = [
        ScoredPoint({**DEFAULT, "k0": 8 * 2 ** (i % 10)}, 0.1 * (i % 10) + 0.02 * float(rng.normal()))
        for i in range(30)
    ]
    lucky = {**DEFAULT, "k0": 12}
    ranked = rank(SPACE, [*history, ScoredPoint(lucky, 1.1)], seed=0)
    assert [entry.mean for entry in ranked] == sorted((entry.mean for entry in ranked), reverse=True)
    assert ranked[0].point["k0"] == 4096
    assert next(entry for entry in ranked if entry.point == lucky).mean < 1.1
    assert all(entry.sd > 0 for entry in ranked)


def test_rank_of_failures_alone_is_empty() -> None:
    assert rank(SPACE, [ScoredPoint(DEFAULT, None)], seed=0) == []
    assert rank(SPACE, [], seed=0) == []
    assert choose(SPACE, [ScoredPoint(DEFAULT, None)]) == DEFAULT


def test_choose_keeps_the_default_where_nothing_helps() -> None:
    kept = sum(choose(SPACE, history_of(24, seed, noise=0.05, slope=0.0)) == DEFAULT for seed in range(SEEDS))
    assert kept >= SEEDS - 1


def costly(history: Sequence[ScoredPoint], cost: float) -> list[ScoredPoint]:
    """Make every point but the default worse by `cost`."""
    return [ScoredPoint(o.point, (o.value or 0.0) - cost * (o.point != DEFAULT)) for o in history]


def test_choose_keeps_the_default_where_every_change_costs() -> None:
    kept = sum(choose(SPACE, costly(history_of(24, seed, 0.05, 0.0), 0.2)) == DEFAULT for seed in range(SEEDS))
    assert kept >= SEEDS - 1


def test_choose_takes_a_clear_gain() -> None:
    for seed in range(3):
        assert float(choose(SPACE, history_of(20, seed, noise=0.03, slope=0.15))["k0"]) > 1000


def test_a_disturbed_trial_does_not_pass_for_noise() -> None:
    history = history_of(30, seed=0, noise=0.03, slope=0.08)
    disturbed = ScoredPoint(history[25].point, (history[25].value or 0.0) - 0.6)
    model = fit_sceptical(gather(SPACE, [*history[:25], disturbed, *history[26:]]))
    assert model.scaled.spread * math.sqrt(model.posterior.hyper.noise) < 0.06


def test_the_search_learns_the_noise_only_from_enough_repeats() -> None:
    points = [ScoredPoint({**DEFAULT, "k0": 2 ** (3 + i)}, 0.1 * (i % 3)) for i in range(8)]
    for repeats, learned in ((1, False), (2, False), (3, True)):
        data = gather(SPACE, points + points[2:3] * repeats)
        quiet, loud = (fit_model(replace(data, squares=squares)).posterior.hyper.noise for squares in (0.0, 1.0))
        assert (loud > 2 * quiet) == learned


def test_choose_without_a_measured_default_keeps_it() -> None:
    assert choose(SPACE, [ScoredPoint({**DEFAULT, "k0": 4096}, 1.0)]) == DEFAULT


def test_stopping_waits_for_enough_trials_and_a_run_of_small_promises() -> None:
    small, large = math.log(1e-4), math.log(0.1)
    early: list[float | None] = [small] * (EARLIEST - 1)
    assert should_stop(early, 0.05) is None
    assert should_stop([*early, small], 0.05) is not None
    assert should_stop([*early, small, large], 0.05) is None
    assert should_stop([*early, None], 0.05) is None
    assert should_stop([*early, large, *[small] * (PATIENCE - 1)], 0.05) is None
    assert should_stop([*early, small], 0.0) is None


def test_a_flat_space_is_known_by_its_first_points_and_a_gain_is_none() -> None:
    rng = np.random.default_rng(0)
    flat = lifted = 0
    for _ in range(400):
        default, tried = 0.05 * rng.normal(size=8), 0.05 * rng.normal(size=FLAT_FROM)
        flat += is_flat(list(tried), list(default), trials=40)
        lifted += is_flat([*tried[1:], 0.4], list(default), trials=40)
        assert not is_flat(list(tried[1:]), list(default), trials=40)
        assert not is_flat(list(tried), list(default), trials=80)
        assert not is_flat(list(tried), list(default[:3]), trials=40)
    assert flat > 0.9 * 400
    assert lifted < 0.1 * 400


def test_one_bad_point_makes_no_space_less_flat() -> None:
    rng = np.random.default_rng(1)
    default, tried = 0.05 * rng.normal(size=8), 0.02 * rng.normal(size=FLAT_FROM)
    assert is_flat([*tried, -0.8], list(default), trials=40)
    assert not is_flat([*tried, -0.8, -0.7], list(default), trials=40)


def test_a_tenth_of_the_noise_is_the_least_that_is_worth_a_trial() -> None:
    assert (EARLIEST, PATIENCE, FLAT_FROM, FLAT_SHARE, FLAT_REPEATS) == (25, 5, 10, 6, 4)
    least = math.log(0.02) + math.log(0.1)
    small = [least] * 25
    assert should_stop(small, 0.02) is not None
    assert should_stop(small[1:], 0.02) is None
    for place in range(20, 25):
        assert should_stop([*small[:place], least + 1e-9, *small[place + 1 :]], 0.02) is None
    assert should_stop([*small[:19], 0.0, *small[20:]], 0.02) is not None, "only the last five count"
    assert should_stop(small, 0.0) is None


@pytest.mark.parametrize(("score", "flat"), [(3.832, True), (3.833, False), (-3.832, True), (-3.833, False)])
def test_a_space_is_flat_up_to_the_f_distribution_of_its_repeats(score: float, flat: bool) -> None:
    """Nine points of ten against four repeats of variance 4/3: F of 9 and 3 degrees is 8.8123, and a quarter more."""
    assert math.sqrt(8.8123 * 1.25 * 4 / 3) == pytest.approx(3.8324, abs=1e-4)
    assert is_flat([-99.0] + [score] * 9, [-1.0, 1.0, -1.0, 1.0], trials=12) is flat


def test_a_search_of_many_trials_looks_further_and_three_repeats_tell_no_noise() -> None:
    repeats = [-1.0, 1.0, -1.0, 1.0]
    assert is_flat([0.1] * 10, repeats, trials=65)
    assert not is_flat([0.1] * 10, repeats, trials=66)
    assert is_flat([0.1] * 11, repeats, trials=66)
    assert not is_flat([0.1] * 9, repeats, trials=6)
    assert not is_flat([0.1] * 10, repeats[:3], trials=6)
