"""Points as rows of whole numbers: the search space as a finite grid of values worth trying.

A row holds, for each dimension, the place of its value in that dimension's table: the round values of the search,
the special ones, the default, and whatever the history tried in between. A grid makes "already tried" exact, keeps
each untouched knob at precisely the value it had, and turns features of a thousand candidates into table look-ups.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from pgdyno.knobs.dimension import SPECIAL_SHARE, Dimension, Value

Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]
Rows = NDArray[np.int64]
Point = Mapping[str, Value]


class Encoding:
    """The grid over `dimensions` that also holds every value of `points`; knobs that a point leaves out are default.

    Values out of range count as the nearest one. `groups` names, for each feature column, the length-scale that it
    shares: all columns of one choice belong together. Knobs that are `held` have their default in all rows that
    `from_unit`, `moved`, `with_held` and `every` return; rows of points keep what they have.
    """

    def __init__(
        self, dimensions: Sequence[Dimension], points: Iterable[Point] = (), held: Collection[str] = ()
    ) -> None:
        self.dimensions = tuple(dimensions)
        self._held = np.array([dimension.name in held for dimension in self.dimensions], dtype=np.bool_)
        known = tuple(points)
        self._tables = [_table(dimension, known) for dimension in self.dimensions]
        self._places = [{value: place for place, value in enumerate(table)} for table in self._tables]
        self.tables = [_coordinates(d, table) for d, table in zip(self.dimensions, self._tables, strict=True)]
        """The coordinates of each dimension's values, shape (values, features of this dimension)."""
        self._axes = [
            _axis(dimension, table, features[:, 0])
            for dimension, table, features in zip(self.dimensions, self._tables, self.tables, strict=True)
        ]
        self.groups = _groups(self.dimensions)
        self.sizes: Rows = np.array([len(table) for table in self._tables], dtype=np.int64)
        self.default: Rows = self.row({})

    def row(self, point: Point) -> Rows:
        """Return the row of a point."""
        pairs = zip(self.dimensions, self._places, strict=True)
        return np.array([_place(d, places, point.get(d.name, d.default)) for d, places in pairs], dtype=np.int64)

    def rows(self, points: Sequence[Point]) -> Rows:
        """Return one row per point, shape (points, dimensions)."""
        return np.array([self.row(point) for point in points], dtype=np.int64).reshape(-1, len(self.dimensions))

    def point(self, row: Rows) -> dict[str, Value]:
        """Return the point of a row."""
        return {d.name: table[i] for d, table, i in zip(self.dimensions, self._tables, row, strict=True)}

    def features(self, rows: Rows) -> Matrix:
        """Return the coordinates of rows, shape (rows, features), each in [0, 1]."""
        return np.hstack([table[rows[:, place]] for place, table in enumerate(self.tables)])

    def from_unit(self, unit: Matrix) -> Rows:
        """Return the rows at points of the unit cube, shape (points, dimensions), special values at their share."""
        return self.with_held(np.column_stack([axis.from_unit(unit[:, i]) for i, axis in enumerate(self._axes)]))

    def with_held(self, rows: Rows) -> Rows:
        """Return rows with the default of each knob that is held, shape as given."""
        return np.where(self._held, self.default, rows)

    def every(self, most: int) -> Rows:
        """Return all rows there are; (0, dimensions) where there are more than `most`."""
        sizes = [1 if held else int(size) for held, size in zip(self._held, self.sizes, strict=True)]
        if math.prod(sizes) > most:
            return np.zeros((0, len(sizes)), dtype=np.int64)
        return self.with_held(np.indices(sizes).reshape(len(sizes), -1).T.astype(np.int64))

    def moved(self, rows: Rows, mask: NDArray[np.bool_], width: Vector, rng: Generator) -> Rows:
        """Return a copy of `rows` in which the knobs under `mask` take another value, where they have another.

        A number moves by a normal step of `width` (one per row, in units of the whole range) and folds at its bounds;
        once in eight times it takes a special value, where it has any. A choice takes any other word. `rows` and `mask`
        have the shape (rows, dimensions); steps and words are drawn from `rng`.
        """
        copy = self.with_held(rows)
        for place in np.flatnonzero((self.sizes > 1) & ~self._held):
            hit = mask[:, place].nonzero()[0]
            if hit.size:
                copy[hit, place] = self._axes[place].moved(rows[hit, place], width[hit], rng)
        return copy


