"""Where warm-up ends: the first bin from which the throughput of a run is steady.

A tail of the series is steady when no split of it shows two levels that differ by more than TOLERANCE *and* by more
than its own noise explains. The noise is that of the residuals about the best of a line, a step and a parabola, so
that drift does not hide itself, nor a climb that becomes steeper; it is raised for autocorrelation (AR(1)) and never
taken below counting noise (Poisson). Checkpoint dips that come back are noise by this measure, a level that changes
for good is not. The search starts at the first bin, so a run that is steady at once loses nothing.

Where latencies are given, their inverse (transactions per second of latency) must be steady as well. A few clients
that never wait commit far more evenly than by chance, so that counting noise hides a drift of their throughput by a
third; their latencies show it. Both are the same question asked of a closed loop.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike

from pgdyno.errors import UsageError
from pgdyno.stats.arrays import Floats
from pgdyno.units import percent_text

TOLERANCE = 0.05
"""A change of level below this share of the mean is not worth a window: pairs average it away."""
MAX_BINS = 240
"""Longer series are summed into at most this many bins, which also tames autocorrelation."""
BURST_SHARE = 0.25
"""What is cut may be faster than what is kept only within this first share of the series (a burst, not a step down)."""
LATENCIES_PER_BIN = 8
"""Bins are joined until they hold so many latencies on average: a mean of fewer is too uneven for this test."""
_FEWEST = 4
_FEWEST_BENT = 8
"""A parabola through fewer bins leaves too little of their scatter."""
_CRITICAL = 3.4
_CRITICAL_FEW = 11.0
_MAX_AUTOCORRELATION = 0.8


@dataclass(frozen=True, slots=True)
class Steady:
    """`start` is the first bin of the steady part, or None when there is none; `reason` says why in words.

    `may_settle_s` is how long the series would have to be, in seconds, to be called steady if it stayed from now on as
    it is: 0 for one that is still rising, None where more of it cannot help.
    """

    start: int | None
    reason: str
    may_settle_s: float | None = None


def find_steady(
    counts_per_bin: ArrayLike, *, bin_s: float, min_window_s: float, latency_per_bin: ArrayLike | None = None
) -> Steady:
    """Find the first bin from which the counts are steady to the end, leaving at least `min_window_s`.

    `counts_per_bin` are transactions in consecutive bins of `bin_s` seconds, `latency_per_bin` the sums of their
    latencies in any unit. Raises UsageError on negative or non-finite counts and on lengths that are not positive.
    """
    counts = np.asarray(counts_per_bin, dtype=np.float64)
    totals = None if latency_per_bin is None else np.asarray(latency_per_bin, dtype=np.float64)
    by_count = _find(counts, bin_s, min_window_s)
    if by_count.start is None or totals is None:
        return by_count
    by_latency = _find_by_latency(counts, totals, bin_s, min_window_s)
    return by_latency if by_latency.start is None or by_latency.start > by_count.start else by_count


def _find_by_latency(counts: Floats, totals: Floats, bin_s: float, min_window_s: float) -> Steady:
    merge = max(math.ceil(counts.size / MAX_BINS), math.ceil(LATENCIES_PER_BIN * counts.size / counts.sum()))
    some, took = _merged(counts, merge), _merged(totals, merge)
    need = math.ceil(_bins(min_window_s, bin_s) / merge)
    if some.size < max(need, _FEWEST) or took.sum() <= 0:
        return Steady(0, "too few transactions to tell by their latencies")
    speed = np.divide(some, took, out=np.full(took.size, some.sum() / took.sum()), where=took > 0)
    found = _search(speed, need, bin_s * merge, counted=False)
    if found.start is None:
        return found
    return Steady(found.start * merge, found.reason)


def _find(counts: Floats, bin_s: float, min_window_s: float) -> Steady:
    if bin_s <= 0 or min_window_s <= 0:
        raise UsageError(f"bins of {bin_s} s and a window of {min_window_s} s are not positive")
    if counts.ndim != 1 or not np.isfinite(counts).all() or (counts < 0).any():
        raise UsageError("counts per bin are not a series of numbers from 0 up")
    need = _bins(min_window_s, bin_s)
    if counts.size < max(need, 2):
        return Steady(None, f"the series of {counts.size * bin_s:g} s is shorter than the window of {min_window_s:g} s")
    if counts.sum() == 0:
        return Steady(None, "not one transaction was counted")
    merge = math.ceil(counts.size / MAX_BINS)
    found = _search(_merged(counts, merge), math.ceil(need / merge), bin_s * merge)
    if found.start is None:
        return found
    return Steady(found.start * merge, found.reason)


def _bins(window_s: float, bin_s: float) -> int:
    """Return how many bins a window takes, one that rounding makes a trifle longer no more."""
    return math.ceil(window_s / bin_s - 1e-9)


def _search(counts: Floats, need: int, bin_s: float, *, counted: bool = True) -> Steady:
    """Try each start in turn that leaves `need` bins; report of the whole series why it is not steady if none is."""
    complaint = _change(counts, counted=counted)
    if complaint is None:
        return Steady(0, "steady from the first bin")
    for start in range(1, counts.size - need + 1):
        head, tail = counts[:start], counts[start:]
        if _is_warmup(head, tail) and _change(tail, counted=counted) is None:  # the cheaper question first
            return Steady(start, f"steady after {start * bin_s:g} s of warm-up")
    left, right, split = complaint
    what, before, after = ("throughput", left, right) if counted else ("latency", right, left)
    share = abs(after / before - 1) if before else 1.0
    rises = after > before
    direction = "rose" if rises else "fell"
    return Steady(
        None,
        f"{what} {direction} by {percent_text(share)} about {split * bin_s:g} s into the run and did not settle",
        0.0 if rises else split * bin_s / BURST_SHARE,
    )


def _is_warmup(head: Floats, tail: Floats) -> bool:
    """Return True when cutting `head` off is cutting off a warm-up.

    A fall is only a burst at the beginning; later it is a level that the run lost. A climb must have ended: the tail
    does not go on at a third of the pace of the head or more.
    """
    if head.mean() > tail.mean():
        return head.size <= BURST_SHARE * (head.size + tail.size)
    if head.size < 4:
        return True
    begun, ended = head[: head.size // 4].mean(), tail[: max(tail.size // 3, 1)].mean()
    return _slope(tail) < max(float(ended - begun), 0.0) / head.size / 3


def _change(counts: Floats, *, counted: bool = True) -> tuple[float, float, int] | None:
    """Return the levels before and after the clearest split, and the split, when the series is not steady.

    The last fifth (at least two bins) is never a side of its own: a dip there may still come back.
    """
    n = counts.size
    level = float(counts.mean())
    if n < _FEWEST or level == 0:
        return None
    splits = np.arange(1, n - max(2, n // 5) + 1)
    sums = np.cumsum(counts)[splits - 1]
    left, right = sums / splits, (counts.sum() - sums) / (n - splits)
    gap = np.abs(right - left)
    score = gap / np.sqrt(1 / splits + 1 / (n - splits))
    best = int(score.argmax())
    noise = _noise(counts, int(splits[best]), float(left[best]), float(right[best]), counted=counted)
    if score[best] <= noise * (_CRITICAL + _CRITICAL_FEW / n) or gap[best] <= TOLERANCE * level:
        return None
    return float(left[best]), float(right[best]), int(splits[best])


def _noise(counts: Floats, split: int, left: float, right: float, *, counted: bool) -> float:
    """Return the long-run standard deviation of a bin: residual scatter, autocorrelation included.

    Of counts it is at least what chance alone makes (Poisson).
    """
    least = float(counts.mean()) if counted else 0.0
    line = counts - counts.mean() - _slope(counts) * _time(counts.size)
    step = counts - np.where(np.arange(counts.size) < split, left, right)
    bend, freedom = _bend(counts.size), counts.size - 3
    curve = line - bend * float(bend @ line)
    residual = min(line, step, key=lambda found: float(found @ found))
    if counts.size >= _FEWEST_BENT and float(curve @ curve) / (freedom - 1) < float(residual @ residual) / freedom:
        residual, freedom = curve, freedom - 1
    energy = float(residual @ residual)
    if energy <= 0:
        return math.sqrt(least)
    # The lag-1 estimate of a fitted residual is low by about (1 + 3 r) / n for a line; put half of it back.
    lag = float((residual[1:] * residual[:-1]).sum()) / energy + 2 / counts.size
    lag = min(max(lag, 0.0), _MAX_AUTOCORRELATION)
    return math.sqrt(max(energy / freedom * (1 + lag) / (1 - lag), least))


@lru_cache(MAX_BINS + 1)
def _time(size: int) -> Floats:
    """Return the times of so many bins from their middle."""
    return np.arange(size, dtype=np.float64) - (size - 1) / 2


@lru_cache(MAX_BINS + 1)
def _bend(size: int) -> Floats:
    """Return a parabola of length 1 over so many bins, without its mean and slope."""
    time = _time(size)
    square = time * time - float((time * time).mean())
    return square / max(math.sqrt(float(square @ square)), 1.0)


def _slope(counts: Floats) -> float:
    time = _time(counts.size)
    return float((time * counts).sum() / max((time * time).sum(), 1.0))


def _merged(counts: Floats, merge: int) -> Floats:
    """Sum runs of `merge` bins; bins that do not fill the last run are left out."""
    runs = counts.size // merge
    return np.asarray(counts[: runs * merge].reshape(runs, merge).sum(axis=1), dtype=np.float64)
