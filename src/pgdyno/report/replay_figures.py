"""Figures of a replay: classes against what they are compared with, and how long delays were. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from pgdyno.model.figure import Axis, Band, Figure, FigureKind, Mark, Series, Table
from pgdyno.model.replay_comparison import ClassComparison, ClassTable, DelayBin
from pgdyno.model.verdict import Interval, Word
from pgdyno.report.figures import ends_of, interval_series, intervals_table, ratio_axis
from pgdyno.report.scales import zero_based
from pgdyno.report.wording import number_text
from pgdyno.units import agreeing, plural

MOST_DRAWN = 25
_LONGEST = 60


def class_forest(table: ClassTable, what: str, ratio_limit: float) -> Figure | None:
    """Draw the medians of the classes that lost or won most, B over A; None where none has an interval."""
    drawn = [(one, median) for one in table.classes if (median := one.quantiles[0].interval) is not None][:MOST_DRAWN]
    if not drawn:
        return None
    axis = ratio_axis("median time of B over that of A", ends_of(interval for _, interval in drawn))
    groups = (
        ("slower", "drop", [pair for pair in drawn if pair[0].word is Word.WORSE]),
        ("faster", "keep", [pair for pair in drawn if pair[0].word is Word.BETTER]),
        ("neither", "effect", [pair for pair in drawn if pair[0].word not in (Word.WORSE, Word.BETTER)]),
    )
    series, rows = list[Series](), list[tuple[str, Interval]]()
    for name, group, chosen in groups:
        if chosen:
            found = [(f"{class_text(one)}\n{number_text(one.executions)} times", interval) for one, interval in chosen]
            series.append(interval_series(name, found, axis, group, len(rows)))
            rows += found
    worse = table.count(Word.WORSE)
    return Figure(
        kind=FigureKind.FOREST,
        id=f"replay-{what.replace(' ', '-')}",
        title=f"{plural(worse, 'class')} of {what} {'is' if worse == 1 else 'are'} slower",
        question=f"Which classes of {what} changed?",
        x=Axis("class"),
        y=axis,
        series=tuple(series),
        bands=(Band("y", 1 / ratio_limit, ratio_limit, "too small to matter"),),
        marks=(Mark("y", 1.0, "as before", "reference"),),
        table=intervals_table("class", rows),
        caption="Right of 1 a class takes longer. Intervals are of single classes; the verdicts hold for all together.",
        n=len(drawn),
    )


def delay_bars(bins: Sequence[DelayBin]) -> Figure | None:
    """Draw how many transactions were delayed for how long; None where none was."""
    if not any(one.count for one in bins):
        return None
    counts = tuple(float(one.count) for one in bins)
    _, top = zero_based(counts)
    labels = tuple(bin_text(one.low, one.high) for one in bins)
    return Figure(
        kind=FigureKind.BARS,
        id="replay-delays",
        title=agreeing(sum(one.count for one in bins), "transaction", "was delayed", "were delayed"),
        question="How long were delays?",
        x=Axis("delay"),
        y=Axis("delayed transactions", lo=0.0, hi=top),
        series=(
            Series("delayed", tuple(map(float, range(len(bins)))), counts, style="bars", labels=labels, group="effect"),
        ),
        table=Table(
            ("delay", "transactions"), tuple((name, f"{one.count:,}") for name, one in zip(labels, bins, strict=True)),
            ("transactions",),
        ),
        n=sum(one.count for one in bins),
    )  # fmt: skip


def class_text(one: ClassComparison) -> str:
    """Return what stands for a class: its text, cut, or its name."""
    text = " ".join(one.text.split()) or one.name
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def bin_text(low: float, high: float | None) -> str:
    """Write a range of milliseconds."""
    if high is None:
        return f"{low:,g} ms and more"
    return f"below {high:,g} ms" if low == 0 else f"{low:,g} to {high:,g} ms"
