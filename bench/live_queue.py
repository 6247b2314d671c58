"""A simulated day of a bursty load that queues for cores and for locks: what the guards of a live study would read.

No server and no clock. Calls arrive by themselves, four times as fast in bursts, with reports of half a minute among
them; a core serves one call after the other. Now and then somebody holds a lock for some seconds, and a tenth of the
calls wait for it. From `slow_from_s` on every call takes `factor` times as long, without end where that is infinite.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pgdyno.stats.body_index import PeriodCounts, StatementReference, body_of
from pgdyno.trial.live_guards import STEP_S, LiveGuards, LiveLoad

TICK_S = 0.5
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class QueueLoad:
    """What the load is like. A burst, a report and a lock come every so many seconds, by chance."""

    rate: float = 120.0
    classes: int = 20
    mean_ms: float = 6.0
    cores: int = 4
    burst_every_s: float = 600.0
    burst_s: float = 12.0
    burst: float = 4.0
    report_every_s: float = 300.0
    report_s: float = 8.0
    lock_every_s: float = 1800.0
    lock_s: float = 3.0


@dataclass(frozen=True, slots=True)
class Calls:
    """All calls of a day: when each came and ended, of which class it is, and until when it waited for a lock."""

    came: Floats
    ended: Floats
    kind: NDArray[np.int64]
    locked_until: Floats


def calls_of(
    load: QueueLoad, seconds: float, seed: int, *, slow_from_s: float = math.inf, factor: float = 1.0
) -> Calls:
    """Simulate so many seconds."""
    rng = np.random.default_rng(seed)
    steps = int(seconds)
    rate = np.full(steps, load.rate)
    for begin in _moments(rng, load.burst_every_s, seconds):
        rate[int(begin) : int(begin + rng.exponential(load.burst_s)) + 1] = load.burst * load.rate
    counts = rng.poisson(rate)
    came = np.repeat(np.arange(steps, dtype=float), counts) + rng.random(counts.sum())
    weights = 1 / np.arange(1, load.classes + 1) ** 0.9
    kind = rng.choice(load.classes, came.size, p=weights / weights.sum())
    means = load.mean_ms / 1000 * np.exp(rng.normal(0, 1, load.classes))
    means *= load.mean_ms / 1000 / float(means @ (weights / weights.sum()))
    took = rng.gamma(1.0, 1.0, came.size) * means[kind]
    reports = np.array(list(_moments(rng, load.report_every_s, seconds)))
    came = np.append(came, reports)
    kind = np.append(kind, np.full(reports.size, load.classes))
    took = np.append(took, rng.gamma(2.0, load.report_s / 2, reports.size))
    order = np.argsort(came)
    came, kind, took = came[order], kind[order], took[order]
    took = np.where(came >= slow_from_s, took * factor, took)
    held = np.zeros(came.size)
    for begin in _moments(rng, load.lock_every_s, seconds):
        until = begin + rng.exponential(load.lock_s)
        waits = (came >= begin) & (came < until) & (rng.random(came.size) < 0.1) & (kind < load.classes)
        held[waits] = until
    free = [0.0] * load.cores
    ended = np.empty(came.size)
    for number, (at, seconds_s, until) in enumerate(zip(came.tolist(), took.tolist(), held.tolist(), strict=True)):
        begins = max(at, until, heapq.heappop(free) if until == 0.0 else at)
        ended[number] = begins + seconds_s
        if until == 0.0:  # who waits for a lock waits for no core
            heapq.heappush(free, ended[number])
    return Calls(came, ended, kind, held)


def _moments(rng: np.random.Generator, every_s: float, seconds: float) -> Iterator[float]:
    at = rng.exponential(every_s)
    while at < seconds:
        yield at
        at += rng.exponential(every_s)


class Readings:
    """What is read of the calls: statements that ended, by step, and sessions, by tick."""

    def __init__(self, calls: Calls, load: QueueLoad, seconds: float) -> None:
        self.size, self.ticks = load.classes + 1, int(seconds / TICK_S)
        steps = int(seconds / STEP_S)
        place = np.minimum(calls.ended / STEP_S, steps).astype(np.int64)
        whole = place < steps
        flat = place[whole] * self.size + calls.kind[whole]
        took = 1000 * (calls.ended - calls.came)[whole]
        self.calls = np.bincount(flat, minlength=steps * self.size).reshape(steps, self.size).astype(float)
        self.time_ms = np.bincount(flat, took, minlength=steps * self.size).reshape(steps, self.size)
        self.square = np.bincount(flat, took**2, minlength=steps * self.size).reshape(steps, self.size)
        at = TICK_S * np.arange(self.ticks)
        ended = np.sort(calls.ended)
        self.active = np.searchsorted(calls.came, at, "right") - np.searchsorted(ended, at, "right")
        long = calls.ended - calls.came > 2.0
        self._began, self._ended = calls.came[long], calls.ended[long]
        waits = calls.locked_until - calls.came > 1.0
        self._waits, self._until = calls.came[waits] + 1.0, calls.locked_until[waits]

    def begun(self, at: float) -> tuple[float, ...]:
        """Return when the statements of more than two seconds that run at this moment began."""
        return tuple(self._began[(self._began <= at) & (self._ended > at)].tolist())

    def blocked(self, at: float) -> int:
        """Return how many sessions have waited for a lock for more than a second."""
        return int(((self._waits <= at) & (self._until > at)).sum())

    def step(self, number: int) -> PeriodCounts:
        """Return what ended in a step."""
        return PeriodCounts(self.calls[number], self.time_ms[number])

    def usual(self, steps: int, cores: int) -> LiveLoad:
        """Return what the first so many steps say of the load."""
        calls, time_ms = self.calls[:steps].sum(axis=0), self.time_ms[:steps].sum(axis=0)
        mean = np.divide(time_ms, calls, out=np.zeros_like(calls), where=calls > 0)
        reference = StatementReference(
            steps * STEP_S, calls, time_ms, self.square[:steps].sum(axis=0) - calls * mean**2
        )
        body = body_of(reference, 25.0)
        ticks = range(0, int(steps * STEP_S / TICK_S), 2)
        active = self.active[[*ticks]]
        longest = max((TICK_S * tick - one for tick in ticks for one in self.begun(TICK_S * tick)), default=0.0)
        blocked = max(self.blocked(TICK_S * tick) for tick in ticks)
        p95, p99 = np.quantile(active, [0.95, 0.99])
        rate = float(calls[body.ids].sum()) / reference.seconds
        return LiveLoad(body, rate, float(p95), float(p99), cores, longest, blocked)


def trips(guards: LiveGuards, found: Readings, first_s: float, last_s: float) -> Iterator[tuple[float, str]]:
    """Yield when which guard trips, with B and A in turns every half a minute, from one moment to another."""
    is_b, every = False, int(STEP_S / TICK_S)
    for tick in range(int(first_s / TICK_S), min(int(last_s / TICK_S), found.ticks)):
        at = TICK_S * tick
        if tick % 60 == 0:
            is_b = not is_b
            guards.begin()
            guards.switched(is_b, at)
        seen = [guards.sessions(at, int(found.active[tick]), found.blocked(at), at, found.begun(at))]
        if (tick + 1) % every == 0:
            seen.append(guards.statements(at, found.step(tick // every)))
        for breach in seen:
            if breach is not None:
                yield at, breach.name
                guards.begin()
                guards.back()
