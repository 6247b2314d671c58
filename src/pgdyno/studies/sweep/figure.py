"""The curve of a sweep: gain over its first level by level, with intervals that hold together. Pure."""

from __future__ import annotations

from pgdyno.model.figure import Axis, Band, Figure, FigureKind, Mark, Series, Table
from pgdyno.model.results.parts import SweepFigures
from pgdyno.model.verdict import Metric
from pgdyno.report.scales import edge
from pgdyno.report.wording import (
    capital,
    change_text,
    gained_text,
    number_text,
    range_text,
)
from pgdyno.studies.staircase.figure import CUT
from pgdyno.units import plural

LOG_FROM = 8.0
"""A factor's axis is logarithmic when its largest level is so many times the smallest."""
COLUMNS = ("gain over the first level", "interval", "may be the best")


def sweep_figure(sweep: SweepFigures, metric: Metric) -> Figure:
    """Draw a sweep's result. Levels that are words stand in their order; gains are above 1 for better ones."""
    name, levels = metric.label, sweep.levels
    numbers = [level.number for level in levels]
    known = [number for number in numbers if number is not None]
    numeric = len(known) == len(levels)
    xs = tuple(known) if numeric else tuple(float(place) for place in range(len(levels)))
    gains = [level.gain if level.gain.is_closed else None for level in levels]
    scale = "log" if numeric and min(xs) > 0 and max(xs) / min(xs) >= LOG_FROM else "linear"
    rows = tuple(
        (
            level.level,
            number_text(level.figure),
            change_text(gain.ratio) if gain and place else "",
            range_text(gain) if gain and place else "",
            "yes" if level.in_region else "no",
        )
        for place, (level, gain) in enumerate(zip(levels, gains, strict=True))
    )
    region = [x for x, level in zip(xs, levels, strict=True) if level.in_region]
    taken = "" if sweep.flat else sweep.chosen  # where no level differs none is the one to take
    chosen = [x for x, level in zip(xs, levels, strict=True) if level.level == taken]
    drawn = [100 * gain.ratio for gain in gains if gain]
    top = edge(drawn, [100 * gain.hi for gain in gains if gain])
    said = (
        f"{plural(sweep.blocks, 'block')}, all levels once in each, in random order. The intervals of all "
        "pairs of levels hold together (Student on log ratios of the blocks, Bonferroni)."
    )
    return Figure(
        kind=FigureKind.LINES,
        id=f"sweep-{sweep.knob.replace('.', '-')}",
        title=capital(sweep.sentence),
        question=f"Which {sweep.knob} is the right one?",
        x=Axis(sweep.knob, unit=sweep.unit if numeric else "", scale=scale),
        y=Axis(f"{gained_text(metric)}, against the first level", unit="%", hi=top),
        series=(
            Series(
                "gain",
                xs,
                tuple(100 * gain.ratio if gain else None for gain in gains),
                tuple(100 * gain.lo if gain else None for gain in gains),
                tuple(100 * gain.hi if gain else None for gain in gains),
                labels=tuple(level.level for level in levels),
                group="total",
            ),
        ),
        bands=(Band("x", min(region), max(region), "may be the best"),) if len(region) > 1 else (),
        marks=(Mark("y", 100.0, "first level", "reference"), *(Mark("x", x, "taken") for x in chosen[:1])),
        table=Table(("level", f"median {name}", *COLUMNS), rows, (f"median {name}", *COLUMNS[:2])),
        caption=said if top is None else f"{said} {CUT}",
        n=sum(len(level.runs) for level in levels),
    )
