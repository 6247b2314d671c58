"""A step that people do, measured: before it, with it, and again without it where it is taken back.

It cannot be interleaved at random, because nobody changes hardware for every pair. Where the plan says `alternate`, the
order is before, with it, with it, before: a steady drift of the machine then falls on both sides and cancels.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pgdyno.model.configuration import Configuration
from pgdyno.model.study import Comparison
from pgdyno.model.trial import Role, Trial, TrialSpec, TrialState
from pgdyno.model.verdict import Interval
from pgdyno.report.wording import told_once
from pgdyno.stats.sequential import Design
from pgdyno.studies.pairs.blocks import Blocks, Runs, hint_after, run_repeating
from pgdyno.studies.pairs.drift import find_drift
from pgdyno.studies.pairs.drowned import beside_others
from pgdyno.studies.pairs.judging import Unjudged, compare_arms
from pgdyno.studies.staircase.by_hand import factors_of
from pgdyno.studies.staircase.options import StaircaseOptions
from pgdyno.studies.staircase.plan import Step
from pgdyno.studies.staircase.rules import KEEP, outcome_of

BEFORE, AFTER = "before", "after"
MANUAL_RUNS = 6
"""Runs before and after what people do; a fixed number and even, because half of it is one side of `alternate`."""
LEAST_PAIRS = 3
AGAIN = 2
"""Slot of the runs with the step taken back, behind those before and after it."""


@dataclass(frozen=True)
class ManualStep:
    """What was measured. `again` is the server with the step taken back, as a ratio of how it was before the step."""

    blocks: Blocks
    comparison: Comparison
    outcome: str
    again: Interval | None

    def why(self, *, alternate: bool) -> str:
        """Return what the order of the runs leaves open."""
        if alternate:
            open_ = "not interleaved at random: a steady drift of the machine cancels, a sudden change does not"
            return f"before, with it and again without it, {open_}{self._again()}"
        return f"before and after, not interleaved: a drift of the machine would look the same{self._again()}"

    def _again(self) -> str:
        return "" if self.again is None else f"; without it again {self.again} of before"


def measure_by_hand(
    runs: Runs,
    options: StaircaseOptions,
    step: Step,
    incumbent: Configuration,
    done: frozenset[str],
    *,
    first_block: int,
) -> ManualStep:
    """Run the incumbent before and with what a person does; with it taken back when it alternates or gained nothing.

    `runs` makes the runs and waits for people before them. `options` has the metric, the limits of the verdict and how
    many runs follow a step that is taken back; `incumbent` is the configuration of all runs, and `done` names the kept
    steps that people did before `step`. Blocks are numbered from `first_block` on. Raises Unjudged with too few whole
    pairs, and what the runs raise while they wait for people.
    """

    def measure(arm: str, places: range, slot: int) -> list[Trial]:
        state = done | {step.name} if arm == AFTER else done
        factors = factors_of(state, step.name)
        specs = (TrialSpec(incumbent, Role.ARM, arm, first_block + at, slot, factors=factors) for at in places)
        made = [run_repeating(runs.run, spec) for spec in specs]
        # What others do to runs side by side hits both alike; to runs an hour apart it looks like the step's effect.
        lost.extend(trial for trial in made if not _stands_alone(trial))
        return [trial for trial in made if _stands_alone(trial)]

    lost: list[Trial] = []
    alternates = step.by_hand is not None and step.by_hand.alternate
    half = MANUAL_RUNS // 2 if alternates else MANUAL_RUNS
    first = measure(BEFORE, range(half), 0)
    after = measure(AFTER, range(MANUAL_RUNS), 1)
    again = measure(BEFORE, range(half, MANUAL_RUNS), AGAIN) if alternates else []
    pairs: list[Mapping[str, Trial]] = [{BEFORE: a, AFTER: b} for a, b in zip([*first, *again], after, strict=False)]
    if len(pairs) < LEAST_PAIRS:
        raise Unjudged(
            f"step {step.name} could be measured in only {len(pairs)} of {MANUAL_RUNS} runs",
            detail="; ".join(told_once(filter(None, map(_why_lost, lost)))) or None,
            hint=hint_after({one.state for one in lost}),
        )
    blocks = Blocks({BEFORE: incumbent, AFTER: incumbent}, pairs)
    rule = Design(options.smallest_effect, options.confidence, len(pairs), len(pairs))
    comparison = compare_arms(blocks, BEFORE, AFTER, options.metric, rule)
    outcome = outcome_of(comparison.verdict)
    if not alternates and outcome != KEEP:  # people take it back now in any case: what follows is measured without it
        again = measure(BEFORE, range(options.baseline_runs), AGAIN)
    return ManualStep(blocks, comparison, outcome, _against(first, again, figure_of(options)))


def _why_lost(trial: Trial) -> str:
    if beside_others([trial]):
        return "made beside others, and not interleaved"
    return trial.reason


def _stands_alone(trial: Trial) -> bool:
    """Tell whether a run was used and nobody else used the machine meanwhile."""
    return trial.state is TrialState.COMPLETE and not beside_others([trial])


def figure_of(options: StaircaseOptions) -> Callable[[Trial], float | None]:
    """Return what reads the metric of a trial; None where it was not measured."""
    return lambda trial: trial.figure(options.metric)


def _against(first: list[Trial], again: list[Trial], figure: Callable[[Trial], float | None]) -> Interval | None:
    rounds = [[value for trial in trials if (value := figure(trial))] for trials in (first, again)]
    ratios = find_drift(rounds).ratios if all(rounds) else ()
    return ratios[0] if ratios else None
