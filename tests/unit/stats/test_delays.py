"""The tables of a certification: rounding, shares, delays, and the figures of a bank's."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgdyno.errors import UsageError
from pgdyno.stats.delays import (
    DURATION_BOUNDS_MS,
    REQUIRED_PERCENT,
    delay_tables,
    global_change,
    hundredths,
    not_slower,
    passes,
    shares,
)

TOTAL, DELAYED, ERRORS = 1_180_161, 47_206, 11_802


def certification():
    """Return durations before and after of 1,180,161 transactions without errors, as the bank's report has them.

    Delayed ones: by duration in ms, how many, and their mean delay in per cent; 321 of them are longer than 1 s.
    """
    random = np.random.default_rng(4)
    delayed = [((1, 100), 40_000, 78), ((101, 1000), 5_600, 45), ((1001, 2800), 1_285, 29), ((6000, 9000), 321, 23)]
    before, after = [], []
    for (low, high), count, percent in delayed:
        was = random.uniform(low, high, count)
        before.append(was)
        after.append(was * (1 + percent / 100 * random.uniform(0.8, 1.2, count)))
    rest = TOTAL - DELAYED - ERRORS
    was = random.lognormal(3.5, 1, rest)
    before.append(was)
    after.append(was * random.uniform(0.2, 0.8, rest))
    return (np.round(1000 * np.concatenate(side)).astype(np.int64) for side in (before, after))


@pytest.mark.requirement("R-RPL-05")
def test_times_are_compared_at_two_decimals_of_a_millisecond():
    a = np.array([10_000, 10_000, 10_000, 4, 5])
    b = np.array([10_004, 10_005, 9_996, 0, 0])
    assert not_slower(a, b).tolist() == [True, False, True, True, True]
    assert hundredths(np.array([10_004, 10_005, 9_995, 9_994])).tolist() == [1000, 1001, 1000, 999]


@given(st.integers(0, 10**12))
def test_rounding_is_half_up_and_exact(micros):
    assert hundredths(np.array([micros]))[0] == (Fraction(micros, 10) + Fraction(1, 2)).__floor__()


@pytest.mark.requirement("R-RPL-03")
@pytest.mark.parametrize(("good", "is_passed"), [(950, True), (949, False), (1000, True), (0, False)])
def test_950_of_1000_not_slower_pass_and_949_fail(good, is_passed):
    a = np.full(1000, 10_000)
    b = np.where(np.arange(1000) < good, 10_000, 10_010)
    assert passes(int(not_slower(a, b).sum()), 1000) is is_passed


def test_what_is_required_is_reckoned_exactly():
    assert passes(951, 1000, 95.1)
    assert not passes(950, 1000, 95.1)
    assert not passes(0, 0)
    assert passes(1, 1)


@pytest.mark.requirement("R-RPL-04")
def test_a_generated_certification_has_95_4_and_1_per_cent():
    a, b = certification()
    good = int(not_slower(a, b).sum())
    found = shares({"success": good, "delayed": a.size - good, "error": ERRORS}, digits=0)
    assert sum(one.count for one in found) == TOTAL
    assert [one.percent for one in found] == [95, 4, 1]
    assert sum(one.percent for one in found) == 100


@given(st.lists(st.integers(0, 10**7), min_size=1, max_size=8), st.integers(0, 4))
def test_shares_sum_to_100_and_none_is_off_by_a_digit(counts, digits):
    found = shares({str(place): count for place, count in enumerate(counts)}, digits)
    total, step = sum(counts), Fraction(1, 10**digits)
    written = [Fraction(round(one.percent * 10**digits), 10**digits) for one in found]
    assert sum(written) == (100 if total else 0)
    if total:
        for count, percent in zip(counts, written, strict=True):
            assert abs(percent - Fraction(100 * count, total)) < step


def test_shares_have_two_decimals_and_none_of_nothing_are_zero():
    found = shares({"a": 1, "b": 2, "c": 0})
    assert [(one.name, one.count, one.percent) for one in found] == [("a", 1, 33.33), ("b", 2, 66.67), ("c", 0, 0.0)]
    assert [(one.name, one.count, one.percent) for one in shares({"a": 0, "b": 0})] == [("a", 0, 0.0), ("b", 0, 0.0)]


def test_a_negative_count_is_refused():
    with pytest.raises(UsageError, match="negative"):
        shares({"a": -1})


@pytest.mark.requirement("R-RPL-08")
def test_a_generated_certification_has_the_delays_of_the_report():
    a, b = certification()
    tables = delay_tables(a, b)
    below, between, above = tables.by_length
    assert below.percent > 97
    assert above.percent == 0.68
    assert below.percent + between.percent + above.percent == pytest.approx(100)
    means = {(one.low, one.high): one.mean_delay_percent for one in tables.by_duration if one.delayed}
    assert means[0.0, 101.0] == pytest.approx(78, abs=1)
    assert max(means, key=means.get) == (0.0, 101.0)
    long = [mean for (low, _), mean in means.items() if low >= 1001]
    assert len(long) == 3
    assert all(22.5 <= mean <= 29.5 for mean in long)
    assert sum(one.count for one in tables.histogram) == sum(one.delayed for one in tables.by_duration) == DELAYED


def test_delays_at_the_borders_of_the_classes():
    a = np.zeros(4, np.int64) + 1000
    b = a + np.array([499_990, 500_000, 1_000_000, 1_000_010])
    assert [one.count for one in delay_tables(a, b).by_length] == [1, 2, 1]


def test_bounds_that_do_not_ascend_are_refused():
    with pytest.raises(UsageError, match="do not ascend"):
        delay_tables(np.ones(1, np.int64), np.ones(1, np.int64), (500, 101))


@pytest.mark.requirement("R-RPL-09")
def test_the_global_change_is_that_of_all_time_together():
    a = np.array([1_000_000, 100])
    b = np.array([500_000, 200])
    change = global_change(a, b)
    assert (change.a_seconds, change.b_seconds) == (1.0001, 0.5002)
    assert change.improvement_percent == pytest.approx(100 * (1 - 0.5002 / 1.0001))
    assert global_change(np.zeros(1, np.int64), b).improvement_percent is None


@pytest.mark.requirement("R-RPL-08")
def test_each_class_has_its_own_transactions_and_the_means_of_those_that_were_delayed():
    """In ms: 100.99 and 101 part the first classes; a transaction of no time has a delay and no per cent of it."""
    before = np.array([0, 100_000, 100_990, 101_000, 6_000_000])
    after = before + np.array([50_000, 20_000, -10, 30_300, 600_000])
    first, second, *_, last = delay_tables(before, after).by_duration
    assert (first.low, first.high, first.transactions, first.delayed) == (0.0, 101.0, 3, 1)
    assert (first.mean_delay_percent, first.mean_delay_ms) == pytest.approx((20, 20))
    assert (second.low, second.high, second.transactions, second.delayed) == (101.0, 201.0, 1, 1)
    assert (second.mean_delay_percent, second.mean_delay_ms) == pytest.approx((30, 30.3))
    assert (last.low, last.high, last.transactions, last.delayed) == (5001.0, None, 1, 1)
    assert (last.mean_delay_percent, last.mean_delay_ms) == pytest.approx((10, 600))


@pytest.mark.requirement("R-RPL-09")
def test_the_histogram_counts_each_delay_in_the_bin_that_begins_at_it():
    edges = [0.01, 0.1, 1.0, 5.0, 10.0, 50.0, 100.0, 250.0, 500.0, 1000.0, 5000.0]
    delays = [round(1000 * edge) for edge in edges for _ in range(2)]
    a = np.full(len(delays), 1000)
    found = delay_tables(a, a + np.array(delays)).histogram
    assert [(one.low, one.high, one.count) for one in found] == [
        (low, high, 2) for low, high in zip(edges, [*edges[1:], None], strict=True)
    ]
    just_below = delay_tables(a, a + np.array(delays) - 10).histogram
    assert [one.count for one in just_below] == [2] * 10 + [0]


def test_the_classes_are_those_that_are_told():
    assert DURATION_BOUNDS_MS == (101.0, 201.0, 501.0, 1001.0, 2001.0, 5001.0)
    assert REQUIRED_PERCENT == 95.0
    for bounds in ((), (0.0, 5.0), (5.0, 5.0), (-1.0, 5.0)):
        with pytest.raises(UsageError, match="do not ascend"):
            delay_tables(np.ones(1, np.int64), np.ones(1, np.int64), bounds)


def test_what_took_as_long_as_before_is_not_delayed_and_a_hundredth_of_a_millisecond_is_a_time():
    tables = delay_tables(np.array([10, 50_000, 50_000]), np.array([30, 50_000, 50_000]))
    first, *_ = tables.by_duration
    assert [one.count for one in tables.by_length] == [1, 0, 0]
    assert (first.transactions, first.delayed, first.mean_delay_percent, first.mean_delay_ms) == (3, 1, 200.0, 0.02)
