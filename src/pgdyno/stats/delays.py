"""Delays of replayed transactions against captured ones: the tables of a certification by production load. Pure.

Times are whole microseconds. They are compared at two decimals of a millisecond, halves rounded up: 10.004 ms equals
10.00 ms. A transaction is delayed where its rounded time is greater than the rounded time that it is compared with.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

import numpy as np

from pgdyno.errors import UsageError
from pgdyno.model.replay_comparison import CountedShare, DelayBin, DelayTables, DurationClass, GlobalChange
from pgdyno.stats.arrays import Bools, Integers, Ints

REQUIRED_PERCENT = 95.0
"""Of the transactions must not be slower, in the certification of a platform by the load of a production day."""
DURATION_BOUNDS_MS = (101.0, 201.0, 501.0, 1001.0, 2001.0, 5001.0)
"""The first class is shorter than 101 ms, the last ones are longer than a second; those between are a choice."""
_HALF_SECOND, _SECOND = 50_000, 100_000
_EDGES_MS = (0.01, 0.1, 1.0, 5.0, 10.0, 50.0, 100.0, 250.0, 500.0, 1000.0, 5000.0)


def hundredths(micros: Integers) -> Ints:
    """Return microseconds as hundredths of a millisecond, halves up."""
    return (np.asarray(micros, np.int64) + 5) // 10


def not_slower(a: Integers, b: Integers) -> Bools:
    """Return where B took no longer than A at two decimals of a millisecond."""
    return np.asarray(hundredths(b) <= hundredths(a), np.bool_)


def passes(good: int, of: int, required_percent: float = REQUIRED_PERCENT) -> bool:
    """Return True where `good` of `of` are at least the required per cent, reckoned exactly; none of none is False."""
    return of > 0 and 100 * good >= Fraction(repr(float(required_percent))) * of


def shares(counts: Mapping[str, int], digits: int = 2) -> tuple[CountedShare, ...]:
    """Return counts with their shares in per cent, rounded so that they sum to 100: by the largest remainder.

    All are 0 where nothing was counted. Raises UsageError for a negative count.
    """
    if any(count < 0 for count in counts.values()):
        raise UsageError("a count is negative", detail=f"{dict(counts)}")
    total, scale = sum(counts.values()), 10**digits
    if not total:
        return tuple(CountedShare(name, 0, 0.0) for name in counts)
    parts = {name: divmod(count * 100 * scale, total) for name, count in counts.items()}
    missing = 100 * scale - sum(whole for whole, _ in parts.values())
    first = sorted(counts, key=lambda name: -parts[name][1])[:missing]
    return tuple(CountedShare(name, counts[name], (parts[name][0] + (name in first)) / scale) for name in counts)


def global_change(a: Integers, b: Integers) -> GlobalChange:
    """Return the time of all transactions together, before and after: what is left of it is no mean of ratios."""
    return GlobalChange(float(np.sum(a, dtype=np.int64)) / 1e6, float(np.sum(b, dtype=np.int64)) / 1e6)


def delay_tables(a: Integers, b: Integers, bounds_ms: Sequence[float] = DURATION_BOUNDS_MS) -> DelayTables:
    """Return how long delayed transactions were delayed, and how that goes with what they took before.

    `bounds_ms` are the upper ends of the duration classes, exclusive; what is longer makes the last class. Raises
    UsageError where they do not ascend.
    """
    if not bounds_ms or list(bounds_ms) != sorted(set(bounds_ms)) or bounds_ms[0] <= 0:
        raise UsageError(f"duration bounds {list(bounds_ms)} do not ascend from above 0", hint="Write 101,501,1001.")
    before, after = hundredths(a), hundredths(b)
    delay = (after - before)[after > before]
    long = int((delay > _SECOND).sum())
    short = int((delay < _HALF_SECOND).sum())
    by_length = {"below 0.5 s": short, "0.5 to 1 s": delay.size - short - long, "above 1 s": long}
    edges = np.asarray([round(edge * 100) for edge in _EDGES_MS])
    counts = np.bincount(np.searchsorted(edges, delay, side="right"), minlength=edges.size + 1)
    ends = (*_EDGES_MS[1:], None)
    bins = tuple(DelayBin(low, high, int(n)) for low, high, n in zip(_EDGES_MS, ends, counts[1:], strict=True))
    return DelayTables(shares(by_length), _by_duration(before, after, bounds_ms), bins)


def _by_duration(before: Integers, after: Integers, bounds_ms: Sequence[float]) -> tuple[DurationClass, ...]:
    where = np.searchsorted(np.asarray([round(bound * 100) for bound in bounds_ms]), before, side="right")
    found = []
    for place, (low, high) in enumerate(zip((0.0, *bounds_ms), (*bounds_ms, None), strict=True)):
        inside = where == place
        was, now = before[inside], after[inside]
        late = (now > was) & (was > 0)
        delay = (now - was)[late]
        percent = float(np.mean(100 * delay / was[late])) if delay.size else None
        mean_ms = float(delay.mean()) / 100 if delay.size else None
        found.append(DurationClass(low, high, int(was.size), int(delay.size), percent, mean_ms))
    return tuple(found)
