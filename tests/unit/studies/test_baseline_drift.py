"""The baseline between the steps: a drift is told, noise is not."""

import random

import pytest

from pgdyno.studies.pairs.drift import find_drift


def rounds(shift, *, cv=0.01, seed=1, count=5):
    chance = random.Random(seed)
    return [[100 * (1 + shift * place / (count - 1)) * (1 + chance.gauss(0, cv)) for _ in range(4)]
            for place in range(count)]  # fmt: skip


@pytest.mark.requirement("R-EXP-12")
def test_a_drift_of_five_percent_is_told():
    found = find_drift(rounds(0.05))
    assert found.drifted
    assert "the baseline drifted" in found.sentence()


def test_a_baseline_that_holds_still_warns_rarely():
    assert sum(bool(find_drift(rounds(0.0, seed=seed)).drifted) for seed in range(300)) <= 6


@pytest.mark.parametrize("few", [[], [[1.0]], [[1.0], [2.0]]])
def test_too_few_runs_tell_nothing(few):
    found = find_drift(few)
    assert not found.drifted
    assert found.sentence() == ""


def test_a_shift_below_the_smallest_effect_is_no_drift():
    assert not find_drift([[100.0, 100.01, 99.99]] + [[101.0, 101.01]] * 3, smallest_effect=0.02).drifted
