"""Log ratios, paired and not, and the classical interval of their mean.

A pair is two runs side by side, one of each arm, in random order. ln(b/a) is the unit of analysis: drift that both
runs share cancels, and a run that is 10 % faster weighs the same in either direction.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from pgdyno.errors import UsageError
from pgdyno.model.verdict import Interval
from pgdyno.stats.arrays import Floats
from pgdyno.stats.distributions import stdtrit


def log_ratios(a: Sequence[float] | Floats, b: Sequence[float] | Floats) -> Floats:
    """Return ln(b/a) of each pair, shape (pairs,).

    Raises UsageError when the arms differ in length, are empty, or hold a value that is not finite and positive.
    """
    first, second = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    if first.ndim != 1 or first.shape != second.shape:
        raise UsageError(f"arms of {first.size} and {second.size} values are not pairs", hint="Give one value a run.")
    if first.size == 0:
        raise UsageError("there are no pairs to compare", hint="Run at least one pair.")
    for name, values in (("a", first), ("b", second)):
        unusable = ~(np.isfinite(values) & (values > 0))
        if unusable.any():
            where = int(np.argmax(unusable))
            raise UsageError(
                f"value {values[where]} of arm {name} in pair {where + 1} is not a positive number",
                hint="Leave out pairs with a failed or void run.",
            )
    return np.asarray(np.log(second) - np.log(first), dtype=np.float64)


def t_interval(log_ratios: Sequence[float] | Floats, confidence: float = 0.95) -> Interval:
    """Return the ratio with Student's interval for a number of pairs that was fixed beforehand.

    Not valid when one looked at the pairs to decide when to stop: use `sequential.judge` there. Raises UsageError
    for fewer than two pairs.
    """
    values = _finite(log_ratios)
    mean, error = float(values.mean()), float(values.std(ddof=1)) / math.sqrt(values.size)
    half = float(-stdtrit(values.size - 1, (1 - confidence) / 2)) * error
    return interval(mean, half, confidence)


def interval(mean: float, half: float, confidence: float) -> Interval:
    """Turn a mean log ratio and a half-width (infinite allowed) into an interval of the ratio."""
    return Interval(ratio=_exp(mean), lo=_exp(mean - half), hi=_exp(mean + half), confidence=confidence)


def _finite(log_ratios: Sequence[float] | Floats) -> Floats:
    values = np.asarray(log_ratios, dtype=np.float64)
    if values.ndim != 1 or values.size < 2:
        raise UsageError(f"an interval needs at least two pairs, not {values.size}", hint="Run more pairs.")
    if not np.isfinite(values).all():
        raise UsageError("a log ratio is not a finite number", hint="Leave out pairs with a failed or void run.")
    return values


def _exp(value: float) -> float:
    return math.exp(value) if value < 700 else math.inf


def ratio_interval(a: Sequence[float], b: Sequence[float], confidence: float = 0.95) -> Interval | None:
    """Return geometric mean of A over that of B with Welch's interval; None unless each side has two runs or more.

    For runs that are no pairs, such as those of two machines. It covers how much runs scatter on each side, and nothing
    else: what differs between the days or places at which the sides were measured is in the ratio, and no interval
    shows it. So no verdict may rest on it.

    Raises UsageError for a value that is not finite and positive.
    """
    if len(a) < 2 or len(b) < 2:
        return None
    for value in (*a, *b):
        if not (math.isfinite(value) and value > 0):
            raise UsageError(f"{value} is not a positive number", hint="Leave out runs in which nothing was measured.")
    first, second = np.log(np.asarray(a, dtype=np.float64)), np.log(np.asarray(b, dtype=np.float64))
    parts = [float(side.var(ddof=1)) / side.size for side in (first, second)]
    error = math.sqrt(sum(parts))
    mean = float(first.mean() - second.mean())
    if error == 0:
        return interval(mean, 0.0, confidence)
    freedom = sum(parts) ** 2 / sum(part**2 / (n - 1) for part, n in zip(parts, (len(a), len(b)), strict=True))
    return interval(mean, float(-stdtrit(freedom, (1 - confidence) / 2)) * error, confidence)
