"""The section that says what held a run back, and what else its samples tell. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from pgdyno.model.bottleneck import WORDS, BottleneckVerdict, Resource
from pgdyno.model.figure import Table
from pgdyno.report.sections import Block, Prose, Section, TableBlock

QUESTION = "Which resource was short, what would be next, and what is the evidence?"


def bottleneck_section(runs: Sequence[tuple[str, int, BottleneckVerdict]]) -> Section | None:
    """Return the verdict of each recorded run, `(name, run, verdict)`; None without runs."""
    blocks: list[Block] = []
    for name, run, verdict in runs:
        blocks.append(Prose((f"{name[:1].upper()}{name[1:]}, trial {run}: {headline(verdict)}",)))
        blocks.append(Prose((*verdict.evidence, *verdict.notes), points=True))
        if verdict.candidates:
            caption = f"What each resource showed in trial {run}. A share is the part of all sessions' time."
            blocks.append(TableBlock(_table(verdict), caption, folded=True))
    return Section("bottleneck", "What limited it?", QUESTION, tuple(blocks)) if blocks else None


def headline(verdict: BottleneckVerdict) -> str:
    """Return the verdict in one sentence, with the resource that would be next."""
    if verdict.resource is Resource.UNKNOWN:
        return "what limited it is unknown."
    said = "nothing limited it" if verdict.resource is Resource.NONE else f"{WORDS[verdict.resource]} limited it"
    nearest = "busiest" if verdict.resource is Resource.NONE else "next"
    return f"{said}." if verdict.second is None else f"{said}; {nearest}: {WORDS[verdict.second]}."


def _table(verdict: BottleneckVerdict) -> Table:
    rows = tuple(
        (
            one.resource.value,
            f"{100 * one.share:.0f} %",
            "short" if one.is_short else "not short",
            one.sentence,
            one.threshold.strip("()"),
        )
        for one in verdict.candidates
    )
    return Table(("resource", "share of time", "verdict", "seen", "threshold"), rows, ("share of time",))
