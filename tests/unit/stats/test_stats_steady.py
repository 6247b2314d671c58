"""Where warm-up ends, on the shapes that real runs have."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgdyno.errors import UsageError
from pgdyno.stats.steady import find_steady

RUNS = 120
RATE = 5000.0


def starts(rates, *, cv, window, seed=1):
    """Return the start found in each of RUNS series with these mean counts, normal noise and counting noise."""
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(RUNS):
        level = rates(rng) if callable(rates) else rates
        noisy = np.maximum(level * (1 + rng.standard_normal(len(level)) * cv), 0)
        found.append(find_steady(rng.poisson(noisy), bin_s=1, min_window_s=window).start)
    return found


def unsteady(found):
    return found.count(None) / RUNS


def autocorrelated(bins):
    def rates(rng):
        level = np.empty(bins)
        level[0] = rng.standard_normal()
        for i in range(1, bins):
            level[i] = 0.6 * level[i - 1] + 0.8 * rng.standard_normal()
        return RATE * (1 + 0.1 * level)

    return rates


def checkpoints(bins):
    def rates(rng):
        return RATE * np.where((np.arange(bins) + rng.integers(15)) % 15 < 2, 0.4, 1.0)

    return rates


@pytest.mark.parametrize(("bins", "window"), [(8, 8), (30, 10), (60, 20), (200, 80)])
@pytest.mark.parametrize("cv", [0.005, 0.03, 0.12])
def test_stationary_noise_is_steady_from_the_first_bin(bins, window, cv):
    found = starts(np.full(bins, RATE), cv=cv, window=window)
    assert unsteady(found) < 0.05
    assert found.count(0) / RUNS > 0.95


@pytest.mark.parametrize(("bins", "window"), [(8, 8), (8, 4), (60, 20)])
def test_thirty_a_second_is_steady(bins, window):
    assert unsteady(starts(np.full(bins, 30.0), cv=0, window=window)) < 0.05


@pytest.mark.parametrize(("bins", "window"), [(18, 8), (60, 20), (200, 80)])
def test_autocorrelated_noise_is_steady(bins, window):
    assert unsteady(starts(autocorrelated(bins), cv=0, window=window)) < 0.05


@pytest.mark.parametrize(("bins", "window"), [(18, 10), (60, 20), (200, 80)])
def test_checkpoints_that_come_back_are_steady(bins, window):
    found = starts(checkpoints(bins), cv=0.03, window=window)
    assert unsteady(found) < 0.05
    assert found.count(0) / RUNS > 0.9


@pytest.mark.requirement("R-TUN-04")
@pytest.mark.parametrize(("bins", "window", "lo", "hi"), [(30, 10, 4, 9), (60, 20, 9, 18), (240, 60, 40, 65)])
def test_cache_warming_is_cut_off(bins, window, lo, hi):
    ramp = RATE * np.minimum(0.2 + 0.8 * np.arange(bins) / (bins / 4), 1)
    found = starts(ramp, cv=0.03, window=window)
    assert unsteady(found) < 0.02
    assert lo <= np.quantile([start for start in found if start is not None], 0.05)
    assert np.quantile([start for start in found if start is not None], 0.95) <= hi


def test_exponential_warming_leaves_no_bias():
    level = RATE * (1 - 0.7 * np.exp(-np.arange(90) / 8))
    found = starts(level, cv=0.03, window=30)
    assert unsteady(found) < 0.02
    assert np.mean([level[start:].mean() / RATE for start in found if start is not None]) > 0.985


def test_a_burst_at_the_beginning_is_cut_off():
    found = starts(RATE * np.where(np.arange(60) < 8, 1.5, 1.0), cv=0.03, window=30)
    assert found.count(8) / RUNS > 0.9


@pytest.mark.parametrize(("bins", "window"), [(30, 10), (60, 20), (200, 80)])
@pytest.mark.parametrize("change", [-0.5, -0.3])
def test_a_fall_through_the_whole_run_is_not_steady(bins, window, change):
    assert unsteady(starts(RATE * (1 + change * np.arange(bins) / bins), cv=0.03, window=window)) > 0.95


@pytest.mark.parametrize(("bins", "window"), [(60, 20), (200, 80)])
def test_a_climb_through_the_whole_run_is_not_steady(bins, window):
    assert unsteady(starts(RATE * (1 + 0.5 * np.arange(bins) / bins), cv=0.03, window=window)) > 0.9


def test_a_climb_that_becomes_steeper_to_the_end_is_not_steady():
    """Latency falls evenly to an eighth: throughput rises eight times, most of it in the last quarter."""
    rates = 40 / (1 - 0.88 * (np.arange(32) + 0.5) / 32)
    assert unsteady(starts(rates, cv=0.05, window=8)) > 0.95


@pytest.mark.parametrize(("bins", "window"), [(18, 8), (30, 10), (60, 20), (200, 80)])
def test_a_step_down_in_the_middle_is_not_steady(bins, window):
    found = starts(RATE * np.where(np.arange(bins) < bins // 2, 1.0, 0.7), cv=0.05, window=window)
    assert unsteady(found) > 0.95


def closed_loop(latency_at, clients, *, seconds=25.0, cv=0.0, seed=1):
    """Return counts and sums of latencies in bins of 0.25 s of clients that never wait."""
    rng, done = np.random.default_rng(seed), []
    for _ in range(clients):
        at = rng.uniform(0, latency_at(0.0))
        while at < seconds:
            latency = latency_at(at) * max(0.1, 1 + cv * rng.standard_normal())
            at += latency
            done.append((at, latency))
    ends, latencies = np.array([one for one in done if one[0] < seconds]).T
    places = (ends // 0.25).astype(int)
    return np.bincount(places, minlength=100), np.bincount(places, weights=latencies, minlength=100)


@pytest.mark.parametrize("clients", [1, 2, 4, 8])
@pytest.mark.parametrize("pace", [-0.004, 0.004])
def test_a_latency_that_drifts_through_the_whole_run_is_not_steady(clients, pace):
    """A quarter of a second that changes by 4 ms a second: of few clients the counts alone do not show it."""
    counts, totals = closed_loop(lambda at: 0.25 + pace * at, clients, cv=0.05)
    found = find_steady(counts, bin_s=0.25, min_window_s=2.0, latency_per_bin=totals)
    assert found.start is None or found.start * 0.25 > 10.25, "later than a warm-up of 10 s, or never"
    if clients <= 2:
        assert find_steady(counts, bin_s=0.25, min_window_s=2.0).start == 0, "what the latencies are for"


@pytest.mark.parametrize("late", ["counts", "latencies"])
def test_a_run_is_steady_once_both_its_counts_and_its_latencies_are(late):
    settled = np.arange(60) >= 10
    counts = np.where(settled, 40, 10) if late == "counts" else np.full(60, 40)
    totals = counts * (np.where(settled, 1.0, 3.0) if late == "latencies" else 1.0)
    assert find_steady(counts, bin_s=0.25, min_window_s=5.0, latency_per_bin=totals).start == 10


def test_a_latency_that_falls_is_named():
    counts, totals = closed_loop(lambda at: 0.25 - 0.004 * at, 2)
    found = find_steady(counts, bin_s=0.25, min_window_s=2.0, latency_per_bin=totals)
    assert found.reason == "latency fell by 23 % about 15 s into the run and did not settle"


@pytest.mark.parametrize("latency_s", [0.25, 0.02])
@pytest.mark.parametrize("clients", [1, 8])
def test_latencies_that_only_scatter_are_steady(latency_s, clients):
    rng = np.random.default_rng(1)
    found = [
        find_steady(counts, bin_s=0.25, min_window_s=2.0, latency_per_bin=totals)
        for seed in range(40)
        for counts, totals in [closed_loop(lambda _: latency_s * rng.lognormal(-0.5, 1), clients, seed=seed)]
    ]
    assert sum(one.start is None for one in found) <= 1
    assert sum((one.start or 0) * 0.25 > 3 for one in found) <= 2, "at most the unevenness of the beginning is cut"


def test_the_reason_tells_what_happened_and_when():
    steady = find_steady([100] * 30 + [60] * 30, bin_s=1, min_window_s=20)
    assert steady.start is None
    assert steady.reason == "throughput fell by 40 % about 30 s into the run and did not settle"


def test_what_begins_with_nothing_rose_by_all_of_it():
    steady = find_steady([0] * 30 + [100] * 30, bin_s=1, min_window_s=40)
    assert steady.reason == "throughput rose by 100 % about 30 s into the run and did not settle"


def test_the_reason_of_a_warmup_is_in_seconds():
    steady = find_steady([20] * 8 + [100] * 40, bin_s=0.5, min_window_s=5)
    assert steady == type(steady)(8, "steady after 4 s of warm-up")


def test_a_series_shorter_than_the_window_is_not_steady():
    assert "shorter than the window of 10 s" in find_steady([5] * 9, bin_s=1, min_window_s=10).reason


def test_a_load_that_did_nothing_is_not_steady():
    assert find_steady([0] * 60, bin_s=1, min_window_s=20).reason == "not one transaction was counted"


def test_long_runs_are_searched_quickly_and_keep_their_window():
    counts = np.r_[np.full(1500, 50), np.full(5700, 100)]
    steady = find_steady(counts, bin_s=1, min_window_s=5400)
    assert steady.start is not None
    assert 1500 <= steady.start <= 1800


@pytest.mark.parametrize(
    ("counts", "bin_s", "window"), [([1, -1], 1, 1), ([1, float("nan")], 1, 1), ([1, 1], 0, 1), ([1, 1], 1, 0)]
)
def test_what_is_not_a_series_is_refused(counts, bin_s, window):
    with pytest.raises(UsageError):
        find_steady(counts, bin_s=bin_s, min_window_s=window)


@given(st.lists(st.integers(0, 10_000), min_size=1, max_size=80), st.integers(1, 40))
def test_the_window_is_always_left(counts, window):
    steady = find_steady(counts, bin_s=1, min_window_s=window)
    assert steady.reason
    if steady.start is not None:
        assert 0 <= steady.start <= len(counts) - window


@given(st.lists(st.integers(100, 10_000), min_size=8, max_size=60))
def test_the_length_of_a_bin_in_seconds_only_scales(counts):
    in_seconds = find_steady(counts, bin_s=1, min_window_s=8)
    in_milliseconds = find_steady(counts, bin_s=0.001, min_window_s=0.008)
    assert in_seconds.start == in_milliseconds.start


@pytest.mark.parametrize(("rise", "start"), [(0.0642, 0), (0.0655, None)])
def test_so_small_a_step_of_a_short_series_is_noise_and_the_next_larger_one_is_not(rise, start):
    """The critical value of twelve bins, from both sides: these steps are a fiftieth apart."""
    scatter = np.array([1, -1, 0.5, -0.5, 1, -1, -0.5, 0.5, 0.2, -0.7, 0.9, -0.4])
    level = np.where(np.arange(12) < 6, 1.0, 1.0 + rise)
    found = find_steady(np.round(100_000 * level * (1 + 0.03 * scatter)), bin_s=1, min_window_s=12)
    assert found.start == start


@pytest.mark.parametrize(("size", "window"), [(241, 216), (479, 430), (500, 449), (731, 656)])
def test_bins_that_are_summed_leave_the_whole_window(size, window):
    """The first tenth is slow, and what remains is a bin longer than the window or as long."""
    counts = np.where(np.arange(size) < size // 10, 200.0, 1000.0)
    for latencies in (None, np.full(size, 5.0)):
        start = find_steady(counts, bin_s=1, min_window_s=window, latency_per_bin=latencies).start
        assert start is None or start <= size - window


def test_how_long_a_short_series_is_goes_by_its_bins():
    assert "the series of 4.5 s is shorter" in find_steady([5] * 9, bin_s=0.5, min_window_s=10).reason


def test_seconds_in_which_nothing_ended_are_as_slow_as_the_others():
    """Pairs of a second with all and one with nothing, then even ones: each transaction takes as long throughout."""
    counts = [20, 0] * 30 + [10] * 60
    assert find_steady(counts, bin_s=1, min_window_s=60, latency_per_bin=counts).start == 0
