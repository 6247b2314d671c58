"""Staircases and curves in character cells. Pure; `text_charts.framed_chart` is the way in."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

from pgdyno.model.figure import Axis, Figure, FigureKind, Series
from pgdyno.report.drawing.frames import x_ticks
from pgdyno.report.wording import number_text
from pgdyno.units import digits_text

FILLS = {
    "baseline": "▒",
    "keep": "█",
    "candidate": "█",
    "drop": "░",
    "null": "▒",
    "total": "▓",
    "less": "░",
    "more": "█",
}
"""What a bar is made of, by group: a word beside it says the same."""
POINTS = "●○◆◇▲△■□"
MOST_LABEL = 40
HEIGHT = 13

Place = Callable[[float, float, float, int, str], int]
"""Value, lower bound, upper bound, cells, scale -> the cell."""


def staircase(figure: Figure, width: int, place: Place, *, whole: Figure) -> list[str]:
    """Draw a row a step, from the first to the last: label, kind, the bar with its interval, height and interval.

    Bars and whiskers end at the frame of `figure`; what is written beside them is of `whole`, the figure before that.
    No line is longer than `width` characters. `place` gives the cell of a value, see `Place`.
    """
    steps = sorted(_steps(figure), key=lambda step: step[0])
    lo, hi = figure.y.lo or 0.0, figure.y.hi or 1.0
    written = sorted(_steps(whole), key=lambda step: step[0])
    figures = [_figures(y, low, high, figure.y.unit) for _, _, _, y, low, high in written]
    label_width = min(max((len(step[1]) for step in steps), default=0), MOST_LABEL, max(8, width // 3))
    group_width = min(max((len(step[2]) for step in steps), default=0), 10)
    space = max(8, width - label_width - group_width - max((len(text) for text in figures), default=0) - 6)
    lines = []
    for (_, label, group, y, low, high), text in zip(steps, figures, strict=True):
        cells = [" "] * space
        if y is not None:
            end = place(y, lo, hi, space, figure.y.scale)
            cells[: end + 1] = FILLS.get(group, "█") * (end + 1)
        if low is not None and high is not None:
            left, right = (place(value, lo, hi, space, figure.y.scale) for value in (low, high))
            cells[left : right + 1] = "─" * (right - left + 1)
            cells[left], cells[right] = "├", "┤"
        name = f"{_cut(label, label_width):<{label_width}}  {_cut(group, group_width):<{group_width}}"
        lines.append(f"{name}  {''.join(cells)}  {text}".rstrip()[:width])
    left_end, right_end = (f"{number_text(bound)}" for bound in (lo, hi))
    foot = f"{left_end}{right_end:>{max(1, space - len(left_end))}}"
    margin = f"{'':<{label_width + group_width + 4}}"
    notes = _wrapped([_unit(figure.y), *_notes(figure)], len(margin) - 2, width)
    return [*lines, f"{margin}{foot}"[:width], *notes]


def _notes(figure: Figure) -> list[str]:
    """Return marks and bands in words; marks of curves are drawn as well."""
    bands = [f"{one.label}: {number_text(one.lo)} to {number_text(one.hi)}" for one in figure.bands if one.label]
    if figure.kind is FigureKind.LINES:
        return [*(f"{'╎' if one.axis == 'x' else '╌'} {one.label}" for one in figure.marks), *bands]
    return [*(f"{one.label}: {number_text(one.at)}" for one in figure.marks if one.label), *bands]


def _steps(figure: Figure) -> list[tuple[float, str, str, float | None, float | None, float | None]]:
    found: list[tuple[float, str, str, float | None, float | None, float | None]] = []
    for one in figure.series:
        for at, (x, y) in enumerate(zip(one.x, one.y, strict=True)):
            label = one.labels[at] if at < len(one.labels) else one.name
            lo, hi = (values[at] if at < len(values) else None for values in (one.lo, one.hi))
            first = (one.name.split() or [""])[0]  # a candidate has the look of what is kept, "less" of what is dropped
            kind = first if first in FILLS else one.group or one.name
            found.append((x, " ".join(label.split()), kind, y, lo, hi))
    return found


def _figures(y: float | None, lo: float | None, hi: float | None, unit: str) -> str:
    if y is None:
        return "not measured"
    bounds = f" [{digits_text(lo, 4)}, {digits_text(hi, 4)}]" if lo is not None and hi is not None else ""
    return f"{digits_text(y, 4)}{_tick_unit(unit)}{bounds}"


def _tick_unit(unit: str) -> str:
    return {"x": "x", "%": " %"}.get(unit, "")


def _unit(axis: Axis) -> str:
    return ", ".join(part for part in (axis.label, axis.unit) if part)


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: max(0, width - 1)]}…"


def lines(figure: Figure, width: int, place: Place) -> list[str]:
    """Draw curves over a number: a glyph a series, dots between its points, an upright stroke for an interval."""
    lo, hi = figure.y.lo or 0.0, figure.y.hi or 1.0
    left, right = figure.x.lo or 0.0, figure.x.hi or 1.0
    names = {row: f"{number_text(_height(row, lo, hi, figure.y.scale))}" for row in (0, HEIGHT // 2, HEIGHT - 1)}
    margin = min(max(len(name) for name in names.values()), 14)
    space = max(12, width - margin - 2)
    grid = [[" "] * space for _ in range(HEIGHT)]

    def column(x: float) -> int:
        return place(x, left, right, space, figure.x.scale)

    def row(y: float) -> int:
        return HEIGHT - 1 - place(y, lo, hi, HEIGHT, figure.y.scale)

    for mark in figure.marks:
        if mark.axis == "y":
            for at in range(0, space, 2):
                grid[row(mark.at)][at] = "╌"
        else:
            for at in range(HEIGHT):
                grid[at][column(mark.at)] = "╎"
    for one in figure.series:
        _join(grid, one, column, row)
    for number, one in enumerate(figure.series):
        _points(grid, one, POINTS[number % len(POINTS)], column, row)
    head = f"{'':>{margin}}  {_unit(figure.y)}"
    drawn = [f"{_cut(names.get(at, ''), margin):>{margin}} │{''.join(cells)}".rstrip() for at, cells in enumerate(grid)]
    key = [f"{POINTS[number % len(POINTS)]} {one.name}" for number, one in enumerate(figure.series)]
    return [
        head[:width],
        *drawn,
        f"{'':>{margin}} └{'─' * space}",
        f"{'':>{margin}}  {_tick_line(figure, space, column)}".rstrip(),
        *_wrapped([*key, *_notes(figure)], margin, width),
    ]


def _height(row: int, lo: float, hi: float, scale: str) -> float:
    share = 1 - row / (HEIGHT - 1)
    return float(lo * (hi / lo) ** share) if scale == "log" else lo + (hi - lo) * share


def _join(grid: list[list[str]], one: Series, column: Callable[[float], int], row: Callable[[float], int]) -> None:
    """Put dots between neighbours that are both known."""
    if one.style == "points":
        return
    points = list(zip(one.x, one.y, strict=True))
    for (x1, y1), (x2, y2) in pairwise(points):
        if y1 is None or y2 is None:
            continue
        from_column, to_column = column(x1), column(x2)
        count = max(1, abs(to_column - from_column))
        for part in range(1, count):
            height = row(y1) if one.style == "step" else round(row(y1) + (row(y2) - row(y1)) * part / count)
            grid[height][from_column + round((to_column - from_column) * part / count)] = "·"


def _points(
    grid: list[list[str]], one: Series, glyph: str, column: Callable[[float], int], row: Callable[[float], int]
) -> None:
    for at, (x, y) in enumerate(zip(one.x, one.y, strict=True)):
        low, high = (values[at] if at < len(values) else None for values in (one.lo, one.hi))
        if low is not None and high is not None:
            for cell in range(row(high), row(low) + 1):
                grid[cell][column(x)] = "│"
        if y is not None:
            grid[row(y)][column(x)] = glyph


def _tick_line(figure: Figure, space: int, column: Callable[[float], int]) -> str:
    """Write the values of x under their places, as far as there is room, and what they are."""
    what = _unit(figure.x)
    cells, free = [" "] * space, 0
    for value in x_ticks(figure):
        text = number_text(value)
        start = min(column(value), space - len(text))
        if start >= free:
            cells[start : start + len(text)] = text
            free = start + len(text) + 1
    if what and free + len(what) + 1 <= space:
        cells[space - len(what) :] = what
        return "".join(cells)
    return "".join(cells).rstrip()


def _wrapped(parts: list[str], margin: int, width: int) -> list[str]:
    found, line = [], ""
    for part in parts:
        joined = f"{line}   {part}" if line else part
        if line and margin + 2 + len(joined) > width:
            found.append(line)
            joined = part
        line = joined
    return [f"{'':>{margin}}  {text}"[:width] for text in (*found, line) if text]
