"""How uneven a rate is: peak over mean, coefficient of variation, share of seconds without any. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from pgdyno.model.facts import Unknown
from pgdyno.units import rate_text

FEWEST = 5
LEAST_KB_S = 64.0
"""On average; a host that does nothing writes a few pages now and then."""
"""Fewer values than this tell nothing about bursts."""


@dataclass(frozen=True, slots=True)
class Burst:
    """The figures of a series of rates, one a second."""

    peak_to_mean: float | Unknown
    variation: float | Unknown
    idle_share: float | Unknown


def burst(series: Sequence[float]) -> Burst:
    """Return the burst figures of a series; the coefficient of variation is the standard deviation over the mean."""
    if len(series) < FEWEST:
        few = Unknown(f"{len(series)} readings are too few to see bursts; --window 10 makes enough")
        return Burst(few, few, few)
    mean = math.fsum(series) / len(series)
    idle = sum(value <= 0 for value in series) / len(series)
    if 0 < mean < LEAST_KB_S:
        little = Unknown(f"{rate_text(mean)} kB/s were written, too little to tell bursts from an idle host")
        return Burst(little, little, idle)
    if mean <= 0:
        nothing = Unknown("nothing was written in the window")
        return Burst(nothing, nothing, idle)
    deviation = math.sqrt(math.fsum((value - mean) ** 2 for value in series) / len(series))
    return Burst(max(series) / mean, deviation / mean, idle)
