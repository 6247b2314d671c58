"""What a machine can show: held against the verdict rule itself by simulation."""

import math
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fix_postgres import NIGHT
from noise_models import normal, paired_log_ratios
from pgdyno.errors import UsageError
from pgdyno.stats.detect import (
    SecondsSeries,
    WindowNoise,
    _law,
    at_most,
    detectable,
    neighbour_correlation,
    noise_by_window,
    pairs_for,
    run_figures,
)
from pgdyno.stats.noise import last_critical, noise_floor
from pgdyno.stats.sequential import Design
from simulation import run_studies

pytestmark = pytest.mark.requirement("R-EXP-11")


def design(pairs, **more):
    return Design(smallest_effect=0.0, min_pairs=4, max_pairs=pairs, **more)


@pytest.mark.parametrize("pairs", [6, 12, 24, 48])
@pytest.mark.parametrize("cv", [0.02, 0.1])
def test_the_effect_that_is_named_is_found_with_about_the_stated_power(pairs, cv):
    effect = detectable(cv * math.sqrt(2), pairs, design(pairs, confidence=0.95))
    rng = np.random.default_rng(5)
    ratios = paired_log_ratios(normal, rng=rng, studies=2000, pairs=pairs, cv=cv, effect=effect)
    found = run_studies(ratios, design(pairs, confidence=0.95), give_up=False).higher.mean()
    assert 0.75 <= found <= 0.97


@pytest.mark.parametrize("cv", [0.02, 0.3])
def test_equal_runs_are_called_different_no_more_often_than_stated(cv):
    rng = np.random.default_rng(6)
    ratios = paired_log_ratios(normal, rng=rng, studies=4000, pairs=24, cv=cv)
    assert run_studies(ratios, Design(confidence=0.95, min_pairs=4, max_pairs=24)).claims <= 0.055


@settings(max_examples=30)
@given(st.floats(0.001, 0.2), st.sampled_from([6, 12, 24, 48]))
def test_more_pairs_and_less_noise_show_smaller_effects(sd, pairs):
    one = detectable(sd, pairs, design(48))
    more, less = detectable(sd, 2 * pairs, design(48)), detectable(sd / 2, pairs, design(48))
    assert more is None or one is None or more < one
    assert less is None or one is None or less < one


@settings(max_examples=20)
@given(st.floats(0.005, 0.2), st.floats(0.02, 0.5))
def test_the_pairs_for_an_effect_show_it_and_one_fewer_does_not(sd, effect):
    pairs = pairs_for(sd, effect, design(48))
    if pairs is None:
        assert (detectable(sd, 1000, design(48)) or math.inf) > effect
        return
    assert detectable(sd, pairs, design(48)) <= effect
    before = detectable(sd, pairs - 1, design(48))
    assert before is None or before > effect


def test_few_pairs_and_great_noise_show_nothing():
    assert detectable(0.01, 3, design(48)) is None
    assert detectable(2.0, 6, design(48)) is None
    assert pairs_for(5.0, 0.02, design(48)) is None


def runs(rng, count, seconds, *, second_sd=0.0, run_sd=0.0):
    made = []
    for _ in range(count):
        level = 1000 * math.exp(rng.normal(0, run_sd))
        made.append(SecondsSeries(level * np.exp(rng.normal(0, second_sd, seconds)), np.ones(seconds)))
    return made


def by_window(found):
    return {noise.window_s: noise for noise in found}


def test_noise_of_seconds_falls_with_the_root_of_the_window():
    found = by_window(noise_by_window(runs(np.random.default_rng(1), 200, 32, second_sd=0.2)))
    assert list(found) == [2, 4, 8, 16, 32, 64, 128]
    assert [noise.measured for noise in found.values()] == [True] * 5 + [False] * 2
    for short, long in ((2, 8), (4, 16), (8, 32)):
        assert found[short].pair_sd / found[long].pair_sd == pytest.approx(2, rel=0.25)
    assert found[128].pair_sd == pytest.approx(0.2 * math.sqrt(2 / 128), rel=0.4)


