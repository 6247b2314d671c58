"""The parts of the judgement of a warm-up, by hand or by another way to compute them."""

from __future__ import annotations

import math

import numpy as np
import pytest

from pgdyno.errors import UsageError
from pgdyno.stats import steady
from pgdyno.stats.steady import (
    _bend,
    _change,
    _find_by_latency,
    _is_warmup,
    _merged,
    _noise,
    _search,
    _slope,
    find_steady,
)


def test_merged_bins_are_sums_without_an_unfilled_last_one():
    assert _merged(np.arange(7.0), 3).tolist() == [3.0, 12.0]
    assert _merged(np.arange(4.0), 1).tolist() == [0.0, 1.0, 2.0, 3.0]


@pytest.mark.parametrize("size", [2, 5, 8])
def test_the_slope_is_that_of_least_squares(size):
    counts = np.random.default_rng(size).normal(10, 3, size)
    at = np.arange(size)
    wanted = np.polyfit(at, counts, 1)[0] if size > 2 else (counts[1] - counts[0]) / 2  # of two bins it is damped
    assert _slope(counts) == pytest.approx(wanted)
    assert _slope(np.array([7.0])) == 0.0


@pytest.mark.parametrize("size", [5, 8, 31])
def test_a_bend_has_length_one_and_neither_a_mean_nor_a_slope(size):
    bend = _bend(size)
    assert float(bend @ bend) == pytest.approx(1.0)
    assert float(bend.sum()) == pytest.approx(0.0, abs=1e-12)
    assert float(bend @ np.arange(size)) == pytest.approx(0.0, abs=1e-9)
    assert bend[0] > 0 > bend[size // 2]
    assert _bend(1).tolist() == [0.0]


def long_run(residual, freedom, size, least):
    lag = (residual[1:] * residual[:-1]).sum() / (residual @ residual) + 2 / size
    lag = min(max(lag, 0.0), 0.8)
    return math.sqrt(max(residual @ residual / freedom * (1 + lag) / (1 - lag), least))


def fitted(counts, degree):
    at = np.arange(counts.size)
    return counts - np.polyval(np.polyfit(at, counts, degree), at)


NOISE = np.random.default_rng(7).normal(0, 40, 24)
SHAPES = {
    "line": 1000 + 60 * np.arange(24) + NOISE,
    "step": np.where(np.arange(24) < 9, 1000, 2000) + NOISE,
    "curve": 1000 + 4 * np.arange(24.0) ** 2 + NOISE,
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("counted", [True, False])
def test_noise_is_what_the_best_of_line_step_and_curve_leaves(shape, counted):
    counts = SHAPES[shape]
    left, right = float(counts[:9].mean()), float(counts[9:].mean())
    residuals = {
        "line": (fitted(counts, 1), 21),
        "step": (counts - np.where(np.arange(24) < 9, left, right), 21),
        "curve": (fitted(counts, 2), 20),
    }
    best = min(residuals, key=lambda name: float(residuals[name][0] @ residuals[name][0]) / residuals[name][1])
    assert best == shape
    wanted = long_run(*residuals[shape], 24, float(counts.mean()) if counted else 0.0)
    assert _noise(counts, 9, left, right, counted=counted) == pytest.approx(wanted)


def test_of_seven_bins_no_curve_is_taken_off_and_of_eight_one_is():
    for size in (7, 8):
        counts = 100.0 + 5 * (np.arange(size) - 2.0) ** 2 + np.tile([3.0, -2.0], 4)[:size]
        degree = 2 if size == 8 else 1
        wanted = long_run(fitted(counts, degree), size - 3 - (size == 8), size, 0.0)
        assert _noise(counts, 3, float(counts[:3].mean()), float(counts[3:].mean()), counted=False) == pytest.approx(
            wanted
        )


def test_noise_is_at_least_that_of_counting():
    flat = np.full(12, 400.0)
    assert _noise(flat, 5, 400.0, 400.0, counted=True) == 20.0
    assert _noise(flat, 5, 400.0, 400.0, counted=False) == 0.0
    quiet = flat + np.tile([1.0, -1.0], 6)
    assert _noise(quiet, 5, 400.0, 400.0, counted=True) == 20.0
    wandering = np.repeat([-1.0, 1.0, -1.0], 200) * 10.0
    most = _noise(wandering, 300, 0.0, 0.0, counted=False)
    energy = min(fitted(wandering, 1) @ fitted(wandering, 1) / 597, fitted(wandering, 2) @ fitted(wandering, 2) / 596)
    assert most == pytest.approx(math.sqrt(energy * 1.8 / 0.2)), "an autocorrelation of 0.8 is the most that is taken"


def levels(before, after, size=20, at=10):
    return np.where(np.arange(size) < at, float(before), float(after))


@pytest.mark.parametrize(("size", "at"), [(20, 10), (20, 16), (8, 6), (4, 2)])
def test_a_change_is_told_with_both_levels_and_where_it_is(monkeypatch, size, at):
    monkeypatch.setattr(steady, "_noise", lambda *_, **__: 0.0)
    assert _change(levels(100, 120, size, at)) == (100.0, 120.0, at)


@pytest.mark.parametrize(("size", "at", "split"), [(20, 18, 16), (9, 8, 7), (40, 39, 32)])
def test_the_last_fifth_and_two_bins_at_least_are_no_side(monkeypatch, size, at, split):
    monkeypatch.setattr(steady, "_noise", lambda *_, **__: 0.0)
    found = _change(levels(100, 1000, size, at))
    assert found is not None
    assert found[2] == split


def test_a_change_must_exceed_noise_and_tolerance(monkeypatch):
    told = []
    counts = levels(100, 120)
    score = 20 / math.sqrt(1 / 10 + 1 / 10)
    bound = score / (3.4 + 11.0 / 20)
    for noise in (np.nextafter(bound, 0) * (1 - 1e-12), bound * (1 + 1e-12)):
        monkeypatch.setattr(steady, "_noise", lambda *_, noise=noise, **__: noise)
        told.append(_change(counts) is not None)
    assert told == [True, False]
    monkeypatch.setattr(steady, "_noise", lambda *_, **__: 0.0)
    assert _change(levels(78, 82)) is None, "4 of 80 are the tolerance itself"
    assert _change(levels(78, 82.125)) is not None
    assert _change(np.array([1.0, 5.0, 5.0])) is None, "three bins are too few"
    assert _change(np.zeros(9)) is None


@pytest.mark.parametrize(
    ("head", "tail", "is_warmup"),
    [
        ([9.0] * 2, [5.0] * 6, True),  # a burst in the first quarter
        ([9.0] * 3, [5.0] * 6, False),
        ([1.0] * 3, [5.0, 6.0, 7.0, 8.0], True),  # a head of three bins has no pace
        ([1.0] * 4, [5.0, 6.0, 7.0, 8.0], False),  # it goes on at more than a third of it
        ([1.0] * 4, [5.0] * 4, True),
        ([1.0] * 4, [5.0, 5.7, 5.8, 6.1], False),  # it had reached 5 in its first third
        ([5.0] * 4, [5.0] * 4, False),  # nothing rose
    ],
)
def test_a_head_that_is_cut_off_was_a_burst_or_a_climb_that_has_ended(head, tail, is_warmup):
    assert _is_warmup(np.array(head), np.array(tail)) is is_warmup


def test_a_climb_has_ended_where_less_than_a_third_of_its_pace_goes_on():
    head = np.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0])
    for slope, has_ended in ((0.33, True), (0.34, False)):
        tail = 9.5 + slope * (
            np.arange(9) - 1.0
        )  # its first third has a mean of 9.5, and the first quarter 1.5: 8 in 8
        assert _is_warmup(head, tail) is has_ended


