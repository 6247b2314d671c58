"""Make the figure of advice: what the sources promise for each candidate. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from pgdyno.model.figure import Axis, Figure, FigureKind, Series, Table
from pgdyno.model.finding import Finding, StatedEffect
from pgdyno.report.advice import words
from pgdyno.report.scales import nice_bounds

MOST = 12
"""So many candidates are drawn; the cards show all."""


def effect_bars(findings: Sequence[Finding]) -> Figure | None:
    """Draw the figure that its source states for each candidate, the largest first; None where no source has one.

    A bar is solid up to the lower figure and light up to the upper one. Only gains of throughput are on one scale.
    """
    found = [(finding, effect) for finding in findings for effect in [_drawn(finding)] if effect is not None]
    found = sorted(found, key=lambda pair: -(pair[1].figure or 0.0))[:MOST]
    if not found:
        return None
    lows = [100 * (effect.figure or 0.0) for _, effect in found]
    highs = [100 * ((effect.figure if effect.high is None else effect.high) or 0.0) for _, effect in found]
    _, top = nice_bounds([0.0, *highs])
    rows = tuple(
        (
            finding.rule,
            words.gain(effect),
            words.source_long(effect.source),
            f"{words.figure_text(effect)}, {finding.confidence}",
        )
        for finding, effect in found
    )
    first, effect = found[0]
    return Figure(
        kind=FigureKind.BARS,
        id="effects",
        title=f"The largest figure of a source is {words.gain(effect)} for {first.rule}",
        question="What do the sources state for each candidate?",
        x=Axis("candidate"),
        y=Axis("gain in throughput, as the source measured it", "%", lo=0.0, hi=top),
        series=(
            Series(
                "stated by the source",
                tuple(float(at) for at in range(len(found))),
                tuple(lows),
                hi=tuple(highs),
                style="bars",
                labels=tuple(f"{f.rule}\n{words.source_short(e.source)}" for f, e in found),
                group="effect",
            ),
        ),
        table=Table(("rule", "figure", "source", "confidence here"), rows, ()),
        caption="Measured on other machines: the confidence says how far this target is from them. Figures do not add "
        "up; only an experiment here says what a change is worth.",
        n=len(found),
    )


def _drawn(finding: Finding) -> StatedEffect | None:
    effect = finding.main_effect
    return effect if effect and effect.metric == "throughput" and (effect.figure or 0.0) > 0 else None
