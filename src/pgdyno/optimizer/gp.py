"""A Gaussian process over the tried points, at the mode of its hyperparameters.

The hyperparameters are normal variables z, from which amplitude, noise and one weight per group of features unfold:
the prior is a log-normal on each, and a length-scale that all knobs share moves them together. Targets are
standardised before they come here (`model.scale`). Equations: Rasmussen and Williams 2006, chapters 2 and 5.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.linalg import LinAlgError, cho_solve, cholesky, solve_triangular
from scipy.linalg.lapack import dpotrf, dpotrs
from scipy.optimize import minimize

from pgdyno.optimizer.kernel import (
    Cube,
    Distances,
    Groups,
    Matrix,
    Rows,
    Vector,
    along,
    distances,
    parts,
    weight_gradient,
    weighted_total,
)

JITTER = 1e-8
MEAN_VARIANCE = 1.0
"""The prior variance of the constant mean: standardised targets centre on 0 give or take 1."""
LN_SCALE_BOUND = 5.0
"""Length-scales past e^5 of a knob's whole range say the same: no effect. The bounds keep the arithmetic finite."""
Z_BOUND = 8.0
STEPS = 60
"""The most steps of the search for the mode; it seldom needs half."""
WORST_LOSS = 1e10
"""What that search is told where the covariance is not positive definite."""


@dataclass(frozen=True, slots=True)
class Prior:
    """Log-normal priors: medians, and spreads in ln.

    The length-scale's median is near 1 (the whole range of a knob) whatever the number of knobs: priors that grow with
    the dimension put their median where every signal is explained as noise.
    """

    scale_median: float = 1.2
    scale_spread: float = 1.0
    shared_spread: float = 0.7
    amplitude_median: float = 1.0
    amplitude_spread: float = 0.7
    noise_median: float = 0.15
    noise_spread: float = 1.0


PRIOR = Prior()


@dataclass(frozen=True, slots=True)
class Hyperparameters:
    """Weights per group (inverse squared length-scales), and the variances of signal and noise."""

    weights: Vector
    amplitude: float
    noise: float


@dataclass(frozen=True, slots=True)
class Posterior:
    """A fitted process: the points, their hyperparameters, and the factors that predictions need."""

    x: Matrix
    groups: Groups
    hyper: Hyperparameters
    factor: Matrix
    alpha: Vector

    def predict(self, x: Matrix) -> tuple[Vector, Vector]:
        """Return mean and standard deviation of the noise-free value at each row of x."""
        return self._given(self._prior(x, self.x))

    def on_grid(self, tables: Sequence[Matrix]) -> OnGrid:
        """Return the same predictions for rows of a grid, whose values have these coordinates."""
        return OnGrid(self, along(tables, self.x, self.groups, self.hyper.weights))

    def given(self, squared: Matrix, single: Matrix) -> tuple[Vector, Vector]:
        """Return mean and standard deviation at points of which the weighted distances to the own ones are known."""
        return self._given(self.hyper.amplitude * weighted_total(squared, single) + MEAN_VARIANCE)

    def _given(self, k: Matrix) -> tuple[Vector, Vector]:
        v = solve_triangular(self.factor, k.T, lower=True, check_finite=False)
        variance = self.hyper.amplitude + MEAN_VARIANCE - np.einsum("ij,ij->j", v, v)
        return k @ self.alpha, np.sqrt(np.maximum(variance, 1e-12))

    def lead(self, over: int) -> tuple[Vector, Vector]:
        """Return mean and standard deviation of each own point's value less that of the own point `over`."""
        joint, mean = self.covariance(self.x), self.predict(self.x)[0]
        own = np.diag(joint)
        variance = own + own[over] - 2 * joint[:, over]
        return mean - mean[over], np.sqrt(np.maximum(variance, 1e-12))

    def less(self, x: Matrix, than: Matrix) -> tuple[Vector, Vector]:
        """Return mean and standard deviation of the value at each row of x less that at the one row `than`."""
        k, k_than = self._prior(x, self.x), self._prior(than, self.x)
        v = solve_triangular(self.factor, (k - k_than).T, lower=True, check_finite=False)
        variance = 2 * (self.hyper.amplitude + MEAN_VARIANCE - self._prior(x, than)[:, 0])
        return (k - k_than) @ self.alpha, np.sqrt(np.maximum(variance - np.einsum("ij,ij->j", v, v), 0.0))

    def surprise(self) -> Vector:
        """Return how far each target lies from what all others predict for it, in standard deviations."""
        inverse = cho_solve((self.factor, True), np.eye(len(self.x)), check_finite=False)
        return np.asarray(self.alpha / np.sqrt(np.diag(inverse)))

    def covariance(self, x: Matrix) -> Matrix:
        """Return the joint posterior covariance of the noise-free values at the rows of x."""
        v = solve_triangular(self.factor, self._prior(self.x, x), lower=True, check_finite=False)
        return np.asarray(self._prior(x, x) - v.T @ v)

    def _prior(self, a: Matrix, b: Matrix) -> Matrix:
        kernel = parts(distances(a, b, self.groups), self.hyper.weights)
        return self.hyper.amplitude * kernel.total + MEAN_VARIANCE


@dataclass(frozen=True, slots=True)
class Scatter:
    """What repeats of points say about the noise: squared deviations from their points' means, and how many are free.

    `squares` are in units of the targets; `freedom` is the number of measurements less the number of points.
    """

    squares: float = 0.0
    freedom: float = 0.0


NO_SCATTER = Scatter()


