"""Print how many doubled statements a detector would name that knows everything of the load but what changed and when.

    python bench/watch_bound.py [--drift 0.2] [--statements 30] [--weeks 10] [--changes 40] [--first-seed 200]

A likelihood ratio for each beginning in the newest 30 periods of a minute and each of the dearest statements, with the
level, the wander and the scatter of calls that the load was made from, and with the factor of 2: no rule that must
learn any of it can do better. Its bound is set where so many weeks without a change have one false alarm each, or 0.3.
The steps are those of `watch.py` with the same --first-seed.
"""

from __future__ import annotations

import argparse
import math
import random

import numpy as np
from numpy.typing import NDArray

from live_simulation import LiveSimulation, SimulatedLoad
from pgdyno.stats.body_index import PeriodCounts

Floats = NDArray[np.float64]
LEFT, AGES, WEEK, AT, PERIOD_S = 0.8, 30, 10_080, 60, 60.0
LEAST = 4.0
"""Ratios below are not kept, in ln: in a week there are too many of them."""


class Omniscient:
    """The logarithms of the likelihood ratios of doubled means over equal ones, by statement and beginning."""

    def __init__(self, simulation: LiveSimulation, drift: float, statements: int) -> None:
        dear = -simulation.rates * simulation.means * (simulation.rates > 0.2)
        self.numbers = np.argsort(dear)[:statements]
        self._whole = drift**2 / (2 * (1 - LEFT))
        self._levels = np.log(simulation.means[self.numbers])
        self._cvs = simulation.cvs[self.numbers]
        self._state, self._variance = np.zeros(statements), np.zeros(statements)
        self._taken, self._ratios = np.zeros((statements, AGES)), np.zeros((statements, AGES))

    def add(self, period: PeriodCounts) -> Floats:
        """Take a period and return each statement's largest ratio."""
        self._state *= LEFT
        self._variance = LEFT**2 * self._variance + (1 - LEFT**2) * self._whole
        for sums in (self._taken, self._ratios):
            sums[:, 1:] = sums[:, :-1].copy()
            sums[:, 0] = 0.0
        self._taken *= LEFT
        calls, times = period.calls[self.numbers], period.time_ms[self.numbers]
        known = calls > 0
        shape = np.maximum(calls, 1.0) / self._cvs**2
        sampled = 1 / shape + 0.5 / shape**2
        means = np.log(np.where(known, times, 1.0) / np.maximum(calls, 1.0)) - self._levels + sampled / 2
        misses, variance = means - self._state, self._variance + sampled
        course = math.log(2) * (1 - self._taken)
        gained = (course * misses[:, None] - course**2 / 2) / variance[:, None]
        self._ratios += np.where(known[:, None], gained, 0.0)
        gain = np.where(known, self._variance / variance, 0.0)
        self._state += gain * np.where(known, misses, 0.0)
        self._taken += gain[:, None] * (1 - self._taken)
        self._variance *= 1 - gain
        return np.asarray(self._ratios.max(axis=1), dtype=np.float64)


def false_peaks(load: SimulatedLoad, seed: int, statements: int) -> list[float]:
    """Return the largest ratio of each false alarm in a week without a change, one a statement and AGES periods."""
    simulation = LiveSimulation(load, seed)
    detector, peaks = Omniscient(simulation, load.drift, statements), []
    last = np.full(statements, -AGES)
    best = np.zeros(statements)
    for number in range(WEEK):
        ratios = detector.add(simulation.period(PERIOD_S))
        for one in np.flatnonzero((best > LEAST) & (number - last >= AGES)):
            peaks.append(float(best[one]))
            best[one] = 0.0
        begins = (ratios > LEAST) & (best <= LEAST)
        last[begins] = number
        best = np.where(ratios > LEAST, np.maximum(best, ratios), best)
    return peaks


def reached(load: SimulatedLoad, seed: int, statements: int) -> float:
    """Return the largest ratio of the statement that takes twice as long, within half an hour."""
    simulation = LiveSimulation(load, 1000 + seed)
    detector, best = Omniscient(simulation, load.drift, statements), -math.inf
    slow = random.Random(seed).randrange(50) % 15
    for number in range(AT + AGES):
        factors = np.ones(load.statements)
        if number >= AT:
            factors[detector.numbers[slow]] = 2.0
        ratios = detector.add(simulation.period(PERIOD_S, factors))
        if number >= AT:
            best = max(best, float(ratios[slow]))
    return best


def main() -> None:
    """Parse the flags and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--drift", type=float, default=0.2)
    parser.add_argument("--statements", type=int, default=30)
    parser.add_argument("--weeks", type=int, default=10)
    parser.add_argument("--changes", type=int, default=40)
    parser.add_argument("--first-seed", type=int, default=200)
    options = parser.parse_args()
    load = SimulatedLoad(drift=options.drift)
    found = [false_peaks(load, 9000 + week, options.statements) for week in range(options.weeks)]
    peaks = sorted((peak for week in found for peak in week), reverse=True)
    seeds = range(options.first_seed, options.first_seed + options.changes)
    best = np.array([reached(load, seed, options.statements) for seed in seeds])
    for alarms in (1.0, 0.3):
        place = int(alarms * options.weeks)
        least = peaks[place] if place < len(peaks) else LEAST
        print(
            f"means differ by {options.drift:g}, {options.statements} statements, {alarms:g} false alarms a week: "
            f"{int((best > least).sum())} of {options.changes} named within 30 min (ratio above e^{least:.1f})"
        )


if __name__ == "__main__":
    main()