def test_each_start_that_leaves_the_window_is_tried():
    counts = np.array([*[10.0] * 6, *[1000.0] * 10])
    assert _search(counts, 10, 0.5).start == 6
    late = _search(counts, 11, 0.5)
    assert (late.start, late.may_settle_s) == (None, 0.0)
    assert late.reason == "throughput rose by 9900 % about 3 s into the run and did not settle"
    assert _search(counts, 10, 0.5).reason == "steady after 3 s of warm-up"


@pytest.mark.parametrize(
    ("before", "after", "counted", "words", "may_settle_s"),
    [
        (1000, 250, True, "throughput fell by 75 %", 20.0),
        (0, 250, True, "throughput rose by 100 %", 0.0),
        (1.0, 4.0, False, "latency fell by 75 %", 20.0),  # of speed, which is the inverse
        (4.0, 1.0, False, "latency rose by 300 %", 0.0),
        (4.0, 0.0, False, "latency rose by 100 %", 0.0),
    ],
)
def test_who_never_settles_is_told_by_how_much_and_where(before, after, counted, words, may_settle_s):
    found = _search(levels(before, after), 20, 0.5, counted=counted)
    assert (found.start, found.may_settle_s) == (None, may_settle_s)
    assert found.reason.startswith(f"{words} about 5 s into the run")


