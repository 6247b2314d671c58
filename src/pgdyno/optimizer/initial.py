"""The first points, before a model has anything to say: spread over the whole space, and moves from the best so far."""

from __future__ import annotations

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from pgdyno.optimizer.encoding import Encoding, Rows

Vector = NDArray[np.float64]

LOCAL_SHARE = 0.4
LOCAL_WIDTH = 0.3


def spread(encoding: Encoding, count: int, seed: int) -> Rows:
    """Return `count` points of a Latin hypercube: each knob takes a value from each of `count` equal parts once."""
    rng = np.random.default_rng([seed, 1])
    size = len(encoding.dimensions)
    cells = rng.permuted(np.tile(np.arange(count), (size, 1)), axis=1).T
    return encoding.from_unit((cells + rng.random((count, size))) / count)


def local(encoding: Encoding, around: Rows, count: int, rng: Generator) -> Rows:
    """Return `count` points with about 40 % of the knobs moved from those of `around`, at least one."""
    size = len(encoding.dimensions)
    mask: NDArray[np.bool_] = rng.random((count, size)) < LOCAL_SHARE
    mask[np.arange(count), rng.integers(0, size, count)] = True
    return encoding.moved(np.tile(around, (count, 1)), mask, np.full(count, LOCAL_WIDTH), rng)
