import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from noise_models import normal, paired_log_ratios
from pgdyno.errors import UsageError
from pgdyno.stats.boundary import critical_values
from pgdyno.stats.noise import NoiseFloor, last_critical, noise_floor, odd_run, why_untold
from pgdyno.stats.sequential import Design
from simulation import run_studies


def test_cv_and_pair_sd_of_independent_runs():
    values = 1000 * np.exp(np.random.default_rng(1).standard_normal(400) * 0.05)
    floor = noise_floor(values)
    assert floor.cv == pytest.approx(0.05, rel=0.15)
    assert floor.pair_sd == pytest.approx(0.05 * math.sqrt(2), rel=0.15)
    assert (floor.runs, floor.pairs) == (400, 399)


@pytest.mark.parametrize("runs", [3, 4, 6, 10])
def test_pair_sd_of_few_runs_is_right_on_average(runs):
    rng = np.random.default_rng(2)
    sds = [noise_floor(np.exp(rng.standard_normal(runs) * 0.05)).pair_sd for _ in range(4000)]
    assert np.mean(sds) == pytest.approx(0.05 * math.sqrt(2), rel=0.12)


def test_drift_is_in_cv_but_not_in_pair_sd():
    trend = np.exp(np.arange(20) * 0.05)
    noise = np.exp(np.random.default_rng(3).standard_normal(20) * 0.02)
    with_drift, without = noise_floor(trend * noise), noise_floor(noise)
    assert with_drift.pair_sd == pytest.approx(without.pair_sd, rel=1e-9)
    assert with_drift.cv > 5 * without.cv


def test_one_odd_run_weighs_less_than_in_a_root_mean_square():
    values = np.exp(np.random.default_rng(4).standard_normal(20) * 0.02)
    odd = values.copy()
    odd[10] *= 2
    rms = float(np.diff(np.log(odd)).std(ddof=1))
    assert noise_floor(values).pair_sd < noise_floor(odd).pair_sd < 0.75 * rms


def test_identical_runs_have_no_noise_and_detect_anything():
    floor = noise_floor([5.0, 5.0, 5.0, 5.0])
    assert (floor.cv, floor.pair_sd) == (0, 0)
    assert floor.detectable(6) == 0


def test_three_runs_promise_nothing_because_two_steps_may_agree_by_chance():
    climbing = noise_floor([22.8, 23.3, 23.8])
    assert climbing.pair_sd < 0.05 * climbing.cv, "a steady climb is taken for a trend"
    assert climbing.detectable(6) is None
    assert noise_floor([22.8, 23.3, 23.8, 23.1]).detectable(6) > 0.01


@pytest.mark.parametrize("pairs", [6, 12, 24, 48])
def test_the_detectable_effect_is_found_with_the_power_that_was_stated(pairs):
    floor = NoiseFloor(cv=0.05, pair_sd=0.05 * math.sqrt(2), pairs=9, runs=10)
    effect = floor.detectable(pairs)
    design = Design(max_pairs=pairs, doubt=0.0, smallest_effect=0.0)
    ratios = paired_log_ratios(normal, rng=np.random.default_rng(1), studies=6000, pairs=pairs, cv=0.05, effect=effect)
    assert run_studies(ratios, design).higher.mean() == pytest.approx(0.82, abs=0.05)


@settings(deadline=None)  # the first use of a number of pairs computes its boundary
@given(st.floats(0.001, 0.05), st.sampled_from([2, 3, 6, 12, 13, 59, 60, 61, 400]))
def test_more_pairs_detect_less(pair_sd, pairs):
    floor = NoiseFloor(cv=pair_sd, pair_sd=pair_sd, pairs=9, runs=10)
    assert floor.detectable(pairs + 1) < floor.detectable(pairs)


@pytest.mark.parametrize("values", [[], [1.0, 1.0], [1.0, 0.0, 1.0], [1.0, math.nan, 1.0]])
def test_too_few_or_unusable_runs_are_refused(values):
    with pytest.raises(UsageError):
        noise_floor(values)


def test_senseless_questions_are_refused():
    floor = noise_floor([1.0, 1.1, 1.0])
    with pytest.raises(UsageError):
        floor.detectable(1)


@pytest.mark.parametrize("place", range(4))
@pytest.mark.parametrize("factor", [0.065, 2.8])
def test_one_run_that_stands_apart_is_found_wherever_it_is(place, factor):
    values = [100.0, 103.0, 98.0, 101.0]
    values[place] *= factor
    assert odd_run(values) == place


