"""Has a statement, or the server as a whole, become slower from one moment on? Period by period, for days. Pure.

A statement is judged by `statement_steps`, against how it wanders by itself. The server is judged by medians of the
periods after a moment against those of as many periods before it, in logarithms, over five and ten periods; how far
such a contrast moves by itself is learnt from the load. What comes slowly, as the day's course does, is told of
neither. What all statements share is taken off each and watched as the server's own. A statement that came later has
no past that it could be slower than. The bounds are held by simulation (`bench/watch.py`): means that wander are no
coin flips.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from pgdyno.stats.arrays import Floats, Ints
from pgdyno.stats.body_index import capped
from pgdyno.stats.statement_deltas import StatementDeltas
from pgdyno.stats.statement_steps import AGES, KEPT, StatementStep, StatementSteps, bound, shared

WIDTHS = (5, 10)
"""Periods on either side of a moment, for the server as a whole."""
_STAYS = 5
_WINDOW = 2 * WIDTHS[-1]
LEAST_CALLS = 5
"""A period with fewer calls of a statement does not count for it."""
_AS_LONG = 0.7
"""But fewer count that take so much of its usual time together: what takes minutes from now on ends less often."""
_PRESENT = 0.6
"""Of a window, so many periods must count."""
DEVIATIONS = 5.5
"""How far beyond what is usual a contrast of the server must lie."""
SERVER_STEP = math.log(1.15)
"""Smaller steps are not told of, however sure."""
COST = 0.005
"""Nor are a statement's that cost less of the server's statement time than this."""
_SERVER_FLOOR = 0.04
"""No load is steadier than this for long, in ln."""
_MEMORY = 500
"""Contrasts that the usual scatter is learnt from: the newest count most."""
_PRIOR = 40
"""The floor counts as so many contrasts."""
LEARN = 20
"""Periods before the first may be told: until then nothing is known of how a load moves by itself."""
_OUTLIER = 3.0
"""A contrast of more deviations counts as one of so many: a change must not become what is usual."""
_CALLS, _MS, _BLOCKS, _ROWS, _M2 = range(5)


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
    """How far the server's contrasts of one width move by themselves: the sum of their squares, and how many count."""

    squares: float = 0.0
    count: float = 0.0

    def scatter(self) -> float:
        """Return their deviation."""
        own = max(_SERVER_FLOOR**2, self.squares / max(1.0, self.count))
        return math.sqrt((self.squares + _PRIOR * own) / (self.count + _PRIOR))

    def learn(self, contrast: float) -> None:
        """Add a contrast; one far out counts as less."""
        size = min(abs(contrast), _OUTLIER * self.scatter())
        self.squares = (1 - 1 / _MEMORY) * self.squares + size**2
        self.count = (1 - 1 / _MEMORY) * self.count + 1.0


