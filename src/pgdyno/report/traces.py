"""What one run left behind, and its sample tables as grids of numbers on seconds since the load began.

Pure. A grid holds no made-up number: a NULL, a missing column and a second without a row are all None, which a
renderer draws as a gap.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import fmean, median

from pgdyno.model.samples import Event, SampleValue

MAX_POINTS = 3600
LEAST_RATE_S = 0.6
"""A counter is not turned into a rate over less: backends report their statistics once a second and at their end, so
a short last interval would show as a burst."""
GAP_S = 2.5
"""Two readings further apart than this many bins have a gap between them."""

Columns = Mapping[str, Sequence[SampleValue]]
Values = tuple[float | None, ...]


@dataclass(frozen=True, slots=True)
class LoadBin:
    """What the load did in the `bin_s` seconds from `second` on: transactions a second, and latency in ms.

    The percentiles are those of the merged histograms of these seconds.
    """

    second: float
    throughput: float
    p50: float | None
    p95: float | None
    p99: float | None


@dataclass(frozen=True, slots=True)
class RunTrace:
    """A run as the recorder needs it. Times in seconds of the epoch; `samples` holds columns by table."""

    run: int
    name: str
    began_at: float
    steady_from: float | None
    ended_at: float
    cores: int | None = None
    load: Sequence[LoadBin] = ()
    samples: Mapping[str, Columns] = field(default_factory=dict)
    events: Sequence[Event] = ()
    bin_s: int = 1


@dataclass(frozen=True, slots=True)
class Grid:
    """Named columns of numbers on common times, in seconds since the load began."""

    times: tuple[float, ...]
    columns: Mapping[str, Values]


def bin_seconds(duration_s: float) -> int:
    """Return how many seconds one drawn point must cover so that no series has more than `MAX_POINTS`."""
    return max(1, math.ceil(duration_s / MAX_POINTS))


def usual_spacing_s(samples: Mapping[str, Columns]) -> int:
    """Return how far apart readings are, in whole seconds: 1 of pgdyno's own, often minutes where sar recorded."""
    clocks = [sorted({*_times(columns)}) for columns in samples.values()]
    spacings = [median(b - a for a, b in pairwise(times)) for times in clocks if len(times) > 1]
    return max(1, round(min(spacings, default=1)))


def read(trace: RunTrace, table: str, gauges: Iterable[str] = (), deltas: Iterable[str] = ()) -> Grid:
    """Read columns of a table that has one row a second; a delta becomes a rate per second over its interval.

    `gauges` and `deltas` name columns of `table` in `trace`; those that it lacks are left out. A delta is the increase
    over the row's `interval_s` seconds; its rate is None where these are fewer than LEAST_RATE_S.
    """
    columns = trace.samples.get(table, {})
    intervals = numbers(columns.get("interval_s", ()))
    found = {name: numbers(columns[name]) for name in gauges if name in columns}
    for name in deltas:
        if name in columns:
            found[name] = [
                None if value is None or not interval or interval < LEAST_RATE_S else value / interval
                for value, interval in zip(numbers(columns[name]), intervals, strict=True)
            ]
    return _grid(trace, _times(columns), found)


def pivot(
    trace: RunTrace, table: str, key: str, value: str, *, clock: str | None = None, absent: float | None = None
) -> Grid:
    """Turn a table with several rows a second into a column for each value of `key`; equal keys of a second add.

    `table` is one of `trace.samples`, and `value` is the column whose figures add. `clock` names a table with a row in
    every second, for tables that write none when there is nothing to say; `absent` is then what a key without a row
    means, None for a gap.
    """
    columns = trace.samples.get(table, {})
    times = _times(columns)
    seconds = sorted({*times, *(_times(trace.samples.get(clock, {})) if clock else ())})
    cells: dict[str, dict[float, float]] = {}
    for t, name, number in zip(times, columns.get(key, ()), numbers(columns.get(value, ())), strict=True):
        if number is not None:
            column = cells.setdefault(str(name), {})
            column[t] = column.get(t, 0.0) + number
    return _grid(trace, seconds, {name: [column.get(t, absent) for t in seconds] for name, column in cells.items()})


def numbers(values: Iterable[SampleValue]) -> list[float | None]:
    """Return numbers as floats and everything else as None."""
    return [float(value) if isinstance(value, int | float) else None for value in values]


def window_values(trace: RunTrace, times: Sequence[float], values: Sequence[float | None]) -> list[float]:
    """Return the known values inside the measured window, or of the whole run when it never became steady."""
    begin, end = (trace.steady_from or trace.began_at) - trace.began_at, trace.ended_at - trace.began_at
    return [value for t, value in zip(times, values, strict=True) if value is not None and begin <= t <= end]


def _times(columns: Columns) -> list[float]:
    return [float(t) for t in columns.get("t", ()) if isinstance(t, int | float)]


def _grid(trace: RunTrace, times: Sequence[float], columns: Mapping[str, Sequence[float | None]]) -> Grid:
    end = trace.ended_at - trace.began_at
    kept = [(index, t - trace.began_at) for index, t in enumerate(times) if -0.5 <= t - trace.began_at <= end + 1.5]
    bins: dict[float, list[int]] = {}
    for index, t in kept:
        bins.setdefault(t if trace.bin_s == 1 else t // trace.bin_s * trace.bin_s, []).append(index)
    binned = {
        name: [_mean(values[index] for index in members) for members in bins.values()]
        for name, values in columns.items()
    }
    return with_gaps(Grid(tuple(bins), {name: tuple(values) for name, values in binned.items()}), trace.bin_s)


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known else None


def with_gaps(grid: Grid, bin_s: float) -> Grid:
    """Return the grid with an empty row wherever readings are missing, so that no line bridges the hole."""
    holes = [index for index, (a, b) in enumerate(pairwise(grid.times), 1) if b - a > GAP_S * bin_s]
    if not holes:
        return grid
    times: list[float] = []
    columns: dict[str, list[float | None]] = {name: [] for name in grid.columns}
    for index, t in enumerate(grid.times):
        if index in holes:
            times.append((grid.times[index - 1] + t) / 2)
            for column in columns.values():
                column.append(None)
        times.append(t)
        for name, column in columns.items():
            column.append(grid.columns[name][index])
    return Grid(tuple(times), {name: tuple(values) for name, values in columns.items()})
