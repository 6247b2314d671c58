"""What a staircase is asked for, for the store: its plan as text and every number of its course; and what is left."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pgdyno.stats.sequential import Design
from pgdyno.studies.staircase.plan import Plan, Step
from pgdyno.studies.staircase.plan_file import parse_plan
from pgdyno.studies.sweep.run import SweepRules
from pgdyno.trial.pace import OVERHEAD_S
from pgdyno.units import seconds_text

SHORT_PAIRS = 8
"""Most pairs of a step in the stage "sandbox", which only looks whether there is an effect."""


@dataclass(frozen=True, slots=True)
class StaircaseOptions(SweepRules):
    """The options of one staircase; with its seed and its trials they decide all that it does.

    `plan` is the plan's text and `source` its file name. `mode` and `stage` are empty for the plan's own. `candidates`
    are the steps that a study of the stage "sandbox", `candidates_from`, found worth a try; None for all. `only` names
    the one step to run. `stop_after` ends the plan after so many steps in a row that showed no gain. `manual` waits
    for a person at steps that are only commands; `skip_manual` passes over everything that needs a person.
    """

    plan: str
    source: str
    mode: str = ""
    stage: str = ""
    candidates: tuple[str, ...] | None = None
    candidates_from: str = ""
    only: str = ""
    noise_runs: int = 4
    baseline_runs: int = 2
    stop_after: int | None = None
    manual: bool = False
    skip_manual: bool = False

    def read_plan(self) -> Plan:
        """Return the plan. Raises UsageError on a slip in it, and for a step that it does not have."""
        plan = parse_plan(self.plan, source=self.source)
        mode, stage = self.mode or plan.mode, self.stage or plan.stage
        return replace(plan, mode="isolate" if stage == "sandbox" else mode, stage=stage)

    def chosen(self, plan: Plan) -> tuple[Step, ...]:
        """Return the steps that are asked for, those of another stage left out."""
        steps = (plan.step(self.only),) if self.only else plan.steps
        return tuple(step for step in steps if not (plan.stage and step.stage) or step.stage == plan.stage)

    def waits_for(self, step: Step) -> bool:
        """Tell whether a step for people is waited for: where the plan says so, or --manual does."""
        return not self.skip_manual and (self.manual or step.manual is not None)

    def design(self, plan: Plan) -> Design:
        """Return the rule for the verdict of one step."""
        most = min(self.max_pairs, max(self.min_pairs, SHORT_PAIRS)) if plan.stage == "sandbox" else self.max_pairs
        return self.design_of(most)


@dataclass(frozen=True, slots=True)
class TimeLeft:
    """Counts what is left; `duration_s` is a run's time under load, `proof` whether one follows the last step."""

    duration_s: float
    proof: bool = True

    def text(self, design: Design, steps: Sequence[Step], options: StaircaseOptions, *, measured: int) -> str:
        """Return the words: a range of time, as `design` leaves open how many pairs a step takes.

        `steps` are those that are left, in their order; those that `options` pass over are not counted. `measured`
        pairs of the first one are done.
        """
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
    """Return how many runs are left when every step takes so many pairs, without the proof.

    `steps` are those that are left, in their order. `measured` of the `pairs` of the first are done, and with any of
    them its sweep. `options` has the blocks of a sweep and the runs of the baseline after each step.
    """
    runs = 2 * -min(measured, pairs)
    for place, step in enumerate(steps):
        if step.sweep is not None and (place or not measured):
            runs += options.sweep_blocks * len(step.sweep.values)
        runs += 2 * pairs + options.baseline_runs
    return max(0, runs)
