"""The tiles below a headline: the metrics that matter, of one side or of one against the other. Pure."""

from __future__ import annotations

from pgdyno.model.results.bench import RunSummary
from pgdyno.model.results.parts import Compared, Side
from pgdyno.model.verdict import Metric, Verdict
from pgdyno.report.sections import Tile
from pgdyno.report.wording import TONES, Tone, change_text, number_text, quantity_text, range_text

ONE_SIDE = (Metric.THROUGHPUT, Metric.LATENCY_P50, Metric.LATENCY_P99, Metric.SERVER_CPU)
COMPARED = (Metric.THROUGHPUT, Metric.LATENCY_P99, Metric.SERVER_CPU)


def of_one(side: RunSummary | Side) -> tuple[Tile, ...]:
    """Return the figures of one side that were measured."""
    measured = [(metric, value) for metric in ONE_SIDE if (value := side.value(metric)) is not None]
    return tuple(tile(None, metric, None, value) for metric, value in measured)


def of_both(result: Compared) -> tuple[Tile, ...]:
    """Return both sides of a comparison, the metric of its verdict first; nothing of one that has no sides yet."""
    before, after, verdict = result.baseline, result.winner, result.verdict
    if before is None or after is None:
        return ()
    verdicts = {one.metric: one for one in (*result.closed_others, *((verdict,) if verdict else ()))}
    metrics = dict.fromkeys((*((verdict.metric,) if verdict else ()), *COMPARED))
    return tuple(tile(verdicts.get(metric), metric, before.value(metric), after.value(metric)) for metric in metrics)


def tile(verdict: Verdict | None, metric: Metric, before: float | None, after: float | None) -> Tile:
    """Make the tile of one metric; without a verdict it shows the two figures and claims nothing.

    `before` and `after` are the sides' figures in the unit of `metric`, None where nothing was measured; of a single
    side `before` is None. A verdict is of pairs, and the sides' figures of all their runs: beside it the second figure
    is the first times its ratio, so that the arrow never shows another way than the change.
    """
    unit, label = metric.unit, metric.label
    if verdict is None:
        if before is None:
            return Tile(label, quantity_text(after, unit), "", "", "", Tone.NEUTRAL)
        detail = f"{number_text(before)} → {quantity_text(after, unit)}"
        return Tile(label, detail, "", "no verdict on this metric", "", Tone.UNSURE)
    level = None if before is None else before * verdict.interval.ratio
    return judged_tile(verdict, "" if level is None else f"{number_text(before)} → {quantity_text(level, unit)}")


def judged_tile(verdict: Verdict, detail: str) -> Tile:
    """Make the tile of a verdict: the change by its pairs, the interval and the word."""
    interval = verdict.interval
    return Tile(
        verdict.metric.label,
        change_text(interval.ratio),
        f"{interval.confidence * 100:g} % interval {range_text(interval)}",
        detail,
        verdict.word.value,
        TONES[verdict.word],
    )
