"""Tracks in character cells: named rows over one axis, with spans, moments and places. Pure."""

from __future__ import annotations

from pgdyno.model.figure import Figure
from pgdyno.report.wording import number_text

MOST_LABEL = 46
SPANS = {"drop": "▒", "null": "░"}
"""How a span of a group is filled; any other is solid."""
SPAN, MOMENT, POINT, BEST = "█", "│", "·", "●"


def row_labels(figure: Figure, kind: str) -> list[str]:
    """Return the labels of that kind, `row` or `note`, from the first row down."""
    return [mark.label for mark in sorted(figure.marks, key=lambda one: one.at) if mark.kind == kind]


def tracks(figure: Figure, width: int) -> list[str]:
    """Draw a line a row; of the lines from row to row only their places are drawn, the best ones last."""
    names = [name.split("\n")[0] for name in row_labels(figure, "row")]
    notes = [f"  {note}" for note in row_labels(figure, "note")] or [""] * len(names)
    label_width = min(max(map(len, names), default=0), MOST_LABEL, width // 3)
    space = max(16, width - label_width - max(map(len, notes), default=0) - 1)
    lo, hi = figure.y.lo or 0.0, figure.y.hi or 1.0
    grid = [[" "] * space for _ in names]

    def column(value: float) -> int:
        return min(space - 1, edge(value))

    def edge(value: float) -> int:
        return min(space, max(0, round(space * (value - lo) / (hi - lo)))) if hi > lo else 0

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
                length = max(1, edge(end) - column(y))
                grid[int(x)][column(y) : column(y) + length] = SPANS.get(one.group, SPAN) * length
    lines = [
        f"{_cut(name, label_width):<{label_width}} {''.join(cells)}{note}".rstrip()
        for name, cells, note in zip(names, grid, notes, strict=True)
    ]
    left, right = number_text(lo), f"{number_text(hi)} {figure.y.unit}".rstrip()
    lines.append(f"{'':<{label_width}} {left}{right:>{max(1, space - len(left))}}")
    key = {one.group: f"{SPANS.get(one.group, SPAN)} {one.name}" for one in figure.series if one.name not in names}
    if SPANS.keys() & key:
        lines.append(f"{'':<{label_width}} {'   '.join(key.values())}")
    return lines


def _cut(name: str, width: int) -> str:
    return name if len(name) <= width else f"{name[: width - 1]}…"
