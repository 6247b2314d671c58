"""The Gantt chart of one execution: a row a job, in the order in which they began. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from pgdyno.model.figure import Axis, Figure, FigureKind, Mark, Series, Table
from pgdyno.model.results.batch import JobEnd, JobRun
from pgdyno.report.scales import zero_based
from pgdyno.units import plural, seconds_text

MOST_ROWS = 60
"""Beyond that nobody reads the rows: the longest jobs are drawn, and the caption says so."""
UNITS = (("h", 3600.0), ("min", 60.0), ("s", 1.0))
GROUPS = {
    JobEnd.SUCCEEDED: "keep",
    JobEnd.FAILED: "drop",
    JobEnd.TIMED_OUT: "drop",
    JobEnd.CHECK_FAILED: "drop",
    JobEnd.CANCELLED: "null",
}
_NAMES = {"keep": "succeeded", "drop": "failed, timed out or check failed", "null": "cancelled"}


def gantt(runs: Sequence[JobRun], execution: int) -> Figure | None:
    """Return the chart of an execution, None where no job of it ran."""
    ran = [one for one in runs if one.execution == execution and one.seconds is not None]
    if not ran:
        return None
    longest = sorted(ran, key=lambda one: -(one.seconds or 0.0))[:MOST_ROWS]
    shown = sorted(longest, key=lambda one: (one.began_s or 0.0, one.ended_s or 0.0))
    end = max(one.ended_s or 0.0 for one in ran)
    unit, length = next((unit for unit in UNITS if end > 3 * unit[1]), UNITS[-1])
    lo, hi = zero_based([(one.ended_s or 0.0) / length for one in shown])
    series = []
    for group, name in _NAMES.items():
        some = [(row, one) for row, one in enumerate(shown) if GROUPS.get(one.end, "drop") == group]
        if some:
            series.append(
                Series(
                    name,
                    tuple(float(row) for row, _ in some),
                    tuple((one.began_s or 0.0) / length for _, one in some),
                    hi=tuple((one.ended_s or 0.0) / length for _, one in some),
                    labels=tuple(f"{one.key}\n{note_of(one)}" for _, one in some),
                    group=group,
                )
            )
    rows = tuple(
        (one.key, seconds_text(one.began_s or 0.0), seconds_text(one.ended_s or 0.0), one.end.value, note_of(one))
        for one in shown
    )
    left = f" The {MOST_ROWS} longest of {len(ran)} jobs are drawn." if len(ran) > MOST_ROWS else ""
    return Figure(
        FigureKind.TRACKS,
        f"gantt-{execution}",
        f"Execution {execution}: {plural(len(ran), 'job')} in {seconds_text(end)}",
        "Which job ran when?",
        Axis("job"),
        Axis("time since the execution began", unit, lo=lo, hi=hi),
        tuple(series),
        marks=tuple(
            Mark("x", float(row), label, kind)
            for row, one in enumerate(shown)
            for kind, label in (("row", one.key), ("note", note_of(one)))
        ),
        table=Table(("job", "began", "ended", "how", "time"), rows, ("began", "ended")),
        caption=f"A row a job, in the order in which they began.{left}",
        n=len(shown),
    )


def note_of(run: JobRun) -> str:
    """Return the time of a job, and how it ended where that was no success."""
    told = seconds_text(run.seconds or 0.0)
    return told if run.end is JobEnd.SUCCEEDED else f"{told}, {run.end.value}"
