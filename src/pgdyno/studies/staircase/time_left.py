"""How long a staircase will still take, between the fewest and the most pairs of every step. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pgdyno.stats.sequential import Design
from pgdyno.studies.staircase.plan import Step
from pgdyno.units import seconds_text

if TYPE_CHECKING:
    from pgdyno.studies.staircase.options import StaircaseOptions

OVERHEAD_S = 3.0
"""About what a run costs beside its load; a restart or a clone of large data takes longer."""


@dataclass(frozen=True, slots=True)
class TimeLeft:
    """Counts what is left; `duration_s` is a run's time under load, `proof` whether one follows the last step."""

    duration_s: float
    proof: bool = True

    def text(self, design: Design, steps: Sequence[Step], options: StaircaseOptions, *, measured: int) -> str:
        """Return the words; `steps` are those that are left, of the first `measured` pairs are done."""
        steps = [step for step in steps if will_run(step, options)]
        bounds = (design.min_pairs, design.max_pairs)
        proofs = [pairs * (2 + len(steps)) if self.proof else 0 for pairs in bounds]
        fewest, most = (
            runs_left(pairs, steps, options, measured) + more for pairs, more in zip(bounds, proofs, strict=True)
        )
        each = self.duration_s + OVERHEAD_S
        low, high = seconds_text(fewest * each), seconds_text(most * each)
        return f"{low} left" if low == high else f"{low} to {high} left"


def will_run(step: Step, options: StaircaseOptions) -> bool:
    """Tell whether a step is run as far as is known beforehand: nobody waits for some, and some are no candidates."""
    if step.by_hand is not None:
        return options.waits_for(step)
    return options.candidates is None or step.name in options.candidates or bool(step.stage)


def runs_left(pairs: int, steps: Sequence[Step], options: StaircaseOptions, measured: int = 0) -> int:
    """Return how many runs are left when every step takes so many pairs, without the proof."""
    runs = 2 * -min(measured, pairs)
    for place, step in enumerate(steps):
        if step.sweep is not None and (place or not measured):
            runs += options.sweep_blocks * len(step.sweep.values)
        runs += 2 * pairs + options.baseline_runs
    return max(0, runs)
