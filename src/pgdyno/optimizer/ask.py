"""What to try next: the optimiser's one question, answered from the history alone.

Nothing is kept between calls. The same dimensions, history and seed give the same answer, so a study that was killed
goes on where it stopped.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from scipy.special import erfcx, log_ndtr

from pgdyno.knobs.dimension import Dimension, Value
from pgdyno.optimizer.candidates import Allowed, anything, search
from pgdyno.optimizer.encoding import Encoding, Point, Rows, Vector
from pgdyno.optimizer.feasibility import fit_feasibility, log_worth
from pgdyno.optimizer.model import Model, fit_model
from pgdyno.optimizer.observation import Data, ScoredPoint, gather

LEADERS = 4
CAUTION = 2.0
"""The standard deviation is widened by this much before the improvement is computed.

The model is fitted at the mode of its hyperparameters and so knows nothing of how unsure they are: with twenty to
fifty trials it is too sure of itself, and the search would nibble at the best point instead of looking elsewhere.
"""
LOCAL_SHARE = 0.4
LOCAL_WIDTH = 0.3
LN_ROOT_2PI = 0.5 * float(np.log(2 * np.pi))
TAIL = -1.0
"""Below this t the plain formula loses digits by cancellation."""
FAR_TAIL = -1e3
"""Below this t the bracket of the tail formula does too, and its series (1 / t^2) is exact."""


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A point to try. `origin` says why: start, spread, local, model, or anything (no better way was found).

    `log_expected_improvement` is ln of the expected gain in ln(performance) over the best tried point; None while
    there is no model. `repeats` says that the point was tried before, because no other one is left.
    """

    point: Mapping[str, Value]
    origin: str
    log_expected_improvement: float | None = None
    repeats: bool = False


def ask(
    dimensions: Sequence[Dimension],
    history: Sequence[ScoredPoint],
    *,
    starts: Sequence[Point] = (),
    skipped: Sequence[Point] = (),
    held: Collection[str] = (),
    seed: int,
    feasible: Callable[[Point], bool] = lambda _: True,
    initial: int = 10,
) -> Suggestion:
    """Return the next point to try: never infeasible, and never one already tried while there is another.

    A point maps names of `dimensions` to values in base units; knobs that it leaves out are at their default.
    `feasible` tells whether the constraints allow a point. `seed` is any integer: with the same one, the same arguments
    give the same answer.

    The default comes first, then `starts`, then up to `initial` points that alternate between the whole space and
    moves from the best so far, then the model's. `history` may hold failures, repeats and values out of range.
    `skipped` are points whose trials say nothing of them, good or bad, such as those that somebody else disturbed: they
    count as tried, and no model sees them. Knobs that are `held` stay at their default in what is asked.
    """
    data = gather(dimensions, history, [*starts, *skipped], held)
    encoding = data.encoding
    rng = np.random.default_rng([seed % 2**63, len(history) + len(skipped)])
    allowed = Allowed(encoding, np.vstack([data.rows, encoding.rows(skipped)]), feasible)
    first = allowed.first(encoding.with_held(np.vstack([encoding.default, encoding.rows(starts)])))
    if len(first):
        return Suggestion(encoding.point(first[0]), "start")
    if allowed.tried < initial or len(data.values) < 2:
        return _explore(data, allowed, seed, initial, rng)
    return _exploit(data, allowed, rng)