def test_noise_between_runs_is_helped_by_no_window():
    found = by_window(noise_by_window(runs(np.random.default_rng(2), 200, 16, run_sd=0.1)))
    assert list(found)[:4] == [2, 4, 8, 16]
    for noise in found.values():
        assert noise.pair_sd == pytest.approx(0.1 * math.sqrt(2), rel=0.15)


def test_noise_that_falls_faster_than_windows_grow_is_carried_on_without_a_floor():
    """Every four seconds make up for themselves. A line with a negative floor, its slope kept, promises too little."""
    rng, course = np.random.default_rng(4), np.array([1, 1, -1, -1] * 2)
    found = noise_by_window([SecondsSeries(1000 * (1 + rng.normal(0, 0.1) * course), np.ones(8)) for _ in range(20)])
    x, y = np.array([(1 / n.window_s, n.pair_sd**2) for n in found if n.measured]).T
    assert len(found) > 3, "and some are carried on to"
    for noise in found[3:]:
        assert noise.pair_sd**2 * noise.window_s == pytest.approx((x @ y) / (x @ x))


def test_a_steady_drift_is_no_noise():
    drift = [SecondsSeries(np.full(8, 1000 * 1.01**i), np.ones(8)) for i in range(10)]
    assert noise_by_window(drift)[0].pair_sd < 1e-9
    assert neighbour_correlation([run.above.sum() for run in drift]) > 0.5


def test_a_ratio_of_sums_is_the_figure_of_a_part():
    odd = [SecondsSeries(np.array([1.0, 3.0, 1.0, 3.0]), np.array([1.0, 1.0, 1.0, 1.0])) for _ in range(4)]
    assert by_window(noise_by_window(odd))[2].pair_sd == 0


def test_few_runs_leave_room_above():
    assert at_most(0.1, 4) > at_most(0.1, 20) > 0.1


@cache
def power_of(pairs, cv, effect):
    """The power of a comparison as it is run: it stops early, gives up, and may call a small effect equivalent."""
    rng = np.random.default_rng(pairs)
    planned = Design(smallest_effect=effect, confidence=0.95, min_pairs=4, max_pairs=pairs)
    ratios = paired_log_ratios(normal, rng=rng, studies=200, pairs=pairs, cv=cv, effect=effect)
    return float(run_studies(ratios, planned).higher.mean())


def test_what_is_promised_of_a_measured_noise_holds_for_the_comparisons_that_follow():
    cv, effect, runs_made, rng = 0.02, 0.05, 12, np.random.default_rng(9)
    planned = Design(smallest_effect=effect, confidence=0.95, min_pairs=4)
    asked = [noise_floor(np.exp(rng.normal(0, cv, runs_made))).pair_sd for _ in range(60 if NIGHT else 20)]
    promised = [power_of(pairs_for(sd, effect, planned), cv, effect) for sd in asked]
    assert 0.7 <= np.mean(promised) <= 0.95
    sure = [power_of(pairs_for(at_most(sd, runs_made), effect, planned), cv, effect) for sd in asked]
    assert np.mean([power >= 0.75 for power in sure]) >= 0.85  # a share of 200 studies is known to 3 %
    assert np.mean(sure) > np.mean(promised)


def test_too_few_runs_or_seconds_are_refused():
    with pytest.raises(UsageError):
        noise_by_window(runs(np.random.default_rng(3), 2, 10))
    with pytest.raises(UsageError):
        noise_by_window(runs(np.random.default_rng(3), 5, 1))
    with pytest.raises(UsageError, match="0 runs of at least 0 s"):
        noise_by_window([])
    assert neighbour_correlation([1.0, 2.0]) is None


