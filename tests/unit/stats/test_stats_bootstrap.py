import math

import numpy as np
import pytest

from pgdyno.errors import UsageError
from pgdyno.stats.bootstrap import block_length, median, quantile, ratio_interval


def autocorrelated(rng, bins, phi):
    series = np.empty(bins)
    series[0] = rng.standard_normal()
    for i in range(1, bins):
        series[i] = phi * series[i - 1] + math.sqrt(1 - phi * phi) * rng.standard_normal()
    return np.exp(0.1 * series)


@pytest.mark.parametrize("phi", [0.0, 0.3, 0.6])
@pytest.mark.parametrize("statistic", [median, quantile(0.95)])
def test_the_interval_covers_near_its_nominal_rate(statistic, phi):
    rng = np.random.default_rng(11)
    studies, covered = 200, 0
    for _ in range(studies):
        a, b = autocorrelated(rng, 60, phi), 1.2 * autocorrelated(rng, 60, phi)
        found = ratio_interval(a, b, rng=rng, statistic=statistic, resamples=400)
        covered += found.lo <= 1.2 <= found.hi
    assert 0.89 <= covered / studies <= 0.995


def test_the_estimate_is_the_ratio_of_the_statistics():
    a, b = np.arange(1.0, 22.0), np.arange(1.0, 42.0)
    found = ratio_interval(a, b, rng=np.random.default_rng(1))
    assert found.ratio == pytest.approx(21 / 11)
    assert found.lo < found.ratio < found.hi


def test_one_seed_gives_one_answer():
    a, b = np.arange(1.0, 31.0), np.arange(2.0, 32.0)
    first, again = (ratio_interval(a, b, rng=np.random.default_rng(1)) for _ in range(2))
    assert first == again


def test_constant_series_have_an_interval_of_no_width():
    found = ratio_interval(np.full(30, 2.0), np.full(30, 3.0), rng=np.random.default_rng(1))
    assert (found.lo, found.ratio, found.hi) == pytest.approx((1.5, 1.5, 1.5))


def test_blocks_grow_with_autocorrelation():
    rng = np.random.default_rng(1)
    lengths = [block_length(autocorrelated(rng, 400, phi)) for phi in (0.0, 0.5, 0.9)]
    assert lengths == sorted(lengths)
    assert lengths[0] <= 2 < 6 <= lengths[2] <= 100


def test_blocks_widen_the_interval_of_a_correlated_series():
    rng = np.random.default_rng(2)
    a, b = autocorrelated(rng, 200, 0.8), autocorrelated(rng, 200, 0.8)
    blind = ratio_interval(a, b, rng=rng, block_bins=1)
    ours = ratio_interval(a, b, rng=rng)
    assert ours.hi / ours.lo > blind.hi / blind.lo


@pytest.mark.parametrize("bad", [np.ones(19), np.zeros(30), np.full(30, np.nan)])
def test_short_or_unusable_series_are_refused(bad):
    with pytest.raises(UsageError):
        ratio_interval(np.ones(30), bad, rng=np.random.default_rng(1))
