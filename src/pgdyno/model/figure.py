"""The figure spec: what a chart says, drawn alike by terminal, Markdown and HTML. Python decides every number.

`report/figures.py` makes these; a renderer draws them and computes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class FigureKind(StrEnum):
    """The shapes that every renderer knows."""

    HISTORY = "history"
    """Points per trial, best-so-far step line, baseline band."""
    FOREST = "forest"
    """One row a setting: estimate with interval, and the reference line at 1."""
    TIMELINE = "timeline"
    """A strip of the flight recorder: x is time in seconds since the run began."""
    PAIRS = "pairs"
    """Paired ratios per block as dots, with the interval and the band of equivalence."""
    BARS = "bars"
    """Horizontal bars, stacked where there are several series."""
    STAIRCASE = "staircase"
    """Upright bars from left to right, the baseline at 100 first: `y` in percent with `lo` and `hi`, `labels` under
    the bars, one series a `group` (baseline, keep, drop, null, total) that chooses its colour; `x` is the place."""
    LINES = "lines"
    """Curves over a number, such as throughput by clients: every series with points, and whiskers where it has
    `lo` and `hi`; marks and bands on either axis."""
    TRACKS = "tracks"
    """Named rows over one axis of values, `y`: `x` is the row, whose name is a mark of the kind `row`, and one of the
    kind `note` is what is said at its end. A series with `hi` has a span from `y` to `hi` a point, a moment where both
    are the same; one without is a line from row to row, in front where its group is `best`."""


@dataclass(frozen=True, slots=True)
class Axis:
    """An axis. `scale` is `linear` or `log`."""

    label: str
    unit: str = ""
    scale: str = "linear"
    lo: float | None = None
    hi: float | None = None


@dataclass(frozen=True, slots=True)
class Series:
    """A named run of points. None in `y` is a gap and is drawn as one. `lo` and `hi` are interval bounds per point."""

    name: str
    x: tuple[float, ...]
    y: tuple[float | None, ...]
    lo: tuple[float | None, ...] = ()
    hi: tuple[float | None, ...] = ()
    style: str = "line"
    """`line`, `step`, `points`, `area` (stacked in order) or `bars`."""
    labels: tuple[str, ...] = ()
    group: str = ""
    """A word that chooses colour and shape, such as the state of a trial."""


@dataclass(frozen=True, slots=True)
class Band:
    """A shaded range on one axis (`x` or `y`)."""

    axis: str
    lo: float
    hi: float
    label: str


@dataclass(frozen=True, slots=True)
class Mark:
    """A line across the figure at one value of an axis, such as a checkpoint or the ratio 1."""

    axis: str
    at: float
    label: str
    kind: str = "mark"


@dataclass(frozen=True, slots=True)
class Table:
    """The numbers that were drawn. Cells are text, already formatted; `numeric` names the right-aligned columns."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numeric: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure. `title` is the answer, made by the verdict rule; `question` the question; `n` how many trials."""

    kind: FigureKind
    id: str
    title: str
    question: str
    x: Axis
    y: Axis
    series: tuple[Series, ...]
    bands: tuple[Band, ...] = ()
    marks: tuple[Mark, ...] = ()
    table: Table | None = None
    caption: str = ""
    n: int | None = None
    group: str = ""
    """Figures of one group share their time axis and cursor."""
    provenance: Mapping[str, str] = field(default_factory=dict)
