"""Which classes of a replayed load became slower: rank test, many at once, and an effect that matters. Pure.

A class is worse only where the rank test says so after the adjustment for all classes, *and* the median or another
quantile that is told is beyond both effect limits, with an interval that excludes 1, *and* the A/A run, where there
is one, does not name it too. Equivalent needs the interval of the median within the tolerance, or the difference
within what anybody cares for: it is never the absence of a finding.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from pgdyno.errors import UsageError
from pgdyno.model.replay_comparison import ClassComparison, ClassTable, QuantileRatio
from pgdyno.model.verdict import Interval, Word
from pgdyno.stats.arrays import Integers
from pgdyno.stats.block_bootstrap import CONFIDENCE, DependentBlocks, Weights, counted, quantile_ratios
from pgdyno.stats.rank_tests import RankTest, adjusted, rank_test

QUANTILES = (0.5, 0.9, 0.95, 0.99)
MOST_LISTED = 500
ALSO_IN_AGAIN = "the A/A run differs as well"


@dataclass(frozen=True, slots=True)
class EffectLimits:
    """When a class counts as changed: beyond `ratio` and `least_ms`, at this `level` of false discoveries.

    Raises UsageError for a ratio that is not above 1, a negative difference, a level that is not in 0 to 1.
    """

    ratio: float = 1.05
    least_ms: float = 1.0
    level: float = 0.05

    def __post_init__(self) -> None:
        """Refuse what is no limit."""
        if not (self.ratio > 1 and self.least_ms >= 0 and 0 < self.level < 1):
            raise UsageError(
                f"effect limits of ratio {self.ratio}, {self.least_ms} ms and level {self.level} are not possible",
                hint="Write a ratio above 1, such as 1.05, and a difference of 0 ms or more.",
            )


@dataclass(frozen=True, slots=True)
class Timed:
    """Executions that were timed on both sides, in microseconds, with their class.

    `again` is the A/A run: -1 where it has no time, empty where there is none.
    """

    of_class: Integers
    a: Integers
    b: Integers
    again: Integers
    blocks: DependentBlocks


@dataclass(frozen=True, slots=True)
class _Judged:
    number: int
    executions: int
    test: RankTest
    again: RankTest | None
    quantiles: tuple[QuantileRatio, ...]
    again_quantiles: tuple[QuantileRatio, ...]
    seconds_lost: float


def fewest(share: float) -> int:
    """Return how many executions a quantile needs: ten beyond it."""
    return int(np.ceil(10 / (1 - share) - 1e-9))


def judge_classes(timed: Timed, name_of: Callable[[int], str], weights: Weights, limits: EffectLimits) -> ClassTable:
    """Return the verdict of each class: worse ones first, then better ones, then the rest, each by time lost.

    `name_of` gives the name of a class by its number in `timed`; `weights` is as in `quantile_ratios`, its blocks those
    of `timed`. `limits` say which change counts.
    """
    order = np.argsort(timed.of_class, kind="stable")
    sorted_ = timed.of_class[order]
    is_first = np.ones(sorted_.size, np.bool_)
    is_first[1:] = sorted_[1:] != sorted_[:-1]
    starts = np.flatnonzero(is_first)
    numbers, counts = sorted_[starts], np.diff(np.append(starts, sorted_.size))
    enough = counts >= fewest(QUANTILES[0])
    judged = [
        _judge(int(number), timed, order[start : start + count], weights)
        for number, start, count in zip(numbers[enough], starts[enough], counts[enough], strict=True)
    ]
    sides = ("slower", "faster")
    slower, faster = (adjusted(np.array([getattr(one.test, side) for one in judged])) for side in sides)
    again_slower, again_faster = (
        adjusted(np.array([1.0 if one.again is None else getattr(one.again, side) for one in judged])) for side in sides
    )
    found = []
    for place, one in enumerate(judged):
        word = _word(one.quantiles, float(slower[place]), float(faster[place]), limits)
        reason = "" if word is not Word.NOT_RESOLVED else _reason(one.quantiles)
        if one.again and word in (Word.WORSE, Word.BETTER):
            other = _word(one.again_quantiles, float(again_slower[place]), float(again_faster[place]), limits)
            if other is word and not _is_beyond(one.quantiles, one.again_quantiles, limits, word is Word.WORSE):
                word, reason = Word.NOT_RESOLVED, ALSO_IN_AGAIN
        found.append(
            ClassComparison(
                name_of(one.number), "", one.executions, word, reason, one.test.chance, float(slower[place]),
                float(faster[place]), one.quantiles, one.seconds_lost,
            )
        )  # fmt: skip
    told = (Word.WORSE, Word.BETTER)
    found.sort(key=lambda one: (one.word is not Word.WORSE, one.word is not Word.BETTER, -one.seconds_lost))
    listed = max(MOST_LISTED, sum(one.word in told for one in found))
    return ClassTable(tuple(found[:listed]), int((~enough).sum()), max(len(found) - listed, 0))


def _judge(number: int, timed: Timed, rows: Integers, weights: Weights) -> _Judged:
    a, b, blocks = timed.a[rows], timed.b[rows], timed.blocks.of[rows]
    test, quantiles = _compared(a, b, blocks, weights)
    seen = np.flatnonzero(timed.again[rows] >= 0) if timed.again.size else rows[:0]
    again, again_quantiles = None, tuple[QuantileRatio, ...]()
    if seen.size >= fewest(QUANTILES[0]):
        again, again_quantiles = _compared(a[seen], timed.again[rows][seen], blocks[seen], weights)
    lost = float(b.sum(dtype=np.int64) - a.sum(dtype=np.int64)) / 1e6
    return _Judged(number, int(rows.size), test, again, quantiles, again_quantiles, lost)


def _compared(
    a: Integers, b: Integers, blocks: Integers, weights: Weights
) -> tuple[RankTest, tuple[QuantileRatio, ...]]:
    centres, (counts_a, counts_b) = counted((a, b), blocks, weights.shape[1])
    enough = [share for share in QUANTILES if a.size >= fewest(share)]
    ends = quantile_ratios(centres, counts_a, counts_b, weights, enough)
    told = {
        share: _ratio(share, was / 1000, now / 1000, found)
        for share, was, now, found in zip(enough, np.quantile(a, enough), np.quantile(b, enough), ends, strict=True)
    }
    return rank_test(counts_a, counts_b), tuple(told.get(q, QuantileRatio(q, None, None, None)) for q in QUANTILES)


def _ratio(share: float, a_ms: float, b_ms: float, ends: tuple[float, float] | None) -> QuantileRatio:
    if ends is None or a_ms <= 0:
        return QuantileRatio(share, a_ms, b_ms, None)
    ratio = b_ms / a_ms
    return QuantileRatio(share, a_ms, b_ms, Interval(ratio, min(ends[0], ratio), max(ends[1], ratio), CONFIDENCE))


def _word(quantiles: Sequence[QuantileRatio], slower: float, faster: float, limits: EffectLimits) -> Word:
    median = quantiles[0]
    if median.interval is not None and median.a_ms:
        low, high = median.interval.lo, median.interval.hi
        least = limits.least_ms / median.a_ms
        is_within = 1 / limits.ratio <= low and high <= limits.ratio
        is_changed = any(_exceeds(one, limits, is_up) for one in quantiles for is_up in (True, False))
        if (is_within or max(high - 1, 1 - low) <= least) and not is_changed:
            return Word.EQUIVALENT
    if slower < limits.level and any(_exceeds(one, limits, True) for one in quantiles):
        return Word.WORSE
    if faster < limits.level and any(_exceeds(one, limits, False) for one in quantiles):
        return Word.BETTER
    return Word.NOT_RESOLVED


def _exceeds(one: QuantileRatio, limits: EffectLimits, is_slower: bool) -> bool:
    """Return True where a quantile is beyond both limits; where it has an interval, that must exclude 1."""
    if one.a_ms is None or one.b_ms is None or one.a_ms <= 0:
        return False
    ratio, more = one.b_ms / one.a_ms, one.b_ms - one.a_ms
    if is_slower:
        return ratio > limits.ratio and more > limits.least_ms and (one.interval is None or one.interval.lo > 1)
    return ratio < 1 / limits.ratio and -more > limits.least_ms and (one.interval is None or one.interval.hi < 1)


def _is_beyond(
    quantiles: Sequence[QuantileRatio], again: Sequence[QuantileRatio], limits: EffectLimits, is_slower: bool
) -> bool:
    """Return True where a quantile changed by more than the A/A run's did: beyond its interval by the limit."""
    pairs = [(one.interval, other.interval) for one, other in zip(quantiles, again, strict=True)]
    return any(
        mine.lo > limits.ratio * theirs.hi if is_slower else mine.hi * limits.ratio < theirs.lo
        for mine, theirs in pairs
        if mine is not None and theirs is not None
    )


def _reason(quantiles: Sequence[QuantileRatio]) -> str:
    if quantiles[0].interval is None:
        return "too few sessions or moments for an interval"
    return "neither a change beyond the limits nor equivalence is shown"
