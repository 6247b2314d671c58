"""The Gaussian process and its parts against closed forms and numerical derivatives."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import approx_fprime
from scipy.stats import norm

from pgdyno.optimizer.ask import log_expected_improvement, log_h
from pgdyno.optimizer.feasibility import fit_feasibility, log_probability, log_worth, safety
from pgdyno.optimizer.gp import JITTER, MEAN_VARIANCE, Scatter, density, fit
from pgdyno.optimizer.kernel import ADDITIVE, SMOOTH, distances, parts
from pgdyno.optimizer.model import scale

GROUPS = np.array([0, 1, 2, 2, 2])


def features(rows: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    words = np.eye(3)[rng.integers(0, 3, rows)]
    return np.hstack([rng.random((rows, 2)), words])


def test_covariance_is_one_at_home_symmetric_and_positive_definite() -> None:
    x = features(30)
    k = parts(distances(x, x, GROUPS), np.array([2.0, 0.5, 1.0])).total
    assert np.allclose(np.diag(k), 1.0)
    assert np.allclose(k, k.T)
    assert np.linalg.eigvalsh(k).min() > -1e-9
    assert pytest.approx(1.0) == SMOOTH + ADDITIVE


def test_two_different_words_are_at_distance_one() -> None:
    words = np.hstack([np.zeros((3, 2)), np.eye(3)])
    d = distances(words, words, GROUPS)
    assert np.allclose(d.squared[:, :, 2], 1 - np.eye(3))


def test_the_gradient_of_the_posterior_is_its_numerical_derivative() -> None:
    x, rng = features(14), np.random.default_rng(1)
    y, z = rng.normal(size=14), 0.5 * rng.normal(size=6)
    model = density(x, y, GROUPS)
    numeric = approx_fprime(z, lambda at: model.loss(at)[0], 1e-6)
    assert np.allclose(model.loss(z)[1], numeric, atol=2e-4)


def test_prediction_equals_the_textbook_solution() -> None:
    x, at, rng = features(12), features(5, seed=3), np.random.default_rng(2)
    y, counts = rng.normal(size=12), rng.integers(1, 4, 12).astype(float)
    posterior = fit(x, y, GROUPS, counts=counts)
    h = posterior.hyper
    k = h.amplitude * parts(distances(x, x, GROUPS), h.weights).total + MEAN_VARIANCE
    noisy = k + np.diag(h.noise / counts + JITTER)
    cross = h.amplitude * parts(distances(at, x, GROUPS), h.weights).total + MEAN_VARIANCE
    mean, sd = posterior.predict(at)
    assert np.allclose(mean, cross @ np.linalg.solve(noisy, y))
    variance = h.amplitude + MEAN_VARIANCE - np.diag(cross @ np.linalg.solve(noisy, cross.T))
    assert np.allclose(sd**2, variance)
    assert np.allclose(np.diagonal(posterior.covariance(at)), variance)


def test_the_gradient_holds_with_the_scatter_of_repeats() -> None:
    x, rng = features(10), np.random.default_rng(4)
    y, z = rng.normal(size=10), 0.5 * rng.normal(size=6)
    model = density(x, y, GROUPS, rng.integers(1, 5, 10).astype(float), Scatter(squares=1.3, freedom=12.0))
    assert np.allclose(model.loss(z)[1], approx_fprime(z, lambda at: model.loss(at)[0], 1e-6), atol=2e-4)


def test_repeats_that_scatter_are_believed_about_the_noise() -> None:
    x, y = features(16), np.random.default_rng(6).normal(size=16)
    quiet, loud = (fit(x, y, GROUPS, scatter=Scatter(100 * sd**2, 100.0)).hyper.noise for sd in (0.1, 1.0))
    assert quiet < 0.05
    assert loud == pytest.approx(1.0, rel=0.3)


def test_surprise_is_the_distance_from_a_prediction_without_the_point() -> None:
    x, y = features(9), np.random.default_rng(7).normal(size=9)
    posterior = fit(x, y, GROUPS)
    h, others = posterior.hyper, np.arange(9) != 3
    k = h.amplitude * parts(distances(x, x, GROUPS), h.weights).total + MEAN_VARIANCE + (h.noise + JITTER) * np.eye(9)
    weights = np.linalg.solve(k[np.ix_(others, others)], k[others, 3])
    expected = (y[3] - weights @ y[others]) / np.sqrt(k[3, 3] - weights @ k[others, 3])
    assert posterior.surprise()[3] == pytest.approx(expected)


def test_lead_is_the_joint_posterior_of_a_difference() -> None:
    x, y = features(8), np.random.default_rng(8).normal(size=8)
    posterior = fit(x, y, GROUPS)
    lead, sd = posterior.lead(2)
    contrast = np.eye(8) - np.eye(8)[2]
    assert np.allclose(lead, contrast @ posterior.predict(x)[0])
    assert np.allclose(sd**2, np.diag(contrast @ posterior.covariance(x) @ contrast.T), atol=1e-9)
    assert (lead[2], sd[2]) == (0, pytest.approx(0, abs=1e-5))


def test_a_fit_finds_which_knob_matters() -> None:
    rng = np.random.default_rng(5)
    x = rng.random((40, 6))
    y = np.sin(5 * x[:, 2]) + 0.05 * rng.normal(size=40)
    hyper = fit(x, (y - y.mean()) / y.std(), np.arange(6)).hyper
    assert int(np.argmax(hyper.weights)) == 2
    assert hyper.weights[2] > 5 * np.sort(hyper.weights)[-2]


def test_a_fit_survives_constant_and_repeated_points() -> None:
    x = np.tile(features(2), (6, 1))
    for y in (np.zeros(12), np.tile([1.0, -1.0], 6)):
        mean, sd = fit(x, y, GROUPS).predict(x)
        assert np.isfinite(mean).all()
        assert (sd > 0).all()


def test_log_h_agrees_with_the_definition_and_never_overflows() -> None:
    t = np.linspace(-6, 6, 61)
    direct = norm.pdf(t) + t * norm.cdf(t)
    assert np.allclose(log_h(t), np.log(direct), rtol=1e-6)
    far = log_h(np.array([-1e12, -1e6, -1e4, -40.0, 1e6]))
    assert np.isfinite(far).all()
    assert (np.diff(far) > 0).all()


def test_log_h_is_continuous_where_its_formulas_meet() -> None:
    for seam in (-1.0, -1e3):
        below, above = log_h(np.array([seam * (1 + 1e-7), seam * (1 - 1e-7)]))
        assert above - below == pytest.approx(0, abs=1e-3 * abs(seam))


def test_expected_improvement_is_the_integral_it_stands_for() -> None:
    mean, sd, best = 0.3, 0.7, 0.9
    wanted, _ = quad(lambda f: max(f - best, 0) * norm.pdf(f, mean, sd), best, best + 10)
    got = log_expected_improvement(np.array([mean]), np.array([sd]), best)
    assert np.exp(got[0]) == pytest.approx(wanted, rel=1e-6)


def test_feasibility_learns_a_half_space() -> None:
    x = np.random.default_rng(4).random((40, 3))
    model = fit_feasibility(x, x[:, 1] < 0.6, np.arange(3))
    probes = np.array([[0.5, 0.1, 0.5], [0.5, 0.95, 0.5]])
    assert model is not None
    good, bad = np.exp(log_probability(*model.predict(probes)))
    assert good > 0.85
    assert bad < 0.3


def test_the_worth_of_a_point_is_its_chance_until_it_nears_the_cliff() -> None:
    x = np.random.default_rng(4).random((40, 3))
    model = fit_feasibility(x, x[:, 1] < 0.6, np.arange(3))
    along = np.column_stack([np.full(9, 0.5), np.linspace(0.1, 0.9, 9), np.full(9, 0.5)])
    assert model is not None
    chance, worth = (each(*model.predict(along)) for each in (log_probability, log_worth))
    assert worth[0] == chance[0]
    assert worth[-1] < chance[-1] - 5
    assert (worth <= chance).all()


def test_without_failures_there_is_nothing_to_learn_of_them() -> None:
    assert fit_feasibility(features(5), np.ones(5, dtype=bool), GROUPS) is None


def test_targets_keep_the_order_and_raise_only_the_hopeless() -> None:
    values = np.array([0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, -50.0])
    scaled = scale(values)
    restored = scaled.center + scaled.spread * scaled.targets
    assert np.allclose(restored[:7], values[:7])
    assert -2 < restored[7] < 0


def test_the_floor_does_not_rise_as_good_points_gather() -> None:
    first = np.array([0.0, -0.4, 0.1, -0.6, 0.2, -0.1, 0.3, 0.05, -0.2, 0.15])
    later = np.concatenate([first, np.full(40, 0.9)])
    scaled = scale(later)
    assert np.allclose(scaled.center + scaled.spread * scaled.targets, later)


def test_equal_targets_are_zero() -> None:
    assert (scale(np.full(5, 3.0)).targets == 0).all()


def test_the_price_of_a_label_as_by_hand() -> None:
    """With a variance of 0.15 and 0.1 more a label of 1.2 lies one deviation above 0.7, half of it beyond the margin.

    Half a deviation below costs five; what is left is the chance of a label above 0.
    """
    sd = np.sqrt(np.array([0.15, 0.15, 0.15]))
    means = np.array([1.2, 0.95, 0.7])
    assert safety(means, sd) == pytest.approx([0.5, 0.0, -0.5])
    chance = np.log(norm.cdf([2.4, 1.9, 1.4]))
    assert log_probability(means, sd) == pytest.approx(chance)
    assert log_worth(means, sd) == pytest.approx(chance - [0, 0, 5])
