"""Has a statement, or the server as a whole, become slower from one moment on? Period by period, for days. Pure.

Medians of the periods after a moment are set against those of as many periods before it, in logarithms, over one, two,
five and ten periods. How far such a contrast moves by itself is learnt from the load: from the statement's own
contrasts so far, and at first from those of all statements. So a steady statement is told of by a small step and an
unsteady one by a large step alone, and what comes slowly, as the day's course does, is told of by none. What all
statements share is taken off each and watched as the server's own. A statement that came later has no past that it
could be slower than. The bounds are held by simulation (`bench/watch.py`): means that wander are no coin flips.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from pgdyno.stats.body_index import capped
from pgdyno.stats.statement_deltas import StatementDeltas

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]

WIDTHS = (1, 2, 5, 10)
"""Periods on either side of a moment. Means that wander are steadier from one period to the next than over ten."""
_STAYS = 5
"""The median of the newest so many periods must have a step: it is told after three of them at the earliest."""
_KEPT = 2 * WIDTHS[-1]
LEAST_CALLS = 5
"""A period with fewer calls of a statement does not count for it."""
_AS_LONG = 0.7
"""But fewer count that take so much of its usual time together: what takes minutes from now on ends less often."""
_PRESENT = 0.6
"""Of a window, so many periods must count."""
DEVIATIONS = 5.5
"""How far beyond what is usual a contrast must lie; at 5 three of four simulated weeks at 12 % had an alarm."""
STEP, SERVER_STEP = math.log(1.3), math.log(1.15)
"""Smaller steps are not told of, however sure: nobody gets up for them."""
COST = 0.01
"""Nor are those that cost less of the server's statement time than this."""
_FLOOR, _SERVER_FLOOR = 0.06, 0.04
"""No load is steadier than this for long, in ln."""
_MEMORY = 500
"""Contrasts that the usual scatter is learnt from: the newest count most."""
_PRIOR = 40
"""What all statements show together counts as so many contrasts of each."""
LEARN = 20
"""Periods before the first may be told: until then nothing is known of how a load moves by itself."""
_OUTLIER = 3.0
"""A contrast of more deviations counts as one of so many: a change must not become what is usual."""
_COMMON = 5
"""Of fewer statements one that slows down is no minority, so that nothing is taken off as common."""
_CALLS, _MS, _BLOCKS, _ROWS, _M2 = range(5)
_MEDIAN = math.pi / 2
"""The variance of a median over that of a mean, of many normal values."""


@dataclass(frozen=True, slots=True)
class Slowdown:
    """A statement, or the server (`number` None), takes `factor` as long since the beginning of period `since`.

    `share` is the statement's of all statements' time now. `is_back`: what was told to be slower is faster again.
    `blocks` and `rows` are ratios a call over before, None where either side has none; `blocks_before` a call.
    """

    number: int | None
    factor: float
    since: int
    share: float
    is_back: bool = False
    blocks: float | None = None
    blocks_before: float | None = None
    rows: float | None = None


@dataclass(slots=True)
class _Usual:
    """How far the contrasts of one width move by themselves: sums of their squares, and how many count.

    `sampled` sums of each what the scatter of single calls had left in it: the rest of the squares is the load's own.
    """

    squares: Floats = field(default_factory=lambda: np.zeros(0))
    counts: Floats = field(default_factory=lambda: np.zeros(0))
    sampled: Floats = field(default_factory=lambda: np.zeros(0))

    def scatter(self, floor: float, sampled: Floats | float = 0.0) -> Floats:
        """Return the deviation of each, from its own contrasts and from what all show together.

        `sampled` is the variance that the scatter of single calls leaves in the newest contrast. What is beyond it
        all show together, the less a statement the less can be seen of that: rare ones would make all look unsteady.
        """
        beyond = self.squares - self.sampled
        clear = floor**2 / (floor**2 + sampled)
        pooled = max(floor**2, float((clear * beyond).sum()) / max(1.0, float((clear * self.counts).sum())))
        own = (np.maximum(beyond, 0.0) + _PRIOR * pooled) / (self.counts + _PRIOR)
        return np.asarray(np.sqrt(own + sampled), dtype=np.float64)

    def learn(self, contrast: Floats, known: Bools, scatter: Floats, sampled: Floats | float = 0.0) -> None:
        """Add contrasts; those far out count as less."""
        size = np.minimum(np.abs(contrast[known]), _OUTLIER * scatter[known])
        for sums, newest in (
            (self.squares, size**2),
            (self.counts, 1.0),
            (self.sampled, np.broadcast_to(sampled, known.shape)[known]),
        ):
            sums[known] = (1 - 1 / _MEMORY) * sums[known] + newest

    def grow(self, more: int) -> None:
        """Make room for so many more statements."""
        self.squares, self.counts, self.sampled = (
            np.append(sums, np.zeros(more)) for sums in (self.squares, self.counts, self.sampled)
        )

    def drop(self, numbers: Sequence[int]) -> None:
        """Forget these statements."""
        for sums in (self.squares, self.counts, self.sampled):
            sums[numbers] = 0.0


