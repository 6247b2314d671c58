"""A Gaussian process over the tried points: fitted by its posterior mode, optionally averaged around it.

The hyperparameters are normal variables z, from which amplitude, noise and one weight per group of features are
unfolded: the prior is a log-normal on each, and a length-scale that all knobs share moves them together. Targets are
standardised before they come here (see `targets.py`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_solve, cholesky, solve_triangular
from scipy.optimize import minimize

from pgdyno.optimizer.kernel import Distances, distances, parts, weight_gradient

Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]
Groups = NDArray[np.int64]

JITTER = 1e-8
MEAN_VARIANCE = 1.0
"""The prior variance of the constant mean: standardised targets centre on 0 give or take 1."""
LN_SCALE_BOUND = 5.0
"""Length-scales past e^5 of a knob's whole range say the same: no effect. The bound keeps the arithmetic finite."""
WORST_LOSS = 1e10
"""What the search for the mode is told where the covariance is not positive definite."""


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
class Member:
    """One set of hyperparameters with the factors that predictions need."""

    hyper: Hyperparameters
    factor: Matrix
    alpha: Vector


@dataclass(frozen=True, slots=True)
class Posterior:
    """A fitted process: predictions are made for each member, and averaged by whoever asks."""

    x: Matrix
    groups: Groups
    members: tuple[Member, ...]

    def predict(self, x: Matrix) -> tuple[Matrix, Matrix]:
        """Return mean and standard deviation of the noise-free value, each (members, rows of x)."""
        d = distances(x, self.x, self.groups)
        pairs = [_predict(member, d) for member in self.members]
        return np.array([mean for mean, _ in pairs]), np.array([sd for _, sd in pairs])

    def covariance(self, x: Matrix) -> NDArray[np.float64]:
        """Return the joint posterior covariance of the rows of x, (members, rows, rows)."""
        cross, own = distances(x, self.x, self.groups), distances(x, x, self.groups)
        out = []
        for member in self.members:
            h = member.hyper
            k = h.amplitude * parts(cross, h.weights).total + MEAN_VARIANCE
            v = solve_triangular(member.factor, k.T, lower=True, check_finite=False)
            out.append(h.amplitude * parts(own, h.weights).total + MEAN_VARIANCE - v.T @ v)
        return np.array(out)


def fit(
    x: Matrix, y: Vector, groups: Groups, *, counts: Vector | None = None, prior: Prior = PRIOR, samples: int = 0,
    rng: Generator | None = None,
) -> Posterior:  # fmt: skip
    """Fit to features `x` (rows, features) and standardised targets `y` (rows).

    `counts` says how many measurements each target is the mean of. With `samples` > 0 the members are drawn around
    the mode by elliptical slice sampling, which needs `rng`; otherwise the mode is the only member.
    """
    model = likelihood(x, y, groups, counts=counts, prior=prior)
    z = model.mode(3 + int(groups.max()) + 1)
    drawn = model.draws(z, samples, rng) if samples and rng is not None else [z]
    members = tuple(member for member in map(model.member, drawn) if member is not None)
    return Posterior(x, groups, members)


def likelihood(
    x: Matrix, y: Vector, groups: Groups, *, counts: Vector | None = None, prior: Prior = PRIOR
) -> Likelihood:
    """Return the likelihood of the hyperparameters, for `fit`."""
    share = np.ones(len(y)) if counts is None else 1.0 / counts
    return Likelihood(distances(x, x, groups), y, share, prior)


def _predict(member: Member, d: Distances) -> tuple[Vector, Vector]:
    h = member.hyper
    k = h.amplitude * parts(d, h.weights).total + MEAN_VARIANCE
    v = solve_triangular(member.factor, k.T, lower=True, check_finite=False)
    variance = h.amplitude + MEAN_VARIANCE - np.einsum("ij,ij->j", v, v)
    return k @ member.alpha, np.sqrt(np.maximum(variance, 1e-12))


