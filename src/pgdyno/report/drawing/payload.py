"""Figures as the JSON that `static/figures/` draws: the spec itself, with shared times and rounded numbers. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace

from pgdyno.model.figure import Axis, Figure, FigureKind, Series
from pgdyno.report.drawing.frames import FRAMED, framed, x_ticks
from pgdyno.report.drawing.tables import tables_json
from pgdyno.report.drawing.text_tracks import row_labels
from pgdyno.report.scales import ticks
from pgdyno.report.sections import Report

DIGITS = 5
"""Significant digits of a drawn number: far finer than a pixel."""
MOST_NOTED = 2000
"""With more points than these a figure tells of each only the first line of its label, so that a page can be mailed."""

Json = dict[str, "Json"] | list["Json"] | str | float | int | None


def figures_json(figures: Iterable[Figure]) -> str:
    """Return the figures by id, as JSON that is safe inside a `<script>` element."""
    text = json.dumps({figure.id: figure_payload(figure) for figure in figures}, separators=(",", ":"), allow_nan=False)
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def figure_payload(figure: Figure) -> Json:
    """Return one figure. Series of a timeline share their times in `t`; staircases and curves get their bounds."""
    if figure.kind in FRAMED:
        figure = framed(figure)
    if figure.kind is FigureKind.HISTORY:
        figure = replace(figure, series=_lightened(figure.series))
    payload: dict[str, Json] = {
        "kind": figure.kind.value,
        "group": figure.group,
        "x": _axis(figure.x),
        "y": _axis(figure.y),
        "bands": [{"axis": b.axis, "lo": _number(b.lo), "hi": _number(b.hi), "label": b.label} for b in figure.bands],
        "marks": [{"axis": m.axis, "at": _number(m.at), "label": m.label, "kind": m.kind} for m in figure.marks],
    }
    if figure.kind is FigureKind.TIMELINE:
        payload["t"] = [round(t, 2) for t in figure.series[0].x]
        payload["series"] = [_series(series, with_x=False) for series in figure.series]
    else:
        payload["series"] = [_series(series, with_x=True) for series in figure.series]
        payload["notes"] = _notes(figure)
    if figure.kind is FigureKind.LINES:
        payload["x"] = {**_axis(figure.x), "ticks": list(x_ticks(figure))}
    return payload


def _lightened(series: Sequence[Series]) -> tuple[Series, ...]:
    """Leave out of steps what draws nothing, and of the labels of very many points all but their first lines."""
    many = sum(len(one.x) for one in series) > MOST_NOTED
    found = []
    for one in series:
        if one.style == "step":
            last = len(one.x) - 1
            kept = [at for at in range(last + 1) if at in (0, last) or one.y[at] != one.y[at - 1]]
            one = replace(one, x=tuple(one.x[at] for at in kept), y=tuple(one.y[at] for at in kept))
        found.append(replace(one, labels=tuple(label.partition("\n")[0] for label in one.labels)) if many else one)
    return tuple(found)


def _series(series: Series, *, with_x: bool) -> Json:
    found: dict[str, Json] = {"name": series.name, "style": series.style, "group": series.group}
    columns = {"x": series.x if with_x else (), "y": series.y, "lo": series.lo, "hi": series.hi}
    for name, values in columns.items():
        if values:
            found[name] = [_number(value) for value in values]
    if series.labels:
        found["labels"] = list(series.labels)
    return found


def _axis(axis: Axis) -> dict[str, Json]:
    return {
        "label": axis.label,
        "unit": axis.unit,
        "scale": axis.scale,
        "lo": axis.lo,
        "hi": axis.hi,
        "ticks": list(ticks(axis.lo, axis.hi, axis.scale)) if axis.lo is not None and axis.hi is not None else [],
    }


def _notes(figure: Figure) -> Json:
    """Return the text at the right of each row: its note, its ratio and interval, or a bar's last column."""
    table = figure.table
    if figure.kind is FigureKind.TRACKS:
        return list(row_labels(figure, "note"))
    if table is not None and figure.kind is FigureKind.BARS:
        return [row[-1] for row in table.rows]
    if table is None or not {"ratio", "interval"} <= {*table.columns}:
        return []
    places = [table.columns.index(name) for name in ("ratio", "interval")]
    return ["  ".join(row[place] for place in places) for row in table.rows]


def _number(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.{DIGITS}g}")


def report_json(report: Report) -> str:
    """Return the whole report as JSON: every word, every drawn number and `tables`, for other programs."""
    return json.dumps({**asdict(report), "tables": tables_json(report)}, indent=1) + "\n"
