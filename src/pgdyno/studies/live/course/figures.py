"""Figures of a live study: the interval as the pairs came, what each candidate set, and what happened when. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pgdyno.model.figure import Axis, Band, Figure, FigureKind, Mark, Series, Table
from pgdyno.model.results.live import LiveCandidate, LiveMoment, LiveSwitch
from pgdyno.model.verdict import Verdict
from pgdyno.report.figures import ends_of, ratio_axis
from pgdyno.report.scales import nice_bounds
from pgdyno.report.sections import TableBlock
from pgdyno.report.wording import bare_range_text
from pgdyno.studies.live.course.moments import ARMS, CHECKPOINT, GUARD, LANES, VACUUM
from pgdyno.units import digits_text, moment_text, percent_text, plural, seconds_text

AS_FOUND = "as found"
_UNITS = (("h", 3600.0), ("min", 60.0), ("s", 1.0))


def running(switch: LiveSwitch, verdict: Verdict) -> Figure | None:
    """Draw the verdict's interval after each pair, and the pairs; None where no pair has an interval.

    The axis holds the pairs and the last interval: an early one, which is wide, may run out of it.
    """
    looks = [(one.number, one.interval) for one in switch.pairs if one.interval is not None]
    if not looks:
        return None
    kept = [one for _, one in looks]
    numbers = tuple(float(number) for number, _ in looks)
    bound = 1 + verdict.smallest_effect
    ends = [*ends_of(kept[-1:]), *(one.ratio for one in switch.pairs), 1 / bound, bound]
    axis = ratio_axis("time under B over that under A", ends)
    return Figure(
        kind=FigureKind.LINES,
        id="running",
        title=f"After {plural(verdict.pairs, 'pair')} the interval is {bare_range_text(verdict.interval)}",
        question="How did the answer come about, pair by pair?",
        x=Axis("pair", lo=0.0, hi=len(switch.pairs) + 1.0),
        y=axis,
        series=(
            Series(
                f"mean so far, {100 * verdict.interval.confidence:.3g} % interval",
                numbers,
                tuple(one.ratio for one in kept),
                tuple(one.lo for one in kept),
                tuple(one.hi for one in kept),
                group="interval",
            ),
            Series(
                "one pair",
                tuple(float(one.number) for one in switch.pairs),
                tuple(one.ratio for one in switch.pairs),
                style="points",
                group="pair",
            ),
        ),
        bands=(Band("y", 1 / bound, bound, f"too small to matter (within {percent_text(bound - 1)})"),),
        marks=(Mark("y", 1.0, "no difference", "reference"),),
        table=_running_table(switch),
        caption="The intervals hold all together: it was allowed to stop at any pair. What runs out of the picture is "
        "in the table.",
        n=len(switch.pairs),
    )


def _running_table(switch: LiveSwitch) -> Table:
    rows = tuple(
        (
            str(one.number),
            one.first,
            digits_text(one.ratio),
            *(
                ("none yet", "none yet")
                if one.interval is None
                else (digits_text(one.interval.ratio), bare_range_text(one.interval))
            ),
        )
        for one in switch.pairs
    )
    columns = ("pair", "first", "B / A", "mean so far", "interval so far")
    return Table(columns, rows, ("pair", *columns[2:]))


def knobs_of(candidates: Sequence[LiveCandidate]) -> TableBlock:
    """Return what each candidate set, a column a knob, beside its effect; a knob that none set has no column."""
    names = tuple(dict.fromkeys(name for one in candidates for name in one.settings))
    columns = ("number", "B / A", "give or take", *names)
    rows = tuple(
        (
            str(one.number),
            "unknown" if one.ratio is None else digits_text(one.ratio),
            "unknown" if one.error is None else f"{100 * one.error:.1f} %",
            *(one.settings.get(name, AS_FOUND) for name in names),
        )
        for one in sorted(candidates, key=lambda one: (one.ratio is None, one.ratio or 0.0))
    )
    caption = "Knob by knob, the fastest first. So few pairs prove nothing: look for values that come back."
    return TableBlock(Table(columns, rows, columns[:3]), caption)


def timeline(moments: Sequence[LiveMoment]) -> Figure | None:
    """Draw what went on, a lane a kind; None where nothing was recorded."""
    if not moments:
        return None
    begun, ended = moments[0].at, max(one.at + one.seconds for one in moments)
    unit, length = next((one for one in _UNITS if ended - begun > 2 * one[1]), _UNITS[-1])
    lanes = [lane for lane in LANES if any(one.lane == lane for one in moments)]
    found = []
    for row, lane in enumerate(lanes):
        mine = [one for one in moments if one.lane == lane]
        starts = tuple((one.at - begun) / length for one in mine)
        ends = tuple((one.at + one.seconds - begun) / length for one in mine)
        labels = tuple(_moment_text(one) for one in mine)
        found.append(Series(lane, (float(row),) * len(mine), starts, starts, ends, "bars", labels, lane))
    counts = {lane: sum(one.lane == lane for one in moments) for lane in lanes}
    return Figure(
        kind=FigureKind.TRACKS,
        id="course",
        title=_timeline_title(counts),
        question="What was in force, and what happened meanwhile?",
        x=Axis("lane"),
        y=Axis("since the first switch", unit, lo=0.0, hi=nice_bounds([0.0, (ended - begun) / length])[1]),
        series=tuple(found),
        marks=tuple(Mark("x", float(row), lane, "row") for row, lane in enumerate(lanes)),
        table=_timeline_table(moments),
        caption="Checkpoints and vacuum are looked for every two seconds while a period counts. A checkpoint is marked "
        "where it began.",
        n=len(moments),
    )


def _timeline_title(counts: Mapping[str, int]) -> str:
    switches = sum(counts.get(arm, 0) for arm in ARMS)
    beside = (
        plural(counts.get(CHECKPOINT, 0), "checkpoint"),
        plural(counts.get(VACUUM, 0), "vacuum"),
        f"guards tripped {plural(counts.get(GUARD, 0), 'time')}",
    )
    return f"{plural(switches, 'change')} of the arm in force, {', '.join(beside)}"


def _moment_text(one: LiveMoment) -> str:
    length = f", {seconds_text(one.seconds)}" if one.seconds else ""
    return f"{one.lane}{length}, {moment_text(one.at)}{f': {one.words}' if one.words else ''}"


def _timeline_table(moments: Sequence[LiveMoment]) -> Table:
    rows = tuple(
        (moment_text(one.at), one.lane, seconds_text(one.seconds) if one.seconds else "", one.words) for one in moments
    )
    return Table(("when", "what", "for", "why"), rows, ("for",))
