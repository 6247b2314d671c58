"""Give the axes of staircases and curves bounds that hold every point, and cut whiskers at the edge. Pure.

A point is never clipped: an axis that is too short for it grows. An end of an interval that lies beyond the axis,
such as infinity, is drawn at the edge. A number that is none (NaN, infinite) is a gap.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace

from pgdyno.model.figure import Axis, Figure, FigureKind, Table
from pgdyno.report.scales import log_bounds, nice_bounds, ticks
from pgdyno.report.wording import number_text

FRAMED = (FigureKind.STAIRCASE, FigureKind.LINES)
"""The kinds whose makers may leave bounds to the renderer."""
LEAST = 1e-300
"""What a logarithmic axis can hold at least; less is a gap like zero."""
MOST_OWN_TICKS = 12
"""Up to so many values of x are labelled themselves, such as the client counts that were measured."""


def framed(figure: Figure) -> Figure:
    """Return the figure with bounds on both axes and every point and interval inside of them."""
    series = tuple(replace(one, y=tuple(_known(value, figure.y.scale) for value in one.y)) for one in figure.series)
    heights = [value for one in series for value in one.y if value is not None]
    ends = [value for one in series for value in (*one.lo, *one.hi) if value is not None and math.isfinite(value)]
    # bars and rates stand on zero; only where the maker chose a bound is it another
    base = [0.0] if figure.y.lo is None and figure.y.scale == "linear" else []
    y = _axis(figure.y, heights, [*heights, *(ends if figure.y.scale == "linear" else _positive(ends)), *base])
    places = [value for one in series for value in one.x if math.isfinite(value)]
    x = _places(figure.x, places) if figure.kind is FigureKind.STAIRCASE else _axis(figure.x, places, places)
    cut = tuple(replace(one, lo=_cut(one.lo, y), hi=_cut(one.hi, y)) for one in series)
    return replace(figure, x=x, y=y, series=cut)


def x_ticks(figure: Figure) -> tuple[float, ...]:
    """Return where the x axis of framed curves is labelled: at the measured values while they are few."""
    own = sorted({value for one in figure.series for value in one.x if math.isfinite(value)})
    if 0 < len(own) <= MOST_OWN_TICKS:
        return tuple(own)
    low, high = figure.x.lo, figure.x.hi
    return () if low is None or high is None else ticks(low, high, figure.x.scale)


def drawn_table(figure: Figure) -> Table:
    """Return the figure's own table, else one of its series: a row a point."""
    if figure.table is not None:
        return figure.table
    x_name, y_name = figure.x.label or "x", ", ".join(part for part in (figure.y.label, figure.y.unit) if part)
    columns = ("series", x_name, y_name, "lower bound", "upper bound")
    rows = []
    for one in figure.series:
        for at, (x, y) in enumerate(zip(one.x, one.y, strict=True)):
            name = one.labels[at] if figure.kind is FigureKind.STAIRCASE and one.labels else number_text(x)
            bounds = [values[at] if values else None for values in (one.lo, one.hi)]
            rows.append((one.name, name, *("" if value is None else number_text(value) for value in (y, *bounds))))
    return Table(columns, tuple(rows), columns[2:] if figure.kind is FigureKind.STAIRCASE else columns[1:])


def _known(value: float | None, scale: str) -> float | None:
    is_drawable = value is not None and math.isfinite(value) and (scale == "linear" or value >= LEAST)
    return value if is_drawable else None


def _positive(values: Iterable[float]) -> list[float]:
    return [value for value in values if value >= LEAST]


def _axis(axis: Axis, points: list[float], wanted: list[float]) -> Axis:
    """Return the axis with its own bounds where it has them, widened where a point lies beyond."""
    if axis.scale == "log":
        points, wanted = _positive(points), _positive(wanted)
    kept = [bound for bound in (axis.lo, axis.hi) if bound is not None]
    lo, hi = log_bounds([*wanted, *kept]) if axis.scale == "log" else nice_bounds([*wanted, *kept])
    least, most = min(points, default=math.inf), max(points, default=-math.inf)
    low = axis.lo if axis.lo is not None and axis.lo <= least else lo
    high = axis.hi if axis.hi is not None and axis.hi >= most else hi
    return replace(axis, lo=low, hi=high if high > low else hi)


def _places(axis: Axis, places: list[float]) -> Axis:
    return replace(axis, scale="linear", lo=min(places, default=0.0) - 0.5, hi=max(places, default=0.0) + 0.5)


def _cut(values: tuple[float | None, ...], axis: Axis) -> tuple[float | None, ...]:
    lo, hi = axis.lo or 0.0, axis.hi or 0.0
    return tuple(None if value is None or math.isnan(value) else min(hi, max(lo, value)) for value in values)
