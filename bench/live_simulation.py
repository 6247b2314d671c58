"""Simulated live loads: what statements do period by period, with a mix and parameters that drift, and a known effect.

No servers and no clock. A load has `statements` classes whose calls are Zipf-like, the rarer ones being the slower
ones, and a few rare reports that take a third of all the time. From period to period the calls of each class wander
about their level (0.37 in ln between neighbours, as measured on a real load), the load as a whole moves in waves, and
the mean of each class wanders by `drift` (0.12, as measured). The calls of a class within a period are Poisson; their
mean time has a gamma distribution with the class's coefficient of variation.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pgdyno.stats.body_index import PeriodCounts, StatementBody, StatementReference, added, body_of, pair_index

Floats = NDArray[np.float64]
REPORTS, REPORT_EVERY_S = 4, 60.0
_MEMORY = 0.8
"""How much of a class's level is left in the next period: what wanders comes back."""


@dataclass(frozen=True, slots=True)
class SimulatedLoad:
    """What a load is like; `calls_a_second` of all classes together."""

    statements: int = 200
    calls_a_second: float = 1200.0
    drift: float = 0.12
    wander: float = 0.37
    waves: float = 0.15
    drift_spread: float = 0.0
    """How unlike the classes drift: the deviation of `drift` among them, in ln."""


class LiveSimulation:
    """One load from which period after period is drawn. `seed` fixes its classes and everything that they do."""

    def __init__(self, load: SimulatedLoad, seed: int) -> None:
        self._load = load
        self._rng = np.random.default_rng(seed)
        size = load.statements
        rates = 1 / np.arange(1, size + 1) ** 0.9
        self.rates: Floats = load.calls_a_second * rates / rates.sum()
        self.means: Floats = (rates / rates.max()) ** -0.4 * np.exp(self._rng.normal(0.0, 1.0, size))
        usual_ms = (self.rates * self.means)[: size - REPORTS].sum()
        self.rates[size - REPORTS :] = 1 / REPORT_EVERY_S
        self.means[size - REPORTS :] = usual_ms / 2 / REPORTS * REPORT_EVERY_S  # a third of all the time together
        self.cvs: Floats = np.exp(self._rng.normal(math.log(1.0), 0.5, size))
        own = np.random.default_rng([seed, 1])  # so that loads without a spread are what they were
        self._drift = load.drift * np.exp(load.drift_spread * own.normal(0.0, 1.0, size))
        self._level = np.zeros(size)
        self._shift = np.zeros(size)
        self._period = 0

    def period(self, seconds: float, factors: Floats | float = 1.0) -> PeriodCounts:
        """Return the next period; `factors` multiply the mean time of each class (1: as in the baseline)."""
        load, rng = self._load, self._rng
        keep = math.sqrt(1 - _MEMORY**2)
        self._level = _MEMORY * self._level + keep * rng.normal(
            0, load.wander / math.sqrt(2 * (1 - _MEMORY)), load.statements
        )
        self._shift = _MEMORY * self._shift + keep * rng.normal(
            0, self._drift / math.sqrt(2 * (1 - _MEMORY)), load.statements
        )
        wave = load.waves * math.sin(self._period / 7.0)
        self._period += 1
        calls = rng.poisson(self.rates * seconds * np.exp(self._level + wave)).astype(np.float64)
        shape = np.maximum(calls, 1e-9) / self.cvs**2
        noise = np.where(calls > 0, rng.gamma(shape) / shape, 1.0)
        return PeriodCounts(calls, calls * self.means * np.exp(self._shift) * factors * noise)

    def reference(self, periods: int, seconds: float) -> StatementReference:
        """Return what so many periods of the baseline say of each class, its scatter included."""
        return self.reference_of([self.period(seconds) for _ in range(periods)], seconds)

    def reference_of(self, periods: Sequence[PeriodCounts], seconds: float) -> StatementReference:
        """Return the same of periods of so many seconds that were drawn before."""
        whole = added(periods)
        mean = np.divide(whole.time_ms, whole.calls, out=np.zeros_like(whole.calls), where=whole.calls > 0)
        m2 = (self.cvs * mean) ** 2 * np.maximum(whole.calls - 1, 0)
        return StatementReference(len(periods) * seconds, whole.calls, whole.time_ms, m2)


@dataclass(frozen=True, slots=True)
class SimulatedStudy:
    """The pairs of one study in the order in which they were run: ln(B/A) of those that were matched."""

    log_ratios: tuple[float, ...]
    raw: tuple[float, ...]
    """The same by raw time per call, which the claim never uses."""
    dropped: int


def pairs_of(
    simulation: LiveSimulation, body: StatementBody, counted_s: float, factors: Floats | float, seed: int
) -> Iterator[tuple[float, float] | None]:
    """Yield pair after pair in an order by coin: ln(B/A) by the index and by raw time per call, None where dropped."""
    coin = np.random.default_rng(seed)
    while True:
        b_first = bool(coin.integers(2))
        first = simulation.period(counted_s, factors if b_first else 1.0)
        second = simulation.period(counted_s, 1.0 if b_first else factors)
        a, b = (second, first) if b_first else (first, second)
        pair = pair_index(body, a, b)
        yield None if pair is None or not pair.is_matched else (pair.log_ratio, _raw(b) - _raw(a))


def _raw(period: PeriodCounts) -> float:
    return math.log(period.time_ms.sum() / period.calls.sum())


def simulated_study(
    load: SimulatedLoad, *, effect: float, pairs: int, seed: int, counted_s: float = 25.0
) -> SimulatedStudy:
    """Run one study of `pairs` matched pairs; `effect` multiplies the time of all statements under B."""
    simulation = LiveSimulation(load, seed)
    body = body_of(simulation.reference(60, 10.0), counted_s)
    kept: list[tuple[float, float]] = []
    dropped = 0
    for pair in pairs_of(simulation, body, counted_s, effect, seed + 1_000_003):
        if pair is None:
            dropped += 1
            if dropped > 10 * pairs:
                break
        else:
            kept.append(pair)
        if len(kept) == pairs:
            break
    return SimulatedStudy(tuple(one for one, _ in kept), tuple(raw for _, raw in kept), dropped)