@pytest.mark.parametrize(("bin_s", "window_s"), [(0.0, 1.0), (-1.0, 1.0), (1.0, 0.0)])
def test_lengths_are_positive(bin_s, window_s):
    with pytest.raises(UsageError, match="are not positive"):
        find_steady([1.0] * 9, bin_s=bin_s, min_window_s=window_s)


@pytest.mark.parametrize("counts", [[[1.0, 2.0]], [1.0, math.inf], [1.0, -1.0]])
def test_counts_are_a_series_from_0_up(counts):
    with pytest.raises(UsageError, match="from 0 up"):
        find_steady(counts, bin_s=1.0, min_window_s=1.0)


def test_the_shortest_series_is_the_window_and_two_bins():
    assert find_steady([5.0] * 4, bin_s=0.1, min_window_s=0.4).start == 0
    assert find_steady([5.0] * 2, bin_s=1.0, min_window_s=1.0).start == 0
    for counts, window_s in (([5.0] * 4, 0.41), ([5.0], 0.1)):
        found = find_steady(counts, bin_s=0.1, min_window_s=window_s)
        assert (found.start, "is shorter than the window" in found.reason) == (None, True)
    assert find_steady([0.0] * 9, bin_s=1.0, min_window_s=2.0).reason == "not one transaction was counted"
    assert find_steady([0.0, 5.0, *[0.0] * 7], bin_s=1.0, min_window_s=2.0).reason != "not one transaction was counted"


def test_bins_are_joined_until_there_are_240_and_the_start_is_one_of_the_given():
    counts = np.array([*[10.0] * 120, *[1000.0] * 360])
    steady = find_steady(counts, bin_s=0.25, min_window_s=60.0)
    assert (steady.start, steady.reason) == (120, "steady after 30 s of warm-up")
    latencies = counts * np.where(np.arange(480) < 240, 3000.0, 1000.0)
    found = find_steady(np.full(480, 1000.0), bin_s=0.25, min_window_s=60.0, latency_per_bin=1000 * latencies / counts)
    assert (found.start, found.reason) == (240, "steady after 60 s of warm-up")


@pytest.mark.parametrize("unit", [1.0, 1e-6])
def test_latencies_are_told_in_any_unit(unit):
    took = unit * np.where(np.arange(60) < 10, 3.0, 1.0)
    assert find_steady(np.full(60, 40.0), bin_s=0.25, min_window_s=5.0, latency_per_bin=40 * took).start == 10


def test_latencies_tell_from_eight_a_bin_on():
    few = _find_by_latency(np.full(16, 2.0), np.full(16, 50.0), 1.0, 4.0)
    assert (few.start, few.reason) == (0, "steady from the first bin"), "four bins of eight each"
    for counts, totals, window_s in (
        (np.full(15, 2.0), np.full(15, 50.0), 4.0),  # three bins
        (np.full(16, 2.0), np.full(16, 50.0), 17.0),
        (np.full(16, 2.0), np.zeros(16), 4.0),
    ):
        assert _find_by_latency(counts, totals, 1.0, window_s).reason.startswith("too few transactions")