@dataclass(slots=True)
class Regressions:
    """The newest periods of all statements, and what of them is usual. `period` counts from 1."""

    period: int = 0
    _recent: Floats = field(default_factory=lambda: np.zeros((5, 0, _KEPT)))
    """Calls, milliseconds, blocks, rows and squares of each statement and period, the newest last."""
    _usual: dict[int, _Usual] = field(default_factory=lambda: {width: _Usual() for width in WIDTHS})
    _server: dict[int, _Usual] = field(default_factory=lambda: {width: _Usual(*np.zeros((3, 1))) for width in WIDTHS})
    _slower: set[int | None] = field(default_factory=set)
    _from: int = 0
    """Server steps are looked for in periods after this one."""

    def forget(self) -> None:
        """Begin again after a restart: cold caches are no regression. What is usual is kept."""
        self.period += 1
        self._recent[:] = 0.0
        self._from = self.period

    def hold(self) -> None:
        """Count a period in which nothing can be told."""
        self.period += 1
        self._push(np.zeros((5, self._recent.shape[1])))

    def add(self, found: StatementDeltas) -> list[Slowdown]:
        """Take one period and return what can be told for the first time, the server before its statements."""
        self.period += 1
        size = max(self._recent.shape[1], int(found.ids.max(initial=-1)) + 1)
        self._grow(size)
        newest = np.zeros((5, size))
        for row, values in enumerate((found.calls, found.exec_ms, found.blocks, found.rows, found.m2)):
            newest[row, found.ids] = values
        self._push(newest)
        logs = self._logs()
        told: list[Slowdown] = []
        stays = self._contrast(logs, _STAYS)
        for width in WIDTHS:
            told += self._look(logs, width, stays)
        return told

    def watched(self) -> tuple[int, float]:
        """Return how many statements could be told of now, and their share of the newest periods' time."""
        known = np.isfinite(self._contrast(self._logs(), _STAYS))
        times = self._recent[_MS].sum(axis=1)
        return int(known.sum()), float(times[known].sum() / max(times.sum(), 1e-300))

    def detectable(self) -> float | None:
        """Return the factor that half of the statement time would be told of, None before any would."""
        contrast = self._contrast(self._logs(), _STAYS)
        known, times = np.isfinite(contrast), self._recent[_MS].sum(axis=1)
        if not known.any():
            return None
        scatters = [usual.scatter(_FLOOR, self._sampled(width)) for width, usual in self._usual.items()]
        least = DEVIATIONS * np.min(scatters, axis=0)[known]
        least = np.maximum(STEP, least)
        order = np.argsort(least)
        half = np.searchsorted(np.cumsum(times[known][order]), times[known].sum() / 2)
        return math.exp(float(least[order][half]))

    def idle(self, size: int, present: Ints) -> list[int]:
        """Return which of `size` statements did nothing in any period that is kept, and are not `present`."""
        quiet, known = np.ones(size, dtype=np.bool_), self._recent[_CALLS][:size]
        quiet[: known.shape[0]] = ~(known > 0).any(axis=1)
        quiet[present] = False
        return [int(number) for number in np.flatnonzero(quiet)]

    def drop(self, numbers: Sequence[int]) -> None:
        """Forget what was usual for statements that are gone: their numbers are given to others."""
        inside = [number for number in numbers if number < self._recent.shape[1]]
        for usual in self._usual.values():
            usual.drop(inside)
        self._slower -= set(numbers)

    def _grow(self, size: int) -> None:
        more = size - self._recent.shape[1]
        if more > 0:
            self._recent = np.concatenate([self._recent, np.zeros((5, more, _KEPT))], axis=1)
            for usual in self._usual.values():
                usual.grow(more)

    def _push(self, newest: Floats) -> None:
        self._recent[:, :, :-1] = self._recent[:, :, 1:]
        self._recent[:, :, -1] = newest

    def _logs(self) -> Floats:
        calls, times = self._recent[_CALLS], self._recent[_MS]
        logs: Floats = np.full_like(times, np.nan)
        counts = (calls >= LEAST_CALLS) & (times > 0)
        usual, often = np.full(calls.shape[0], np.inf), counts.sum(axis=1) >= _STAYS
        usual[often] = _medians(np.where(counts[often], times[often], np.nan))
        counts |= (calls > 0) & (times >= _AS_LONG * usual[:, None])
        logs[counts] = np.log(times[counts] / calls[counts])
        return logs

    def _contrast(self, logs: Floats, width: int) -> Floats:
        """Return how much longer a call takes in `width` periods after a moment than before it, NaN: unknown.

        The moment is the begin of the newest `_STAYS` periods, or of `width` periods where those are more.
        """
        moment = logs.shape[1] - max(width, _STAYS)
        sides = logs[:, moment : moment + width], logs[:, moment - width : moment]
        enough = np.all([np.isfinite(side).sum(axis=1) >= _PRESENT * width for side in sides], axis=0)
        found = np.full(logs.shape[0], np.nan)
        if enough.any():
            found[enough] = _medians(sides[0][enough]) - _medians(sides[1][enough])
        return found

    def _look(self, logs: Floats, width: int, stays: Floats) -> Iterator[Slowdown]:
        contrast = self._contrast(logs, width)
        known = np.isfinite(contrast)
        if not known.any():
            return
        wide = max(width, _STAYS)
        before = self._recent[_MS][:, -2 * wide : -wide].sum(axis=1)
        weights = np.zeros_like(before)
        weights[known] = capped(before[known])
        shared = _shared(contrast[known], weights[known])
        if width >= _STAYS:
            yield from self._look_at_server(logs, contrast, weights, shared, width)
        common = shared if known.sum() >= _COMMON else 0.0
        own, usual = contrast - common, self._usual[width]
        sampled = self._sampled(width)
        scatter = usual.scatter(_FLOOR, sampled)
        after = self._recent[_MS][:, -wide:].sum(axis=1)
        cost = (1 - np.exp(-np.abs(own))) * np.maximum(after, before) / max(float(after.sum()), 1e-300)
        far = known & (np.abs(own) > np.maximum(STEP, DEVIATIONS * scatter)) & (cost >= COST) & _lasts(own, stays)
        usual.learn(own, known, scatter, sampled)
        if self.period < LEARN:
            return
        for number in np.flatnonzero(far):
            is_slower = own[number] > 0
            if is_slower or int(number) in self._slower:
                yield self._told(logs, int(number), wide, is_back=not is_slower)

    def _sampled(self, width: int) -> Floats:
        """Return the variance of a contrast that is left by how far single calls scatter in its own periods."""
        calls, times, squares = (self._recent[row].sum(axis=1) for row in (_CALLS, _MS, _M2))
        cv2 = np.divide(squares * calls, times**2, out=np.zeros_like(times), where=times > 0)
        moment, left = _KEPT - max(width, _STAYS), np.zeros_like(times)
        for begin in (moment, moment - width):
            side = self._recent[_CALLS][:, begin : begin + width]
            counts = side >= LEAST_CALLS
            each = np.divide(1.0, side, out=np.zeros_like(side), where=counts).sum(axis=1)
            left += each / np.maximum(counts.sum(axis=1), 1) ** 2
        return np.asarray((_MEDIAN if width > 2 else 1.0) * cv2 * left, dtype=np.float64)

    def _look_at_server(
        self, logs: Floats, contrast: Floats, weights: Floats, shared: float, width: int
    ) -> Iterator[Slowdown]:
        known, usual = np.isfinite(contrast), self._server[width]
        index = float((weights[known] * contrast[known]).sum())
        scatter = usual.scatter(_SERVER_FLOOR)
        usual.learn(np.array([index]), np.array([True]), scatter)
        if self.period < max(LEARN, self._from + 2 * width) or abs(index) <= max(
            SERVER_STEP, DEVIATIONS * float(scatter[0])
        ):
            return
        # One dear statement alone is told of by its own name.
        if abs(shared) < abs(index) / 2:
            return
        if index > 0 or None in self._slower:
            begin = _moment(_course(logs[known, -2 * width :], weights[known]), width)
            since = self.period - (2 * width - begin) + 1
            yield Slowdown(None, math.exp(index), since, 1.0, is_back=index < 0)
            self._slower = self._slower | {None} if index > 0 else self._slower - {None}
            self._from = self.period

    def _told(self, logs: Floats, number: int, width: int, *, is_back: bool) -> Slowdown:
        """Say since when and by how much, and let the statement's past begin there."""
        begin = _moment(logs[number, -2 * width :], width)
        recent = self._recent[:, number, -2 * width :]
        before, after = recent[:, :begin].sum(axis=1), recent[:, begin:].sum(axis=1)
        each_before, each_after = before / before[_CALLS], after / after[_CALLS]
        ratios = [float(a / b) if a > 0 and b > 0 else None for a, b in zip(each_after, each_before, strict=True)]
        self._recent[:, number, : _KEPT - 2 * width + begin] = 0.0
        logs[number] = np.nan  # not told again of the same by another width
        self._slower = self._slower - {number} if is_back else self._slower | {number}
        now = self._recent[_MS][:, begin - 2 * width :]
        return Slowdown(
            number=number,
            factor=ratios[_MS] or 1.0,
            since=self.period - (2 * width - begin) + 1,
            share=float(now[number].sum()) / max(float(now.sum()), 1e-300),
            is_back=is_back,
            blocks=ratios[_BLOCKS],
            blocks_before=float(each_before[_BLOCKS]) if ratios[_BLOCKS] is not None else None,
            rows=ratios[_ROWS],
        )