@dataclass(frozen=True, slots=True)
class Likelihood:
    d: Distances
    y: Vector
    share: Vector
    prior: Prior

    def unfold(self, z: Vector) -> Hyperparameters:
        p = self.prior
        ln_scale = np.log(p.scale_median) + p.shared_spread * z[2] + p.scale_spread * z[3:]
        ln_amplitude = np.log(p.amplitude_median) + p.amplitude_spread * min(max(z[0], -8.0), 8.0)
        ln_noise = np.log(p.noise_median) + p.noise_spread * min(max(z[1], -8.0), 8.0)
        return Hyperparameters(
            np.exp(-2 * np.clip(ln_scale, -LN_SCALE_BOUND, LN_SCALE_BOUND)),
            float(np.exp(2 * ln_amplitude)),
            float(np.exp(2 * ln_noise)),
        )

    def loss(self, z: Vector) -> tuple[float, Vector]:
        """Return minus the ln posterior density of z, and its gradient."""
        h, p = self.unfold(z), self.prior
        kernel = parts(self.d, h.weights)
        signal, noise = h.amplitude * kernel.total, h.noise * self.share
        try:
            factor = cholesky(signal + MEAN_VARIANCE + np.diag(noise + JITTER), lower=True, check_finite=False)
        except (LinAlgError, ValueError):
            return WORST_LOSS, np.zeros_like(z)
        inverse = cho_solve((factor, True), np.eye(len(self.y)), check_finite=False)
        alpha = inverse @ self.y
        outer = 0.5 * (np.outer(alpha, alpha) - inverse)
        by_scale = -2.0 * h.amplitude * weight_gradient(self.d, h.weights, kernel, outer)
        gain = np.empty_like(z)
        gain[0] = 2.0 * p.amplitude_spread * float(np.sum(outer * signal))
        gain[1] = 2.0 * p.noise_spread * float(np.diag(outer) @ noise)
        gain[2] = p.shared_spread * float(by_scale.sum())
        gain[3:] = p.scale_spread * by_scale
        value = 0.5 * float(self.y @ alpha) + float(np.log(np.diag(factor)).sum()) + 0.5 * float(z @ z)
        return value, z - gain

    def mode(self, size: int) -> Vector:
        found = minimize(self.loss, np.zeros(size), jac=True, method="L-BFGS-B", options={"maxiter": 60})
        return np.asarray(found.x, dtype=np.float64)

    def log_likelihood(self, z: Vector) -> float:
        member = self.member(z)
        if member is None:
            return -np.inf
        return -0.5 * float(self.y @ member.alpha) - float(np.log(np.diag(member.factor)).sum())

    def member(self, z: Vector) -> Member | None:
        h = self.unfold(z)
        k = h.amplitude * parts(self.d, h.weights).total + MEAN_VARIANCE + np.diag(h.noise * self.share + JITTER)
        try:
            factor = cholesky(k, lower=True, check_finite=False)
        except (LinAlgError, ValueError):
            return None
        return Member(h, factor, cho_solve((factor, True), self.y, check_finite=False))

    def draws(self, z: Vector, count: int, rng: Generator, thin: int = 6) -> list[Vector]:
        """Draw by elliptical slice sampling (Murray, Adams and MacKay 2010), which has no setting to tune."""
        drawn, level = [], self.log_likelihood(z)
        for step in range(count * thin):
            z, level = self._slice(z, level, rng)
            if step % thin == thin - 1:
                drawn.append(z)
        return drawn

    def _slice(self, z: Vector, level: float, rng: Generator) -> tuple[Vector, float]:
        other, floor = rng.normal(size=z.size), level + float(np.log(rng.random()))
        angle = rng.uniform(0, 2 * np.pi)
        low, high = angle - 2 * np.pi, angle
        for _ in range(50):
            moved = z * np.cos(angle) + other * np.sin(angle)
            reached = self.log_likelihood(moved)
            if reached > floor:
                return moved, reached
            low, high = (angle, high) if angle < 0 else (low, angle)
            angle = rng.uniform(low, high)
        return z, level
