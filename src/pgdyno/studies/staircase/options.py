"""What a staircase is asked for: its plan as text and every number that its course depends on, for the store."""

from __future__ import annotations

from dataclasses import dataclass, replace

from pgdyno.stats.sequential import Design
from pgdyno.studies.staircase.plan import Plan, Step
from pgdyno.studies.staircase.plan_file import parse_plan
from pgdyno.studies.sweep.run import SweepRules

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
