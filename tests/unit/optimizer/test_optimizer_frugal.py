"""The frugal part of a winner, by the model alone, on histories whose truth is known."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cache

import numpy as np
import pytest

from pgdyno.knobs.dimension import Dimension, Value
from pgdyno.optimizer import frugal
from pgdyno.optimizer.ask import ask
from pgdyno.optimizer.frugal import FrugalChoice, may_lose, reduce
from pgdyno.optimizer.observation import ScoredPoint
from pgdyno.optimizer.rank import candidate

SPACE = tuple(Dimension(f"k{i}", "integer", 8, 8192, True, default=32) for i in range(7))
DEFAULT = {dimension.name: 32 for dimension in SPACE}
NOISE = 0.03
pytestmark = pytest.mark.xdist_group("optimizer-frugal")  # they share histories


def truth(point: Mapping[str, Value]) -> float:
    """Two settings matter: k0 by a cliff, k1 by a slope. Five ride along."""
    return 1.0 * (float(point["k0"]) >= 256) + 0.1 * math.log(float(point["k1"]) / 32)


@cache
def history_of(seed: int, trials: int = 40) -> tuple[ScoredPoint, ...]:
    rng = np.random.default_rng(seed)
    history: list[ScoredPoint] = []
    for trial in range(trials):
        point = DEFAULT if trial % 6 == 0 else ask(SPACE, history, seed=seed).point
        history.append(ScoredPoint(point, truth(point) + NOISE * float(rng.normal())))
    return tuple(history)


def reduced(history: Sequence[ScoredPoint], seed: int, **more: object) -> tuple[dict[str, Value], FrugalChoice]:
    winner = dict(candidate(SPACE, history, seed=seed))
    asked = {"most": 5, "amounts": {}, "tolerance": None, "is_possible": lambda point: True, **more}
    return winner, reduce(SPACE, history, winner, noise_sd=NOISE, **asked)  # type: ignore[arg-type]


def changed(point: Mapping[str, Value]) -> set[str]:
    return {name for name, value in point.items() if value != DEFAULT[name]}


@pytest.mark.parametrize("seed", range(4))
def test_what_rides_along_goes_and_what_matters_stays(seed: int) -> None:
    winner, left = reduced(history_of(seed), seed)
    assert len(changed(winner)) > 4
    assert changed(left.point) == {"k0", "k1"}
    assert set(left.dropped) == changed(winner) - {"k0", "k1"}
    assert max(left.dropped.values()) < 0.1
    assert not left.forced
    assert truth(left.point) >= truth(winner) - 0.15 * (truth(winner) - truth(DEFAULT))


def test_where_fewer_are_allowed_the_one_that_matters_most_stays() -> None:
    _, left = reduced(history_of(2), 2, most=1)
    assert changed(left.point) == {"k0"}
    assert left.forced == {"k1"}
    assert left.dropped["k1"] > 0.1


def spread(point: Mapping[str, Value]) -> float:
    """Every setting is worth something: k0 most, k6 least."""
    return sum(0.03 * (7 - i) * math.log2(float(point[f"k{i}"]) / 32) for i in range(7))


def test_where_more_stay_than_can_be_measured_alone_those_that_matter_least_are_to_go_together() -> None:
    rng = np.random.default_rng(3)
    points = [{name: 2 ** int(rng.integers(5, 10)) for name in DEFAULT} for _ in range(40)]
    history = [ScoredPoint(point, spread(point) + 0.01 * float(rng.normal())) for point in [DEFAULT, *points]]
    winner = dict.fromkeys(DEFAULT, 512)
    asked = {"noise_sd": 0.01, "amounts": {}, "tolerance": 0.01, "is_possible": lambda point: True}
    left = reduce(SPACE, history, winner, most=5, **asked)  # type: ignore[arg-type]
    assert changed(left.point) == set(DEFAULT)
    assert set(left.rest) == {"k4", "k5", "k6"}
    assert left.rest[0] == "k6"
    assert not left.forced
    alone = reduce(SPACE, history, winner, most=3, **asked)  # type: ignore[arg-type]
    assert (changed(alone.point), alone.rest) == ({"k0", "k1", "k2"}, ())
    asked["is_possible"] = lambda point: point["k6"] == 512 or point == DEFAULT
    bound = reduce(SPACE, history, winner, most=5, **asked)  # type: ignore[arg-type]
    assert "k6" in changed(bound.point)
    assert "k6" not in bound.rest


@pytest.mark.parametrize("seed", range(3))
def test_of_a_gain_that_is_spread_only_that_goes_of_which_the_model_is_sure(
    monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    points = [{name: 2 ** int(rng.integers(5, 10)) for name in DEFAULT} for _ in range(14)]
    history = [ScoredPoint(point, spread(point) + 0.1 * float(rng.normal())) for point in [DEFAULT, *points]]
    asked = {"noise_sd": 0.1, "amounts": {}, "tolerance": None, "is_possible": lambda point: True, "most": 4}
    sure = reduce(SPACE, history, dict.fromkeys(DEFAULT, 256), **asked)  # type: ignore[arg-type]
    monkeypatch.setattr(frugal, "CAUTION", 0.0)
    expected = reduce(SPACE, history, dict.fromkeys(DEFAULT, 256), **asked)  # type: ignore[arg-type]
    assert changed(sure.point) > changed(expected.point)
    assert len(changed(sure.point)) - len(sure.rest) == 3


def test_what_is_asked_for_as_a_whole_loses_nothing_that_the_model_merely_expects_to_do_nothing() -> None:
    """A whole that was to be proved after its parts had lost went into that proof as one setting of seventeen."""
    rng = np.random.default_rng(1)
    points = [{name: 2 ** int(rng.integers(5, 10)) for name in DEFAULT} for _ in range(14)]
    history = [ScoredPoint(point, 0.1 * float(rng.normal())) for point in [DEFAULT, *points]]
    asked = {"noise_sd": 0.1, "amounts": {}, "tolerance": 0.0, "is_possible": lambda point: True, "most": 5}
    few = reduce(SPACE, history, dict.fromkeys(DEFAULT, 256), **asked)  # type: ignore[arg-type]
    whole = reduce(SPACE, history, dict.fromkeys(DEFAULT, 256), surely=True, **asked)  # type: ignore[arg-type]
    assert len(changed(few.point)) <= 5
    assert len(changed(whole.point)) >= 6
    assert len(changed(whole.point)) - len(whole.rest) == 4


def test_a_part_that_may_fail_where_the_winner_did_not_is_left_whole() -> None:
    """Without room made by k1, k0 cannot have that much; the gain is that of k0 alone."""
    rng = np.random.default_rng(1)
    points = [{name: 2 ** int(rng.integers(5, 14)) for name in DEFAULT} for _ in range(60)]
    fails = [point["k0"] > 8 * point["k1"] for point in points]
    values = [None if failed else 0.2 * math.log2(point["k0"]) for point, failed in zip(points, fails, strict=True)]
    history = [ScoredPoint(DEFAULT, 1.0), *map(ScoredPoint, points, values)]
    _, left = reduced([*history, ScoredPoint({**DEFAULT, "k0": 8192, "k1": 8192}, 2.6)], 1)
    assert changed(left.point) == {"k0", "k1"}
    _, left = reduced([seen for seen in history if seen.value is not None], 1)
    assert changed(left.point) == {"k0"}


def test_what_the_constraints_need_stays() -> None:
    winner, _ = reduced(history_of(1), 1)
    rider = next(iter(changed(winner) - {"k0", "k1"}))
    _, left = reduced(history_of(1), 1, is_possible=lambda point: point[rider] != DEFAULT[rider])
    assert changed(left.point) == {"k0", "k1", rider}


@pytest.mark.parametrize("seed", range(4))
def test_an_amount_is_lowered_and_never_beyond_the_cliff(seed: int) -> None:
    history = history_of(seed)
    winner, left = reduced(history, seed, amounts={"k0": math.inf})
    assert 256 <= float(left.point["k0"]) <= float(winner["k0"])
    assert ("k0" in left.lowered) == (left.point["k0"] != winner["k0"])


def test_an_amount_beyond_what_can_do_anything_is_lowered_whatever_the_model_says() -> None:
    rising = [ScoredPoint({**DEFAULT, "k0": 2**n}, 0.4 * (n - 5)) for n in range(5, 14)]
    _, left = reduced(rising, 1, amounts={"k0": 300.0})
    assert left.lowered == ("k0",)
    assert 300 <= float(left.point["k0"]) < 400
    _, left = reduced(rising, 1, amounts={"k0": math.inf})
    assert float(left.point["k0"]) > 4000


def test_where_all_that_was_tried_gains_the_default_is_not_taken_for_as_good() -> None:
    """The default is then the one poor point, whose distance is the gain and no hopeless value."""
    only = SPACE[:1]
    history = [ScoredPoint({"k0": 32}, score) for score in (0.29, -0.04, -0.23)]
    history += [ScoredPoint({"k0": 512}, 2.41), ScoredPoint({"k0": 4096}, 2.38)]
    left = reduce(only, history, {"k0": 512}, noise_sd=0.2, most=3, amounts={"k0": math.inf}, tolerance=None,
                  is_possible=lambda point: True)  # fmt: skip
    assert left.point["k0"] == 512
    assert not left.lowered


def test_what_may_be_lost_is_a_tenth_of_the_gain_unless_somebody_says_and_never_more_than_half() -> None:
    assert may_lose(1.0, None, 0.02) == pytest.approx(0.1)
    assert may_lose(0.05, None, 0.02) == pytest.approx(0.02)
    assert may_lose(1.0, 0.2, 0.02) == pytest.approx(math.log(1.2))
    assert may_lose(0.1, 0.2, 0.02) == pytest.approx(0.05)
    assert may_lose(-0.1, 0.2, 0.02) == 0


@pytest.mark.requirement("R-TUN-08")
def test_the_more_may_be_lost_the_less_is_taken() -> None:
    history = history_of(1)
    taken = [reduced(history, 1, tolerance=t, amounts={"k1": math.inf})[1].point for t in (0.01, 0.1, 0.4)]
    amounts = [float(point["k1"]) for point in taken]
    assert amounts == sorted(amounts, reverse=True)
    assert amounts[0] > amounts[-1]
    assert all(float(point["k0"]) >= 256 for point in taken)
