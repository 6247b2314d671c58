"""How the statements' mean times wander by themselves, learnt from the load that is watched. Pure.

A statement's mean, in logarithms, is modelled as a level that hardly moves, what wanders about it and is forgotten by
and by (an autoregression of the first order), and what is new in every period. How fast is forgotten, and how much is
new, is learnt from all statements together: from how far a statement is from where it was one, two, four, eight and
sixteen periods before. How much of it one statement has is learnt from how far its own periods are from what was
predicted of them, and at first from all. What the scatter of single calls does to a mean is known, and taken off.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from pgdyno.stats.arrays import Bools, Floats

LAGS = (1, 2, 4, 8, 16)
_LEFT = np.array([0.0, 0.3, 0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.93, 0.96, 0.98])
"""How much of what wanders may be left in the next period."""
_FLOOR = 0.05
"""No load is steadier than this for long, in ln."""
_MEMORY = 500
"""Periods that are learnt from: the newest count most."""
_PRIOR = 40
"""What all statements show counts as so many periods of each ..."""
_PRIOR_DRIFT, _PRIOR_LEFT, _PRIOR_WEIGHT = 0.12, 0.8, 5
"""... and before anything is seen a wander between neighbours of 12 %, of which four fifths are left a period later."""
_SOON, _SELDOM = 60, 10
"""What is learnt is used at once in the first so many periods, and later every so many: it hardly changes then."""
_OUTLIER = 3.0
"""What is further out counts as so many deviations: a change must not become what is usual."""


@dataclass(frozen=True, slots=True, eq=False)
class Wandering:
    """How each statement wanders: `kept` and `fresh` are variances in ln, `left` is of all statements."""

    left: float
    kept: Floats
    fresh: Floats

    @property
    def level(self) -> Floats:
        """Return the variance of what the mean of very many periods would have, times their number."""
        return np.asarray(self.kept * (1 + self.left) / (1 - self.left) + self.fresh, dtype=np.float64)


def _prior() -> Floats:
    lags = np.array(LAGS)
    return np.asarray(_PRIOR_DRIFT**2 * (1 - _PRIOR_LEFT**lags) / (1 - _PRIOR_LEFT), dtype=np.float64)


@dataclass(slots=True)
class Wander:
    """What was learnt so far; a row a statement."""

    _squares: Floats = field(default_factory=lambda: _PRIOR_WEIGHT * _prior())
    _counts: Floats = field(default_factory=lambda: np.full(len(LAGS), float(_PRIOR_WEIGHT)))
    _own: Floats = field(default_factory=lambda: np.zeros(0))
    _weights: Floats = field(default_factory=lambda: np.zeros(0))
    _fit: tuple[float, float, float] = field(default_factory=lambda: _fitted(_prior() / 2))
    _periods: int = 0

    def now(self) -> Wandering:
        """Return how each statement wanders, from what was learnt so far."""
        left, kept, fresh = self._fit
        seen = self._weights.sum()
        whole = kept + fresh
        usual = (self._own.sum() + _PRIOR * whole) / (seen + _PRIOR)
        own = np.maximum((self._own + _PRIOR * usual) / (self._weights + _PRIOR), _FLOOR**2)
        return Wandering(left, own * (kept / whole), own * (fresh / whole))

    def learn_distances(self, levels: Floats, sampled: Floats) -> None:
        """Take the newest period: `levels` in ln, the newest last, NaN unknown; `sampled` is their variance."""
        for place, lag in enumerate(LAGS):
            if levels.shape[1] <= lag:
                break
            apart = levels[:, -1] - levels[:, -1 - lag]
            known = np.isfinite(apart)
            if not known.any():
                continue
            left = sampled[known, -1] + sampled[known, -1 - lag]
            clear = _FLOOR**2 / (_FLOOR**2 + left)
            usual = self._squares[place] / self._counts[place]
            square = np.minimum(apart[known] ** 2, _OUTLIER**2 * (usual + left)) - left
            # Statements together are one look at how they wander, however many there are.
            total, share = float(clear.sum()), max(1.0, float(clear.sum()))
            self._squares[place] = (1 - 1 / _MEMORY) * self._squares[place] + float((clear * square).sum()) / share
            self._counts[place] = (1 - 1 / _MEMORY) * self._counts[place] + total / share
            self._squares[place] = max(self._squares[place], self._counts[place] * _FLOOR**2 / 4)
        self._periods += 1
        if self._periods < _SOON or self._periods % _SELDOM == 0:
            self._fit = _fitted(self._squares / self._counts / 2)

    def learn_misses(self, misses: Floats, variance: Floats, sampled: Floats, known: Bools, wander: Wandering) -> None:
        """Take how far the newest means were from what was predicted with `variance`, of which `sampled` is of calls.

        The arrays have one element a statement: `misses` are in ln, both variances in its square, and `known` marks the
        statements to learn from. A mean that says little of its statement, as single calls scatter, counts as little.
        `wander` is what they were predicted by.
        """
        own = variance[known] - sampled[known]
        weight = (own / variance[known]) ** 2
        square = np.minimum(misses[known] ** 2, _OUTLIER**2 * variance[known])
        found = (wander.kept + wander.fresh)[known] * (square - sampled[known]) / own
        for sums, newest in ((self._own, weight * found), (self._weights, weight)):
            sums[known] = (1 - 1 / _MEMORY) * sums[known] + newest

    def grow(self, more: int) -> None:
        """Make room for so many more statements."""
        self._own, self._weights = (np.append(sums, np.zeros(more)) for sums in (self._own, self._weights))

    def drop(self, numbers: Sequence[int]) -> None:
        """Forget these statements."""
        self._own[numbers] = self._weights[numbers] = 0.0


def _fitted(halves: Floats) -> tuple[float, float, float]:
    """Return what is left, kept and fresh, whose distances are nearest to `halves` of their squares, relatively."""
    lags, target = np.array(LAGS), 1 / np.maximum(halves, 1e-12)
    best, answer = np.inf, (0.0, float(halves.mean()), 0.0)
    for left in _LEFT:
        course = (1 - left**lags) * target
        tries = [(float(course.sum() / (course**2).sum()), 0.0)]
        if left > 0:
            both = np.linalg.lstsq(np.stack([course, target], axis=1), np.ones(lags.size), rcond=None)[0]
            if both.min() > 0:
                tries = [(float(both[0]), float(both[1]))]
        for kept, fresh in tries:
            miss = float(((kept * course + fresh * target - 1) ** 2).sum())
            if miss < best - 1e-12:
                best, answer = miss, (float(left), kept, fresh)
    return answer
