"""Figures of a live study: the interval as the pairs came, and what each candidate set. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from pgdyno.model.figure import Axis, Band, Figure, FigureKind, Mark, Series, Table
from pgdyno.model.results.live import LiveCandidate, LiveSwitch
from pgdyno.model.verdict import Verdict
from pgdyno.report.figures import ends_of, ratio_axis
from pgdyno.report.sections import TableBlock
from pgdyno.report.wording import bare_range_text
from pgdyno.units import digits_text, percent_text, plural

AS_FOUND = "as found"


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
