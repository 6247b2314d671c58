"""The baseline's level over time, and each trial's score relative to it. Pure.

Search trials are single shots spread over an hour, and the machine does not stand still meanwhile. Each is therefore
scored against the baseline as it was then: the running median of three re-measured baselines, interpolated in time.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def relative_scores(trials: Sequence[tuple[float, float]], baselines: Sequence[tuple[float, float]]) -> list[float]:
    """Return ln(figure / baseline level at that time) for each trial.

    Both arguments are (time in seconds, figure > 0), baselines in order of time. Before the first and after the last
    baseline the level is held. Needs one baseline at least.
    """
    if not trials:
        return []
    times = np.array([time for time, _ in baselines])
    level = _running_median(np.log([figure for _, figure in baselines]))
    at = np.interp([time for time, _ in trials], times, level)
    scores = np.log([figure for _, figure in trials]) - at
    return [float(score) for score in scores]


def _running_median(values: Floats) -> Floats:
    """Return the median of each value with its two neighbours; the ends take that of the nearest three."""
    if values.size < 3:
        return np.full(values.shape, np.median(values))
    windows = np.lib.stride_tricks.sliding_window_view(values, 3)
    middle = np.median(windows, axis=1)
    return np.concatenate(([middle[0]], middle, [middle[-1]]))
