"""The non-uniform random numbers of TPC-C and their run constants. Pure."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

A_NAME, A_CUSTOMER, A_ITEM = 255, 1023, 8191
"""The constant A for a last name (0 to 999), a customer (1 to 3000) and an item (1 to 100,000): clause 2.1.6."""
C_NAME_LOAD = 173
"""C of the last names in the data. Any number of 0 to 255 would do, but another one would be other data."""
_NEAREST, _FARTHEST = 65, 119
_REFUSED = (96, 112)


@dataclass(frozen=True, slots=True)
class RunConstants:
    """C of each field in one run: last name, customer, item."""

    name: int
    customer: int
    item: int


def allowed(load: int, run: int) -> bool:
    """Tell whether C of the names may be `run` when the data were loaded with `load`: clause 2.1.6.1."""
    distance = abs(run - load)
    return _NEAREST <= distance <= _FARTHEST and distance not in _REFUSED


def run_constants(seed: int, load: int = C_NAME_LOAD) -> RunConstants:
    """Return the constants that belong to a seed: equal for both sides of a comparison, which have the same seed."""
    drawn = np.random.default_rng(seed)
    names = [run for run in range(A_NAME + 1) if allowed(load, run)]
    name, customer, item = (int(number) for number in drawn.integers(0, [len(names), A_CUSTOMER + 1, A_ITEM + 1]))
    return RunConstants(names[name], customer, item)


def nurand(generator: np.random.Generator, a: int, low: int, high: int, c: int, count: int) -> NDArray[np.int64]:
    """Return `count` numbers of `low` to `high`: ((random(0, a) | random(low, high)) + c) modulo the range, + low."""
    mixed = generator.integers(0, a, count, endpoint=True) | generator.integers(low, high, count, endpoint=True)
    found: NDArray[np.int64] = (mixed + c) % (high - low + 1) + low
    return found
