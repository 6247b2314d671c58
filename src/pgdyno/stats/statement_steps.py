"""Since when does a statement take longer? A bank of likelihood ratios over when it may have begun. Pure.

Each statement's mean is followed by a Kalman filter whose model is `wander`. A step that began so many periods ago
would have left a known course in what the filter missed since then; the evidence for it is the correlation of the
misses with that course, the size their regression on it (Willsky and Jones, "A generalized likelihood ratio approach to
the detection and estimation of jumps in linear systems", IEEE Transactions on Automatic Control, 1976). So a step is
seen by its jump and by its staying, against all of the past and not against its last periods alone, and periods without
calls only leave out what they would have said. What most statements miss alike is the server's, and is taken off first.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from statistics import NormalDist

import numpy as np

from pgdyno.stats.arrays import Bools, Floats, Ints
from pgdyno.stats.wander import Wander

AGES = 30
"""Of a step that began more periods ago no more is asked: it is half of what is usual by then."""
BEFORE, NEWEST = 10, 5
"""A step must be seen without any model, too: the newest periods' median against that of so many before it began."""
KEPT = AGES + BEFORE
_PRESENT = 3
"""Periods of either side that must be known: so a step is told after three periods at the earliest."""
_LEVEL = 120
"""Periods that the level is a mean of: what comes over hours, as the day's course does, is followed."""
STEP = math.log(1.3)
"""Smaller steps are not told of, however sure: nobody gets up for them."""
ALARMS = 0.3
"""False ones a week, of all statements together, if means wandered just as in the model."""
_LOOKS = 10
"""Each statement and period counts as so many looks: at many beginnings, at deviations that are learnt."""
WEEK_S = 7 * 86_400
_COMMON = 5
"""Of fewer statements one that slows down is no minority, so that nothing is taken off as common."""


@dataclass(frozen=True, slots=True)
class StatementStep:
    """Statement `number` takes exp(`size`) as long since `age` periods before the newest one."""

    number: int
    age: int
    size: float


def bound(statements: int, seconds: float) -> float:
    """Return how many deviations a step must be beyond 0, with so many statements and periods of so many seconds."""
    looks = _LOOKS * max(1, statements) * WEEK_S / seconds
    return NormalDist().inv_cdf(1 - ALARMS / looks)


def _grown(sums: Floats, more: int) -> Floats:
    return np.concatenate([sums, np.zeros((more, *sums.shape[1:]))])


