"""Make the figures of a study: how the search went, what each setting is worth, how sure the verdict is.

Pure: plain data in, `Figure` out, no number decided anywhere else. Row figures (forest, pairs) count rows along `x`
from the top, and hold the ratio with its interval in `y`, `lo` and `hi`. docs/explanation/report.md shows each one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from pgdyno.model.figure import Axis, Band, Figure, FigureKind, Mark, Series, Table
from pgdyno.model.results.tune import Effect
from pgdyno.model.trial import Role, TrialState
from pgdyno.model.verdict import Interval, Metric, Verdict
from pgdyno.report.scales import log_bounds, nice_bounds
from pgdyno.report.wording import (
    ROLE_NAMES,
    bare_range_text,
    number_text,
    sentence,
)
from pgdyno.units import digits_text, percent_text, plural

HISTORY_ROLES = (Role.BASELINE, Role.SEARCH, Role.CONFIRM, Role.PRUNE, Role.EFFECT, Role.RIVAL, Role.ARM)


@dataclass(frozen=True, slots=True)
class TrialPoint:
    """One trial of a history. `ratio` is its performance over that of the baseline runs next to it in time."""

    trial: int
    role: Role
    state: TrialState
    ratio: float | None
    settings: str
    reason: str = ""
    block: int = 0


@dataclass(frozen=True, slots=True)
class MetricRow:
    """One metric of an estimation plot: its verdict and the ratio of every pair, block by block."""

    verdict: Verdict
    ratios: Mapping[str, float] = field(default_factory=dict)


def history(
    points: Sequence[TrialPoint], *, pair_sd: float | None = None, phases: Sequence[tuple[int, str]] = ()
) -> Figure:
    """Draw the search: a point a trial, the best so far, the band in which two equal runs fall.

    `pair_sd` is the standard deviation of the log ratio of two baseline runs; the band is two of them either way.
    `phases` names the first trial of each phase. Trials without a usable score stand on the lower edge.
    """
    band = (math.exp(-2 * pair_sd), math.exp(2 * pair_sd)) if pair_sd else None
    scored = [point for point in points if point.ratio is not None and point.state is TrialState.COMPLETE]
    ratios = [point.ratio for point in scored if point.ratio is not None]
    lo, hi = nice_bounds([*ratios, *(band or ()), 1.0])
    return Figure(
        kind=FigureKind.HISTORY,
        id="history",
        title=_history_title(points),
        question="How did the search go?",
        x=Axis(
            "trial", lo=min((p.trial for p in points), default=0) - 1, hi=max((p.trial for p in points), default=1) + 1
        ),
        y=Axis("against neighbouring baseline", unit="x", lo=lo, hi=hi),
        series=(*_role_series(scored), *_unscored_series(points, lo), *_best_series(scored)),
        bands=(Band("y", *band, "two equal runs differ by less, 19 times in 20"),) if band else (),
        marks=(
            Mark("y", 1.0, "baseline", "reference"),
            *(Mark("x", first - 0.5, name, "phase") for first, name in phases),
        ),
        table=_history_table(points),
        caption="Every point of the search is a single run, so the best of many looks better than it is: the headline "
        "comes from fresh runs, not from this figure.",
        n=len(points),
    )


def _history_title(points: Sequence[TrialPoint]) -> str:
    searched = [p for p in points if p.role is Role.SEARCH and p.state is TrialState.COMPLETE and p.ratio is not None]
    if not searched:
        return f"{plural(len(points), 'trial')}, none of a search"
    best = max(searched, key=lambda point: point.ratio or 0.0)
    return (
        f"Best single run of {plural(len(searched), 'searched configuration')}: trial {best.trial}, "
        f"{digits_text(best.ratio or 0.0)}x its neighbouring baseline"
    )


def _role_series(scored: Sequence[TrialPoint]) -> Iterator[Series]:
    for role in HISTORY_ROLES:
        if chosen := [point for point in scored if point.role is role]:
            labels = tuple(f"trial {p.trial} ({ROLE_NAMES[p.role]})\n{p.settings}" for p in chosen)
            yield _dots(ROLE_NAMES[role], role.value, chosen, tuple(p.ratio for p in chosen), labels)


def _unscored_series(points: Sequence[TrialPoint], floor: float) -> Iterator[Series]:
    for state in TrialState:
        chosen = [point for point in points if point.state is state and state is not TrialState.COMPLETE]
        if chosen:
            labels = tuple(f"trial {p.trial} {p.state.value}: {p.reason or p.settings}" for p in chosen)
            yield _dots(state.value, state.value, chosen, (floor,) * len(chosen), labels)


def _dots(
    name: str, group: str, points: Sequence[TrialPoint], heights: tuple[float | None, ...], labels: tuple[str, ...]
) -> Series:
    trials = tuple(float(point.trial) for point in points)
    return Series(name, trials, heights, style="points", labels=labels, group=group)


def _best_series(scored: Sequence[TrialPoint]) -> list[Series]:
    searched = [point for point in scored if point.role is Role.SEARCH]
    best, heights = -math.inf, []
    for point in searched:
        best = max(best, point.ratio or -math.inf)
        heights.append(best)
    if len(searched) < 2:
        return []
    return [Series("best so far", tuple(float(p.trial) for p in searched), tuple(heights), style="step", group="best")]


def _history_table(points: Sequence[TrialPoint]) -> Table:
    rows = tuple(
        (
            str(point.trial),
            ROLE_NAMES[point.role],
            point.state.value,
            "" if point.ratio is None else f"{point.ratio:.3f}",
            point.reason,
        )
        for point in points
    )
    return Table(("trial", "role", "state", "ratio", "reason"), rows, ("trial", "ratio"))


def forest(effects: Sequence[Effect], *, smallest_effect: float, total: Verdict | None = None) -> Figure:
    """Draw what each retained setting is worth: the winner against the winner without it, with the interval.

    A last row holds the whole configuration against the baseline when `total` is its verdict. Effects do not add
    up to it: settings help or replace each other.
    """
    settings = [(f"{effect.knob}\n{effect.before} → {effect.after}", effect.interval) for effect in effects]
    whole = [("all together", total.interval)] if total is not None else []
    rows = [*settings, *whole]
    axis = ratio_axis("ratio with the setting against without it", ends_of(interval for _, interval in rows))
    helps = "Right" if total is None or total.metric.higher_is_better else "Left"
    return Figure(
        kind=FigureKind.FOREST,
        id="forest",
        title=_forest_title(effects),
        question="What is each retained setting worth, with all others kept?",
        x=Axis("setting"),
        y=axis,
        series=tuple(
            interval_series(name, part, axis, group, first)
            for name, part, group, first in (
                ("one setting", settings, "effect", 0),
                ("whole configuration", whole, "total", len(settings)),
            )
            if part
        ),
        bands=(_equivalence_band(smallest_effect),),
        marks=(Mark("y", 1.0, "no effect", "reference"),),
        table=intervals_table("setting", rows),
        caption=f"{helps} of 1 the setting helps. Effects of single settings do not add up to the whole.",
        n=len(effects),
    )


def _forest_title(effects: Sequence[Effect]) -> str:
    if not effects:
        return "No single setting was measured alone"
    largest = max(effects, key=lambda effect: abs(math.log(effect.interval.ratio)))
    return f"The largest single effect is that of {largest.knob}: {largest.interval}"


def _equivalence_band(smallest_effect: float) -> Band:
    bounds = 1 / (1 + smallest_effect), 1 + smallest_effect
    return Band("y", *bounds, f"too small to matter (within {percent_text(smallest_effect)})")


def pairs(rows: Sequence[MetricRow], *, subject: str, reference: str) -> Figure:
    """Draw the estimation plot: the ratio of every interleaved pair as a dot, the interval, the equivalence band.

    The first row is the study's metric; its verdict is the title.
    """
    first = rows[0].verdict
    dots = [(float(i), ratio, block) for i, row in enumerate(rows) for block, ratio in row.ratios.items()]
    intervals = [(_metric_label(row.verdict.metric), row.verdict.interval) for row in rows]
    ends = [*ends_of(interval for _, interval in intervals), *(ratio for _, ratio, _ in dots)]
    axis = ratio_axis(f"ratio of {subject} to {reference}", ends)
    pair_series = Series(
        "pair",
        tuple(row for row, _, _ in dots),
        tuple(ratio for _, ratio, _ in dots),
        style="points",
        labels=tuple(block for _, _, block in dots),
        group="pair",
    )
    return Figure(
        kind=FigureKind.PAIRS,
        id="pairs",
        title=sentence(first, subject, reference),
        question=f"Every dot is one pair of runs: {subject} over {reference}.",
        x=Axis("metric"),
        y=axis,
        series=(
            *((pair_series,) if dots else ()),
            interval_series(f"{first.interval.confidence * 100:g} % interval", intervals, axis, "interval"),
        ),
        bands=(_equivalence_band(first.smallest_effect),),
        marks=(Mark("y", 1.0, "no difference", "reference"),),
        table=verdict_table([row.verdict for row in rows]),
        caption="The order of the two runs of a pair is random.",
        n=first.pairs,
    )


def interval_series(
    name: str, rows: Sequence[tuple[str, Interval]], axis: Axis, group: str, first_row: int = 0
) -> Series:
    """Return labelled intervals, one a row; an end beyond the axis, such as infinity, is drawn at its edge.

    `rows` are (label, interval) pairs from the top, the first in row `first_row`, counted from 0; `axis` is that of the
    ratios. `name` stands in the key, and `group` chooses colour and shape.
    """
    least, most = axis.lo or 0.0, axis.hi or math.inf
    return Series(
        name,
        tuple(float(first_row + index) for index in range(len(rows))),
        tuple(interval.ratio for _, interval in rows),
        tuple(max(interval.lo, least) for _, interval in rows),
        tuple(min(interval.hi, most) for _, interval in rows),
        "points",
        tuple(label for label, _ in rows),
        group,
    )


def intervals_table(first: str, rows: Sequence[tuple[str, Interval]]) -> Table:
    """Return labelled intervals as a table; `first` heads the labels."""
    found = tuple((label.replace("\n", " "), digits_text(one.ratio), bare_range_text(one)) for label, one in rows)
    return Table((first, "ratio", "interval"), found, ("ratio", "interval"))


def ends_of(intervals: Iterable[Interval]) -> list[float]:
    """Return every figure of these intervals, for the axis that holds them."""
    return [end for interval in intervals for end in (interval.lo, interval.ratio, interval.hi)]


def _metric_label(metric: Metric) -> str:
    return f"{metric.label}\n{'more is better' if metric.higher_is_better else 'less is better'}"


def ratio_axis(label: str, ends: Sequence[float]) -> Axis:
    """Return an axis that holds these ratios and 1: logarithmic from a doubling on, so that 2x and 0.5x are alike."""
    known = [end for end in (*ends, 1.0) if math.isfinite(end) and end > 0]
    if len(known) <= len(ends):  # an unbounded interval: leave room for it to run out of the picture
        known += [min(known) / 2, max(known) * 2]
    is_log = max(known) / min(known) > 2
    lo, hi = log_bounds(known) if is_log else nice_bounds(known)
    return Axis(label, "x", "log" if is_log else "linear", lo, hi)


def verdict_table(verdicts: Sequence[Verdict]) -> Table:
    """Write verdicts as a table: metric, word, ratio, interval, pairs."""
    rows = tuple(
        (
            verdict.metric.label,
            verdict.word.value,
            digits_text(verdict.interval.ratio),
            bare_range_text(verdict.interval),
            number_text(verdict.pairs),
        )
        for verdict in verdicts
    )
    return Table(("metric", "verdict", "ratio", "interval", "pairs"), rows, ("ratio", "interval", "pairs"))
