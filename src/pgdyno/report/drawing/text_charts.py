"""Figures in character cells: sparklines for strips, aligned rows with whiskers, a scatter for the search. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from pgdyno.model.figure import Axis, Figure, FigureKind, Series
from pgdyno.report.drawing import text_curves
from pgdyno.report.drawing.frames import framed
from pgdyno.units import digits_text

BLOCKS = " ▁▂▃▄▅▆▇█"
GAP = "·"
GLYPHS = {
    "baseline": "○",
    "search": "●",
    "confirm": "◆",
    "prune": "▲",
    "effect": "■",
    "rival": "▼",
    "arm": "●",
    "cell": "●",
}
LOST = "x"
MOST_LABEL = 46
LEAST_SPACE = 16
"""Columns that the axis of a row figure has at least."""


def sparkline(values: Sequence[float | None], axis: Axis, width: int) -> str:
    """Draw values as blocks over the bounds of the axis; a cell is the greatest value of its share of the time."""
    if not values:
        return ""
    lo, hi = axis.lo or 0.0, axis.hi or 1.0
    cells = []
    for cell in range(min(width, len(values))):
        count = min(width, len(values))
        share = values[cell * len(values) // count : (cell + 1) * len(values) // count]
        known = [value for value in share if value is not None]
        cells.append(GAP if not known else BLOCKS[1 + round(7 * _place(max(known), lo, hi, axis.scale))])
    return "".join(cells)


def timeline(figure: Figure, width: int) -> list[str]:
    """Draw each series as a sparkline; an axis without an upper bound ends at the greatest value."""
    known = [value for series in figure.series for value in series.y if value is not None]
    axis = figure.y if figure.y.hi is not None else replace(figure.y, hi=max(known, default=None))
    return [sparkline(series.y, axis, width) for series in figure.series]


def _place(value: float, lo: float, hi: float, scale: str) -> float:
    """Return where a value lies between the bounds, 0 to 1."""
    if scale == "log":
        value, lo, hi = (math.log(max(number, 1e-12)) for number in (value, lo, hi))
    return min(1.0, max(0.0, (value - lo) / (hi - lo))) if hi > lo else 0.0


def rows(figure: Figure, width: int) -> list[str]:
    """Draw a forest or an estimation plot: label, whiskers over a common axis, ratio and interval."""
    lo, hi = figure.y.lo or 0.0, figure.y.hi or 1.0
    estimates = _estimates(figure)
    tails = [
        f"{f'{digits_text(ratio)}x':>7} [{digits_text(low)}, {digits_text(high)}]" for _, ratio, low, high in estimates
    ]
    room = min(MOST_LABEL, width - max(map(len, tails), default=0) - LEAST_SPACE - 2)
    wide = [label.replace("\n", " ") for label, *_ in estimates]
    names = wide if max(map(len, wide), default=0) <= room else [label.split("\n")[0] for label, *_ in estimates]
    label_width = min(max(map(len, names), default=0), room)
    space = max(LEAST_SPACE, width - label_width - max(map(len, tails), default=0) - 2)
    reference = [mark.at for mark in figure.marks if mark.axis == "y"]
    lines = []
    for name, tail, (_, ratio, low, high) in zip(names, tails, estimates, strict=True):
        cells = [" "] * space
        left, right, middle, *marks = (
            _cell(value, lo, hi, space, figure.y.scale) for value in (low, high, ratio, *reference)
        )
        for mark in marks:
            cells[mark] = "│"
        for index in range(left, right + 1):
            cells[index] = "─"
        cells[left], cells[right], cells[middle] = "├", "┤", "●"
        name = name if len(name) <= label_width else f"{name[: label_width - 1]}…"
        lines.append(f"{name:<{label_width}} {''.join(cells)} {tail}")
    lines.append(f"{'':<{label_width}} {f'{lo:g}x':<{space - 6}}{f'{hi:g}x':>6}")
    return lines


def _estimates(figure: Figure) -> list[tuple[str, float, float, float]]:
    found: dict[float, tuple[str, float, float, float]] = {}
    for series in figure.series:
        for x, label, y, low, high in zip(series.x, series.labels, series.y, series.lo, series.hi, strict=False):
            if y is not None and low is not None and high is not None:
                found[x] = (label, y, low, high)
    return [found[x] for x in sorted(found)]


def _cell(value: float, lo: float, hi: float, cells: int, scale: str = "linear") -> int:
    return min(cells - 1, max(0, round((cells - 1) * _place(value, lo, hi, scale))))


def scatter(figure: Figure, width: int, height: int = 11) -> list[str]:
    """Draw the history: a glyph a trial, the best so far as a line, the baseline as a dotted one; a key below."""
    lo, hi = figure.y.lo or 0.0, figure.y.hi or 1.0
    space = max(20, width - 8)
    grid = [[" "] * space for _ in range(height)]

    def put(x: float, y: float | None, glyph: str) -> None:
        if y is not None:
            row = height - 1 - _cell(y, lo, hi, height)
            grid[row][_cell(x, figure.x.lo or 0.0, figure.x.hi or 1.0, space)] = glyph

    for mark in (mark for mark in figure.marks if mark.axis == "y"):
        for column in range(0, space, 2):
            grid[height - 1 - _cell(mark.at, lo, hi, height)][column] = "·"
    for series in sorted(figure.series, key=lambda one: one.style != "step"):
        for x, y in _steps(series, figure.x) if series.style == "step" else zip(series.x, series.y, strict=True):
            put(x, y, "─" if series.style == "step" else GLYPHS.get(series.group, LOST))
    lines = [f"{_row_label(index, lo, hi, height):>6} {''.join(row)}" for index, row in enumerate(grid)]
    lines += _phase_line(figure, space)
    key = [f"{'─' if one.style == 'step' else GLYPHS.get(one.group, LOST)} {one.name}" for one in figure.series]
    return [*lines, f"{'':>7}{'   '.join(dict.fromkeys(key))}"]


def _phase_line(figure: Figure, space: int) -> list[str]:
    """Write the names of the phases under the trials at which they begin."""
    cells = [" "] * space
    for mark in (mark for mark in figure.marks if mark.kind == "phase"):
        start = _cell(mark.at, figure.x.lo or 0.0, figure.x.hi or 1.0, space)
        text = f"╵{mark.label}"
        cells[start : start + len(text)] = text
    return [f"{'':>7}{''.join(cells[:space])}"] if any(cell != " " for cell in cells) else []


def _row_label(index: int, lo: float, hi: float, height: int) -> str:
    shown = index in (0, height // 2, height - 1)
    return f"{digits_text(hi - (hi - lo) * index / (height - 1))}x" if shown else ""


def _steps(series: Series, axis: Axis) -> list[tuple[float, float | None]]:
    """Fill the steps of a line, so that every column between two points is drawn."""
    ends = [*series.x[1:], axis.hi or series.x[-1]]
    return [
        (start + (end - start) * part / 20, y)
        for start, end, y in zip(series.x, ends, series.y, strict=True)
        for part in range(20)
    ]


def bars(figure: Figure, width: int) -> list[str]:
    """Draw horizontal bars: label, a solid bar to the estimate, a light one to its upper bound, and the note."""
    lo, hi = figure.y.lo or 0.0, figure.y.hi or 1.0
    one = figure.series[0]
    notes = [] if figure.table is None else [row[-1] for row in figure.table.rows]
    names = [label.split("\n")[0] for label in one.labels]
    if len(set(names)) < len(names):  # the second line tells bars of one name apart
        names = [label.replace("\n", ", ") for label in one.labels]
    label_width = min(max(map(len, names), default=0), MOST_LABEL, width // 3)
    note_width = max((len(note) for note in notes), default=0)
    space = max(10, width - label_width - note_width - 4)
    lines = []
    for at, value in enumerate(one.y):
        label = names[at][:label_width]
        ends = [value, one.hi[at] if one.hi else value]
        solid, light = (round(space * _place(end or 0.0, lo, hi, "linear")) for end in ends)
        drawn = "█" * solid + "░" * max(0, light - solid)
        lines.append(f"{label:<{label_width}}  {drawn:<{space}}  {notes[at] if notes else ''}".rstrip())
    return lines


def framed_chart(figure: Figure, width: int) -> list[str]:
    """Draw a staircase or curves, whose bounds are found here where the figure leaves them open."""
    if figure.kind is FigureKind.STAIRCASE:
        return text_curves.staircase(framed(figure), width, _cell, whole=figure)
    return text_curves.lines(framed(figure), width, _cell)