def _lasts(step: Floats, stays: Floats) -> Bools:
    """Tell which steps are there in the newest periods as a whole, too: in their contrast with those before."""
    with np.errstate(invalid="ignore"):
        return np.asarray(np.sign(step) * stays >= np.maximum(STEP, np.abs(step) / 2), dtype=np.bool_)


def _moment(logs: Floats, width: int) -> int:
    """Return the place of the first period after the step: where the two sides scatter least about their means."""
    places = range(max(2, width // 2), 2 * width - max(2, width // 2) + 1)

    def left(place: int) -> float:
        return float(sum(np.nansum((side - np.nanmean(side)) ** 2) for side in (logs[:place], logs[place:])))

    known = [place for place in places if np.isfinite(logs[:place]).any() and np.isfinite(logs[place:]).any()]
    return min(known, key=left)


def _course(logs: Floats, weights: Floats) -> Floats:
    """Return how long calls take in each period, in logarithms about the usual of each statement; NaN: unknown.

    `logs` has a row a statement and a column a period; a statement counts by its weight where it is known.
    """
    counts = weights[:, None] * np.isfinite(logs)
    sums = np.nansum(counts * (logs - _medians(logs)[:, None]), axis=0)
    total = counts.sum(axis=0)
    return np.asarray(np.divide(sums, total, out=np.full(total.size, np.nan), where=total > 0), dtype=np.float64)


def _medians(rows: Floats) -> Floats:
    """Return the median of each row, which has a number at least; ten times as fast as nanmedian."""
    ordered, counts = np.sort(rows, axis=1), np.isfinite(rows).sum(axis=1)
    each = np.arange(rows.shape[0])
    return np.asarray((ordered[each, (counts - 1) // 2] + ordered[each, counts // 2]) / 2, dtype=np.float64)


def _shared(contrast: Floats, weights: Floats) -> float:
    """Return what statements share: their median, in which each counts by the root of its time, and none as most.

    By time alone some ten statements would decide, whose means wander, and one that takes nearly all the time would
    share with itself; by number alone many small ones would.
    """
    roots = np.sqrt(weights)
    return _weighted_median(contrast, np.minimum(roots, (roots.sum() - roots.max()) / 2) if roots.size > 1 else roots)


def _weighted_median(values: Floats, weights: Floats) -> float:
    order = np.argsort(values)
    reached = np.cumsum(weights[order])
    return float(values[order][np.searchsorted(reached, reached[-1] / 2)])
