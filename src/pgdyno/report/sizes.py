"""How large the data were before and after runs, as a section of reports. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pgdyno.model.figure import Table
from pgdyno.model.trial import Trial
from pgdyno.report.sections import Section, TableBlock
from pgdyno.units import bytes_text
from pgdyno.workloads.sized import AFTER, BEFORE, DATABASE, counted

Sizes = Mapping[str, float]


def sizes_section(runs: Sequence[tuple[str, Sizes, Sizes]], caption: str) -> Section | None:
    """Return the section for runs with their name, and their sizes before and after; None where none was measured."""
    lines = []
    for run, before, after in runs:
        for name in sorted({*before, *after}, key=lambda name: (name != DATABASE, name)):
            if name in before and name in after:
                lines.append((run, name, bytes_text(before[name]), bytes_text(after[name])))
    if not lines:
        return None
    table = Table(("run", "relation", "before", "after"), tuple(lines))
    question = "How large were the data before and after?"
    return Section("sizes", "Sizes", question, (TableBlock(table, caption, folded=True),))


def sizes_of(trials: Sequence[Trial]) -> Section | None:
    """Return the section for the trials of a bench."""
    known = [(str(trial.id), trial.outcome.counters) for trial in trials if trial.outcome is not None]
    runs = [(run, counted(counters, BEFORE), counted(counters, AFTER)) for run, counters in known]
    return sizes_section(runs, "Sizes of the database, and of its largest tables with their indexes.")
