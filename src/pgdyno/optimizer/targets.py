"""From ln(performance) to the targets of the model, and back."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]

FLOOR_FACTOR = 2.0


@dataclass(frozen=True, slots=True)
class Scaled:
    """Targets with mean 0 and standard deviation 1; a value in ln(performance) is center + spread * target."""

    targets: Vector
    center: float
    spread: float


def scale(values: Vector) -> Scaled:
    """Raise hopeless values to a floor, then standardise.

    The floor lies below the median by twice the distance of the best above it: how bad a bad configuration is tells
    nothing about where the best one is, and would use up the model's range.
    """
    median, best = float(np.median(values)), float(values.max())
    kept = np.maximum(values, median - FLOOR_FACTOR * (best - median)) if best > median else values
    center, spread = float(kept.mean()), float(kept.std())
    if spread < 1e-9:
        spread = 1.0
    return Scaled((kept - center) / spread, center, spread)
