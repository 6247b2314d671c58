"""Amdahl's law and the Universal Scalability Law: what is exact is found, and intervals cover what made the runs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from pgdyno.errors import UsageError
from pgdyno.model.results.scale import LawFigure, ScalingLaw
from pgdyno.stats.scalability import _allowed, _draws, _told, fit_amdahl, fit_usl

LOADS = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0]


def made(rate: float, contention: float, coherency: float, n: np.ndarray) -> np.ndarray:
    return rate * n / (1 + contention * (n - 1) + coherency * n * (n - 1))


def law(found: ScalingLaw | str) -> ScalingLaw:
    assert isinstance(found, ScalingLaw), found
    return found


def covers(one: LawFigure, truth: float) -> bool:
    hi = float("inf") if one.hi is None else one.hi
    lo = float("inf") if one.lo is None else one.lo
    return lo * (1 - 1e-9) <= truth <= hi * (1 + 1e-9)


@given(
    rate=st.floats(1, 1e6), contention=st.floats(0.001, 0.6), coherency=st.floats(1e-5, 0.02), each=st.integers(2, 4)
)
def test_runs_without_scatter_give_back_the_law_that_made_them(
    rate: float, contention: float, coherency: float, each: int
) -> None:
    n = np.repeat(LOADS, each)
    found = law(fit_usl(n, made(rate, contention, coherency, n)))
    assert found.rate.value == pytest.approx(rate, rel=1e-6)
    assert found.contention.value == pytest.approx(contention, rel=1e-4)
    assert found.coherency.value == pytest.approx(coherency, rel=1e-4)
    assert found.peak.value == pytest.approx(max(1.0, ((1 - contention) / coherency) ** 0.5), rel=1e-3)
    assert found.at([4.0])[0] == pytest.approx(made(rate, contention, coherency, np.array([4.0]))[0], rel=1e-6)
    amdahl = law(fit_amdahl(n, made(rate, contention, 0.0, n)))
    assert amdahl.limit.value == pytest.approx(rate / contention, rel=1e-4)
    assert amdahl.knee.value == pytest.approx(1 / contention, rel=1e-4)
    assert amdahl.peak.value is None
    assert not amdahl.declines


@given(st.lists(st.tuples(st.sampled_from(LOADS), st.floats(1, 1e5)), min_size=8, max_size=40))
def test_whatever_the_runs_every_interval_holds_its_value_and_no_share_is_below_0(
    runs: list[tuple[float, float]],
) -> None:
    for found in (fit_usl(*zip(*runs, strict=True)), fit_amdahl(*zip(*runs, strict=True))):
        if isinstance(found, str):
            continue
        for name in ("rate", "contention", "coherency", "peak", "limit", "knee"):
            one = getattr(found, name)
            assert covers(one, float("inf") if one.value is None else one.value)
            assert (one.lo or 0.0) >= 0


@pytest.mark.parametrize(
    ("truth", "names"),
    [
        ((1000, 0.05, 0.001), ("rate", "contention", "coherency", "peak", "limit", "knee")),
        ((500, 0.1, 0.01), ("rate", "contention", "coherency", "peak", "limit", "knee")),
        ((800, 0.02, 0.0), ("rate", "contention", "coherency", "peak")),
        ((300, 0.3, 0.0005), ("rate", "contention", "coherency", "peak", "limit", "knee")),
    ],
)
def test_the_intervals_cover_what_made_the_runs(truth: tuple[float, float, float], names: tuple[str, ...]) -> None:
    rate, contention, coherency = truth
    random, times = np.random.default_rng(11), 120
    peak = ((1 - contention) / coherency) ** 0.5 if coherency else float("inf")
    limit = float(made(rate, contention, coherency, np.array([peak]))[0]) if coherency else rate / contention
    wanted = {"rate": rate, "contention": contention, "coherency": coherency, "peak": peak, "limit": limit}
    wanted["knee"] = limit / rate
    hits = dict.fromkeys(names, 0)
    for _ in range(times):
        n = np.repeat(LOADS, 4)
        x = made(*truth, n) * np.exp(random.normal(0, 0.04, n.size))
        found = law(fit_usl(n, x))
        for name in names:
            hits[name] += covers(getattr(found, name), wanted[name])
    # 95 % wanted; of 120 draws six deviations below 95 % would be 83 %
    assert min(hits.values()) >= 0.85 * times, hits


def test_a_load_that_scales_is_not_said_to_decline_and_one_that_declines_is() -> None:
    random, n = np.random.default_rng(2), np.repeat(LOADS, 5)
    claims = sum(
        law(fit_usl(n, made(800, 0.05, 0.0, n) * np.exp(random.normal(0, 0.04, n.size)))).declines for _ in range(100)
    )
    assert claims <= 12
    assert law(fit_usl(n, made(800, 0.05, 0.01, n) * np.exp(random.normal(0, 0.04, n.size)))).declines


def test_too_few_runs_are_told_and_senseless_ones_refused() -> None:
    assert fit_usl([1, 2, 4], [1, 2, 3]) == "it takes 4 different loads, and there are 3"
    assert fit_usl([1, 2, 4, 8], [1, 2, 3, 4]) == "it takes 5 runs, and there are 4"
    assert fit_amdahl([1, 1, 2, 2], [1, 2, 3, 4]) == "it takes 3 different loads, and there are 2"
    with pytest.raises(UsageError, match="positive"):
        fit_usl([1, 2, 4, 8, 16], [1, 2, 0, 4, 5])


def test_amdahl_s_law_has_no_coherency_and_takes_four_runs_of_three_loads() -> None:
    n = np.array([1.0, 2.0, 4.0, 8.0, 16.0, 32.0])
    found = law(fit_amdahl(n, made(800, 0.05, 0.01, n)))
    assert (found.coherency.value, found.peak.value) == (0.0, None)
    assert not isinstance(fit_amdahl([1, 2, 4, 4], [100, 180, 300, 310]), str)
    assert fit_amdahl([1, 2, 4], [100, 180, 300]) == "it takes 4 runs, and there are 3"


def test_the_ends_of_an_interval_are_the_draws_that_leave_half_of_the_rest_beyond_each() -> None:
    draws = np.stack([1 / np.arange(1.0, 12.0), np.zeros(11)], axis=1)
    rate = _told(np.array([1 / 6, 0.0]), draws, 0.8).rate
    assert (rate.lo, rate.value, rate.hi) == pytest.approx((2.0, 6.0, 10.0))
    narrow = _told(np.array([1 / 6, 0.0]), draws, 0.6).rate
    assert (narrow.lo, narrow.hi) == pytest.approx((3.0, 9.0))
    outside = _told(np.array([1 / 20, 0.0]), draws, 0.8).rate
    assert (outside.lo, outside.value, outside.hi) == pytest.approx((2.0, 20.0, 20.0)), "it holds its value"


@pytest.mark.parametrize("width", [2, 3])
def test_draws_keep_no_share_below_0_and_those_above_stay(width: int) -> None:
    root = np.array([[1.0, 0.0, 0.0], [-0.9, 0.5, 0.0], [0.6, -0.8, 0.4]])[:width, :width]
    spread = root @ root.T
    drawn = np.random.default_rng(5).standard_normal((500, width)) @ root.T
    found = _allowed(drawn.copy(), spread)
    assert (found[:, 1:] >= 0).all()
    kept = (drawn[:, 1:] >= 0).all(axis=1)
    assert (found[kept] == drawn[kept]).all()
    inverse = np.linalg.inv(spread)
    for one, before in zip(found[:50], drawn[:50], strict=True):
        zero = np.flatnonzero(one[1:] == 0) + 1
        if zero.size:  # the nearest with these shares 0, by how the draws scatter: nothing is left to gain elsewhere
            free = np.setdiff1d(np.arange(width), zero)
            assert (inverse @ (one - before))[free] == pytest.approx(np.zeros(free.size), abs=1e-9)


def test_runs_count_by_the_throughput_that_is_fitted_to_them() -> None:
    """Relative squares are least where what is left, weighted by the fit, is no part of any column."""
    n = np.repeat(LOADS, 3)
    x = made(1000.0, 0.05, 0.002, n) * np.exp(np.random.default_rng(4).normal(0, 0.04, n.size))
    found = law(fit_usl(n, x))
    rate, contention, coherency = (one.value or 0.0 for one in (found.rate, found.contention, found.coherency))
    assert min(contention, coherency) > 0
    fitted = n / made(rate, contention, coherency, n)
    left = (n / x - fitted) / fitted
    for column in (np.ones(n.size), n - 1, n * (n - 1)):
        assert float(left @ (column / fitted)) == pytest.approx(0.0, abs=1e-6 * float(np.abs(column / fitted).sum()))


@pytest.mark.parametrize("size", [5, 9])
def test_draws_scatter_as_student_s_t_of_the_runs_that_are_left(size: int) -> None:
    n = np.linspace(1.0, 8.0, size)
    columns = np.stack([np.ones(size), n - 1, n * (n - 1)], axis=1)
    values = columns @ [1.0, 0.5, 0.5] + 1e-5 * np.resize([1, -1, -1, 1], size)
    found, rest = np.linalg.lstsq(columns, values, rcond=None)[:2]
    drawn, freedom = _draws(columns, values), size - 3
    scales = np.sqrt(rest[0] / freedom * np.diag(np.linalg.inv(columns.T @ columns)))
    assert drawn.shape == (4000, 3)
    for probability in (0.5, 0.9, 0.975):
        wanted = stats.t.ppf(probability, freedom)
        ends = (np.quantile(drawn, (probability, 1 - probability), axis=0) - found) / scales
        assert ends[0] == pytest.approx([wanted] * 3, rel=0.12, abs=0.06)
        assert ends[1] == pytest.approx([-wanted] * 3, rel=0.12, abs=0.06)
    together = np.corrcoef(stats.rankdata(drawn, axis=0).T)
    assert np.sign(together).tolist() == np.sign(np.linalg.inv(columns.T @ columns)).tolist()


def test_runs_without_scatter_leave_no_doubt_and_a_load_of_less_than_one_is_no_peak() -> None:
    n = np.repeat(LOADS, 2)
    found = law(fit_usl(n, made(100.0, 0.5, 0.6, n)))
    assert (found.peak.lo, found.peak.value, found.peak.hi) == (1.0, 1.0, 1.0)
    assert found.rate.hi == pytest.approx(found.rate.lo, rel=1e-6)
    assert (found.limit.value, found.knee.value) == pytest.approx((100.0, 1.0))


def test_of_several_shares_that_would_be_below_0_the_best_sets_are_0() -> None:
    """In proportion and better: neither share; in proportion at first and ever less than that: coherency alone."""
    n = np.repeat(LOADS, 2)
    for throughputs, zeros in ((1000 * n**1.2, (True, True)), (made(1000.0, 0.0, 0.01, n) * n**0.02, (True, False))):
        found = law(fit_usl(n, throughputs))
        assert (found.contention.value == 0, found.coherency.value == 0) == zeros
    assert law(fit_usl(n, made(1000.0, 0.3, 0.0, n) * n**0.05)).coherency.value == 0
