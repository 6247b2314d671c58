"""When more search is not worth it: nothing that was tried shows, or the model expects less than the noise."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy.special import fdtri

EARLIEST = 25
"""Suggestions before which the model's promises end no search: a model of fewer trials is too sure of itself."""
PATIENCE = 5
"""How many suggestions in a row must promise less than the noise."""
FLAT_FROM = 10
"""So many points must have been measured before a space is called flat: the first ones, which cover it."""
FLAT_SHARE = 6
"""And one in so many of the trials that the search may make, so that a search of many trials looks further."""
FLAT_REPEATS = 4
"""So often must the default have been measured: the noise of fewer runs is anybody's guess."""
FLAT_LEVEL = 0.95
"""A flat space passes each look with about this chance (F distribution)."""


def should_stop(log_expected_improvements: Sequence[float | None], noise_sd: float) -> str | None:
    """Return why the search should end, None while it is worth going on.

    `log_expected_improvements` are those of the suggestions so far, None where no model led; `noise_sd` is the
    standard deviation of ln(performance) of one trial. The rule is a proposal of the project's study of optimisers
    (five asks in a row, at 25 trials or more) and bounds regret by what could not be measured anyway. It ends the
    search of a few knobs; with many, some corner always promises more (docs/explanation/optimizer.md).
    """
    if len(log_expected_improvements) < EARLIEST or noise_sd <= 0:
        return None
    floor = math.log(noise_sd) + math.log(0.1)
    last = log_expected_improvements[-PATIENCE:]
    if any(promise is None or promise > floor for promise in last):
        return None
    return f"{PATIENCE} suggestions in a row promised less than a tenth of the noise of one trial"


def is_flat(tried: Sequence[float], default: Sequence[float], *, trials: int) -> bool:
    """Return whether the tried points differ from the default no more than its own repeats differ from each other.

    Both are ln(performance): one score for each other point, and the default's repeats. `trials` is how many the
    search may make. Compares mean squares by the F distribution. The lowest point is left out: it may have been
    disturbed, and that one point is bad says nothing of a gain. That a knob does nothing anywhere is not shown: ten
    points miss one in ten of the cliffs that lie in a quarter of one knob's range.
    """
    if len(default) < FLAT_REPEATS or len(tried) < max(FLAT_FROM, trials // FLAT_SHARE):
        return False
    level, noise = float(np.mean(default)), float(np.var(default, ddof=1))
    kept = np.sort(np.asarray(tried, dtype=np.float64))[1:]
    bound = float(fdtri(len(kept), len(default) - 1, FLAT_LEVEL)) * (1 + 1 / len(default))
    return float(np.mean((kept - level) ** 2)) <= bound * noise