@pytest.mark.parametrize(
    "values",
    [
        [100.0, 103.0, 98.0, 101.0],
        [100.0, 100.0, 100.0, 130.0],  # far by the others' scatter, but no more than noise may be
        [100.0, 160.0, 70.0, 240.0],  # all differ
        [100.0, 101.0, 10.0, 10.1],  # two and two
        [100.0, 101.0, 10.0],
    ],
)
def test_runs_that_merely_scatter_have_no_odd_one(values):
    assert odd_run(values) is None


@pytest.mark.parametrize(("cv", "most"), [(0.05, 0.005), (0.2, 0.06)])
def test_normal_noise_seldom_looks_like_an_odd_run(cv, most):
    sets = np.exp(np.random.default_rng(5).standard_normal((4000, 5)) * cv)
    assert np.mean([odd_run(runs) is not None for runs in sets]) <= most


def test_runs_that_differ_too_much_tell_no_effect_rather_than_a_nonsense_one():
    floor = noise_floor([100.0, 103.0, 6.5, 101.0])
    assert floor.detectable(6) is None
    assert noise_floor([100.0, 103.0, 98.0, 101.0]).detectable(6) < 0.1


def test_the_noise_of_a_pair_as_by_hand():
    """Steps of 10, 0 and 30 hundredths lie 1/30, 4/30 and 5/30 from their mean, a ninth on average."""
    floor = noise_floor([math.exp(one) for one in (0.0, 0.1, 0.1, 0.4)])
    assert floor.pair_sd == pytest.approx(math.sqrt(math.pi / 2) / 9 * 3 / math.sqrt(8))
    assert (floor.pairs, floor.runs) == (3, 4)


@pytest.mark.parametrize(("factor", "place"), [(1.49, None), (1.51, 3), (1 / 1.49, None), (1 / 1.51, 3)])
def test_an_odd_run_is_a_factor_of_one_and_a_half_away(factor, place):
    assert odd_run([100.0, 101.0, 99.0, 100.0 * factor]) == place


@pytest.mark.parametrize(("distance", "place"), [(0.49, None), (0.51, 3), (-0.49, None), (-0.51, 3)])
def test_an_odd_run_is_five_times_as_far_as_any_of_the_others(distance, place):
    assert odd_run([math.exp(one) for one in (0.0, 0.1, -0.1, distance)]) == place


def test_an_effect_of_a_doubling_is_the_largest_that_is_told():
    known, unknown = (NoiseFloor(cv=sd, pair_sd=sd, pairs=9, runs=10) for sd in (0.35, 0.5))
    assert 0.6 < known.detectable(6) < 1.0
    assert unknown.detectable(6) is None
    assert (why_untold(3), why_untold(4)) == ("3 runs are too few to tell", "4 runs differ too much to tell")


def test_what_is_detectable_as_by_hand():
    """Student's 97.5 % and 80 % at one degree of freedom, the root of two pairs; beyond 60 the level of the 60th."""
    floor = NoiseFloor(cv=0.05, pair_sd=0.05, pairs=9, runs=10)
    assert floor.detectable(2) == pytest.approx(math.expm1((12.7062047 + 1.3763819) * 0.05 / math.sqrt(2)))
    for pairs in (3, 4, 6, 60):
        assert last_critical(pairs, 0.95) == critical_values(3, pairs, 0.95)[-1]
    last = critical_values(3, 60, 0.95)[-1]
    assert last_critical(61, 0.95) == pytest.approx(-stats.t.ppf(stats.t.cdf(-last, 59), 60), rel=1e-9)
    assert last_critical(400, 0.95) == pytest.approx(-stats.t.ppf(stats.t.cdf(-last, 59), 399), rel=1e-9)


def test_cv_is_of_a_sample():
    assert noise_floor([9.0, 10.0, 11.0]).cv == pytest.approx(0.1)


def test_the_bounds_themselves_are_no_odd_run_and_an_effect_that_is_told(monkeypatch):
    assert odd_run([1.0, 1.0, 1.0, 1.5]) is None
    assert odd_run([1.0, 1.0, 1.0, 1.5000001]) == 3
    monkeypatch.setattr(NoiseFloor, "_reach", lambda *_: math.log1p(1.0))
    assert noise_floor([1.0, 1.1, 1.0, 1.1]).detectable(6) == pytest.approx(1.0)
