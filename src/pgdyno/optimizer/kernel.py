"""The covariance of the Gaussian process: how alike two points are, knob by knob.

    k(a, b) = amplitude * ( SMOOTH * matern52(r) + ROUGH * exp(-l) + ADDITIVE * sum_g share_g * matern32(d_g / 0.5) )
    r^2 = sum_g weight_g * d_g^2      l = sum_g sqrt(weight_g) * d_g      share_g = weight_g / sum(weight)

with one weight (an inverse squared length-scale) for each group of features. Three beliefs, in fixed proportions:
the smooth part is the usual one (Matern, Rasmussen and Williams 2006, eq. 4.17); the rough part is the limit of a
forest of random cuts (Balog et al. 2016, "The Mondrian kernel") and follows cliffs, such as a working set that begins
to fit; the additive part (Duvenaud et al. 2011) says that a knob does much the same whatever the others are, which is
what lets twenty trials say anything about twenty knobs. A knob that does nothing gets a weight near 0 in all three.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]
Cube = NDArray[np.float64]

SMOOTH, ROUGH, ADDITIVE = 0.28, 0.22, 0.5
ADDITIVE_SCALE = 0.5
ROOT3, ROOT5 = float(np.sqrt(3.0)), float(np.sqrt(5.0))


@dataclass(frozen=True, slots=True)
class Distances:
    """What the covariance needs of two sets of points, per group: each array is (rows, columns, groups)."""

    squared: Cube
    absolute: Cube
    single: Cube
    """The Matern 3/2 covariance along one knob alone."""


@dataclass(frozen=True, slots=True)
class Parts:
    """The three parts of the covariance at amplitude 1, with what their gradients share; (rows, columns) each."""

    smooth: Matrix
    smooth_slope: Matrix
    rough: Matrix
    additive: Matrix

    @property
    def total(self) -> Matrix:
        """Return the covariance at amplitude 1."""
        return np.asarray(SMOOTH * self.smooth + ROUGH * self.rough + ADDITIVE * self.additive)


def distances(a: Matrix, b: Matrix, groups: NDArray[np.int64]) -> Distances:
    """Return the distances per group of feature rows; two different words of a choice are at distance 1."""
    count = int(groups.max()) + 1
    member = (groups[:, None] == np.arange(count)[None, :]).astype(np.float64)
    scaled = member / np.maximum(member.sum(axis=0), 1.0).clip(max=2.0)
    gap = np.abs(a[:, None, :] - b[None, :, :])
    absolute = gap @ scaled if member.shape[0] > count else gap
    r = (ROOT3 / ADDITIVE_SCALE) * absolute
    return Distances(absolute**2, absolute, (1.0 + r) * np.exp(-r))


def parts(d: Distances, weights: Vector) -> Parts:
    """Return the parts of the covariance for each pair."""
    r = ROOT5 * np.sqrt(d.squared @ weights)
    decay = np.exp(-r)
    return Parts(
        smooth=(1.0 + r + r**2 / 3.0) * decay,
        smooth_slope=(-5.0 / 6.0) * (1.0 + r) * decay,
        rough=np.exp(-(d.absolute @ np.sqrt(weights))),
        additive=d.single @ (weights / weights.sum()),
    )


def weight_gradient(d: Distances, weights: Vector, p: Parts, outer: Matrix) -> Vector:
    """Return sum_ij outer_ij * dk_ij / d(ln weight_g) at amplitude 1, for each group."""
    share = weights / weights.sum()
    smooth = np.tensordot(outer * p.smooth_slope, d.squared, 2) * weights
    rough = np.tensordot(outer * p.rough, d.absolute, 2) * np.sqrt(weights) * -0.5
    single = np.tensordot(outer, d.single, 2)
    additive = share * (single - share @ single)
    return np.asarray(SMOOTH * smooth + ROUGH * rough + ADDITIVE * additive)
