"""What a machine can show: from repeated equal runs to the smallest effect by window, pairs and minutes. Pure.

Every run is a series of seconds. Cut to its first w seconds, or to any w of them, it is the run that a window of w
seconds would have been, so that the noise of each window length is seen and not assumed: seconds that hang together
(a checkpoint, a neighbour) make a longer window worth less than independent ones would, and that is in the figures.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from pgdyno.errors import UsageError
from pgdyno.stats.arrays import Floats
from pgdyno.stats.distributions import chdtri, stdtrit
from pgdyno.stats.noise import MOST_EFFECT, last_critical, noise_floor
from pgdyno.stats.sequential import Design

_critical = cache(last_critical)

POWER = 0.8
SHORTEST_S = 2
"""The shortest window that a trial may have (`trial.assess.Bounds`)."""
LONGER = (2, 4)
"""Windows longer than those that were measured, as multiples: extrapolated, and said to be."""
MOST_PAIRS = 1000


@dataclass(frozen=True, slots=True)
class SecondsSeries:
    """One run, second by second: the figure of any part of it is the sum of `above` over the sum of `below`."""

    above: Floats
    below: Floats


@dataclass(frozen=True, slots=True)
class WindowNoise:
    """What a pair of runs with this window carries: the standard deviation of its log ratio."""

    window_s: float
    pair_sd: float
    measured: bool


def noise_by_window(runs: Sequence[SecondsSeries]) -> list[WindowNoise]:
    """Return the noise of a pair for windows from SHORTEST_S to the length of the runs, doubling, and longer ones.

    The runs stand in their order, so that neighbours are pairs and a drift cancels (`noise.noise_floor`). A window
    that fits several times into a run is averaged over its places. Raises UsageError for fewer than three runs, or
    runs shorter than the shortest window.
    """
    length = min((run.above.size for run in runs), default=0)
    if len(runs) < 3 or length < SHORTEST_S:
        raise UsageError(
            f"{len(runs)} runs of at least {length} s tell no noise",
            hint=f"Measure three runs or more, of {SHORTEST_S} s or longer.",
        )
    windows = [length]
    while windows[-1] // 2 >= SHORTEST_S:
        windows.append(windows[-1] // 2)
    found = [WindowNoise(float(window), _pair_sd(runs, window, length), True) for window in reversed(windows)]
    floor, per_s = _law(found)
    longer = [float(length * times) for times in LONGER]
    return found + [WindowNoise(window, math.sqrt(floor + per_s / window), False) for window in longer]


def run_figures(runs: Sequence[SecondsSeries]) -> Floats:
    """Return the figure of each whole run."""
    return np.array([run.above.sum() / run.below.sum() for run in runs], dtype=np.float64)


def neighbour_correlation(figures: Sequence[float] | Floats) -> float | None:
    """Return how much neighbouring runs resemble each other: the correlation of their logarithms, lag 1.

    None for fewer than six runs, or runs that are all alike. High where the machine drifts: interleaving is what helps.
    """
    logs = np.log(np.asarray(figures, dtype=np.float64))
    logs = logs - logs.mean()
    total = float((logs * logs).sum())
    return float((logs[1:] * logs[:-1]).sum()) / total if logs.size >= 6 and total > 0 else None


def detectable(pair_sd: float, pairs: int, design: Design, power: float = POWER) -> float | None:
    """Return the smallest effect, as a ratio distance, that a comparison of up to `pairs` pairs shows with this power.

    `pair_sd` is the standard deviation of a pair's log ratio, `power` the chance to show the effect, in (0, 1). The
    last look of the sequential rule alone (`sequential`) under `design`, with its doubt about few pairs; earlier looks
    add a little. None past MOST_EFFECT, or for fewer pairs than the design's first look.
    """
    if pairs < max(2, design.min_pairs):
        return None
    critical = _critical(pairs, design.confidence)
    scatter = math.hypot(pair_sd, design.doubt / (pairs - 1))
    reach = (critical * scatter + float(stdtrit(pairs - 1, power)) * pair_sd) / math.sqrt(pairs)
    return math.expm1(reach) if reach <= math.log1p(MOST_EFFECT) else None


def pairs_for(pair_sd: float, effect: float, design: Design) -> int | None:
    """Return the fewest pairs that show an effect of this ratio distance, None past MOST_PAIRS."""

    def shows(pairs: int) -> bool:
        found = detectable(pair_sd, pairs, design)
        return found is not None and found <= effect

    possible = range(MOST_PAIRS + 1)
    fewest = bisect_left(possible, True, key=shows)
    return fewest if fewest in possible else None


def at_most(pair_sd: float, runs: int, confidence: float = 0.9) -> float:
    """Return the scatter that is not exceeded with this confidence, given how few runs it comes from.

    Neighbouring pairs share a run: about as good as 0.7 independent ones each, from the variance of mean successive
    differences of normal noise.
    """
    freedom = max(1.0, 0.7 * (runs - 2))
    return pair_sd * math.sqrt(freedom / float(chdtri(freedom, confidence)))


def _pair_sd(runs: Sequence[SecondsSeries], window: int, length: int) -> float:
    squares = []
    for place in range(length // window):
        part = slice(place * window, (place + 1) * window)
        figures = np.array([run.above[part].sum() / run.below[part].sum() for run in runs])
        if np.isfinite(figures).all() and (figures > 0).all():
            squares.append(noise_floor(figures).pair_sd ** 2)
    return math.sqrt(sum(squares) / len(squares)) if squares else math.inf


def _law(found: Sequence[WindowNoise]) -> tuple[float, float]:
    """Fit variance = floor + per_s / window, neither below 0: what no window helps against, and what length does."""
    known = [noise for noise in found if math.isfinite(noise.pair_sd)]
    x = np.array([1 / noise.window_s for noise in known])
    y = np.array([noise.pair_sd**2 for noise in known])
    if x.size < 2:
        return float(y.mean()) if y.size else math.inf, 0.0
    per_s, floor = (float(value) for value in np.polyfit(x, y, 1))
    if floor < 0:
        return 0.0, float((x * y).sum() / (x * x).sum())
    return (float(y.mean()), 0.0) if per_s < 0 else (floor, per_s)
