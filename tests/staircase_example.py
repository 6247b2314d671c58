"""A staircase and curves for tests of the renderers, with the sources' figures where they have any."""

from __future__ import annotations

from itertools import accumulate
from operator import mul

from pgdyno.model.figure import Axis, Band, Figure, FigureKind, Mark, Series
from pgdyno.report.sections import Charts, Prose, Report, Section, Tone

STEPS_2017 = (1.12, 1.02, 1.06, 1.07, 1.09, 1.02)
"""Factor of each step of the staircase of 2017, seed 003; 144.1 is their product, in percent."""
NAMES = (
    "baseline",
    "max_wal_size",
    "dirty bytes",
    "WAL on its own disk",
    "hot table moved",
    "huge pages",
    "migration cost",
)


def staircase(factors: tuple[float, ...] = STEPS_2017, *, names: tuple[str, ...] = NAMES) -> Figure:
    """Return the staircase of these factors; a step below 0.995 is a drop and one within 0.5 % of 1 null."""
    heights = [100.0, *(100.0 * factor for factor in accumulate(factors, mul))]
    groups = ["baseline", *("drop" if f < 0.995 else "null" if f < 1.005 else "keep" for f in factors)]
    series = []
    for group in dict.fromkeys(groups):
        chosen = [at for at, one in enumerate(groups) if one == group]
        series.append(
            Series(
                group,
                tuple(float(at) for at in chosen),
                tuple(heights[at] for at in chosen),
                tuple(heights[at] * 0.985 if at else None for at in chosen),
                tuple(heights[at] * 1.015 if at else None for at in chosen),
                "bars",
                tuple(names[at] for at in chosen),
                group,
            )
        )
    end = heights[-1]
    total = Series(
        "all together", (float(len(heights)),), (end,), (end * 0.98,), (end * 1.02,), "bars", ("all steps",), "total"
    )
    return Figure(
        FigureKind.STAIRCASE,
        "staircase",
        f"All steps together reach {end:.1f} %",
        "What did each step add?",
        Axis("step"),
        Axis("throughput against the baseline", "%"),
        (*series, total),
        marks=(Mark("y", 100.0, "baseline", "reference"),),
        n=len(factors),
    )


def curves() -> Figure:
    """Return throughput by clients of two configurations; one cell of the second was not measured."""
    clients = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)
    before = (812.0, 1590.0, 3010.0, 5200.0, 7100.0, 7800.0, 7300.0)
    after = (840.0, 1660.0, 3200.0, None, 8650.0, 9900.0, 9700.0)
    return Figure(
        FigureKind.LINES,
        "curves",
        "The knee lies at 32 clients",
        "How does throughput grow with clients?",
        Axis("clients", scale="log"),
        Axis("throughput", "transactions/s"),
        (
            Series("default", clients, before, tuple(y * 0.95 for y in before), tuple(y * 1.05 for y in before)),
            Series("tuned", clients, after, tuple(None if y is None else y * 0.94 for y in after),
                   tuple(None if y is None else y * 1.06 for y in after)),
        ),
        bands=(Band("y", 9300.0, 9900.0, "best cell"),),
        marks=(Mark("x", 32.0, "knee", "limit"),),
    )  # fmt: skip


def page(*figures: Figure) -> Report:
    """Return a report that holds these figures and nothing else."""
    sections = (Section("figures", "Figures", "What is drawn?", (Prose(("Drawn for a test.",)), Charts(figures))),)
    return Report("1", "staircase", "Figures", "", Tone.NEUTRAL, "A test", "", (), sections)
