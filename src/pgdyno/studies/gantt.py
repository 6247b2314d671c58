"""Gantt charts: what ran when, a row each, in the order in which they began; what overlapped is drawn so. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pgdyno.model.figure import Axis, Figure, FigureKind, Mark, Series, Table
from pgdyno.report.scales import zero_based
from pgdyno.units import plural, seconds_text

MOST_ROWS = 60
"""Beyond that nobody reads the rows: the longest are drawn, and the caption says so."""
UNITS = (("h", 3600.0), ("min", 60.0), ("s", 1.0))


@dataclass(frozen=True, slots=True)
class Span:
    """What ran from when to when, in seconds. `group` is one of the chart's, `end` how it ended, in words."""

    key: str
    began_s: float
    ended_s: float
    group: str
    end: str
    note: str

    @property
    def seconds(self) -> float:
        """Return how long it took."""
        return self.ended_s - self.began_s


def spans_figure(
    spans: Sequence[Span], *, figure: str, title: str, question: str, what: str, since: str, names: Mapping[str, str]
) -> Figure | None:
    """Return the chart of these, None where there is none. `names` are the words of the groups: keep, drop, null.

    `spans` come in any order; one whose group is not in `names` has a row without a bar. `figure` is the id of the
    chart, `title` what its heading begins with, and `question` what it answers. `what` is the word for one of them,
    `since` for the moment from which their times count.
    """
    if not spans:
        return None
    longest = sorted(spans, key=lambda one: -one.seconds)[:MOST_ROWS]
    shown = sorted(longest, key=lambda one: (one.began_s, one.ended_s))
    end = max(one.ended_s for one in spans)
    unit, length = next((unit for unit in UNITS if end > 3 * unit[1]), UNITS[-1])
    lo, hi = zero_based([one.ended_s / length for one in shown])
    series = []
    for group, name in names.items():
        some = [(row, one) for row, one in enumerate(shown) if one.group == group]
        if some:
            series.append(
                Series(
                    name,
                    tuple(float(row) for row, _ in some),
                    tuple(one.began_s / length for _, one in some),
                    hi=tuple(one.ended_s / length for _, one in some),
                    labels=tuple(f"{one.key}\n{one.note}" for _, one in some),
                    group=group,
                )
            )
    rows = tuple((one.key, seconds_text(one.began_s), seconds_text(one.ended_s), one.end, one.note) for one in shown)
    left = f" The {MOST_ROWS} longest of {len(spans)} {what}s are drawn." if len(spans) > MOST_ROWS else ""
    return Figure(
        FigureKind.TRACKS,
        figure,
        f"{title}: {plural(len(spans), what)} in {seconds_text(end)}",
        question,
        Axis(what),
        Axis(f"time since {since}", unit, lo=lo, hi=hi),
        tuple(series),
        marks=tuple(
            Mark("x", float(row), label, kind)
            for row, one in enumerate(shown)
            for kind, label in (("row", one.key), ("note", one.note))
        ),
        table=Table((what, "began", "ended", "how", "time"), rows, ("began", "ended")),
        caption=f"A row a {what}, in the order in which they began.{left}",
        n=len(shown),
    )
