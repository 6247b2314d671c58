"""What the short forms of reports are made of, which a study prints when it ends: first things first. Pure.

Headline and tiles come from the report itself; what follows them fits on about 45 lines. Nothing is drawn.
"""

from __future__ import annotations

from collections.abc import Sequence

from pgdyno.model.bottleneck import in_short
from pgdyno.model.run_evidence import RunEvidence
from pgdyno.model.study import Study
from pgdyno.model.trial import Trial
from pgdyno.report import provenance
from pgdyno.report.sections import Block, Charts, FactList, Section


def short(name: str, title: str, blocks: Sequence[Block]) -> Section | None:
    """Return a section of the short form, None where it has nothing to say."""
    return Section(name, title, "", tuple(blocks)) if blocks else None


def shortened(section: Section) -> Section:
    """Return a section of the full report without its charts."""
    return Section(section.id, section.title, "", tuple(one for one in section.blocks if not isinstance(one, Charts)))


def facts(rows: Sequence[tuple[str, str]]) -> tuple[Block, ...]:
    """Return the facts that are known as one block, nothing where none is."""
    known = tuple((name, value) for name, value in rows if value)
    return (FactList(known),) if known else ()


def bottleneck_rows(label: str, run: RunEvidence) -> list[tuple[str, str]]:
    """Return the bottleneck of a run and its first sentence of evidence."""
    said = in_short(run.bottleneck)
    return [(label, said)] if said else []


def states(trials: Sequence[Trial]) -> tuple[str, str]:
    """Return the fact of how many trials ended how."""
    return "trials", ", ".join(f"{count} {state.value}" for state, count in provenance.state_counts(trials).items())


def pointer(study: Study) -> Section:
    """Say where the full report is: the page that was written with the result, else how one is made."""
    page = ("as a page", f"pgdyno report {study.id} -o report.html")
    if study.result is not None and study.result.report:
        page = ("HTML", study.result.report)
    return Section("report", "The full report", "", facts([("in the terminal", f"pgdyno report {study.id}"), page]))
