"""The covariance of the Gaussian process: how alike two points are, knob by knob.

    k(a, b) = amplitude * ( SMOOTH * matern52(r) + ADDITIVE * sum_g share_g * matern32(d_g / ADDITIVE_SCALE) )
    r^2 = sum_g weight_g * d_g^2      share_g = weight_g / sum(weight)

with one weight (an inverse squared length-scale) for each group of features. Two beliefs, in equal proportion: the
smooth part (Matern, Rasmussen and Williams 2006, eq. 4.17) lets every knob depend on every other; the additive part
(Duvenaud et al. 2011) says that a knob does much the same whatever the others are, which is what lets twenty trials
say anything about twenty knobs. A knob that does nothing gets a weight near 0 in both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]
Cube = NDArray[np.float64]
Groups = NDArray[np.int64]
Rows = NDArray[np.int64]

SMOOTH, ADDITIVE = 0.5, 0.5
ADDITIVE_SCALE = 0.5
"""Half of a knob's range: fixed, because a few points along one knob cannot tell a better one."""
ROOT3, ROOT5 = float(np.sqrt(3.0)), float(np.sqrt(5.0))


@dataclass(frozen=True, slots=True)
class Distances:
    """What the covariance needs of two sets of points, per group: both arrays are (rows, columns, groups)."""

    squared: Cube
    single: Cube
    """The Matern 3/2 covariance along one knob alone."""


@dataclass(frozen=True, slots=True)
class CovarianceParts:
    """The two parts of the covariance at amplitude 1, and the slope of the smooth one along r^2; (rows, columns)."""

    smooth: Matrix
    smooth_slope: Matrix
    additive: Matrix

    @property
    def total(self) -> Matrix:
        """Return the covariance at amplitude 1."""
        return np.asarray(SMOOTH * self.smooth + ADDITIVE * self.additive)


def distances(a: Matrix, b: Matrix, groups: Groups) -> Distances:
    """Return the distances per group of feature rows; two different words of a choice are at distance 1."""
    member = (groups[:, None] == np.arange(int(groups.max()) + 1)[None, :]).astype(np.float64)
    one_hot = np.where(member.sum(axis=0) > 1, 0.5, 1.0)
    gap = np.abs(a[:, None, :] - b[None, :, :]) @ (member * one_hot)
    r = (ROOT3 / ADDITIVE_SCALE) * gap
    return Distances(gap**2, (1.0 + r) * np.exp(-r))


def along(tables: Sequence[Matrix], x: Matrix, groups: Groups, weights: Vector) -> list[Cube]:
    """Return, for each knob, what its values add to r^2 and to the additive part: (2, values, rows of x).

    `tables` are the coordinates of the values of each knob, which stand side by side in the columns of `x`. `groups`
    has the group of each of these columns, `weights` the inverse squared length-scale of each group.
    """
    shares, first = [], 0
    for table in tables:
        columns = slice(first, first + table.shape[1])
        first = columns.stop
        own = groups[columns] - groups[columns.start]
        d = distances(table, x[:, columns], own)
        mine = weights[np.unique(groups[columns])]
        shares.append(np.array([d.squared @ mine, d.single @ (mine / weights.sum())]))
    return shares


def weighted_total(squared: Matrix, single: Matrix) -> Matrix:
    """Return the covariance at amplitude 1 for weighted sums of what `along` returns."""
    r = ROOT5 * np.sqrt(squared)
    return np.asarray(SMOOTH * (1.0 + r + r**2 / 3.0) * np.exp(-r) + ADDITIVE * single)


def parts(d: Distances, weights: Vector) -> CovarianceParts:
    """Return the parts of the covariance for each pair."""
    r = ROOT5 * np.sqrt(d.squared @ weights)
    decay = np.exp(-r)
    return CovarianceParts(
        smooth=(1.0 + r + r**2 / 3.0) * decay,
        smooth_slope=(-5.0 / 6.0) * (1.0 + r) * decay,
        additive=d.single @ (weights / weights.sum()),
    )


def weight_gradient(d: Distances, weights: Vector, p: CovarianceParts, outer: Matrix) -> Vector:
    """Return sum_ij outer_ij * dk_ij / d(ln weight_g) at amplitude 1, for each group.

    `d` are the distances, `weights` the weight of each group, and `p` is what `parts` returns for both; `outer` has the
    shape of the covariance, (rows, columns).
    """
    share = weights / weights.sum()
    smooth = np.tensordot(outer * p.smooth_slope, d.squared, 2) * weights
    single = np.tensordot(outer, d.single, 2)
    return np.asarray(SMOOTH * smooth + ADDITIVE * share * (single - share @ single))
