"""The page of a printed staircase: its steps multiplied, beside their sum and what was stated. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence

from pgdyno import __version__
from pgdyno.report.sections import Charts, Notice, Prose, Report, Section, Tone
from pgdyno.stats.ratios import rounded
from pgdyno.studies.staircase.figure import StairRow, staircase
from pgdyno.units import plural

_METHOD = (
    "Each step was measured against the one before it, so that their factors multiply. Steps that lost something are "
    "shown and left out of the product, as they are where pgdyno climbs itself."
)
_NO_INTERVAL = "The steps were printed without intervals: how much of each is noise is not known."


def compounded(rows: Sequence[StairRow]) -> tuple[float, float]:
    """Return what the kept steps come to, multiplied and, as it would be wrong to, added up; both as ratios."""
    kept = [row.ratio for row in rows if row.outcome == "keep"]
    return math.prod(kept), 1 + sum(ratio - 1 for ratio in kept)


def steps_page(rows: Sequence[StairRow], metric: str, *, stated_pct: float | None = None) -> Report:
    """Return the report; `stated_pct` is the end that the source states, in percent of its baseline."""
    figure = staircase(rows, stated_end=None if stated_pct is None else stated_pct / 100, metric=metric)
    product, total = compounded(rows)
    said = [
        f"The kept steps multiply to {rounded(100 * product, 1)} % of the baseline; adding their percentages up would "
        f"give {rounded(100 * total, 1)} %."
    ]
    if stated_pct is not None:
        rest = stated_pct / 100 / product
        said.append(
            f"The end is stated as {rounded(stated_pct, 1)} %: {rounded(100 * rest, 1)} % of what the steps come to."
        )
    return Report(
        study="steps",
        kind="comparison",
        title=figure.title,
        word="",
        tone=Tone.NEUTRAL,
        lead=f"{plural(len(rows), 'step')} of {metric}",
        stamp="steps as they were given",
        sections=(
            Section("answer", "Answer", "What do the steps come to?", (Prose(tuple(said)), Notice((_NO_INTERVAL,)))),
            Section("charts", "The staircase", "What did each step buy?", (Charts((figure,)),)),
            Section("method", "Method", "What do the figures mean?", (Prose((_METHOD,)),)),
        ),
        provenance={"written by": f"pgdyno {__version__}"},
        label="staircase",
    )
