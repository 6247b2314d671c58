"""The points among which the acquisition chooses: everywhere, near to the best, and near to the most promising."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np
from numpy.random import Generator

from pgdyno.optimizer.encoding import Encoding, Point, Rows, Vector

Score = Callable[[Rows], Vector]

EVERYWHERE, NEAR, ROUNDS, KEPT, PER_KEPT = 300, 400, 12, 5, 50
"""In three rounds twenty knobs come three quarters of the way to the most promising point, in twelve nine tenths."""
SHORT, LONG, LONG_SHARE = 0.12, 0.5, 0.3
MORE_TRIES = 300
HIGHEST = 100
"""Of the scores, so many are put in order before the rest is."""
COUNTABLE = 5000
"""A space of so few points is gone through to the last one before it is called spent."""


class Allowed:
    """Says which rows may be tried: new ones that satisfy the constraints. Asks the constraints once per row."""

    def __init__(self, encoding: Encoding, tried: Rows, feasible: Callable[[Point], bool]) -> None:
        self._encoding, self._feasible = encoding, feasible
        self._known = {tuple(row): False for row in tried.tolist()}
        self.tried = len(self._known)
        """How many distinct rows were tried."""

    def __call__(self, row: Rows) -> bool:
        """Return True for a row that is new and feasible."""
        key = tuple(row.tolist())
        if key not in self._known:
            self._known[key] = self._feasible(self._encoding.point(row))
        return self._known[key]

    def first(self, rows: Rows, count: int = 1, *, order: Iterable[int] | None = None) -> Rows:
        """Return the first `count` allowed rows, in this order of their places, or as many as there are."""
        found = []
        for row in rows if order is None else (rows[place] for place in order):
            if self(row):
                found.append(row)
                if len(found) == count:
                    break
        return np.array(found, dtype=np.int64).reshape(-1, rows.shape[1])


def search(encoding: Encoding, leaders: Rows, score: Score, allowed: Allowed, rng: Generator) -> Rows:
    """Return the allowed row with the highest score found, shape (1, dimensions); (0, dimensions) if none was found.

    `leaders` are tried points, rows of the grid of `encoding`. Random points of the whole space and moves of a few
    knobs from the leaders, all drawn from `rng`, are scored; then, in rounds, moves from the highest-scoring allowed
    ones. `score` returns one value per row, `allowed` tells whether a row may be tried.
    """
    anywhere = encoding.from_unit(rng.random((EVERYWHERE, len(encoding.dimensions))))
    near = perturbed(encoding, np.resize(leaders, (NEAR, leaders.shape[1])), rng)
    rows = np.vstack([anywhere, near])
    values = score(rows)
    for _ in range(ROUNDS):
        top = allowed.first(rows, KEPT, order=_highest(values))
        if not len(top):
            break
        more = perturbed(encoding, np.repeat(top, PER_KEPT, axis=0), rng)
        rows, values = np.vstack([rows, more]), np.concatenate([values, score(more)])
    return allowed.first(rows, order=_highest(values))


def _highest(values: Vector) -> Iterator[int]:
    """Yield the places of values, the highest first and equal ones in their order; few are asked for, of thousands."""
    least = np.partition(values, -min(HIGHEST, values.size))[-min(HIGHEST, values.size)]
    is_high = values >= least
    for places in (np.flatnonzero(is_high), np.flatnonzero(~is_high)):
        yield from places[np.argsort(-values[places], kind="stable")].tolist()


def perturbed(encoding: Encoding, rows: Rows, rng: Generator) -> Rows:
    """Return rows in each of which a few knobs (one to six, mostly one or two) take another, mostly near value."""
    count, size = rows.shape
    wanted = np.minimum(rng.geometric(0.45, count), min(6, size))
    lots = rng.random((count, size))
    mask = lots <= np.sort(lots, axis=1)[np.arange(count), wanted - 1, None]
    width = np.where(rng.random(count) < LONG_SHARE, LONG, SHORT)
    return encoding.moved(rows, mask, width, rng)


def anything(encoding: Encoding, around: Rows, allowed: Allowed, rng: Generator) -> Rows:
    """Return some allowed row (1, dimensions) when all else found none; (0, dimensions) when there seems to be none.

    Tries random points, then random points with more and more knobs put back to those of `around`, which is known to
    satisfy the constraints, then moves of a few knobs from it, then every point of a space that has few. `around` is
    one row of the grid of `encoding`, shape (dimensions,); `rng` draws the points, `allowed` tells which may be tried.
    """
    around = encoding.with_held(around)
    size = len(encoding.dimensions)
    rows = encoding.from_unit(rng.random((MORE_TRIES, size)))
    back = rng.random((MORE_TRIES, size)) < np.linspace(0, 1, MORE_TRIES)[:, None]
    blended = np.where(back, around[None, :], rows)
    near = perturbed(encoding, np.tile(around, (MORE_TRIES, 1)), rng)
    return allowed.first(np.vstack([blended, near, encoding.every(COUNTABLE)]))
