"""Scores are relative to the baseline as it was at the time."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgdyno.studies.drift import relative_scores


@given(st.floats(-0.001, 0.001), st.floats(0.2, 5), st.integers(3, 12))
def test_exponential_drift_cancels(slope, gain, count):
    baselines = [(60.0 * i, 100 * math.exp(slope * 60 * i)) for i in range(count)]
    middle = 60.0 * (count - 1) / 2
    (score,) = relative_scores([(middle, gain * 100 * math.exp(slope * middle))], baselines)
    assert score == pytest.approx(math.log(gain), abs=abs(slope) * 60 + 1e-9)


def test_one_wild_baseline_does_not_move_the_level():
    baselines = [(0.0, 100.0), (60.0, 100.0), (120.0, 10.0), (180.0, 100.0), (240.0, 100.0)]
    assert relative_scores([(120.0, 200.0)], baselines) == [pytest.approx(math.log(2))]


def test_before_and_after_the_baselines_the_level_is_held():
    assert relative_scores([(-50.0, 200.0), (900.0, 200.0)], [(0.0, 100.0)]) == [pytest.approx(math.log(2))] * 2


def test_no_trials_no_scores():
    assert relative_scores([], [(0.0, 1.0)]) == []
