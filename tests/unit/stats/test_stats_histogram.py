import gc
import time

import numpy as np
import pytest
from hdrh.histogram import HdrHistogram
from hypothesis import given
from hypothesis import strategies as st

from pgdyno.errors import UsageError
from pgdyno.stats.histogram import BUCKETS, HIGHEST_US, RELATIVE_ERROR, LatencyHistogram, highest_of, lowest_of

QUANTILES = (0.5, 0.95, 0.99, 0.999, 1.0)
latencies = st.lists(st.integers(0, HIGHEST_US), min_size=1, max_size=200)


def histogram_of(values):
    histogram = LatencyHistogram()
    histogram.record(np.array(values, dtype=np.int64))
    return histogram


@given(latencies)
def test_counts_land_where_the_library_itself_puts_them(values):
    theirs = HdrHistogram(1, HIGHEST_US, 3, b64_wrap=False)
    for value in values:
        theirs.record_value(value)
    assert histogram_of(values).encode() == theirs.encode()


@given(latencies, st.data())
def test_quantiles_are_within_a_thousandth_of_the_exact_ones(values, data):
    # By rank: a float q a rounding error above rank / n would ask for the next value.
    rank = data.draw(st.integers(1, len(values)))
    exact = sorted(values)[rank - 1] / 1000
    assert exact <= histogram_of(values).quantile_ms(rank / len(values)) <= exact * 1.001 + 1e-9


def test_no_bucket_is_wider_than_its_error_and_the_first_that_share_values_reach_it():
    buckets = np.arange(1, BUCKETS)
    errors = highest_of(buckets) / lowest_of(buckets) - 1
    assert errors.max() <= RELATIVE_ERROR
    assert errors.max() > 0.99 * RELATIVE_ERROR
    assert errors[:2046].max() == 0


@given(latencies, latencies)
def test_adding_is_recording_all(first, second):
    total = histogram_of(first)
    total.add(histogram_of(second))
    assert total.encode() == histogram_of(first + second).encode()
    assert len(total) == len(first) + len(second)


@given(latencies)
def test_encoding_round_trips(values):
    histogram = histogram_of(values)
    decoded = LatencyHistogram.decode(histogram.encode())
    assert [decoded.quantile_ms(q) for q in QUANTILES] == [histogram.quantile_ms(q) for q in QUANTILES]
    assert len(decoded) == len(values)
    assert decoded.encode() == histogram.encode()


def test_percentiles_of_a_sum_are_not_the_mean_of_percentiles():
    quick, slow = [1000] * 990 + [5000] * 10, [100_000] * 100
    total = LatencyHistogram.merged([histogram_of(quick).encode(), histogram_of(slow).encode()])
    assert total.quantile_ms(0.95) == pytest.approx(100, rel=1e-3)
    assert total.quantile_ms(0.5) == pytest.approx(1, rel=1e-3)


def test_quantiles_in_milliseconds():
    histogram = histogram_of(np.arange(1, 10_001) * 100)
    found = [histogram.quantile_ms(q) for q in QUANTILES]
    assert found == pytest.approx((500, 950, 990, 999, 1000), rel=1e-3)


def test_values_above_an_hour_count_as_an_hour():
    histogram = histogram_of([1000, HIGHEST_US + 1, 10 * HIGHEST_US])
    assert len(histogram) == 3
    assert histogram.quantile_ms(1.0) == pytest.approx(HIGHEST_US / 1000, rel=1e-3)


def test_negative_latencies_are_refused():
    with pytest.raises(UsageError, match="-5 us is negative"):
        histogram_of([10, -5])


def test_an_empty_histogram_encodes_but_has_no_quantile():
    empty = LatencyHistogram()
    empty.record(np.array([], dtype=np.int64))
    assert len(LatencyHistogram.decode(empty.encode())) == 0
    with pytest.raises(UsageError, match="empty"):
        empty.quantile_ms(0.5)


def test_quantiles_are_shares_and_not_percentages():
    for share in (95, 1.01, -0.01):
        with pytest.raises(UsageError):
            histogram_of([1]).quantile_ms(share)
    assert [histogram_of([1000, 2000]).quantile_ms(share) for share in (0, 0.5, 0.51, 1)] == [1.0, 1.0, 2.0, 2.0]


@pytest.mark.parametrize("blob", [b"", b"x" * 40, histogram_of([5] * 9).encode()[:-6]])
def test_damaged_bytes_are_refused(blob):
    with pytest.raises(UsageError, match="not an encoded histogram"):
        LatencyHistogram.decode(blob)


@pytest.mark.parametrize("shape", [(1, 10_000, 2), (2, 3_600_000_000, 3), (1, 3_600_000_001, 3), (1, 3_600_000_000, 2)])
def test_histograms_of_another_range_are_refused(shape):
    other = HdrHistogram(*shape, b64_wrap=False)
    other.record_value(5)
    with pytest.raises(UsageError, match="not one of ours"):
        LatencyHistogram.decode(other.encode())


def test_what_another_program_wrote_of_a_microsecond_to_an_hour_is_read():
    other = HdrHistogram(1, 3_600_000_000, 3, b64_wrap=False)
    other.record_value(5000)
    assert LatencyHistogram.decode(other.encode()).quantile_ms(0.5) == pytest.approx(5, rel=1e-3)


def test_histograms_with_latencies_above_an_hour_are_refused():
    other = HdrHistogram(1, HIGHEST_US, 3, b64_wrap=False)
    other.record_value(HIGHEST_US + 100_000_000)  # the layout has room for it
    with pytest.raises(UsageError, match="above one hour"):
        LatencyHistogram.decode(other.encode())


def test_a_million_values_are_recorded_in_well_under_a_second():
    values = np.exp(np.random.default_rng(1).normal(8, 1.5, 1_000_000)).astype(np.int64)
    begun = time.process_time()
    histogram_of(values)
    assert time.process_time() - begun < 0.5


def test_the_share_within_a_limit_counts_the_limit_itself():
    assert histogram_of([1000, 2000, 2000, 3000]).share_within(2.0) == 0.75
    assert LatencyHistogram().share_within(2.0) == 0.0


def test_what_nobody_holds_is_gone_without_the_garbage_collector():
    def living():
        return sum(type(each) is HdrHistogram for each in gc.get_objects())  # isinstance would ask dead proxies

    gc.collect()
    gc.disable()
    try:
        before = living()
        blob = histogram_of([5] * 9).encode()
        assert len(LatencyHistogram.merged([blob] * 9)) == 81
        assert living() == before
    finally:
        gc.enable()


def test_the_share_within_a_time_ends_at_that_time():
    assert histogram_of([900, 1000, 1001, 1500]).share_within(1.0) == 0.5
    assert histogram_of([]).share_within(1.0) == 0.0
