"""From ln(performance) to the targets of the model, and back."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]

POOR_RANK = 4
FLOOR_FACTOR = 2.0


@dataclass(frozen=True, slots=True)
class Scaled:
    """Targets with mean 0 and standard deviation 1; a value in ln(performance) is center + spread * target."""

    targets: Vector
    center: float
    spread: float


def scale(values: Vector, *, floored: bool = True, reference: float = math.inf) -> Scaled:
    """Raise hopeless values to a floor, unless all of each is asked for, then standardise.

    The floor lies below a poor value, the fifth-worst, by twice the distance of the best above it: how bad a bad
    configuration is tells nothing about where the best one is, and would use up the model's range. The reference is
    a rank from the bottom, not the median: as the search gathers good points the median rises to the best one, and a
    floor that follows it would erase all that the first points taught. It is never above the `reference`, which no
    judgement of a gain over it may raise.
    """
    poor = float(np.sort(values)[min(POOR_RANK, (len(values) - 1) // 2)])
    best = float(values.max())
    floor = min(reference, poor - FLOOR_FACTOR * (best - poor))
    kept = np.maximum(values, floor) if floored and best > poor else values
    center, spread = float(kept.mean()), float(kept.std())
    if spread < 1e-9:
        spread = 1.0
    return Scaled((kept - center) / spread, center, spread)
