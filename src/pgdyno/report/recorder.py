"""Make the flight recorder of one run: aligned strips of throughput, latency, CPU, waits, blocks, WAL and disk.

Pure. Every strip is made of one source on its own seconds; a column that a machine or a version does not have
leaves its series out, and a source without numbers gives no strip. `align` gives the strips of several runs the
same axes, so that they can be compared by eye.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, median_low

from pgdyno.model.figure import Axis, Band, Figure, FigureKind, Mark, Series, Table
from pgdyno.report.scales import log_bounds, zero_based
from pgdyno.report.traces import Grid, RunTrace, Values, pivot, read, window_values, with_gaps
from pgdyno.report.wording import number_text
from pgdyno.units import plural

GROUP = "recorder"
WAIT_CLASSES = ("CPU", "IO", "LWLock", "Lock", "IPC", "Client", "Timeout")
CPU_PARTS = {
    "usr_pct": "usr",
    "sys_pct": "sys",
    "irq_pct": "irq",
    "iowait_pct": "iowait",
    "steal_pct": "steal",
}
MEMORY_PARTS = {
    "cached_bytes": ("page cache", "hit"),
    "anonymous_bytes": ("processes", "read1"),
    "shared_bytes": ("shared memory", "wal"),
}
MARKED_EVENTS = {
    "checkpoint": "checkpoint begins",
    "checkpoint_done": "checkpoint done",
    "autovacuum": "autovacuum",
    "restart": "restart",
    "reload": "reload",
    "swap": "swapping",
    "oom_kill": "out of memory",
    "crash": "crash",
}
SHOWN_DEVICES = 2
STRIP_KEYS = ("throughput", "latency", "cpu", "waits", "memory", "blocks", "wal", "disk", "iops")
"""Top to bottom, whichever run has them."""
QUIET_STRIPS = ("wal", "disk", "iops")
QUIET_SHARE = 0.02
"""A strip of these that stays below this share of its axis in every run says nothing as a picture."""
TITLE_SHARE = 0.1
"""A series below this share of the largest one is left to the table."""


@dataclass(frozen=True, slots=True)
class _Line:
    name: str
    group: str
    values: Values
    style: str = "line"


def recorder(trace: RunTrace) -> list[Figure]:
    """Return the strips of one run, top to bottom; strips without data are left out."""
    strips = (_throughput, _latency, _cpu, _waits, _memory, _blocks, _wal, _disk, _iops)
    return [figure for strip in strips if (figure := strip(trace)) is not None]


def align(runs: Sequence[Sequence[Figure]]) -> tuple[tuple[Figure | None, ...], ...]:
    """Return rows of the same strip of every run, with common axes; time is labelled on the last row only."""
    found = {strip_key(figure) for run in runs for figure in run}
    keys = [key for key in STRIP_KEYS if key in found]
    end = max((figure.x.hi or 0.0 for run in runs for figure in run), default=1.0)
    rows = []
    for key in keys:
        row = [next((figure for figure in run if strip_key(figure) == key), None) for run in runs]
        known = [figure for figure in row if figure is not None]
        low, high = min(figure.y.lo or 0.0 for figure in known), max(figure.y.hi or 1.0 for figure in known)
        x = Axis("seconds since the run began" if key == keys[-1] else "", "s", lo=0.0, hi=end)
        rows.append(tuple(figure and replace(figure, x=x, y=replace(figure.y, lo=low, hi=high)) for figure in row))
    return tuple(rows)


def without_quiet(runs: Sequence[Sequence[Figure]]) -> tuple[list[list[Figure]], tuple[str, ...]]:
    """Leave out the WAL, disk and IOPS strips in which no run shows anything, and return what they would have shown."""
    figures = [figure for run in runs for figure in run]
    loud = {strip_key(figure) for figure in figures if not _is_quiet(figure)}
    labels = tuple(dict.fromkeys(figure.y.label for figure in figures if strip_key(figure) not in loud))
    return [[figure for figure in run if strip_key(figure) in loud] for run in runs], labels


def _is_quiet(figure: Figure) -> bool:
    heights = [height for one in figure.series for height in (one.hi or one.y) if height is not None]
    return strip_key(figure) in QUIET_STRIPS and max(heights, default=0.0) < QUIET_SHARE * (figure.y.hi or 1.0)


def strip_key(figure: Figure) -> str:
    """Return what a strip shows, without the run that it is of."""
    return figure.id.rsplit("-", 1)[0]


def _throughput(trace: RunTrace) -> Figure | None:
    grid = _load_grid(trace, {"tps": tuple(bin_.throughput for bin_ in trace.load)})
    lines = [_Line("throughput", "throughput", grid.columns["tps"])]
    return _strip(trace, "throughput", Axis("Transactions per second", "tps"), grid.times, lines)


def _latency(trace: RunTrace) -> Figure | None:
    grid = _load_grid(
        trace,
        {
            "p99": tuple(bin_.p99 for bin_ in trace.load),
            "p95": tuple(bin_.p95 for bin_ in trace.load),
            "p50": tuple(bin_.p50 for bin_ in trace.load),
        },
    )
    lines = [_Line(name, name, values) for name, values in grid.columns.items()]
    return _strip(trace, "latency", Axis("Latency, percentiles of each second", "ms", "log"), grid.times, lines)


def _cpu(trace: RunTrace) -> Figure | None:
    grid = read(trace, "cpu", (*CPU_PARTS, "foreign_cpu_pct", "cpus"))
    lines = [
        _Line(CPU_PARTS[name], CPU_PARTS[name], grid.columns[name], "area") for name in CPU_PARTS if _has(grid, name)
    ]
    if _has(grid, "foreign_cpu_pct") and _has(grid, "cpus"):
        both = zip(grid.columns["foreign_cpu_pct"], grid.columns["cpus"], strict=True)
        share = tuple(None if pct is None or not cpus else pct / cpus for pct, cpus in both)
        lines.append(_Line("foreign", "foreign", share))
    return _strip(trace, "cpu", Axis("CPU of the machine", "%", lo=0.0, hi=100.0), grid.times, lines)


def _waits(trace: RunTrace) -> Figure | None:
    grid = pivot(trace, "waits", "wait_event_type", "sessions", clock="sessions", absent=0.0)
    lines = [_Line(name, name, grid.columns[name], "area") for name in WAIT_CLASSES if name in grid.columns]
    rest = [values for name, values in grid.columns.items() if name not in WAIT_CLASSES]
    if rest:
        lines.append(_Line("other", "other", _add(rest), "area"))
    if not lines and grid.times:  # sampled, and no session was active at any of these moments
        lines = [_Line("none active", "other", (0.0,) * len(grid.times), "area")]
    figure = _strip(trace, "waits", Axis("Active sessions, by what they wait for", "sessions"), grid.times, lines)
    if figure is None or trace.cores is None:
        return figure
    cores = Mark("y", float(trace.cores), plural(trace.cores, "core"), "limit")
    top = max(figure.y.hi or 0.0, zero_based([trace.cores * 1.2])[1])
    return replace(figure, marks=(*figure.marks, cores), y=replace(figure.y, hi=top))


def _memory(trace: RunTrace) -> Figure | None:
    grid = read(trace, "memory", tuple(MEMORY_PARTS))
    lines = [
        _Line(name, group, _scaled(grid.columns[column], 1 / 1024**3))
        for column, (name, group) in MEMORY_PARTS.items()
        if _has(grid, column)
    ]
    return _strip(trace, "memory", Axis("Memory of the machine", "GB"), grid.times, lines)


def _iops(trace: RunTrace) -> Figure | None:
    if not {"r_per_s", "w_per_s"} <= trace.samples.get("disk", {}).keys():
        return None
    axis = Axis("Requests that the disks completed", "1/s")
    return _of_devices(trace, "iops", axis, ("r_per_s", "w_per_s"), ("reads", "writes"))


def _blocks(trace: RunTrace) -> Figure | None:
    grid = read(trace, "database", deltas=("blks_hit", "blks_read"))
    names = {"blks_hit": ("hits", "hit"), "blks_read": ("reads", "read")}
    lines = [_Line(*names[name], _scaled(grid.columns[name], 1e-3), "area") for name in names if _has(grid, name)]
    return _strip(
        trace, "blocks", Axis("Blocks: hits in shared_buffers, reads from the system", "k/s"), grid.times, lines
    )


def _wal(trace: RunTrace) -> Figure | None:
    grid = read(trace, "wal", deltas=("bytes",))
    lines = [_Line("WAL", "wal", _scaled(grid.columns["bytes"], 1 / 1024**2))] if _has(grid, "bytes") else []
    return _strip(trace, "wal", Axis("WAL written", "MB/s"), grid.times, lines)


def _disk(trace: RunTrace) -> Figure | None:
    axis, columns = Axis("Disk traffic", "MB/s"), ("rkb_per_s", "wkb_per_s")
    return _of_devices(trace, "disk", axis, columns, ("read", "written"), scale=1 / 1024)


def _of_devices(
    trace: RunTrace, key: str, y: Axis, columns: tuple[str, str], words: tuple[str, str], *, scale: float = 1.0
) -> Figure | None:
    """Draw what is read and written of the busiest devices: `columns` of table `disk`, called by `words`."""
    grids = [pivot(trace, "disk", "device", column) for column in columns]

    def total(device: str) -> float:
        return sum(value or 0.0 for grid in grids for value in grid.columns.get(device, ()))

    busiest = sorted(sorted({name for grid in grids for name in grid.columns}, key=total, reverse=True)[:SHOWN_DEVICES])
    lines = [
        _Line(f"{device} {word}", f"{group}{rank}", _scaled(grid.columns[device], scale))
        for rank, device in enumerate(busiest)
        for word, group, grid in zip(words, ("read", "written"), grids, strict=True)
        if device in grid.columns
    ]
    return _strip(trace, key, y, grids[0].times, lines)


def _load_grid(trace: RunTrace, columns: Mapping[str, Values]) -> Grid:
    times = tuple(bin_.second - trace.began_at for bin_ in trace.load)
    return with_gaps(Grid(times, columns), trace.bin_s)


def _strip(trace: RunTrace, key: str, y: Axis, times: Sequence[float], lines: Sequence[_Line]) -> Figure | None:
    drawn = [line for line in lines if any(value is not None for value in line.values)]
    if not drawn:
        return None
    seen = [line for line in drawn if any(line.values)] or drawn[:1]
    series = _series(tuple(times), seen)
    heights = [height for one in series for height in (one.hi or one.y)]
    lo, hi = log_bounds(heights) if y.scale == "log" else zero_based(heights)
    return Figure(
        kind=FigureKind.TIMELINE,
        id=f"{key}-{trace.run}",
        title=_title(trace, times, drawn, y.unit, hi if y.hi is None else y.hi),
        question=y.label,
        x=Axis("seconds since the run began", "s", lo=0.0, hi=trace.ended_at - trace.began_at),
        y=replace(y, lo=lo if y.lo is None else y.lo, hi=hi if y.hi is None else y.hi),
        series=series,
        bands=_phases(trace),
        marks=_marks(trace),
        table=_table(trace, times, drawn, y.unit),
        caption="" if trace.bin_s == 1 else f"each point covers {trace.bin_s} s",
        group=GROUP,
        provenance={"run": str(trace.run)},
    )


def _series(times: tuple[float, ...], lines: Sequence[_Line]) -> tuple[Series, ...]:
    """Stack the areas: `hi` of an area is its upper edge, its lower edge is that of the area before it."""
    found, stacked = [], (0.0,) * len(times)
    for line in lines:
        if line.style == "area":
            stacked = tuple(base + (value or 0.0) for base, value in zip(stacked, line.values, strict=True))
            edge = tuple(None if v is None else top for v, top in zip(line.values, stacked, strict=True))
            found.append(Series(line.name, times, line.values, hi=edge, style="area", group=line.group))
        else:
            found.append(Series(line.name, times, line.values, group=line.group))
    return tuple(found)


def _title(trace: RunTrace, times: Sequence[float], lines: Sequence[_Line], unit: str, top: float) -> str:
    """Say the mean of the measured window; of latency its median second, because percentiles are never averaged."""
    summary, kind = (median_low, "in the median second") if unit == "ms" else (fmean, "on average")
    levels = {line.name: summary(values) for line in lines if (values := window_values(trace, times, line.values))}
    if not levels:
        return "nothing in the measured window"
    least = max(levels.values()) * TITLE_SHARE
    if unit != "ms" and max(levels.values()) < top / 100:
        return f"next to nothing {kind}"
    told = [f"{name} {number_text(level)}" for name, level in levels.items() if level >= least]
    return f"{', '.join(told) if len(lines) > 1 else number_text(max(levels.values()))} {unit} {kind}"


def _phases(trace: RunTrace) -> tuple[Band, ...]:
    if trace.steady_from is None:
        return (Band("x", 0.0, trace.ended_at - trace.began_at, "never steady"),)
    return (Band("x", 0.0, trace.steady_from - trace.began_at, "warm-up"),)


def _marks(trace: RunTrace) -> tuple[Mark, ...]:
    inside = (event for event in trace.events if trace.began_at <= event.t <= trace.ended_at)
    return tuple(
        Mark("x", event.t - trace.began_at, MARKED_EVENTS[event.kind], event.kind)
        for event in inside
        if event.kind in MARKED_EVENTS
    )


def _table(trace: RunTrace, times: Sequence[float], lines: Sequence[_Line], unit: str) -> Table:
    rows = []
    for line in lines:
        values = sorted(window_values(trace, times, line.values))
        if values:
            cells = (values[0], values[len(values) // 2], values[-1])
            rows.append((line.name, *(number_text(cell) for cell in cells), str(len(values))))
    columns = (f"series, {unit}", "least second", "median second", "greatest second", "seconds")
    return Table(columns, tuple(rows), columns[1:])


def _has(grid: Grid, column: str) -> bool:
    return any(value is not None for value in grid.columns.get(column, ()))


def _scaled(values: Values, factor: float) -> Values:
    return tuple(None if value is None else value * factor for value in values)


def _add(columns: Sequence[Values]) -> Values:
    return tuple(sum(value or 0.0 for value in row) for row in zip(*columns, strict=True))