def test_the_room_above_a_scatter_as_by_hand():
    """Twelve runs are seven degrees of freedom, of which 2.83311 is exceeded by nine in ten; three runs are one."""
    assert at_most(1.0, 12) == pytest.approx(math.sqrt(7 / 2.833107), rel=1e-5)
    assert at_most(0.5, 3) == pytest.approx(0.5 * math.sqrt(1 / 0.0157908), rel=1e-5)
    assert at_most(1.0, 12, confidence=0.5) == pytest.approx(math.sqrt(7 / 6.345811), rel=1e-5)


def test_neighbours_that_take_turns_are_as_unlike_as_can_be():
    turns = [math.e, 1.0] * 3
    assert neighbour_correlation(turns) == pytest.approx(-5 / 6)
    assert neighbour_correlation(turns[:5]) is None
    assert neighbour_correlation([2.0] * 6) is None


def test_runs_of_the_shortest_window_and_three_of_them_are_enough():
    found = noise_by_window(runs(np.random.default_rng(3), 3, 2, second_sd=0.1))
    assert [(one.window_s, one.measured) for one in found] == [(2, True), (4, False), (8, False)]


@pytest.mark.parametrize(
    ("by_window", "law"),
    [
        ({2: math.sqrt(0.05), 4: math.sqrt(0.03)}, (0.01, 0.08)),
        ({2: 0.1, 4: 0.2}, (0.025, 0.0)),
        ({2: 0.2, 4: 0.1}, (0.0, 0.072)),
        ({4: 0.2, 8: math.inf}, (0.04, 0.0)),
        ({4: math.inf}, (math.inf, 0.0)),
    ],
)
def test_what_length_helps_against_and_what_it_does_not_are_never_below_zero(by_window, law):
    """By hand: a line through both variances, and where one of its ends is below 0 the best that has it at 0."""
    found = [WindowNoise(float(window), sd, True) for window, sd in by_window.items()]
    assert _law(found) == pytest.approx(law)


def test_two_pairs_are_the_fewest_and_the_design_may_ask_for_more():
    assert detectable(0.001, 2, Design(smallest_effect=0.0, doubt=0.0, min_pairs=2)) is not None
    assert detectable(0.01, 4, design(48)) is not None


def test_the_effect_of_ten_pairs_as_by_hand():
    """A doubt of 0.9 is a scatter of 0.1 more for ten pairs; of nine degrees of freedom 0.883404 is the 80th part."""
    reach = (last_critical(10, 0.95) * 0.05 * math.sqrt(5) + 0.883404 * 0.05) / math.sqrt(10)
    assert detectable(0.05, 10, design(48, doubt=0.9)) == pytest.approx(math.expm1(reach), rel=1e-5)


@pytest.mark.parametrize(("shown_by", "told"), [(4, 4), (5, 5), (1000, 1000), (1001, None)])
def test_a_thousand_pairs_are_the_most_that_are_named(shown_by, told):
    assert pairs_for(0.1, detectable(0.1, shown_by, design(48)), design(48)) == told


def series(*seconds):
    return SecondsSeries(np.array(seconds), np.full(len(seconds), 4.0))


def test_a_part_in_which_a_run_did_nothing_is_left_out_and_runs_that_never_did_anything_tell_nothing():
    """Of windows of two seconds the second alone, in which the figures are 1/4, 1/2 and 1/4."""
    twice = SecondsSeries(np.array([10.0, 14, 4, 4]), np.full(4, 8.0))
    made = [series(0.0, 0.0, 1.0, 1.0), twice, series(9.0, 1.0, 1.0, 1.0)]
    found = by_window(noise_by_window(made))
    assert found[2].pair_sd == pytest.approx(noise_floor([0.25, 0.5, 0.25]).pair_sd)
    assert found[4].pair_sd == pytest.approx(noise_floor([2, 16, 12]).pair_sd)
    assert run_figures(made).tolist() == [0.125, 1.0, 0.75]
    assert [one.pair_sd for one in noise_by_window([series(0.0, 0.0)] * 3)] == [math.inf] * 3
