"""What the optimiser is told: points with what they measured."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pgdyno.knobs.dimension import Dimension, Value
from pgdyno.optimizer.encoding import Encoding, Rows, Vector


@dataclass(frozen=True, slots=True)
class ScoredPoint:
    """A trial: its point, and ln(performance) (higher is better), None when it failed or was refused."""

    point: Mapping[str, Value]
    value: float | None


@dataclass(frozen=True, slots=True)
class Data:
    """A history made ready for the models: one line for each distinct point.

    `rows` are grid rows of all tried points; `succeeded` marks those that were measured at least once. `values` are
    the mean ln(performance) of the succeeded ones, in order, and `counts` of how many measurements. `squares` is the
    sum over all measurements of the squared deviation from their point's mean: what repeats say about the noise.
    """

    encoding: Encoding
    rows: Rows
    succeeded: NDArray[np.bool_]
    values: Vector
    counts: Vector
    squares: float

    @property
    def measured(self) -> Rows:
        """Return the rows of the succeeded points, aligned with `values`."""
        return self.rows[self.succeeded]


def gather(
    dimensions: Sequence[Dimension],
    history: Sequence[ScoredPoint],
    points: Sequence[Mapping[str, Value]] = (),
    held: Collection[str] = (),
) -> Data:
    """Put a history in order; `points` are further points that the grid must hold. Repeats of a point are averaged.

    A trial of the `history` whose value is None or not finite counts as tried, not as measured. `dimensions` are the
    columns of the grid, in this order; `held` names those that stay at their default when points are drawn.
    """
    encoding = Encoding(dimensions, [*(seen.point for seen in history), *points], held)
    by_row: dict[tuple[int, ...], list[float]] = {}
    for seen, row in zip(history, encoding.rows([seen.point for seen in history]).tolist(), strict=True):
        usable = seen.value is not None and np.isfinite(seen.value)
        by_row.setdefault(tuple(row), []).extend([float(seen.value or 0.0)] if usable else [])
    rows = np.array(list(by_row), dtype=np.int64).reshape(-1, len(encoding.dimensions))
    lists = list(by_row.values())
    return Data(
        encoding=encoding,
        rows=rows,
        succeeded=np.array([bool(values) for values in lists], dtype=np.bool_),
        values=np.array([np.mean(values) for values in lists if values]),
        counts=np.array([float(len(values)) for values in lists if values]),
        squares=float(sum(len(values) * np.var(values) for values in lists if values)),
    )
