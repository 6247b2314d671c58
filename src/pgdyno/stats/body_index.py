"""How long the statements of a live load take under B over A: log ratios of mean times, with weights fixed beforehand.

Raw time per call is ruled by which statements happen to run: between equal periods it scatters by 32 to 36 %, the index
of this module by 9 to 13 % (measured on a drifting load, PostgreSQL 15). Fixed weights keep the mix out, log ratios
keep one slow call out, and statements that a period does not resolve stay out of the claim: `tail_ratio` tells them
beside it. Pure; the verdict is `sequential.judge` over the pairs' ratios.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields

import numpy as np

from pgdyno.errors import UsageError
from pgdyno.model.verdict import Interval
from pgdyno.stats.arrays import Floats, Ints
from pgdyno.stats.statement_deltas import StatementDeltas

LEAST_CALLS = 10
"""Calls a period from which a statement belongs to the body ..."""
LEAST_PRECISION = 0.15
"""... with a relative standard error of its mean of at most this. At 0.30 more time is covered (81 instead of 50 %) and
a pair scatters by 17 instead of 12 % (measured at 8 s)."""
CAP = 0.25
"""No statement has more of the body's weight ..."""
LIFT = 2.0
"""... unless others would weigh more than this much of their share. On pgbench's own load, where two statements take
99 % of the time, three of below 0.2 % would have had a fourth of the weight."""
PAIR_CALLS = 3
"""A statement counts in a pair when both its periods have so many calls of it."""
LEAST_PRESENT = 0.5
"""A pair that holds less of the body's weight is another load's, and tells nothing of this one."""
MATCHED = 0.2
"""Periods of a pair whose offered work differs by more, as a log ratio, are not compared."""
LEAST_COVERED = 0.5
"""A body of less of the database time makes no claim for the server."""
MOST_NEW = 0.05
"""More of the time in statements that the reference lacks: a deployment, and the reference is of another load."""
RESAMPLES = 2000


@dataclass(frozen=True, slots=True)
class ServerUse:
    """What the whole server had used by a moment, or used between two of them; None where it is not known.

    Time that sessions were at work and CPU in milliseconds; bytes of temporary files and of WAL; blocks read, from disk
    or the page cache; requests that the disks of its host completed, whoever made them.
    """

    active_ms: float | None = None
    cpu_ms: float | None = None
    temp_bytes: float | None = None
    wal_bytes: float | None = None
    blocks_read: float | None = None
    device_requests: float | None = None

    def since(self, before: ServerUse) -> ServerUse:
        """Return what was used since; a counter that fell is not known."""
        both = ((getattr(before, one.name), getattr(self, one.name)) for one in fields(ServerUse))
        return ServerUse(*(None if a is None or b is None or b < a else b - a for a, b in both))


@dataclass(frozen=True, slots=True, eq=False)
class PeriodCounts:
    """Calls and milliseconds of each statement of the reference in one period, by its number; `new_ms` is of others.

    `first` is the first half of it, where that was read apart; `use` is what the server used in it.
    """

    calls: Floats
    time_ms: Floats
    new_ms: float = 0.0
    first: PeriodCounts | None = None
    use: ServerUse | None = None

    @property
    def halves(self) -> tuple[PeriodCounts, PeriodCounts] | None:
        """Return both halves, None where they were not read apart."""
        one = self.first
        if one is None:
            return None
        return one, PeriodCounts(self.calls - one.calls, self.time_ms - one.time_ms, self.new_ms - one.new_ms)

    @property
    def new_share(self) -> float:
        """Return the share of the time in statements that the reference did not have."""
        total = float(self.time_ms.sum()) + self.new_ms
        return self.new_ms / total if total > 0 else 0.0


@dataclass(frozen=True, slots=True, eq=False)
class StatementReference:
    """What each statement did in `seconds` of the baseline; `m2` as in `StatementDeltas`."""

    seconds: float
    calls: Floats
    time_ms: Floats
    m2: Floats

    @property
    def shares(self) -> Floats:
        """Return each statement's share of the time, zeros for a server that did nothing."""
        total = self.time_ms.sum()
        return self.time_ms / total if total > 0 else np.zeros_like(self.time_ms)

    @property
    def mean_ms(self) -> Floats:
        """Return the mean time of a call, 0 for one that was never called."""
        return np.divide(self.time_ms, self.calls, out=np.zeros_like(self.time_ms), where=self.calls > 0)

    @property
    def cv(self) -> Floats:
        """Return the coefficient of variation of a call; infinite where it is not known."""
        known = (self.calls > 1) & (self.time_ms > 0)
        spread = np.divide(self.m2, self.calls - 1, out=np.zeros_like(self.m2), where=known)
        found = np.full_like(self.m2, math.inf)
        return np.asarray(np.divide(np.sqrt(spread), self.mean_ms, out=found, where=known), dtype=np.float64)


@dataclass(frozen=True, slots=True, eq=False)
class StatementBody:
    """The statements that a period resolves: numbers, weights that sum to 1, and mean times in the reference (ms).

    `covered` is their share of the database time.
    """

    ids: Ints
    weights: Floats
    mean_ms: Floats
    covered: float


@dataclass(frozen=True, slots=True)
class PairIndex:
    """One pair: ln(B/A) of the body, and ln(B/A) of the offered work. `present` is the weight that the pair holds."""

    log_ratio: float
    work_log_ratio: float
    present: float

    @property
    def is_matched(self) -> bool:
        """Return True when both periods were offered about the same work, by the statements of the reference."""
        return abs(self.work_log_ratio) <= MATCHED and self.present >= LEAST_PRESENT


