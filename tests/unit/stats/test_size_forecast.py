"""The forecast of a migration's full size: it covers what a larger rehearsal takes, and refuses what it cannot tell."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from pgdyno.stats.size_forecast import WIDEST, NoForecast, ScaledRun, SizeForecast, _wanted, forecast_size

PHASES = {"structures": (4.0, 0.0), "import": (6.0, 50.0), "indexes": (1.0, 20.0), "constraints": (0.5, 8.0)}
SORTING = {"indexes"}
FULL = 10.0


def truth(phase: str, size: float) -> float:
    fixed, each = PHASES[phase]
    return fixed + each * size * (np.log2(1000 * size) / np.log2(1000) if phase in SORTING else 1)


Scatter = tuple[float, float]
"""Of a whole rehearsal, on a machine that is slow or fast today, and of each phase beside it."""
QUIET: Scatter = (0.01, 0.02)


def rehearsal(size: float, random: np.random.Generator, scatter: Scatter = QUIET) -> ScaledRun:
    """Return a simulated rehearsal."""
    today = random.normal(0, scatter[0])
    return ScaledRun(size, {one: truth(one, size) * np.exp(today + random.normal(0, scatter[1])) for one in PHASES})


def forecast(
    seed: int, sizes: tuple[float, ...] = (1.0, 1.0, 2.0, 2.0), scatter: Scatter = QUIET
) -> tuple[SizeForecast, float]:
    random = np.random.default_rng(seed)
    found = forecast_size([rehearsal(size, random, scatter) for size in sizes], FULL, sorting=SORTING)
    assert isinstance(found, SizeForecast)
    return found, sum(rehearsal(FULL, random, scatter).seconds.values())


@pytest.mark.requirement("R-MIG-07")
def test_two_sizes_cover_a_third_that_is_five_times_larger_in_eight_of_ten_repetitions() -> None:
    repeated = [forecast(seed) for seed in range(10)]
    assert sum(found.low_s <= real <= found.high_s for found, real in repeated) >= 8
    assert [found.factor for found, _ in repeated if not found.is_narrow] == []
    assert {found.reach for found, _ in repeated} == {5.0}


@pytest.mark.parametrize("scatter", [QUIET, (0.0, 0.08), (0.05, 0.03)])
def test_the_interval_covers_as_often_as_it_says(scatter: Scatter) -> None:
    repeated = [forecast(seed, scatter=scatter) for seed in range(200)]
    covered = sum(found.low_s <= real <= found.high_s for found, real in repeated) / 200
    assert covered == pytest.approx(0.9, abs=0.13)  # six deviations of 200 draws


def test_more_runs_make_a_narrower_interval() -> None:
    few = np.median([forecast(seed)[0].factor for seed in range(40)])
    many = np.median([forecast(seed, (1.0,) * 6 + (2.0,) * 6)[0].factor for seed in range(40)])
    assert many < few


def test_without_scatter_the_forecast_is_the_model() -> None:
    runs = [ScaledRun(size, {one: truth(one, size) for one in PHASES}) for size in (1.0, 1.0, 2.0, 2.0)]
    found = forecast_size(runs, FULL, sorting=SORTING)
    assert isinstance(found, SizeForecast)
    assert found.seconds == pytest.approx(sum(truth(one, FULL) for one in PHASES), rel=1e-6)
    assert found.factor == pytest.approx(1, abs=1e-6)
    by_name = {one.phase: one for one in found.phases}
    assert by_name["structures"].seconds == pytest.approx(4.0)
    assert by_name["import"].fixed_s == pytest.approx(6.0)
    assert "indexes with size times logarithm" in found.model
    assert "5 times beyond the largest" in found.model


def test_phases_beside_each_other_count_once_and_the_longest_chain_is_named() -> None:
    runs = [
        ScaledRun(size, {"structures": 1.0, "import": 30 * size, "roles": 5.0, "indexes": 9 * size})
        for size in (1, 1, 2, 2)
    ]
    found = forecast_size(
        runs, 10, after={"import": {"structures"}, "roles": {"structures"}, "indexes": {"import", "roles"}}
    )
    assert isinstance(found, SizeForecast)
    assert found.chain == ("structures", "import", "indexes")
    assert found.seconds == pytest.approx(391)


def run(size: float, **seconds: float) -> ScaledRun:
    return ScaledRun(size, seconds or {"import": size})


@pytest.mark.parametrize(
    ("runs", "after", "words"),
    [
        ([], None, "two rehearsals at each of two sizes are needed; there are none"),
        ([run(1), run(1), run(1.01)], None, "there are 3 at one size"),
        ([run(1), run(1), run(2)], None, "there are 2, 1 at 2 sizes"),
        ([run(1), run(1), run(2), run(0)], None, "not above zero"),
        ([run(1), run(1), run(2), run(2, export=1)], None, "the same phases: export, import"),
        ([ScaledRun(1, {}), run(1), run(2), run(2)], None, "the same phases: import"),
        ([ScaledRun(size, {}) for size in (1, 1, 2, 2)], None, "no phase with a time"),
        ([run(1), run(1), run(2), run(2)], {"import": {"export"}, "export": {"import"}}, "in a circle"),
    ],
)
def test_what_cannot_be_told_is_refused_with_the_reason(
    runs: list[ScaledRun], after: Mapping[str, set[str]] | None, words: str
) -> None:
    found = forecast_size(runs, 10, after=after)
    assert isinstance(found, NoForecast)
    assert words in found.reason
    assert forecast_size([run(1), run(1), run(2), run(2)], 0) == NoForecast("a size is not known, or not above zero")


@given(
    seconds=st.lists(st.floats(0, 1e6), min_size=4, max_size=4),
    factor=st.floats(1e-3, 1e3),
    unit=st.floats(1, 1e9),
)
def test_a_forecast_is_finite_and_keeps_to_the_units_of_time_and_size(
    seconds: list[float], factor: float, unit: float
) -> None:
    def told(by: float, of: float) -> SizeForecast:
        runs = [
            ScaledRun(size * of, {"import": max(1e-3, s) * by}) for size, s in zip((1, 1, 3, 3), seconds, strict=True)
        ]
        found = forecast_size(runs, 15 * of)
        assert isinstance(found, SizeForecast)
        return found

    once, scaled = told(1, 1), told(factor, unit)
    assert 0 < once.low_s <= once.seconds <= once.high_s < np.inf
    assert scaled.seconds == pytest.approx(once.seconds * factor, rel=1e-3)


def test_a_wide_interval_says_how_many_runs_would_narrow_it() -> None:
    def told(scatter: float, rounds: int = 1) -> SizeForecast:
        factors = np.exp(scatter * np.array([1, -1, -1, 1]))
        runs = [ScaledRun(size, {"import": size * factor}) for size, factor in zip((1, 1, 3, 3), factors, strict=True)]
        found = forecast_size(runs * rounds, 15)
        assert isinstance(found, SizeForecast)
        return found

    assert told(0.005).wanted == 4, "these are enough"
    few = told(0.06)
    assert not few.is_narrow
    assert few.wanted > 4
    assert told(0.06, few.wanted // 4).is_narrow
    assert told(0.5).wanted == 0, "no number that anybody makes"


@pytest.mark.parametrize(("other", "is_told"), [(1.05, False), (1.06, True)])
def test_sizes_within_a_twentieth_are_one(other: float, is_told: bool) -> None:
    found = forecast_size([run(1), run(1), run(other), run(other)], 10)
    assert isinstance(found, SizeForecast) is is_told


def test_the_interval_is_students_with_two_runs_less_and_narrow_up_to_half_as_much_again() -> None:
    """Four runs leave two degrees of freedom: 2.919986 deviations are 90 % of Student's, and 0.816497 are half."""
    seconds = (0.96, 1.04, 3 * 1.04, 3 * 0.96)
    found = forecast_size([run(size, load=one) for size, one in zip((1, 1, 3, 3), seconds, strict=True)], 3.0)
    assert isinstance(found, SizeForecast)
    assert found.high_s / found.seconds == pytest.approx(found.seconds / found.low_s)
    sure = forecast_size(
        [run(size, load=one) for size, one in zip((1, 1, 3, 3), seconds, strict=True)], 3.0, confidence=0.5
    )
    assert isinstance(sure, SizeForecast)
    assert np.log(found.factor) / np.log(sure.factor) == pytest.approx(2.919986 / 0.816497, rel=1e-5)
    assert (found.runs, found.reach, found.confidence) == (4, 1.0, 0.9)
    assert replace(found, low_s=1.0, high_s=1.5).is_narrow
    assert not replace(found, low_s=1.0, high_s=1.51).is_narrow


