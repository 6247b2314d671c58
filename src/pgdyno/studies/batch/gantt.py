"""The Gantt chart of one execution of a chain. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from pgdyno.model.figure import Figure
from pgdyno.model.results.batch import JobEnd, JobRun
from pgdyno.studies.gantt import Span, spans_figure
from pgdyno.units import seconds_text

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
    spans = [
        Span(one.key, one.began_s, one.ended_s, GROUPS.get(one.end, "drop"), one.end.value, note_of(one))
        for one in runs
        if one.execution == execution and one.began_s is not None and one.ended_s is not None
    ]
    return spans_figure(
        spans,
        figure=f"gantt-{execution}",
        title=f"Execution {execution}",
        question="Which job ran when?",
        what="job",
        since="the execution began",
        names=_NAMES,
    )


def note_of(run: JobRun) -> str:
    """Return the time of a job, and how it ended where that was no success."""
    told = seconds_text(run.seconds or 0.0)
    return told if run.end is JobEnd.SUCCEEDED else f"{told}, {run.end.value}"