def counts(found: StatementDeltas, size: int) -> PeriodCounts:
    """Spread what was done over the `size` statements of the reference; numbers from `size` on are new ones."""
    known = found.ids < size
    calls, time_ms = np.zeros(size), np.zeros(size)
    calls[found.ids[known]], time_ms[found.ids[known]] = found.calls[known], found.time_ms[known]
    return PeriodCounts(calls, time_ms, float(found.time_ms[~known].sum()))


def reference_of(parts: Sequence[StatementDeltas], size: int) -> StatementReference:
    """Return what these parts of the baseline say together of statements 0 to `size`, scatter by Chan's formula."""
    calls, time_ms, exec_ms, m2 = (np.zeros(size) for _ in range(4))
    for part in parts:
        ran = part.calls > 0
        ids, n_w, t_w = part.ids[ran], part.calls[ran], part.exec_ms[ran]
        n_a = calls[ids]
        apart = t_w / n_w - exec_ms[ids] / np.maximum(n_a, 1)
        m2[ids] += part.m2[ran] + apart**2 * n_a * n_w / (n_a + n_w)
        calls[ids] += n_w
        exec_ms[ids] += t_w
        time_ms[part.ids] += part.time_ms
    return StatementReference(sum(part.seconds for part in parts), calls, time_ms, m2)


def added(parts: Sequence[PeriodCounts]) -> PeriodCounts:
    """Return what was done in all of these together."""
    calls, time_ms = np.sum([one.calls for one in parts], axis=0), np.sum([one.time_ms for one in parts], axis=0)
    return PeriodCounts(calls, time_ms, sum(one.new_ms for one in parts))


def body_of(reference: StatementReference, counted_s: float) -> StatementBody:
    """Return the body for periods of which `counted_s` seconds count; an empty one where none is resolved."""
    calls = reference.calls * (counted_s / reference.seconds)
    inside = (calls >= LEAST_CALLS) & (reference.cv <= LEAST_PRECISION * np.sqrt(calls))
    ids = np.flatnonzero(inside).astype(np.int64)
    shares = reference.shares[ids]
    return StatementBody(ids, capped(shares), reference.mean_ms[ids], float(shares.sum()))


def capped(shares: Floats) -> Floats:
    """Return weights that sum to 1: the shares, with none above CAP and what is cut off spread in proportion.

    None is raised above LIFT times its share, for which the cap gives way: where two statements take nearly all the
    time, a claim about time cannot rest on the others.
    """
    if shares.size == 0:
        return shares
    shares = shares / shares.sum()
    if shares.max() <= CAP:
        return shares
    lifted = LIFT * shares
    cap = max(CAP, _level(lambda level: np.minimum(level, lifted)))
    factor = _level(lambda level: np.minimum(cap, level * lifted))
    weights = np.minimum(cap, factor * lifted)
    return np.asarray(weights / weights.sum(), dtype=np.float64)


def _level(weights: Callable[[float], Floats]) -> float:
    """Return the level from 0 to 1 at which the weights, which grow with it, sum to 1: by halving."""
    low, high = 0.0, 1.0
    while low < (middle := (low + high) / 2) < high:
        low, high = (middle, high) if np.add.reduce(weights(middle)) < 1 else (low, middle)
    return high


def pair_index(body: StatementBody, a: PeriodCounts, b: PeriodCounts) -> PairIndex | None:
    """Return the pair's index; None where no statement of the body ran often enough in both periods."""
    calls_a, calls_b = a.calls[body.ids], b.calls[body.ids]
    time_a, time_b = a.time_ms[body.ids], b.time_ms[body.ids]
    inside = (calls_a >= PAIR_CALLS) & (calls_b >= PAIR_CALLS) & (time_a > 0) & (time_b > 0)
    present = float(body.weights[inside].sum())
    if present <= 0:
        return None
    ratios = np.log(time_b[inside] / calls_b[inside]) - np.log(time_a[inside] / calls_a[inside])
    mean = float((body.weights[inside] * ratios).sum()) / present
    return PairIndex(mean, math.log(offered_work(body, b) / offered_work(body, a)), present)


def offered_work(body: StatementBody, period: PeriodCounts) -> float:
    """Return the work of the body's calls in milliseconds of the reference: calls, not times, so no arm can move it."""
    return float((period.calls[body.ids] * body.mean_ms).sum())


def tail_ratio(
    body: StatementBody, a: Sequence[PeriodCounts], b: Sequence[PeriodCounts], *, seed: int, confidence: float = 0.95
) -> Interval | None:
    """Return B over A of the time outside of the body, over all pairs, with a bootstrap over pairs.

    `a` and `b` are the periods of either arm, pair by pair; `seed` is the bootstrap's, and `confidence` that of the
    interval, in (0, 1). None where either arm has no time outside of `body`, or there are fewer than three pairs. A
    figure beside the claim, never one: most often its interval is wide. Raises UsageError for arms of unequal length.
    """
    if len(a) != len(b):
        raise UsageError(f"{len(a)} and {len(b)} periods are not pairs")
    rest_a, rest_b = (np.array([_outside(body, one) for one in arm]) for arm in (a, b))
    if len(a) < 3 or rest_a.sum() <= 0 or rest_b.sum() <= 0:
        return None
    drawn = np.random.default_rng(seed).integers(0, len(a), size=(RESAMPLES, len(a)))
    sums_a, sums_b = rest_a[drawn].sum(axis=1), rest_b[drawn].sum(axis=1)
    usable = (sums_a > 0) & (sums_b > 0)
    low, high = np.quantile(sums_b[usable] / sums_a[usable], [(1 - confidence) / 2, (1 + confidence) / 2])
    return Interval(float(rest_b.sum() / rest_a.sum()), float(low), float(high), confidence)


def _outside(body: StatementBody, period: PeriodCounts) -> float:
    return float(period.time_ms.sum() - period.time_ms[body.ids].sum())