@dataclass(slots=True)
class Regressions:
    """The newest periods of all statements, and what of them is usual. `period` counts from 1."""

    period: int = 0
    _recent: Floats = field(default_factory=lambda: np.zeros((5, 0, KEPT)))
    """Calls, milliseconds, blocks, rows and squares of each statement and period, the newest last."""
    _logs: Floats = field(default_factory=lambda: np.zeros((0, KEPT)))
    """The mean times in ln, NaN where a period does not count."""
    _steps: StatementSteps = field(default_factory=StatementSteps)
    _server: dict[int, _Usual] = field(default_factory=lambda: {width: _Usual() for width in WIDTHS})
    _slower: set[int | None] = field(default_factory=set)
    _from: int = 0
    """Server steps are looked for in periods after this one."""
    _least: float = math.inf
    """Deviations beyond which a step of a statement is told of."""

    def forget(self) -> None:
        """Begin again after a restart: cold caches are no regression. What is usual is kept."""
        self.period += 1
        self._recent[:] = 0.0
        self._logs[:] = np.nan
        self._steps.forget()
        self._from = self.period

    def hold(self) -> None:
        """Count a period in which nothing can be told."""
        self.period += 1
        self._push(np.zeros((5, self._recent.shape[1])))
        self._steps.hold()

    def add(self, found: StatementDeltas) -> list[Slowdown]:
        """Take one period and return what can be told for the first time, the server before its statements."""
        self.period += 1
        size = int(np.max(found.ids + 1, initial=self._recent.shape[1]))
        self._grow(size)
        newest = np.zeros((5, size))
        for row, values in enumerate((found.calls, found.exec_ms, found.blocks, found.rows, found.m2)):
            newest[row, found.ids] = values
        self._push(newest)
        times = self._recent[_MS].sum(axis=1)
        known = np.isfinite(self._logs[:, -1])
        weights = np.zeros(size)
        weights[known] = capped(times[known])
        sampled = self._sampled()
        # The logarithm of a mean of few calls is too small by half its variance.
        self._steps.add(self._logs[:, -1] + sampled / 2, sampled, weights)
        self._least = bound(int((times >= COST * times.sum()).sum()), found.seconds)
        told: list[Slowdown] = []
        for width in WIDTHS:
            told += self._look_at_server(width)
        if self.period >= LEARN:
            told += self._look_at_statements()
        return told

    def watched(self) -> tuple[int, float]:
        """Return how many statements could be told of now, and their share of the newest periods' time."""
        known = np.isfinite(self._contrast(self._logs[:, -_WINDOW:], _STAYS))
        times = self._recent[_MS].sum(axis=1)
        return int(known.sum()), float(times[known].sum() / max(times.sum(), 1e-300))

    def detectable(self) -> float | None:
        """Return the factor that half of the statement time would be told of, in half of all cases.

        None before any would.
        """
        least, times = self._steps.least(self._least), self._recent[_MS].sum(axis=1)
        known = np.isfinite(least) & np.isfinite(self._contrast(self._logs[:, -_WINDOW:], _STAYS))
        if not known.any():
            return None
        order = np.argsort(least[known])
        half = np.searchsorted(np.cumsum(times[known][order]), times[known].sum() / 2)
        return math.exp(float(least[known][order][half]))

    def idle(self, size: int, present: Ints) -> list[int]:
        """Return which of `size` statements did nothing in any period that is kept, and are not `present`."""
        quiet, known = np.ones(size, dtype=np.bool_), self._recent[_CALLS][:size]
        quiet[: known.shape[0]] = ~(known > 0).any(axis=1)
        quiet[present] = False
        return [int(number) for number in np.flatnonzero(quiet)]

    def drop(self, numbers: Sequence[int]) -> None:
        """Forget what was usual for statements that are gone: their numbers are given to others."""
        inside = [number for number in numbers if number < self._recent.shape[1]]
        self._steps.drop(inside)
        self._logs[inside] = np.nan
        self._slower -= set(numbers)

    def _grow(self, size: int) -> None:
        more = size - self._recent.shape[1]
        if more > 0:
            self._recent = np.concatenate([self._recent, np.zeros((5, more, KEPT))], axis=1)
            self._logs = np.concatenate([self._logs, np.full((more, KEPT), np.nan)])
            self._steps.grow(more)

    def _push(self, newest: Floats) -> None:
        """Keep one more period, and the logarithms of its means."""
        self._recent[:, :, :-1] = self._recent[:, :, 1:]
        self._recent[:, :, -1] = newest
        calls, times = self._recent[_CALLS, :, -_WINDOW:], self._recent[_MS, :, -_WINDOW:]
        counts = (newest[_CALLS] >= LEAST_CALLS) & (newest[_MS] > 0)
        few = np.flatnonzero((newest[_CALLS] > 0) & ~counts)
        whole = (calls[few] >= LEAST_CALLS) & (times[few] > 0)
        often = whole.sum(axis=1) >= _STAYS
        if often.any():
            few, whole = few[often], whole[often]
            counts[few] = newest[_MS, few] >= _AS_LONG * _medians(np.where(whole, times[few], np.nan))
        self._logs[:, :-1] = self._logs[:, 1:]
        self._logs[:, -1] = np.nan
        self._logs[counts, -1] = np.log(newest[_MS, counts] / newest[_CALLS, counts])

    def _sampled(self) -> Floats:
        """Return the variance of the newest means in ln that is left by how far single calls scatter."""
        calls, times, squares = (self._recent[row].sum(axis=1) for row in (_CALLS, _MS, _M2))
        cv2 = np.divide(squares * calls, times**2, out=np.zeros_like(times), where=times > 0)
        left = cv2 / np.maximum(self._recent[_CALLS, :, -1], 1.0)
        # Of a mean of few calls the logarithm scatters more than the mean does, as that of a gamma variate.
        return np.asarray(left + left**2 / 2, dtype=np.float64)

    def _contrast(self, logs: Floats, width: int) -> Floats:
        """Return how much longer a call takes in `width` periods after a moment than before it, NaN: unknown."""
        sides = logs[:, -width:], logs[:, -2 * width : -width]
        enough = np.all([np.isfinite(side).sum(axis=1) >= _PRESENT * width for side in sides], axis=0)
        found = np.full(logs.shape[0], np.nan)
        if enough.any():
            found[enough] = _medians(sides[0][enough]) - _medians(sides[1][enough])
        return found

    def _look_at_statements(self) -> Iterator[Slowdown]:
        for step in self._steps.found(self._least):
            is_slower = step.size > 0
            if (is_slower or step.number in self._slower) and self._cost(step) >= COST:
                yield self._told(step)

    def _cost(self, step: StatementStep) -> float:
        """Return how much of all time a step is, with the statement's time before or after it, where that is more."""
        begin = KEPT - 1 - step.age
        first = min(begin, KEPT - _STAYS)
        times = self._recent[_MS]
        after, before = times[step.number, first:].mean(), times[step.number, max(0, 2 * begin - KEPT) : begin].mean()
        whole = max(float(times[:, first:].sum(axis=0).mean()), 1e-300)
        return float((1 - math.exp(-abs(step.size))) * max(after, before) / whole)

    def _look_at_server(self, width: int) -> Iterator[Slowdown]:
        logs, usual = self._logs[:, -_WINDOW:], self._server[width]
        contrast = self._contrast(logs, width)
        known = np.isfinite(contrast)
        if not known.any():
            return
        before = self._recent[_MS][:, -2 * width : -width].sum(axis=1)
        weights = np.zeros_like(before)
        weights[known] = capped(before[known])
        index = float((weights[known] * contrast[known]).sum())
        scatter = usual.scatter()
        usual.learn(index)
        if self.period < max(LEARN, self._from + 2 * width) or abs(index) <= max(SERVER_STEP, DEVIATIONS * scatter):
            return
        # One dear statement alone is told of by its own name.
        if abs(shared(contrast[known], weights[known])) < abs(index) / 2:
            return
        if index > 0 or None in self._slower:
            begin = _moment(_course(logs[known, -2 * width :], weights[known]), width)
            since = self.period - (2 * width - begin) + 1
            yield Slowdown(None, math.exp(index), since, 1.0, is_back=index < 0)
            self._slower = self._slower | {None} if index > 0 else self._slower - {None}
            self._from = self.period

    def _told(self, step: StatementStep) -> Slowdown:
        """Say since when and by how much, and let the statement's past begin there."""
        number, begin = step.number, KEPT - 1 - step.age
        recent, is_back = self._recent[:, number], step.size < 0
        before, after = (side.sum(axis=1) for side in (recent[:, max(0, begin - AGES) : begin], recent[:, begin:]))
        each_before, each_after = before / before[_CALLS], after / after[_CALLS]
        ratios = [float(a / b) if a > 0 and b > 0 else None for a, b in zip(each_after, each_before, strict=True)]
        now = self._recent[_MS][:, begin:]
        told = Slowdown(
            number=number,
            factor=ratios[_MS] or 1.0,
            since=self.period - step.age,
            share=float(now[number].sum()) / max(float(now.sum()), 1e-300),
            is_back=is_back,
            blocks=ratios[_BLOCKS],
            blocks_before=float(each_before[_BLOCKS]) if ratios[_BLOCKS] is not None else None,
            rows=ratios[_ROWS],
        )
        self._steps.accept(step)
        self._recent[:, number, :begin] = 0.0
        self._logs[number, :begin] = np.nan
        self._slower = self._slower - {number} if is_back else self._slower | {number}
        return told


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