def _explore(data: Data, allowed: Allowed, seed: int, initial: int, rng: Generator) -> Suggestion:
    number = allowed.tried
    if number % 2 == 0 or not len(data.values):
        points = spread(data.encoding, max(initial, 1), seed % 2**63)
        row, origin = allowed.first(np.roll(points, -(number // 2), axis=0)), "spread"
    else:
        best = data.measured[int(np.argmax(data.values))]
        row, origin = allowed.first(local(data.encoding, best, 50, rng)), "local"
    return Suggestion(data.encoding.point(row[0]), origin) if len(row) else _anything(data, allowed, rng)


def _exploit(data: Data, allowed: Allowed, rng: Generator) -> Suggestion:
    model, encoding = fit_model(data), data.encoding
    works = fit_feasibility(encoding.features(data.rows), data.succeeded, encoding.groups)
    expected = model.posterior.on_grid(encoding.tables)
    label = None if works is None else works.on_grid(encoding.tables)

    def improvement(rows: Rows) -> Vector:
        mean, sd = expected.predict(rows)
        return log_expected_improvement(mean, CAUTION * sd, model.best)

    def score(rows: Rows) -> Vector:
        return improvement(rows) + (0.0 if label is None else log_worth(*label.predict(rows)))

    row = search(encoding, _leaders(data, model), score, allowed, rng)
    if not len(row):
        return _anything(data, allowed, rng)
    gain = float(improvement(row)[0]) + float(np.log(model.scaled.spread))
    return Suggestion(encoding.point(row[0]), "model", gain)


def _leaders(data: Data, model: Model) -> Rows:
    order = np.argsort(-model.tried_mean, kind="stable")[:LEADERS]
    return data.measured[order]


def _anything(data: Data, allowed: Allowed, rng: Generator) -> Suggestion:
    around = data.measured[int(np.argmax(data.values))] if len(data.values) else data.encoding.default
    row = anything(data.encoding, around, allowed, rng)
    return Suggestion(data.encoding.point(row[0] if len(row) else around), "anything", repeats=not len(row))


def spread(encoding: Encoding, count: int, seed: int) -> Rows:
    """Return `count` points of a Latin hypercube: each knob takes a value from each of `count` equal parts once."""
    rng = np.random.default_rng([seed, 1])
    size = len(encoding.dimensions)
    cells = rng.permuted(np.tile(np.arange(count), (size, 1)), axis=1).T
    return encoding.from_unit((cells + rng.random((count, size))) / count)


def local(encoding: Encoding, around: Rows, count: int, rng: Generator) -> Rows:
    """Return `count` points with about 40 % of the knobs moved from those of `around`, at least one.

    `around` is one row of the grid of `encoding`, shape (dimensions,); the result has shape (count, dimensions). `rng`
    decides which knobs move, and how far.
    """
    size = len(encoding.dimensions)
    mask: NDArray[np.bool_] = rng.random((count, size)) < LOCAL_SHARE
    mask[np.arange(count), rng.integers(0, size, count)] = True
    return encoding.moved(np.tile(around, (count, 1)), mask, np.full(count, LOCAL_WIDTH), rng)


def log_h(t: Vector) -> Vector:
    """Return ln(pdf(t) + t * cdf(t)), accurate for every t."""
    near = np.maximum(t, TAIL)
    plain = np.log(np.exp(-0.5 * near**2 - LN_ROOT_2PI) + near * np.exp(log_ndtr(near)))
    low = np.minimum(t, TAIL)
    far = np.maximum(low, FAR_TAIL)
    bracket = np.log(1.0 + far * np.sqrt(np.pi / 2) * erfcx(-far / np.sqrt(2)))
    tail = -0.5 * low**2 - LN_ROOT_2PI + np.where(low < FAR_TAIL, -2.0 * np.log(-low), bracket)
    return np.where(t > TAIL, plain, tail)


def log_expected_improvement(mean: Vector, sd: Vector, best: float) -> Vector:
    """Return the logarithm of the expected improvement over `best` for each row of `mean` and `sd`.

    EI(x) = sd * h(t), h(t) = pdf(t) + t * cdf(t), t = (mean - best) / sd. Far below the best, h underflows and gives no
    direction; ln h stays exact there through the scaled complementary error function (Ament et al. 2023, "Unexpected
    improvements to expected improvement").
    """
    return np.asarray(np.log(sd) + log_h((mean - best) / sd))
