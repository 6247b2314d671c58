"""Has one statement become much slower, whatever the others gained? A sequential likelihood ratio for each. Pure.

Between "1.2 times is tolerated" and "2 times is not": S grows with pairs that look more like the second, falls with
those that look like the first, and starts again at 0, so that a statement may be watched for as long as a study
lasts. What slows every statement alike is the server's affair and not this one's: it is taken off first. False vetoes:
0 of 560 simulated studies; a factor of 2 is found after 4 to 6 pairs at more than 100 calls a period. The bound is an
approximation (a CUSUM that starts at 0 again), held by simulation only.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pgdyno.stats.arrays import Bools, Floats, Ints
from pgdyno.stats.body_index import PeriodCounts, StatementBody, StatementReference

POOL_CALLS = 5
"""Pairs of a rare statement are pooled until both arms have so many calls."""
OWN_SCATTER = 0.12
"""By so much, in ln, a statement's mean moves between periods by itself (measured)."""
CLIP = (-4.0, 6.0)
"""A pair counts for no more than this: an alarm takes two at least."""
ERROR = 0.01
LEAST_POOLED = 2
"""Of few statements, or one that the user named, a single judgement would else be beyond the bound."""
WATCHED_SHARE = 0.001
"""Of the time: a statement that takes less costs less when it takes twice as long."""
WATCHED_CALLS = 1.0
"""A period; of a rarer one nothing is ever known within a study."""


@dataclass(frozen=True, slots=True)
class VetoBounds:
    """The factor that is tolerated and the one that is not."""

    tolerated: float = 1.2
    refused: float = 2.0

    @property
    def slope(self) -> float:
        """Return the distance of both on the scale of log ratios."""
        return math.log(self.refused / self.tolerated)

    @property
    def middle(self) -> float:
        """Return the log ratio that speaks for neither."""
        return math.log(self.refused * self.tolerated) / 2


USUAL = VetoBounds()
CRITICAL = VetoBounds(1.1, 1.5)
"""For statements that the user named: each alone, and between closer bounds."""


@dataclass(frozen=True, slots=True)
class Slower:
    """By which `factor` a statement took longer under B in the latest `pairs`, those that the veto rests on."""

    factor: float
    pairs: int


