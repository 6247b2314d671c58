"""The critical values: exact where a textbook has them, and verified by Monte Carlo where it has not."""

import itertools

import numpy as np
import pytest
from scipy.special import stdtrit

from fix_postgres import NIGHT
from pgdyno.errors import UsageError
from pgdyno.stats import boundary
from pgdyno.stats.boundary import FIRST_LOOK_SHARE, critical_values, crossing_probability


@pytest.mark.parametrize("pairs", [2, 3, 10, 40])
@pytest.mark.parametrize("confidence", [0.9, 0.95, 0.99])
def test_boundary_of_one_look_is_students_quantile(pairs, confidence):
    (critical,) = critical_values(pairs, pairs, confidence)
    assert critical == pytest.approx(-stdtrit(pairs - 1, (1 - confidence) / 2), rel=1e-3)


@pytest.mark.parametrize(
    ("min_pairs", "max_pairs", "confidence"),
    [(3, 6, 0.95), (3, 8, 0.99), (3, 12, 0.9), (3, 24, 0.95), (6, 24, 0.95), (3, 48, 0.95), (2, 12, 0.9), (4, 48, 0.9)],
)
def test_boundary_keeps_the_error_on_simulated_studies(min_pairs, max_pairs, confidence):
    studies = 40_000
    x = np.random.default_rng(max_pairs).standard_normal((studies, max_pairs))
    n = np.arange(1, max_pairs + 1)
    mean = np.cumsum(x, axis=1) / n
    squares = np.cumsum(x * x, axis=1) - n * mean**2
    t = np.abs(mean[:, min_pairs - 1 :]) / np.sqrt((squares / np.maximum(n - 1, 1) / n)[:, min_pairs - 1 :])
    crossed = (t > np.array(critical_values(min_pairs, max_pairs, confidence))).any(axis=1).mean()
    error = 1 - confidence
    assert crossed == pytest.approx(error, abs=4 * np.sqrt(error * confidence / studies))


def test_boundary_probability_of_given_values_agrees_with_simulation():
    critical = [6.0, 4.0, 3.0, 2.5]
    studies = 100_000
    x = np.random.default_rng(5).standard_normal((studies, 6))
    crossed = np.zeros(studies, dtype=bool)
    for n, value in zip(range(3, 7), critical, strict=True):
        crossed |= np.abs(x[:, :n].mean(axis=1)) > value * x[:, :n].std(axis=1, ddof=1) / np.sqrt(n)
    expected = crossing_probability(critical, 3)
    assert crossed.mean() == pytest.approx(expected, abs=4 * np.sqrt(expected / studies))


CONFIDENCES = (0.8, 0.9, 0.95, 0.99, 0.9975)
DESIGNS = {
    *itertools.product((6, 8, 12, 24), CONFIDENCES),
    *(itertools.product((40, 48, 100), CONFIDENCES) if NIGHT else ((40, 0.8), (48, 0.95), (100, 0.9975))),
}


@pytest.mark.parametrize(("max_pairs", "confidence"), sorted(DESIGNS))
def test_boundary_solves_for_the_error_of_any_design(max_pairs, confidence):
    critical = critical_values(3, max_pairs, confidence)
    assert len(critical) == max_pairs - 2
    assert crossing_probability(critical, 3) == pytest.approx(1 - confidence, rel=1e-4)


def test_it_is_solved_for_in_fewer_steps_than_halving_takes(monkeypatch):
    """Each evaluation integrates over all looks: halving alone would take a study's start several times as long."""
    evaluated = []

    def counted(*words):
        evaluated.append(words)
        return crossing_probability(*words)

    monkeypatch.setattr(boundary, "crossing_probability", counted)
    critical_values(3, 24, 0.9321)
    assert len(evaluated) <= 12
    for design in ((3, 12, 0.9321), (2, 12, 0.9321), (3, 8, 0.8123), (3, 24, 0.9912)):
        critical_values(*design)
    assert len(evaluated) <= 32, "halving takes about 25 for each"


def test_one_look_at_two_pairs_with_the_highest_confidence_has_an_end(monkeypatch):
    """There the rounding of the probability is beyond what is asked of it: the two ends meet first."""
    evaluated = []

    def counted(*words):
        evaluated.append(words)
        return crossing_probability(*words)

    monkeypatch.setattr(boundary, "crossing_probability", counted)
    assert critical_values(2, 2, 0.99999) == (pytest.approx(63661.977, rel=1e-4),)
    assert len(evaluated) < 45


@pytest.mark.parametrize("max_pairs", [24, 48])
@pytest.mark.parametrize("confidence", [0.9, 0.95, 0.99])
def test_the_first_look_spends_its_share_of_the_error_and_no_more(max_pairs, confidence):
    """Both sides together: three lucky pairs are the easiest way to a claim."""
    first = critical_values(3, max_pairs, confidence)[:1]
    assert crossing_probability(first, 3) == pytest.approx(FIRST_LOOK_SHARE * (1 - confidence), rel=1e-3)


def test_boundary_asks_for_more_at_every_look_when_it_is_stricter():
    loose, strict = critical_values(3, 24, 0.95), critical_values(3, 24, 0.99)
    assert all(a < b for a, b in zip(loose, strict, strict=True))


@pytest.mark.parametrize(
    ("lo", "hi", "confidence"), [(1, 5, 0.95), (6, 5, 0.95), (3, 1001, 0.95), (3, 5, 0.79), (3, 5, 1)]
)
def test_boundary_refuses_impossible_designs(lo, hi, confidence):
    with pytest.raises(UsageError):
        critical_values(lo, hi, confidence)
