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
from pgdyno.optimizer.ask import ask, spread
from pgdyno.optimizer.encoding import Encoding
from pgdyno.optimizer.model import fit_model, fit_sceptical
from pgdyno.optimizer.observation import ScoredPoint, gather
from pgdyno.optimizer.rank import choose, rank
from pgdyno.optimizer.stopping import (
    EARLIEST,
    FLAT_FROM,
    FLAT_REPEATS,
    FLAT_SHARE,
    PATIENCE,
    can_tell_flat,
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


def looked_at(tried: Sequence[float], default: Sequence[float], seed: int = 1, slope: float = 0.0) -> list[ScoredPoint]:
    """Return what a look sees: the default's repeats, and points all over the space, of which k0 is worth `slope`."""
    encoding = Encoding(SPACE)
    points = [encoding.point(row) for row in spread(encoding, len(tried), seed)]
    gains = [slope * math.log(float(point["k0"]) / 32) for point in points]
    seen = [ScoredPoint(point, value + gain) for point, value, gain in zip(points, tried, gains, strict=True)]
    return [*(ScoredPoint(DEFAULT, value) for value in default), *seen]


def test_a_flat_space_is_known_by_its_first_points_and_a_gain_is_none() -> None:
    rng = np.random.default_rng(0)
    flat = lifted = sloping = 0
    for seed in range(100):
        default, tried = list(0.05 * rng.normal(size=8)), list(0.05 * rng.normal(size=FLAT_FROM))
        flat += is_flat(SPACE, looked_at(tried, default, seed))
        lifted += is_flat(SPACE, looked_at([*tried[1:], 0.4], default, seed))
        sloping += is_flat(SPACE, looked_at(tried, default, seed, slope=0.05))
        assert not can_tell_flat(len(tried[1:]), len(default), trials=40)
        assert not can_tell_flat(len(tried), len(default), trials=80)
        assert not can_tell_flat(len(tried), len(default[:3]), trials=40)
    assert 0.9 * 100 < flat <= 0.99 * 100, "as often as it says"
    assert lifted < 0.2 * 100
    assert sloping < 0.2 * 100, "a slope from 1.4 noises below the default to 5.5 above it"


def test_one_bad_point_makes_no_space_less_flat() -> None:
    rng = np.random.default_rng(1)
    one = two = 0
    for seed in range(40):
        default, tried = list(0.05 * rng.normal(size=8)), list(0.05 * rng.normal(size=FLAT_FROM - 1))
        one += is_flat(SPACE, looked_at([*tried, -0.8], default, seed))
        two += is_flat(SPACE, looked_at([*tried, -0.8, -0.7, -0.9, -0.8], default, seed))
    assert one > 0.75 * 40
    assert two < 0.5 * 40


def test_what_is_flat_depends_neither_on_the_level_nor_on_the_size_of_the_noise() -> None:
    rng = np.random.default_rng(2)
    for seed in range(10):
        default, tried = rng.normal(size=8), rng.normal(size=12)
        known = is_flat(SPACE, looked_at(list(tried), list(default), seed))
        assert is_flat(SPACE, looked_at(list(7 + 0.01 * tried), list(7 + 0.01 * default), seed)) is known
    assert is_flat(SPACE, looked_at([1.0] * 12, [1.0] * 8)), "without any scatter"


def test_a_trial_that_failed_says_nothing_of_a_flat_space() -> None:
    rng = np.random.default_rng(3)
    seen = looked_at(list(rng.normal(size=12)), list(rng.normal(size=8)))
    failed = ScoredPoint({**DEFAULT, "k1": 8192}, None)
    assert is_flat(SPACE, [*seen, failed]) == is_flat(SPACE, seen)


def test_a_tenth_of_the_noise_is_the_least_that_is_worth_a_trial() -> None:
    assert (EARLIEST, PATIENCE, FLAT_FROM, FLAT_SHARE, FLAT_REPEATS) == (25, 5, 10, 4, 4)
    least = math.log(0.02) + math.log(0.1)
    small = [least] * 25
    assert should_stop(small, 0.02) is not None
    assert should_stop(small[1:], 0.02) is None
    for place in range(20, 25):
        assert should_stop([*small[:place], least + 1e-9, *small[place + 1 :]], 0.02) is None
    assert should_stop([*small[:19], 0.0, *small[20:]], 0.02) is not None, "only the last five count"
    assert should_stop(small, 0.0) is None


def test_points_that_scatter_far_beyond_the_repeats_are_not_flat_and_those_that_do_not_are() -> None:
    repeats = [-1.0, 1.0, -1.0, 1.0]
    assert is_flat(SPACE, looked_at([1.0, -1.0] * 5, repeats))
    assert not is_flat(SPACE, looked_at([9.0, -9.0] * 5, repeats))
    assert not is_flat(SPACE, looked_at([9.0] * 10, repeats))
    assert not is_flat(SPACE, looked_at([-9.0] * 10, repeats)), "a default that is hard to beat"


def test_a_search_of_many_trials_looks_further_and_three_repeats_tell_no_noise() -> None:
    assert can_tell_flat(10, 4, trials=43)
    assert not can_tell_flat(10, 4, trials=44)
    assert can_tell_flat(11, 4, trials=44)
    assert can_tell_flat(15, 4, trials=60), "a quarter"
    assert can_tell_flat(10, 4, trials=40)
    assert not can_tell_flat(9, 4, trials=40)
    assert not can_tell_flat(10, 3, trials=40)
    assert not can_tell_flat(30, 9, trials=39), "a quarter of them would be nine points"
