"""Bounds of axes that people can read, the same on every renderer. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable

_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)


def nice_step(span: float, parts: int = 5) -> float:
    """Return the step of the series 1, 2, 2.5, 5 that cuts this span into about so many parts."""
    raw = span / parts
    power = 10.0 ** math.floor(math.log10(raw))
    return next(step * power for step in _STEPS if step * power >= raw * 0.999)


def nice_bounds(values: Iterable[float]) -> tuple[float, float]:
    """Return bounds on whole steps that hold all values, never of zero width."""
    known = [value for value in values if math.isfinite(value)]
    low, high = min(known, default=0.0), max(known, default=1.0)
    if high - low < 1e-9 * max(abs(high), 1.0):
        low, high = low - 0.05 * max(abs(low), 1.0), high + 0.05 * max(abs(high), 1.0)
    step = nice_step(high - low)
    return _tidy(math.floor(low / step) * step), _tidy(math.ceil(high / step) * step)


def zero_based(values: Iterable[float | None]) -> tuple[float, float]:
    """Return bounds from 0 to at least 1, for what is stacked or is a rate: less than 1 of a unit stays small."""
    return 0.0, nice_bounds((0.0, max((value for value in values if value is not None), default=0.0), 1.0))[1]


def log_bounds(values: Iterable[float | None]) -> tuple[float, float]:
    """Return bounds of the series 1, 2, 5 for a logarithmic axis that holds all positive values."""
    known = [value for value in values if value is not None and value > 0]
    if not known:
        return 1.0, 10.0
    low, high = _one_two_five(min(known), up=False), _one_two_five(max(known), up=True)
    return (
        (low, high)
        if high / low >= 9.99
        else (_one_two_five(low / 2.01, up=False), _one_two_five(high * 2.01, up=True))
    )


def _one_two_five(value: float, *, up: bool) -> float:
    power = 10.0 ** math.floor(math.log10(value))
    steps = [step * power for step in (1.0, 2.0, 5.0, 10.0)]
    if up:
        return _tidy(next(step for step in steps if step >= value * 0.9999))
    return _tidy(next(step for step in reversed(steps) if step <= value * 1.0001))


def _tidy(value: float) -> float:
    return float(f"{value:.12g}")


def ticks(lo: float, hi: float, scale: str) -> tuple[float, ...]:
    """Return where an axis is labelled: whole steps, or 1, 2, 5 (1 alone beyond two decades) on a log axis."""
    if scale == "log":
        steps = (1.0,) if hi / lo > 100 else (1.0, 2.0, 5.0)
        powers = range(math.floor(math.log10(lo)), math.ceil(math.log10(hi)) + 1)
        every = (_tidy(step * 10.0**power) for power in powers for step in steps)
        return tuple(tick for tick in every if lo * 0.999 <= tick <= hi * 1.001)
    step = nice_step(hi - lo, 4)
    first, last = math.ceil(lo / step - 1e-9), math.floor(hi / step + 1e-9)
    return tuple(_tidy(index * step) for index in range(first, last + 1))


ROOM = 3.0
"""An axis ends here, as a multiple of its highest point, where whiskers reach farther: else nobody sees the points."""


def edge(points: Iterable[float], ends: Iterable[float]) -> float | None:
    """Return where an axis from zero has to end so that its points can be seen; None where all ends have room."""
    highest, farthest = max(points, default=0.0), max((end for end in ends if end < math.inf), default=0.0)
    return nice_bounds([0.0, ROOM * highest])[1] if farthest > ROOM * highest > 0 else None
