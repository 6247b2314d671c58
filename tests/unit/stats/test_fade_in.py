"""An effect that still grows is seen, equal halves are not taken for one."""

import numpy as np
import pytest

from pgdyno.stats.fade_in import ERROR, LOOKS, fades_in


def studies(shift, rng, pairs=32, count=400, sd=0.08):
    first, second = rng.normal(0, sd, (count, pairs)), rng.normal(shift, sd, (count, pairs))
    return [any(fades_in(a[:look], b[:look]) for look in LOOKS) for a, b in zip(first, second, strict=True)]


def test_equal_halves_raise_an_alarm_in_at_most_three_of_a_hundred():
    share = np.mean(studies(0.0, np.random.default_rng(1)))
    assert share <= 0.03 + 6 * np.sqrt(0.03 * 0.97 / 400)


@pytest.mark.parametrize("shift", [-0.15, 0.15])
def test_an_effect_that_comes_late_is_seen(shift):
    assert np.mean(studies(shift, np.random.default_rng(2))) > 0.9


def test_one_looks_at_the_named_pairs_only():
    grown = [0.0, 0.01] * 16, [0.5, 0.52] * 16
    assert [pairs for pairs in range(33) if fades_in(grown[0][:pairs], grown[1][:pairs])] == list(LOOKS)
    assert not fades_in([0.1] * 8, [0.1] * 8)
    assert not fades_in([0.1] * 8, [0.1] * 7)
    assert not fades_in([0.5, 0.51, 0.52, 0.53] * 2, [0.51, 0.5, 0.53, 0.52] * 2), "it was there at once"


@pytest.mark.parametrize(("mean", "is_seen"), [(1.3222, False), (1.3232, True), (-1.3222, False), (-1.3232, True)])
def test_the_look_at_eight_pairs_is_students_at_one_percent(mean, is_seen):
    """Seven degrees of freedom: 3.499483; alternating by 1 their error is 1 over the root of 7, so 1.322680 is seen."""
    second = [mean + (1 if pair % 2 else -1) for pair in range(8)]
    assert fades_in([0.0] * 8, second) is is_seen


def test_the_looks_are_those_that_are_told():
    assert LOOKS == (8, 16, 32)
    assert pytest.approx(3 * ERROR) == 0.03