@pytest.mark.parametrize(
    ("seconds", "fixed_s", "at_full"), [((1.0, 9.0), 0.0, 30.0), ((9.0, 1.0), 5.0, 5.0), ((5.0, 9.0), 3.0, 33.0)]
)
def test_nothing_begins_before_it_begins_or_is_faster_for_being_larger(
    seconds: tuple[float, float], fixed_s: float, at_full: float
) -> None:
    """1 and 9 s at the sizes 1 and 3 are 2 s a unit on average, and 9 and 1 s are 5 s at any size."""
    found = forecast_size([run(size, load=seconds[size > 1]) for size in (1, 1, 3, 3)], 15.0)
    assert isinstance(found, SizeForecast)
    (phase,) = found.phases
    assert phase.fixed_s == pytest.approx(fixed_s)
    assert phase.seconds == pytest.approx(at_full, rel=1e-3)


def test_the_interval_is_of_how_runs_scatter_and_of_how_each_moves_the_forecast() -> None:
    """Told by moving the runs one by one; phases are mixed as they are at the full size."""
    sizes, signs = (1.0, 1.0, 3.0, 3.0), np.array([[1, -1, -1, 1], [1, -1, 1, -1]])
    exact = np.array([[2 + 5 * size for size in sizes], [1 + 9 * size for size in sizes]])
    figures = exact * np.exp(0.001 * signs)

    def told(at: float, given: np.ndarray = figures) -> SizeForecast:
        runs = [ScaledRun(size, {"b": one[0], "a": one[1]}) for size, one in zip(sizes, given.T, strict=True)]
        found = forecast_size(runs, at)
        assert isinstance(found, SizeForecast)
        assert [one.phase for one in found.phases] == ["b", "a"]
        return found

    whole = told(15.0)
    shares = np.array([one.seconds / whole.seconds for one in whole.phases])
    fits = np.array([[one.seconds for one in told(size).phases] for size in sizes]).T
    scatter = np.sqrt(((shares @ (figures / fits - 1)) ** 2).sum() / 2)
    moved = 0.0
    for number in range(4):
        ends = [told(15.0, figures * np.where(np.arange(4) == number, by, 1.0)).seconds for by in (0.9999, 1.0001)]
        moved += (np.log(ends[1] / ends[0]) / 0.0002) ** 2
    assert np.log(whole.high_s / whole.seconds) == pytest.approx(2.919986 * scatter * np.sqrt(1 + moved), rel=0.01)


@pytest.mark.parametrize(("rounds", "more"), [(1, 8), (2, 12), (5, 24), (10, 0)])
def test_as_many_runs_are_wanted_as_make_the_interval_just_narrow_enough(rounds: int, more: int) -> None:
    runs, moved = 4, 3.0
    deviations = stats.t.ppf(0.95, rounds * runs - 2) * np.sqrt(1 + moved / rounds)
    scatter = float(np.log(WIDEST) / 2 / deviations)
    assert _wanted(scatter * (1 - 1e-9), moved, runs, 0.9) == rounds * runs
    assert _wanted(scatter * (1 + 1e-9), moved, runs, 0.9) == more
