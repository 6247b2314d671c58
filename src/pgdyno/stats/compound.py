"""Ratios that compound: the product of independent steps and its interval, and what a measured end leaves unexplained.

Gains multiply: 12 % after 2 % is 14.24 %, not 14 %. The interval of a product is found on the scale of logarithms by
MOVER, the method of variance estimates recovery (Zou and Donner, Statistics in Medicine 27, 2008): the distances of
the bounds from their estimates add in quadrature. Nothing but the steps' own intervals is needed, which may be of
unequal length to both sides. The steps must be independent, each measured in pairs of its own; then the product's
interval holds with about the confidence of the steps' intervals, as the simulation of the tests shows.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from pgdyno.errors import UsageError
from pgdyno.model.verdict import Interval

METHOD = "MOVER on log ratios: the distances of independent bounds add in quadrature"
EXPLAINS = 0.1
"""How far an end may be off its product and be called explained: less than steps that matter would do together."""
_MOST = 700.0
"""The natural logarithm of the largest ratio that is told; a number ends at 709."""


def product(steps: Iterable[Interval]) -> Interval:
    """Return the product of independent ratios with its interval; 1 exactly for no step at all.

    Its confidence is the lowest of the steps'. Raises UsageError for a ratio that is not positive, and for a product
    that is no number any more.
    """
    known = tuple(steps)
    estimate = math.fsum(_log(step.ratio) for step in known)
    if abs(estimate) > _MOST:
        size = "large" if estimate > 0 else "small"
        raise UsageError(
            f"the product of {len(known)} ratios is too {size}", hint="Measure the one that is furthest from 1 again."
        )
    below = math.sqrt(math.fsum(_distance(step.lo, step.ratio) ** 2 for step in known))
    above = math.sqrt(math.fsum(_distance(step.ratio, step.hi) ** 2 for step in known))
    confidence = min((step.confidence for step in known), default=1.0)
    return _interval(estimate, below, above, confidence)


def quotient(end: Interval, expected: Interval) -> Interval:
    """Return end over expected with its interval, both independent: 1 means that the steps explain the end."""
    return product((end, inverse(expected)))


def interaction_word(rest: Interval) -> str:
    """Return what the measured end says of the product: explained, more or less than it, or not resolved.

    `rest` is end over product. An interval that includes 1 explains the end only where it stays within `EXPLAINS`.
    """
    if rest.lo > 1:
        return "more"
    if rest.hi < 1:
        return "less"
    is_narrow = rest.lo > 0 and max(1 / rest.lo, rest.hi) <= 1 + EXPLAINS
    return "explained" if is_narrow else "not resolved"


def inverse(found: Interval) -> Interval:
    """Return 1 over a ratio, bounds exchanged."""
    hi = math.inf if found.lo <= 0 else 1 / found.lo
    return Interval(1 / found.ratio, 0.0 if math.isinf(found.hi) else 1 / found.hi, hi, found.confidence)


def _log(ratio: float) -> float:
    if not (ratio > 0 and math.isfinite(ratio)):
        raise UsageError(f"a ratio of {ratio} cannot be compounded", hint="Ratios are positive numbers.")
    return math.log(ratio)


def _distance(low: float, high: float) -> float:
    if low <= 0 or math.isinf(high):
        return math.inf
    return max(0.0, math.log(high) - math.log(low))


def _interval(estimate: float, below: float, above: float, confidence: float) -> Interval:
    lo = 0.0 if math.isinf(below) else math.exp(estimate - below)
    hi = math.inf if math.isinf(above) or estimate + above > _MOST else math.exp(estimate + above)
    return Interval(math.exp(estimate), lo, hi, confidence)
