"""The section that lays gain against memory: which configurations none beats in both, and how each is known. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from pgdyno.model.configuration import Configuration
from pgdyno.model.figure import Table
from pgdyno.model.results.tune import ParetoPoint
from pgdyno.model.verdict import Metric
from pgdyno.report.sections import Section, TableBlock
from pgdyno.report.wording import plural, settings_text
from pgdyno.units import bytes_text

COLUMNS = ("memory at worst", "against the baseline", "how it is known", "settings", "")
CAPTION = (
    "None that was tried has more gain and less memory than one of these. What is measured ran in fresh pairs. The "
    "rest is what the model expects, from single runs of the search: it proves nothing. Memory is what the settings "
    "allow all sessions and workers together at worst, and not what was used."
)


def gain_memory(points: Sequence[ParetoPoint], metric: Metric) -> Section | None:
    """List gain against memory; None where there is nothing to choose between."""
    if len(points) < 2:
        return None
    rows = tuple(_row(point) for point in points)
    caption = f"By {metric.label}. {CAPTION}"
    block = TableBlock(Table(COLUMNS, rows, COLUMNS[:2]), caption)
    return Section("memory", "Gain against memory", "What would less memory cost?", (block,))


def _row(point: ParetoPoint) -> tuple[str, str, str, str, str]:
    settings = Configuration.of(point.settings)
    if not settings:
        known, against = "the baseline", ""
    elif point.basis == "measured":
        known, against = f"measured in {plural(point.runs, 'pair')}", str(point.ratio)
    else:
        known, against = f"expected by the model, of {plural(point.runs, 'run')}", f"about {point.ratio}"
    taken = "taken" if point.taken else ""
    return (bytes_text(point.memory_bytes), against, known, settings_text(settings), taken)
