"""The noise floor: how much repeated runs of one configuration differ, and so what a number of pairs can resolve."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pgdyno.errors import UsageError
from pgdyno.stats.arrays import Floats
from pgdyno.stats.boundary import critical_values
from pgdyno.stats.distributions import stdtr, stdtrit
from pgdyno.stats.paired import log_ratios
from pgdyno.units import plural

MOST_EFFECT = 1.0
"""Past an effect of a factor of two runs differ too much to tell: a normal scatter of logarithms is no model then."""
RUNS_TO_TELL = 4
"""Of three runs the two steps may agree by chance: 1 set in 8 shows less than a fifth of the noise, of four 1 in 31."""
ODD_FACTOR, ODD_DISTANCE = 5.0, math.log(1.5)
"""A run is odd when it is a factor of 1.5 from the median of the others, and five times as far as any of them.

Of four normal runs of CV 5 % one in 2000 sets has one, of five runs of CV 20 % one set in 30.
"""
_EXACT_PAIRS = 60
"""Up to here the boundary is computed; beyond, its normal value hardly moves and is carried on."""


@dataclass(frozen=True, slots=True)
class NoiseFloor:
    """The noise of one configuration on one machine.

    `cv` is the standard deviation of the runs over their mean, drift included (0.05 = 5 %). `pair_sd` is the standard
    deviation of the log ratio of two neighbouring runs, with a steady drift taken out: what a pair of an interleaved
    comparison carries. `pairs` is the number of neighbours that it comes from, `runs` of runs.
    """

    cv: float
    pair_sd: float
    pairs: int
    runs: int

    def detectable(self, pairs: int, power: float = 0.8, confidence: float = 0.95) -> float | None:
        """Return the smallest effect, as a ratio distance, that a comparison of at most `pairs` pairs resolves.

        None past MOST_EFFECT, where the runs differ too much to tell, and for fewer runs than RUNS_TO_TELL. Holds with
        probability `power` for a sequential comparison with looks from the third pair on (`boundary`). Raises
        UsageError for fewer than two pairs.
        """
        reach = self._reach(pairs, power, confidence)
        return math.expm1(reach) if self.runs >= RUNS_TO_TELL and reach <= math.log1p(MOST_EFFECT) else None

    def _reach(self, pairs: int, power: float, confidence: float) -> float:
        """Return the log ratio at which the last look alone has about this power (Student's approximation)."""
        if pairs < 2:
            raise UsageError(f"{pairs} pairs cannot resolve an effect", hint="Plan at least 2 pairs, better 6.")
        critical = last_critical(pairs, confidence)
        return (critical + float(stdtrit(pairs - 1, power))) * self.pair_sd / math.sqrt(pairs)


def noise_floor(values: Sequence[float] | Floats) -> NoiseFloor:
    """Return the noise floor of repeated runs of one configuration, in the order in which they were run.

    `pair_sd` is sqrt(pi/2) times the mean absolute deviation of the m successive log ratios from their mean, over
    sqrt(1 - 1/m^2), because neighbours share a run and their mean varies by 1/m^2 only: a trend cancels, and one odd
    run weighs less than in a root mean square. Of three runs it is known to a factor of about two only. Raises
    UsageError for fewer than three runs or a value that is not positive.
    """
    series = np.asarray(values, dtype=np.float64)
    if series.ndim != 1 or series.size < 3:
        raise UsageError(f"a noise floor needs at least 3 runs, not {series.size}", hint="Repeat the baseline.")
    steps = log_ratios(series[:-1], series[1:])
    deviation = float(np.abs(steps - steps.mean()).mean()) * steps.size / math.sqrt(steps.size**2 - 1)
    return NoiseFloor(
        cv=float(series.std(ddof=1) / series.mean()),
        pair_sd=math.sqrt(math.pi / 2) * deviation,
        pairs=int(steps.size),
        runs=int(series.size),
    )


def why_untold(runs: int) -> str:
    """Say why so many runs promise no smallest effect, where `detectable` is None."""
    return f"{plural(runs, 'run')} {'are too few' if runs < RUNS_TO_TELL else 'differ too much'} to tell"


def odd_run(values: Sequence[float] | Floats) -> int | None:
    """Return the place of the one run that stands apart from all the others, None where there is no such run.

    Needs four runs: of three nobody can say which is the odd one. Two odd runs are none, they are the noise. All
    values must be positive.
    """
    if len(values) < 4:
        return None
    series = np.log(np.asarray(values, dtype=np.float64))
    for place in range(series.size):
        others = np.delete(series, place)
        middle = np.median(others)
        distance, reach = abs(series[place] - middle), np.abs(others - middle).max()
        if distance > max(ODD_DISTANCE, ODD_FACTOR * reach):
            return place
    return None


def last_critical(pairs: int, confidence: float) -> float:
    """Return the critical |t| of the last look of a design of `pairs` pairs."""
    exact = min(pairs, _EXACT_PAIRS)
    critical = critical_values(min(3, exact), exact, confidence)[-1]
    if pairs == exact:
        return critical
    # The same nominal level with more degrees of freedom.
    return float(-stdtrit(pairs - 1, stdtr(exact - 1, -critical)))
