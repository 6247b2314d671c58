"""Make the figures of comparisons: ratios by denominator, throughput by load, one generation over the next. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pgdyno.model.facts import Unknown
from pgdyno.model.figure import Axis, Figure, FigureKind, Mark, Series, Table
from pgdyno.model.platform import Denominator, Platform, PlatformComparison, PlatformRow
from pgdyno.report.scales import nice_bounds, zero_based
from pgdyno.report.wording import capital
from pgdyno.stats.ratios import RatioChange, rounded
from pgdyno.studies.platforms.words import load_text
from pgdyno.units import plural


@dataclass(frozen=True, slots=True)
class Generation:
    """One step from a machine to its successor: the factor of the metric and the factor of the clock."""

    step: str
    metric: float
    clock: float

    @property
    def per_clock(self) -> float:
        """Return what the metric gained beyond the clock."""
        return RatioChange(self.clock, self.metric).ratio


def ratio_bars(comparison: PlatformComparison) -> Figure | None:
    """Draw the ratio at each one's best by every denominator that is known of both; None where there is none."""
    best = comparison.best
    found = [] if best is None else [(one, one.ratio) for one in best.ratios if isinstance(one.ratio, float)]
    if not found:
        return None
    a, b = comparison.a.name, comparison.b.name
    least, most = min(found, key=lambda pair: pair[1]), max(found, key=lambda pair: pair[1])
    _, top = nice_bounds([0.0, 1.0, *(ratio for _, ratio in found)])
    labels = tuple(
        f"{one.denominator.value}\n{'estimate, ' if one.is_estimate else ''}{a} over {b}" for one, _ in found
    )
    rows = tuple(
        (f"{one.denominator.value}{' (estimate)' if one.is_estimate else ''}", f"{rounded(ratio)}x")
        for one, ratio in found
    )
    return Figure(
        kind=FigureKind.BARS,
        id="ratios",
        title=" to ".join(f"{rounded(ratio)} {one.denominator.value}" for one, ratio in (least, most)),
        question=f"What does {a} do over {b}, each at its own best?",
        x=Axis("denominator"),
        y=Axis(f"throughput of {a} over that of {b}", "x", lo=0.0, hi=top),
        series=(
            Series(
                "ratio",
                tuple(float(at) for at in range(len(found))),
                tuple(ratio for _, ratio in found),
                style="bars",
                labels=labels,
                group="effect",
            ),
        ),
        marks=(Mark("y", 1.0, "alike", "reference"),),
        table=Table(("throughput", "ratio"), rows, ("ratio",)),
        caption="Below 1 the order is the other way round. All bars are of the same two rows.",
        n=len(found),
    )


def throughput_lines(comparison: PlatformComparison) -> Figure | None:
    """Draw throughput by connections for both platforms, per core where both have told their cores."""
    best = comparison.best
    if best is None:
        return None
    a, b = comparison.a, comparison.b
    by_core = isinstance(best.by(Denominator.CORE).ratio, float)
    curves = [(one, _curve(one, row, by_core=by_core)) for one, row in ((a, best.a), (b, best.b))]
    if any(len(points) < 2 for _, points in curves):
        return None
    unit = "tps per core" if by_core else "tps"
    heights = [height for _, points in curves for _, height in points]
    places = [float(row.connections) for _, points in curves for row, _ in points]
    lo, hi = nice_bounds(places)
    bottom, top = zero_based(heights)
    tops = [max(points, key=lambda point: point[1]) for _, points in curves]
    said = ", ".join(
        f"{one.name} {rounded(height)} at {row.connections}"
        for (one, _), (row, height) in zip(curves, tops, strict=True)
    )
    table = tuple(
        (one.name, str(row.connections), load_text(row), rounded(height))
        for one, points in curves
        for row, height in points
    )
    return Figure(
        kind=FigureKind.LINES,
        id="by-load",
        title=f"Best {unit}: {plural(said, 'connection')}",
        question="How does each platform carry more load?",
        x=Axis("connections", lo=max(0.0, lo), hi=hi),
        y=Axis("throughput", unit, lo=bottom, hi=top),
        series=tuple(
            Series(
                one.name,
                tuple(float(row.connections) for row, _ in points),
                tuple(height for _, height in points),
                labels=tuple(f"{one.name}, {load_text(row)}" for row, _ in points),
                group=group,
            )
            for (one, points), group in zip(curves, ("winner", "baseline"), strict=True)
        ),
        table=Table(("platform", "connections", "load", unit), table, ("connections", unit)),
        caption=f"Configuration {best.a.configuration}, mode {best.a.mode}.",
        n=len(table),
    )


def _curve(platform: Platform, like: PlatformRow, *, by_core: bool) -> list[tuple[PlatformRow, float]]:
    rows = [row for row in platform.rows if row.kind == like.kind]
    cores = platform.cores if by_core and not isinstance(platform.cores, Unknown) else 1
    return [(row, row.tps / cores) for row in sorted(rows, key=lambda row: row.connections)]


def generations(steps: Sequence[Generation], metric: str) -> Figure:
    """Draw machine generations: per step the factor of a metric, of the clock, and of the metric beyond the clock."""
    kinds = [
        label
        for step in steps
        for label in ((step.step, metric, step.metric), (step.step, "clock", step.clock),
                      (step.step, "beyond the clock", step.per_clock))
    ]  # fmt: skip
    beyond = max(steps, key=lambda step: step.per_clock)
    _, top = nice_bounds([0.0, *(value for _, _, value in kinds)])
    return Figure(
        kind=FigureKind.BARS,
        id="generations",
        title=f"{capital(metric)} gained most beyond the clock from {beyond.step}: {rounded(beyond.per_clock)}x",
        question=f"How much of what {metric} gained is the clock?",
        x=Axis("generation"),
        y=Axis("factor over the generation before", "x", lo=0.0, hi=top),
        series=(
            Series(
                "factor",
                tuple(float(at) for at in range(len(kinds))),
                tuple(value for _, _, value in kinds),
                style="bars",
                labels=tuple(f"{what}\n{step}" for step, what, _ in kinds),
                group="effect",
            ),
        ),
        marks=(Mark("y", 1.0, "no gain", "reference"),),
        table=Table(
            ("step", "factor of", "factor"),
            tuple((step, what, f"{rounded(value)}x") for step, what, value in kinds),
            ("factor",),
        ),
        caption=_whole(steps, metric),
        n=len(steps),
    )


def _whole(steps: Sequence[Generation], metric: str) -> str:
    gained = clock = 1.0
    for step in steps:
        gained, clock = gained * step.metric, clock * step.clock
    return (
        f"Over {plural(len(steps), 'step')} {metric} grew {rounded(gained)}-fold and the clock {rounded(clock)}-fold: "
        f"factors multiply."
    )