@dataclass(frozen=True, slots=True)
class _Axis:
    """One column of the grid: `regular` are its ordered places ascending by `position`, `special` the ones that jump.

    `between` are the middles between neighbours: the bounds of what is nearest to each of them.
    """

    size: int
    position: Vector
    regular: Rows
    special: Rows
    between: Vector

    def from_unit(self, unit: Vector) -> Rows:
        if not self.position.size:
            return np.minimum((unit * self.size).astype(np.int64), self.size - 1)
        share = min(SPECIAL_SHARE, 0.45 / max(self.special.size, 1))
        taken = share * self.special.size
        places = self._nearest(np.clip((unit - taken) / (1 - taken), 0, 1))[1]
        for number, place in enumerate(self.special):
            places[(unit >= number * share) & (unit < (number + 1) * share)] = place
        return places

    def moved(self, start: Rows, width: Vector, rng: Generator) -> Rows:
        if not self.position.size:
            return (start + rng.integers(1, self.size, start.size)) % self.size
        step = width * rng.normal(size=start.size)
        order, places = self._nearest(_folded(self.position[start] + step))
        stuck = (places == start).nonzero()[0]
        if stuck.size:
            places[stuck] = self._beside(order[stuck], np.where(step[stuck] < 0, -1, 1))
        if self.special.size:
            jumps = rng.random(start.size) < 0.125
            places[jumps] = rng.choice(self.special, int(jumps.sum()))
        return places

    def _beside(self, order: Rows, side: Rows) -> Rows:
        """Return the neighbours on this side, those on the other one at the ends."""
        beside = order + side
        beside = np.where((beside < 0) | (beside >= self.regular.size), order - side, beside)
        return np.asarray(self.regular[np.clip(beside, 0, self.regular.size - 1)])

    def _nearest(self, wanted: Vector) -> tuple[Rows, Rows]:
        order = self.between.searchsorted(wanted)
        return order, self.regular[order]


def _axis(dimension: Dimension, table: Sequence[Value], position: Vector) -> _Axis:
    if dimension.kind == "choice":
        nothing = np.zeros(0, dtype=np.int64)
        return _Axis(len(table), np.zeros(0), nothing, nothing, np.zeros(0))
    is_special = np.array([value in dimension.special for value in table])
    regular = np.flatnonzero(~is_special)
    ordered = regular[np.argsort(position[regular], kind="stable")]
    at = position[ordered]
    return _Axis(len(table), position, ordered, np.flatnonzero(is_special), (at[1:] + at[:-1]) / 2)


def _table(dimension: Dimension, points: Sequence[Point]) -> tuple[Value, ...]:
    known = dict.fromkeys((*dimension.levels, dimension.clip(dimension.default)))
    tried = (point[dimension.name] for point in points if dimension.name in point)
    return tuple(known | dict.fromkeys(dimension.clip(value) for value in tried if value not in known))


def _place(dimension: Dimension, places: Mapping[Value, int], value: Value) -> int:
    """Return the place of a value; those of a table are clipped already."""
    found = places.get(value)
    return places[dimension.clip(value)] if found is None else found


@lru_cache(maxsize=1024)
def _coordinates(dimension: Dimension, table: tuple[Value, ...]) -> Matrix:
    """Return the coordinates of values; kept, since a search asks for the same ones each time."""
    return np.array([dimension.encode(value) for value in table])


def _groups(dimensions: Sequence[Dimension]) -> NDArray[np.int64]:
    groups: list[int] = []
    for dimension in dimensions:
        following = groups[-1] + 1 if groups else 0
        shared = dimension.kind == "choice"
        groups.extend(following + (0 if shared else offset) for offset in range(dimension.width))
    return np.array(groups, dtype=np.int64)


def _folded(u: Vector) -> Vector:
    """Fold numbers into [0, 1] at its ends, so that a step across a bound leads back inside."""
    folded = np.abs(u) % 2.0
    return np.where(folded > 1.0, 2.0 - folded, folded)
