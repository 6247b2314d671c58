"""The smallest and leanest configuration that the model expects to do about as well as a winner. No trial is spent.

Settings go back to the default one after the other, each time the one whose going costs least by the posterior of what
is left, so that settings which stand in for each other do not both go. Then amounts of memory are lowered along their
grid, no further than a tried point that does as well had them: where a working set ceases to fit is a cliff, which the
model sees as a slope. What is lost in all, against the winner as it was found, stays within one tolerance. A part that
may fail where the winner did not is the last that is taken.

Where more settings stay than can be left out one by one, the gain is spread over many, and of most of them the model
knows little. Then it takes away only what it is surer of, and those that it expects least of are to be left out
together: they are offered if that one arm shows that they matter.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from pgdyno.knobs.dimension import Dimension, Value
from pgdyno.optimizer.encoding import Encoding, Point, Rows, Vector
from pgdyno.optimizer.feasibility import fit_feasibility, safety
from pgdyno.optimizer.model import fit_sceptical
from pgdyno.optimizer.observation import Data, ScoredPoint, gather

GAIN_SHARE = 0.1
"""What may be lost of the gain that the model expects, in ln(performance): nine tenths of a gain are its point."""
NOISE_SHARE = 0.5
"""Of the scatter of one trial, so much may be lost where the gain is small: a few pairs tell no less apart."""
CAUTION = 1.0
"""Where a gain is spread, a loss against the winner counts as what is expected and so many of its deviations. Chosen on
other families of surfaces than those that figures are reported of."""
UNSAFE = 1e3
"""What a part loses, in ln(performance), that may fail where the winner did not."""
LEAST_GAIN = 1e-9
LEAST_PARTS = 4
"""Where fewer can be measured, time is short: settings go that a few pairs of all of them would not show to matter."""
MOST_SHARE = 0.5
"""However much a user allows to be lost, half of the gain stays: else the least memory is that of the default."""


def may_lose(gain: float, tolerance: float | None, least: float) -> float:
    """Return how much of a gain may be lost for fewer settings and less memory, in ln(performance).

    `tolerance` is what the user allows, a ratio distance such as 0.05; None for the project's own choice: GAIN_SHARE
    of the gain, or `least` where that is more, since no less can be told apart.
    """
    if tolerance is None:
        return max(least, GAIN_SHARE * gain)
    return min(math.log1p(tolerance), MOST_SHARE * max(gain, 0.0))


@dataclass(frozen=True, slots=True)
class FrugalChoice:
    """What is left of a winner, and what the model expects each step to have cost, as shares of the winner's gain.

    `dropped` are the settings that went back; those of them that are in `forced` cost more than the tolerance and went
    because so few were allowed. `lowered` are the amounts that are smaller now. `rest` are those settings of the point
    that are to be measured together, the one that matters least first; empty where each can be measured alone.
    """

    point: Point
    dropped: Mapping[str, float]
    forced: frozenset[str]
    lowered: tuple[str, ...]
    rest: tuple[str, ...] = ()


def reduce(
    dimensions: Sequence[Dimension],
    history: Sequence[ScoredPoint],
    winner: Point,
    *,
    noise_sd: float,
    most: int,
    amounts: Mapping[str, float],
    tolerance: float | None,
    is_possible: Callable[[Point], bool],
    needed: Collection[str] = (),
    surely: bool = False,
) -> FrugalChoice:
    """Return the frugal part of a winner: at least one setting, of which at most `most` parts are to be measured.

    A part is a setting, or all settings beyond the others together (`rest`), where LEAST_PARTS or more are allowed.
    Fewer allow that many settings where constraints let that be. What may be lost is what `may_lose` says; `surely`
    counts a loss as where a gain is spread, however few settings the model expects to matter. `amounts` are the knobs
    that count memory, each with the value above which more can do nothing (inf: not known). The history must hold at
    least one measured trial.

    Points map names of `dimensions` to values in base units. `noise_sd` is the standard deviation of one value of
    `history`, in ln(performance); `tolerance` is a ratio distance such as 0.05, None for the project's own choice.
    `is_possible` tells whether the constraints allow a point. Settings in `needed`, by name, go back last, and only as
    far as `most` demands it.
    """
    data = gather(dimensions, history, [winner])
    encoding, model = data.encoding, fit_sceptical(data)

    def mean(rows: Rows) -> Vector:
        return model.posterior.predict(encoding.features(rows))[0] * model.scaled.spread

    row = encoding.row(winner)
    best, default = map(float, mean(np.array([row, encoding.default])))
    lost = may_lose(best - default, tolerance, NOISE_SHARE * noise_sd)
    is_safe = _safe_as(row, data)
    names = [dimension.name for dimension in dimensions]
    last = frozenset(names.index(name) for name in needed if name in names)
    good = [encoding.point(tried) for tried in data.measured[mean(data.measured) >= best - lost]]
    allowed = most if most < LEAST_PARTS else len(dimensions)

    def left_by(caution: float) -> _Left:
        def worth(rows: Rows) -> Vector:
            less, sd = model.posterior.less(encoding.features(rows), encoding.features(row[None, :]))
            return best + model.scaled.spread * (less - caution * sd) - np.where(is_safe(rows), 0.0, UNSAFE)

        gain = max(best - default, lost, LEAST_GAIN)
        left = _Left(encoding, row.copy(), mean, worth, is_possible, best - lost, gain, last)
        left.take_back(allowed)
        for name in sorted(amounts):
            left.lower(name, [point[name] for point in good], amounts[name])
        left.take_back(allowed)  # a setting that only made room for an amount can go now
        return left

    left = left_by(CAUTION if surely else 0.0)
    if not surely and allowed > most and np.count_nonzero(left.row != encoding.default) > most:
        left = left_by(CAUTION)
    rest = left.least_of_all(most) if allowed > most else ()
    if rest is None:
        left.take_back(most)
    return FrugalChoice(encoding.point(left.row), left.dropped, frozenset(left.forced), tuple(left.lowered), rest or ())


def _safe_as(winner: Rows, data: Data) -> Callable[[Rows], NDArray[np.bool_]]:
    """Return what tells of rows whether they succeed as surely as the search asks of a point, or as the winner does."""
    features = data.encoding.features
    works = fit_feasibility(features(data.rows), data.succeeded, data.encoding.groups)
    if works is None:
        return lambda rows: np.ones(len(rows), dtype=np.bool_)
    least = min(0.0, float(safety(*works.predict(features(winner[None, :])))[0]))
    return lambda rows: safety(*works.predict(features(rows))) >= least


@dataclass
class _Left:
    """What is left of a winner; `least` is the worth below which too much of it is lost."""

    encoding: Encoding
    row: Rows
    mean: Callable[[Rows], Vector]
    worth: Callable[[Rows], Vector]
    """The mean less what the model is not sure of: the winner's own is its mean."""
    is_possible: Callable[[Point], bool]
    least: float
    gain: float
    last: frozenset[int]
    """The places of settings that go after all others."""
    dropped: dict[str, float] = field(default_factory=dict)
    forced: list[str] = field(default_factory=list)
    lowered: list[str] = field(default_factory=list)

    def take_back(self, most: int) -> None:
        """Take settings back to the default: as many as the tolerance allows, and down to `most` of them."""
        default = self.encoding.default
        while (changed := np.flatnonzero(self.row != default)).size > 1:
            without = np.tile(self.row, (changed.size, 1))
            without[np.arange(changed.size), changed] = default[changed]
            worth, before = self.worth(without), float(self.mean(self.row[None, :])[0])
            allowed = [i for i in range(changed.size) if self._allows(without[i])]
            if not allowed:
                return
            cheapest = max(allowed, key=lambda i: (int(changed[i]) not in self.last, float(worth[i])))
            name = self.encoding.dimensions[changed[cheapest]].name
            if worth[cheapest] < self.least or changed[cheapest] in self.last:
                if changed.size <= most:
                    return
                self.forced.append(name)
            self.dropped[name] = max(0.0, before - float(self.mean(without[cheapest][None, :])[0])) / self.gain
            self.row = without[cheapest]

    def least_of_all(self, most: int) -> tuple[str, ...] | None:
        """Return the settings to measure together so that `most` parts are to be measured, the least one first.

        None where constraints do not let them go.
        """
        count = np.count_nonzero(self.row != self.encoding.default)
        if count <= most:
            return ()
        fewer = replace(self, row=self.row.copy(), dropped={}, forced=[])
        fewer.take_back(most - 1)
        return tuple(fewer.dropped) if len(fewer.dropped) == count - most + 1 else None

    def lower(self, name: str, good: Sequence[Value], enough: float) -> None:
        """Lower an amount as far as the tolerance allows and `good` ones go; to `enough` whatever the model says."""
        place = [dimension.name for dimension in self.encoding.dimensions].index(name)
        dimension, now = self.encoding.dimensions[place], self.encoding.point(self.row)[name]
        special = dimension.special
        if isinstance(now, str) or isinstance(dimension.default, str) or now in special or dimension.default in special:
            return
        tried = [float(v) for v in good if v not in special]
        below = [v for v in dimension.levels if not isinstance(v, str) and dimension.default < v < now]
        needless = {v for v in below if v >= enough}
        below = [v for v in below if v in needless or v >= min(tried, default=math.inf)]
        for value in sorted(set(below), reverse=True):
            row = self.row.copy()
            row[place] = self.encoding.row({name: value})[place]
            if not self._allows(row) or (value not in needless and float(self.worth(row[None, :])[0]) < self.least):
                return
            self.row = row
            if name not in self.lowered:
                self.lowered.append(name)

    def _allows(self, row: Rows) -> bool:
        return self.is_possible(self.encoding.point(row))
