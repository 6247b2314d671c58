"""The page of machine generations: what a metric gained from step to step, against what the clock gained. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from pgdyno import __version__
from pgdyno.report.sections import Charts, Prose, Report, Section, Tone
from pgdyno.stats.ratios import rounded
from pgdyno.studies.platforms.figures import Generation, generations
from pgdyno.units import plural

_METHOD = (
    "Factors are over the generation before, and multiply over several. What a metric gains beyond the clock is the "
    "work of everything else: caches, memory, instructions, and the software of that year."
)


def generations_page(steps: Sequence[Generation], metric: str) -> Report:
    """Return the report of one step or more. Raises nothing for what was typed: factors are positive."""
    figure = generations(steps, metric)
    return Report(
        study="generations",
        kind="comparison",
        title=figure.title,
        word="",
        tone=Tone.NEUTRAL,
        lead=f"{plural(len(steps), 'step')} from one generation to the next",
        stamp="factors as they were given",
        sections=(
            Section("answer", "Answer", "What is the clock, and what is not?", (Prose(step_sentences(steps, metric)),)),
            Section("charts", "Chart", "How large is each factor?", (Charts((figure,)),)),
            Section("method", "Method", "What do the figures mean?", (Prose((_METHOD,)),)),
        ),
        provenance={"written by": f"pgdyno {__version__}"},
        label="generations",
    )


def step_sentences(steps: Sequence[Generation], metric: str) -> tuple[str, ...]:
    """Say each step in one sentence."""
    return tuple(
        f"{step.step}: {metric} {rounded(step.metric)}x, clock {rounded(step.clock)}x, so {rounded(step.per_clock)}x "
        "beyond the clock."
        for step in steps
    )