@dataclass(frozen=True, slots=True)
class OnGrid:
    """Predictions for rows of a grid by look-up: a thousand candidates share the few values that each knob has."""

    posterior: Posterior
    shares: list[Cube]
    """What each value of each knob adds to the distances from `along`: (squared and single, values, own points)."""

    def predict(self, rows: Rows) -> tuple[Vector, Vector]:
        """Return mean and standard deviation of the noise-free value at each row."""
        total = self.shares[0].take(rows[:, 0], axis=1)
        for place in range(1, rows.shape[1]):
            total += self.shares[place].take(rows[:, place], axis=1)
        return self.posterior.given(total[0], total[1])


@dataclass(frozen=True, slots=True)
class Density:
    """The posterior density of the hyperparameters z, given targets `y` that are means of 1 / `share` measurements."""

    d: Distances
    y: Vector
    share: Vector
    scatter: Scatter
    prior: Prior

    def unfold(self, z: Vector) -> Hyperparameters:
        """Return the hyperparameters that z stands for: amplitude, noise, shared scale, then one per group."""
        p = self.prior
        ln_scale = np.log(p.scale_median) + p.shared_spread * z[2] + p.scale_spread * z[3:]
        bounded = np.clip(z[:2], -Z_BOUND, Z_BOUND)
        ln_amplitude = np.log(p.amplitude_median) + p.amplitude_spread * bounded[0]
        ln_noise = np.log(p.noise_median) + p.noise_spread * bounded[1]
        weights = np.exp(-2 * np.clip(ln_scale, -LN_SCALE_BOUND, LN_SCALE_BOUND))
        return Hyperparameters(weights, float(np.exp(2 * ln_amplitude)), float(np.exp(2 * ln_noise)))

    def loss(self, z: Vector) -> tuple[float, Vector]:
        """Return minus the ln density at z, and its gradient."""
        h, p, around = self.unfold(z), self.prior, self.scatter
        kernel = parts(self.d, h.weights)
        signal, noise = h.amplitude * kernel.total, h.noise * self.share
        # LAPACK as it is: what SciPy puts around it takes longer than two dozen points do.
        factor, failed = dpotrf(signal + MEAN_VARIANCE + np.diag(noise + JITTER), lower=True)
        if failed:
            return WORST_LOSS, np.zeros_like(z)
        inverse, _ = dpotrs(factor, np.eye(len(self.y)), lower=True)
        alpha = inverse @ self.y
        outer = 0.5 * (np.outer(alpha, alpha) - inverse)
        by_scale = -2.0 * h.amplitude * weight_gradient(self.d, h.weights, kernel, outer)
        gain = np.empty_like(z)
        gain[0] = 2.0 * p.amplitude_spread * float(np.sum(outer * signal))
        gain[1] = p.noise_spread * (2.0 * float(np.diag(outer) @ noise) + around.squares / h.noise - around.freedom)
        gain[2] = p.shared_spread * float(by_scale.sum())
        gain[3:] = p.scale_spread * by_scale
        value = 0.5 * float(self.y @ alpha) + float(np.log(np.diag(factor)).sum()) + 0.5 * float(z @ z)
        value += 0.5 * (around.freedom * float(np.log(h.noise)) + around.squares / h.noise)
        return value, z - gain

    def mode(self) -> Hyperparameters:
        """Return the most probable hyperparameters, searched for from the middle of the prior."""
        start = np.zeros(3 + self.d.squared.shape[2])
        found = minimize(self.loss, start, jac=True, method="L-BFGS-B", options={"maxiter": STEPS})
        return self.unfold(np.asarray(found.x, dtype=np.float64))


def density(
    x: Matrix,
    y: Vector,
    groups: Groups,
    counts: Vector | None = None,
    scatter: Scatter = NO_SCATTER,
    prior: Prior = PRIOR,
) -> Density:
    """Return the density of the hyperparameters for features `x` (rows, features) and targets `y` (rows).

    `groups` has the length-scale group of each feature, counted from 0. `counts` says how many measurements each target
    is the mean of (a fraction for one that is in doubt), None for one each; `scatter` how far they lay from it, in
    units of the targets. `prior` is that of the hyperparameters.
    """
    share = np.ones(len(y)) if counts is None else 1.0 / counts
    return Density(distances(x, x, groups), y, share, scatter, prior)


def fit(
    x: Matrix,
    y: Vector,
    groups: Groups,
    *,
    counts: Vector | None = None,
    scatter: Scatter = NO_SCATTER,
    prior: Prior = PRIOR,
) -> Posterior:
    """Fit to features `x` (rows, features) and standardised targets `y` (rows).

    `counts` says how many measurements each target is the mean of (None: one each), `scatter` how far those lay from
    it; `groups` and `prior` are as in `density`. Never fails: points that repeat each other and targets that are all
    alike only make it less sure.
    """
    searched = density(x, y, groups, counts, scatter, prior)
    h = searched.mode()
    k = h.amplitude * parts(searched.d, h.weights).total + MEAN_VARIANCE
    factor = _factor(k + np.diag(h.noise * searched.share + JITTER))
    return Posterior(x, groups, h, factor, cho_solve((factor, True), y, check_finite=False))


def _factor(k: Matrix) -> Matrix:
    """Return the Cholesky factor, with as much jitter as it takes."""
    for jitter in (0.0, 1e-6, 1e-4):
        try:
            return np.asarray(cholesky(k + jitter * np.eye(len(k)), lower=True, check_finite=False))
        except LinAlgError:
            continue
    return np.asarray(cholesky(k + 1e-2 * np.eye(len(k)), lower=True, check_finite=False))