@dataclass(frozen=True, slots=True, eq=False)
class VetoState:
    """Where each watched statement stands after some pairs; columns in the order of `ids`.

    `score` is S; `calls_a` to `time_b` hold what is pooled and not judged yet; `pooled` counts judgements. Since S was
    last 0 there were `latest` judgements of `latest_pairs` pairs, and `log_ratio` is the sum of their log ratios.
    """

    ids: Ints
    cv: Floats
    score: Floats
    calls_a: Floats
    calls_b: Floats
    time_a: Floats
    time_b: Floats
    pooled: Ints
    latest: Ints
    latest_pairs: Ints
    log_ratio: Floats
    common: Floats
    """The body's shift in the pairs that are pooled: its sum over them."""
    pairs: Ints
    """How many pairs are pooled and not judged yet."""
    critical: Bools
    """The user named them: each is judged alone, by CRITICAL."""

    @classmethod
    def begin(cls, reference: StatementReference, counted_s: float, critical: Sequence[int] = ()) -> VetoState:
        """Watch the statements that matter and run at least once in the `counted_s` seconds of a period.

        Those that are `critical`, by their number, are watched whatever they take.
        """
        often = reference.calls * counted_s >= WATCHED_CALLS * reference.seconds
        named = np.isin(np.arange(reference.calls.size), np.asarray(critical, dtype=np.int64))
        inside = ((reference.shares >= WATCHED_SHARE) & often | named) & np.isfinite(reference.cv)
        ids = np.flatnonzero(inside).astype(np.int64)
        none = np.zeros(ids.size)
        counts = np.zeros(ids.size, dtype=np.int64)
        pooled = none, none, none, none
        return cls(
            ids, reference.cv[ids], none, *pooled, counts, counts, counts, none, none, counts, named[ids]
        )  # fmt: skip

    def then(self, body: StatementBody, a: PeriodCounts, b: PeriodCounts) -> VetoState:
        """Return the state after one more matched pair."""
        shift = max(0.0, common_shift(body, a, b))
        calls_a, calls_b = self.calls_a + a.calls[self.ids], self.calls_b + b.calls[self.ids]
        time_a, time_b = self.time_a + a.time_ms[self.ids], self.time_b + b.time_ms[self.ids]
        common, pairs = self.common + shift, self.pairs + 1
        ready = (calls_a >= POOL_CALLS) & (calls_b >= POOL_CALLS) & (time_a > 0) & (time_b > 0)
        ratio = np.zeros(self.ids.size)
        ratio[ready] = np.log(time_b[ready] / calls_b[ready]) - np.log(time_a[ready] / calls_a[ready])
        own = ratio - common / pairs
        spread = np.full(self.ids.size, math.inf)
        spread[ready] = self.cv[ready] ** 2 * (1 / calls_a[ready] + 1 / calls_b[ready]) + 2 * OWN_SCATTER**2
        slope = np.where(self.critical, CRITICAL.slope, USUAL.slope)
        middle = np.where(self.critical, CRITICAL.middle, USUAL.middle)
        step = np.clip(slope * (own - middle) / spread, *CLIP)
        score = np.where(ready, np.maximum(0.0, self.score + step), self.score)
        keep, goes_on = ~ready, score > 0
        return VetoState(
            ids=self.ids,
            cv=self.cv,
            score=score,
            calls_a=calls_a * keep,
            calls_b=calls_b * keep,
            time_a=time_a * keep,
            time_b=time_b * keep,
            pooled=self.pooled + ready,
            latest=(self.latest + ready) * goes_on,
            latest_pairs=(self.latest_pairs + pairs * ready) * goes_on,
            log_ratio=(self.log_ratio + ratio) * goes_on,
            common=common * keep,
            pairs=pairs * keep,
            critical=self.critical,
        )

    @property
    def bound(self) -> Floats:
        """Return the score beyond which each statement is too slow: the error is shared by all but critical ones."""
        return np.where(self.critical, math.log(1 / ERROR), math.log(max(1, self.ids.size) / ERROR))

    def vetoed(self) -> Mapping[int, Slower]:
        """Return the statements that became too slow, each with what the latest pairs showed of it."""
        found = (self.score > self.bound) & (self.latest >= LEAST_POOLED)
        columns = self.ids, self.log_ratio, self.latest, self.latest_pairs
        return {
            int(number): Slower(math.exp(total / count), int(pairs))
            for number, total, count, pairs in zip(*(one[found] for one in columns), strict=True)
        }


def common_shift(body: StatementBody, a: PeriodCounts, b: PeriodCounts) -> float:
    """Return the median of the body's log ratios in a pair, 0 where it has none."""
    calls_a, calls_b = a.calls[body.ids], b.calls[body.ids]
    time_a, time_b = a.time_ms[body.ids], b.time_ms[body.ids]
    inside = (calls_a > 0) & (calls_b > 0) & (time_a > 0) & (time_b > 0)
    if not inside.any():
        return 0.0
    return float(np.median(np.log(time_b[inside] / calls_b[inside]) - np.log(time_a[inside] / calls_a[inside])))


LEFT = 0.2
"""Under B no more than this much of the calls under A, or of what is left of most statements' calls ..."""
LEAST_EXPECTED = 20
"""... which are so many at least ..."""
PAIRS = 2
"""... in so many pairs."""


def vanished(pairs: Sequence[tuple[PeriodCounts, PeriodCounts]]) -> tuple[int, ...]:
    """Return the numbers of the statements that vanished under B, from pairs of periods of A and of B.

    A statement that fails or runs into its timeout has no call and no time in pg_stat_statements (seen on 15): driving
    the slowest ones there improves every figure of time. Between equal neighbours the calls of a statement scatter by
    0.37 in ln, the lowest ratio seen was 0.34.

    The pairs need not be matched: where all statements run less often, none of them has vanished.
    """
    if not pairs:
        return ()
    seen = sum(_gone(a, b).astype(np.int64) for a, b in pairs)
    return tuple(int(number) for number in np.flatnonzero(np.asarray(seen) >= PAIRS))


def _gone(a: PeriodCounts, b: PeriodCounts) -> Bools:
    often = a.calls >= LEAST_EXPECTED
    left = np.divide(b.calls, a.calls, out=np.ones_like(a.calls), where=often)
    if not often.any():
        return often
    usual = min(1.0, float(np.quantile(left[often], 0.5, method="higher")))
    return np.asarray(often & (left < LEFT * usual))