@dataclass(slots=True)
class StatementSteps:
    """All statements, a row each, and for each beginning of the newest AGES periods what speaks for a step then."""

    wander: Wander = field(default_factory=Wander)
    levels: Floats = field(default_factory=lambda: np.zeros((0, KEPT)))
    """The means in ln without what is common, the newest last; NaN: unknown."""
    _sampled: Floats = field(default_factory=lambda: np.zeros((0, KEPT)))
    _common: float = 0.0
    _state: Floats = field(default_factory=lambda: np.zeros((0, 2)))
    """The level, and what wanders about it."""
    _variance: Floats = field(default_factory=lambda: np.zeros((0, 3)))
    """Of the level, of both together and of what wanders."""
    _is_seen: Bools = field(default_factory=lambda: np.zeros(0, dtype=np.bool_))
    _taken: Floats = field(default_factory=lambda: np.zeros((0, AGES, 2)))
    """How much of a step of 1 the state has taken over, by its age: the newest first."""
    _said: Floats = field(default_factory=lambda: np.zeros((0, AGES)))
    _weight: Floats = field(default_factory=lambda: np.zeros((0, AGES)))

    def add(self, logs: Floats, sampled: Floats, weights: Floats) -> None:
        """Take one period: mean times in ln (NaN: unknown), how far single calls let them scatter, and what counts.

        `sampled` are variances; `weights` say how much each statement counts for what is common.
        """
        wander = self.wander.now()
        self._predict(wander.left, wander.kept, wander.level)
        clean = logs - self._common
        known = np.isfinite(clean)
        old = known & self._is_seen
        misses = np.zeros(clean.size)
        misses[old] = clean[old] - self._state[old].sum(axis=1)
        if old.sum() >= _COMMON:
            shift = shared(misses[old], weights[old])
            self._common += shift
            misses[old] -= shift
            clean = clean - shift
        self.levels = np.column_stack([self.levels[:, 1:], clean])
        self._sampled = np.column_stack([self._sampled[:, 1:], sampled])
        of_level, of_both, of_kept = self._variance.T
        variance = of_level + 2 * of_both + of_kept + wander.fresh + sampled
        self._update(old, misses, variance)
        self._begin(known & ~self._is_seen, clean, wander.kept, wander.fresh + sampled)
        self.wander.learn_misses(misses, variance, sampled, old, wander)
        self.wander.learn_distances(self.levels, self._sampled)

    def hold(self) -> None:
        """Let a period pass of which nothing is known."""
        nothing = np.full(self.levels.shape[0], np.nan)
        self.add(nothing, np.zeros(nothing.size), np.zeros(nothing.size))

    def found(self, least: float) -> Iterator[StatementStep]:
        """Yield the steps beyond `least` deviations that are there still, each statement's likeliest."""
        with np.errstate(invalid="ignore", divide="ignore"):
            size = self._said / self._weight
            evidence = np.abs(self._said) / np.sqrt(self._weight)
        evidence[~(np.abs(size) >= STEP)] = 0.0
        evidence[:, : _PRESENT - 1] = 0.0
        for number in np.flatnonzero(evidence.max(axis=1) > least):
            age = int(np.argmax(evidence[number]))
            if self._is_there(int(number), age, float(size[number, age])):
                yield StatementStep(int(number), age, float(size[number, age]))

    def least(self, deviations: float) -> Floats:
        """Return the size in ln of what would be found in half of all cases, by statement; inf where none would."""
        clearest = self._weight.max(axis=1)
        with np.errstate(divide="ignore"):
            return np.asarray(np.maximum(STEP, deviations / np.sqrt(clearest)), dtype=np.float64)

    def accept(self, step: StatementStep) -> None:
        """Let the statement's level be what it is since the step: what was before is no past of it any more."""
        number, age = step.number, step.age
        left = np.array([1.0, 0.0]) - self._taken[number, age]
        self._state[number] += step.size * left
        self._variance[number] += np.array([left[0] ** 2, left[0] * left[1], left[1] ** 2]) / self._weight[number, age]
        self._forget_steps(np.array([number]))
        self.levels[number, : KEPT - 1 - age] = np.nan

    def forget(self) -> None:
        """Begin again; how the statements wander is kept."""
        self.levels[:], self._common = np.nan, 0.0
        self._is_seen[:] = False

    def drop(self, numbers: Sequence[int]) -> None:
        """Forget these statements altogether."""
        self.wander.drop(numbers)
        self.levels[numbers] = np.nan
        self._is_seen[numbers] = False
        self._forget_steps(np.array(numbers, dtype=np.int64))

    def grow(self, more: int) -> None:
        """Make room for so many more statements."""
        self.wander.grow(more)
        self.levels = np.concatenate([self.levels, np.full((more, KEPT), np.nan)])
        self._is_seen = np.append(self._is_seen, np.zeros(more, dtype=np.bool_))
        for name in ("_sampled", "_state", "_variance", "_taken", "_said", "_weight"):
            setattr(self, name, _grown(getattr(self, name), more))

    def _predict(self, left: float, kept: Floats, level: Floats) -> None:
        self._state[:, 1] *= left
        of_level, of_both, of_kept = self._variance.T
        of_level += level / _LEVEL**2
        of_both *= left
        of_kept *= left**2
        of_kept += (1 - left**2) * kept
        for sums in (self._taken, self._said, self._weight):
            sums[:, 1:] = sums[:, :-1]
            sums[:, 0] = 0.0
        self._taken[:, :, 1] *= left

    def _update(self, old: Bools, misses: Floats, variance: Floats) -> None:
        of_level, of_both, of_kept = (column[old] for column in self._variance.T)
        variance, misses = variance[old], misses[old]
        gains = np.stack([of_level + of_both, of_both + of_kept], axis=1) / variance[:, None]
        left = 1.0 - self._taken[old].sum(axis=2)
        self._said[old] += left * (misses / variance)[:, None]
        self._weight[old] += left**2 / variance[:, None]
        self._taken[old] += left[:, :, None] * gains[:, None, :]
        self._state[old] += gains * misses[:, None]
        first, second = gains.T
        self._variance[old] -= np.stack([first * first, first * second, second * second], axis=1) * variance[:, None]

    def _begin(self, new: Bools, clean: Floats, kept: Floats, rest: Floats) -> None:
        self._state[new] = np.stack([clean[new], np.zeros(int(new.sum()))], axis=1)
        self._variance[new] = np.stack([kept[new] + rest[new], -kept[new], kept[new]], axis=1)
        self._forget_steps(np.flatnonzero(new))
        self._is_seen |= new

    def _forget_steps(self, numbers: Ints) -> None:
        """Ask of no step before now: the state has taken all of it over."""
        self._taken[numbers] = np.array([1.0, 0.0])
        self._said[numbers] = self._weight[numbers] = 0.0

    def _is_there(self, number: int, age: int, size: float) -> bool:
        """Tell whether the newest periods have the step: medians of what is known on either side."""
        begin = KEPT - 1 - age
        sides = self.levels[number, -NEWEST:], self.levels[number, begin - BEFORE : begin]
        after, before = (side[np.isfinite(side)] for side in sides)
        if min(after.size, before.size) < _PRESENT:
            return False
        return math.copysign(1.0, size) * float(np.median(after) - np.median(before)) >= max(STEP, abs(size) / 2)


def shared(values: Floats, weights: Floats) -> float:
    """Return what statements share: their median, in which each counts by the root of its time, and none as most.

    By time alone some ten statements would decide, whose means wander, and one that takes nearly all the time would
    share with itself; by number alone many small ones would.
    """
    roots = np.sqrt(weights)
    roots = np.minimum(roots, (roots.sum() - roots.max()) / 2)
    order = np.argsort(values)
    reached = np.cumsum(roots[order])
    return float(values[order][np.searchsorted(reached, reached[-1] / 2)])
