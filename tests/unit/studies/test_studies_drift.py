"""Scores are relative to the baseline as it was at the time."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgdyno.studies.pairs.drift import relative_scores


@given(st.floats(-0.001, 0.001), st.floats(0.2, 5), st.integers(3, 12))
def test_exponential_drift_cancels(slope, gain, count):
    baselines = [(60.0 * i, 100 * math.exp(slope * 60 * i)) for i in range(count)]
    middle = 60.0 * (count - 1) / 2
    ((score,), _) = relative_scores([(middle, gain * 100 * math.exp(slope * middle))], baselines)
    assert score == pytest.approx(math.log(gain), abs=abs(slope) * 60 + 1e-9)


def test_one_wild_baseline_does_not_move_the_level():
    baselines = [(0.0, 100.0), (60.0, 100.0), (120.0, 10.0), (180.0, 100.0), (240.0, 100.0)]
    assert relative_scores([(120.0, 200.0)], baselines)[0] == [pytest.approx(math.log(2))]


def test_before_and_after_the_baselines_the_level_is_held():
    scores = relative_scores([(-50.0, 200.0), (900.0, 200.0)], [(0.0, 100.0)])
    assert scores == ([pytest.approx(math.log(2))] * 2, [0.0])


def test_no_trials_no_scores():
    assert relative_scores([], [(0.0, 1.0)]) == ([], [0.0])


def scattered(drift, seed, noise=0.05):
    """Score a search on a flat space: six baselines, then one in six trials; the level goes by `drift` noises."""
    rng = np.random.default_rng(seed)
    is_baseline = np.array([True] * 6 + [place == rng.integers(6) for _ in range(8) for place in range(6)])
    count = is_baseline.size
    figures = 100 * np.exp(noise * (drift * np.linspace(0, 1, count) + rng.normal(size=count)))
    timed = [(20.0 * place, float(figure)) for place, figure in enumerate(figures)]
    trials = [one for one, own in zip(timed, is_baseline, strict=True) if not own]
    baselines = [one for one, own in zip(timed, is_baseline, strict=True) if own]
    scores, repeats = (np.array(each) / noise for each in relative_scores(trials, baselines))
    raw = np.log([figure for _, figure in trials]) / noise
    centred = scores - scores.mean()
    return scores.var(ddof=1), float((centred[1:] * centred[:-1]).mean()), repeats.var(ddof=1), raw.var(ddof=1)


def test_without_drift_the_level_adds_no_noise_and_hides_none():
    """The running median of three added 0.2 to 0.4 of the noise, tied neighbours together and took from repeats."""
    variance, neighbours, repeats, _ = np.mean([scattered(0, seed) for seed in range(200)], axis=0)
    assert variance == pytest.approx(1.0, abs=0.06)
    assert neighbours == pytest.approx(0.0, abs=0.06)
    assert 1.0 < repeats < 1.25


@pytest.mark.parametrize(("drift", "most"), [(3, 0.75), (6, 0.4), (20, 0.1)])
def test_with_drift_the_level_saves_most_of_what_it_would_cost(drift, most):
    variance, _, repeats, raw = np.mean([scattered(drift, seed) for seed in range(100)], axis=0)
    assert variance < most * raw
    assert variance < repeats * 1.1
