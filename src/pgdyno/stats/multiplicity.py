"""Several claims at once: p-values and intervals that hold for the whole family."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from pgdyno.errors import UsageError
from pgdyno.stats.sequential import Design


def holm(p_values: Sequence[float]) -> list[float]:
    """Return the adjusted p-values of Holm (1979), in the given order.

    Claiming those at or below alpha makes one false claim or more with probability at most alpha, under any
    dependence. Raises UsageError on a value outside 0 to 1.
    """
    p = np.asarray(p_values, dtype=np.float64)
    if not ((p >= 0) & (p <= 1)).all():
        raise UsageError("a p-value is not in 0 to 1")
    order = np.argsort(p, kind="stable")
    steps = np.minimum(p[order] * np.arange(p.size, 0, -1), 1.0)
    adjusted = np.empty_like(p)
    adjusted[order] = np.maximum.accumulate(steps) if p.size else steps
    return [float(value) for value in adjusted]


def family_design(design: Design, claims: int) -> Design:
    """Return the design for each of `claims` effects whose intervals shall hold together (Bonferroni).

    All intervals cover their truths at once with the confidence of `design`, also when each effect is looked at after
    every pair: Holm's gain needs p-values at a fixed number of pairs. Raises UsageError for fewer than one claim.
    """
    if claims < 1:
        raise UsageError(f"a family of {claims} claims is not possible")
    return replace(design, confidence=1 - (1 - design.confidence) / claims)
