"""Tracks in character cells: named rows over one axis, with spans, moments and places. Pure."""

from __future__ import annotations

from pgdyno.model.figure import Figure
from pgdyno.report.wording import number_text

MOST_LABEL = 30
SPAN, MOMENT, POINT, BEST = "█", "│", "·", "●"


def row_names(figure: Figure) -> list[str]:
    """Return the names of the rows, from the first down."""
    return [mark.label for mark in sorted(figure.marks, key=lambda one: one.at) if mark.kind == "row"]


def tracks(figure: Figure, width: int) -> list[str]:
    """Draw a line a row; of the lines from row to row only their places are drawn, the best ones last."""
    names = [name.split("\n")[0] for name in row_names(figure)]
    label_width = min(max(map(len, names), default=0), MOST_LABEL)
    space = max(16, width - label_width - 1)
    lo, hi = figure.y.lo or 0.0, figure.y.hi or 1.0
    grid = [[" "] * space for _ in names]

    def column(value: float) -> int:
        return min(space - 1, max(0, round((space - 1) * (value - lo) / (hi - lo)))) if hi > lo else 0

    for one in sorted(figure.series, key=lambda one: one.group == "best"):
        for at, (x, y) in enumerate(zip(one.x, one.y, strict=True)):
            if y is None:
                continue
            end = one.hi[at] if one.hi else None
            if end is None:
                grid[int(x)][column(y)] = BEST if one.group == "best" else POINT
            elif end <= y:
                grid[int(x)][column(y)] = MOMENT
            else:
                first, last = column(y), column(end)
                grid[int(x)][first : last + 1] = SPAN * (last - first + 1)
    lines = [
        f"{name[:label_width]:<{label_width}} {''.join(cells)}".rstrip()
        for name, cells in zip(names, grid, strict=True)
    ]
    left, right = number_text(lo), f"{number_text(hi)} {figure.y.unit}".rstrip()
    return [*lines, f"{'':<{label_width}} {left}{right:>{max(1, space - len(left))}}"]
