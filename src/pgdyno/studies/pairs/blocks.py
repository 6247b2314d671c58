"""Interleaved blocks: each block runs every arm once, in a new random order, so that drift hits all arms alike."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from pgdyno.errors import ApplyError, EnvironmentUnsuitable
from pgdyno.model.configuration import Configuration
from pgdyno.model.study import Study
from pgdyno.model.trial import EXTENDED, Role, Trial, TrialSpec, TrialState
from pgdyno.model.verdict import Metric
from pgdyno.report.wording import told_once
from pgdyno.store.catalogue import Store
from pgdyno.trial.company import Company
from pgdyno.trial.recorded import SPOILT
from pgdyno.trial.stopwatch import BudgetSpent

REPEATS = 2
"""How often a disturbed or unsteady trial is repeated at its place before its block is given up."""
REPEATED = frozenset({TrialState.DISTURBED, TrialState.UNSTEADY})
"""What is repeated of runs that stand alone; a partial one stays partial, so that its row says so."""
LOST_BLOCKS = 3
"""How many blocks in a row may be given up before the machine is called unsuitable."""
NO_TIME = "time ran out"
BASE, WINNER, FOUND = "baseline", "winner", "found"
"""What the arms of a tune's proof are called. Not in `proof`, which loads the optimizer: a bench needs none of it."""
JUDGEABLE = 2
"""So many complete blocks must there be for a comparison that had to stop short to be judged."""


class ArmUnmeasured(ApplyError):
    """An arm failed twice in a row, or its configuration is not in force or refused."""

    def __init__(self, arm: str, trial: Trial) -> None:
        super().__init__(
            f"arm {arm} cannot be measured: {trial.state}",
            detail=trial.reason or None,
            hint=f"See `pgdyno store show {trial.id}` for the settings and what happened.",
        )
        self.arm, self.trial = arm, trial


class Runs(Protocol):
    """What blocks need of a laboratory."""

    study: Study
    store: Store
    company: Company

    def run(self, spec: TrialSpec, /) -> Trial:
        """Run one trial, or give back the recorded one of its place."""

    def expect(self, trials: int, *, at_most: bool = False) -> None:
        """Hear how many trials come now, for whoever waits."""


def block_order(arms: Sequence[str], block: int, seed: int) -> tuple[str, ...]:
    """Return the order of the arms in one block: a permutation that depends on seed and block only.

    Drawn independently for each block, so that under equal arms the sign of every difference is a fair coin whatever
    the drift: this is what the error rate of the verdict rests on.
    """
    order = list(arms)
    random.Random(f"{seed}/{block}").shuffle(order)  # noqa: S311 - a seeded order that must repeat on resume
    return tuple(order)


@dataclass
class Blocks:
    """The complete blocks of one comparison: one trial in each of every arm that was still asked for."""

    arms: Mapping[str, Configuration]
    complete: list[Mapping[str, Trial]] = field(default_factory=list)
    lost: int = 0
    stopped_short: str = ""
    """Why the comparison ended before anyone had enough: the machine was too disturbed, or time over. Else empty."""
    unmeasured: dict[str, str] = field(default_factory=dict)
    """Arms that the comparison went on without, and why they could not be measured; they are not in `arms`."""

    def trials(self, arm: str) -> list[Trial]:
        """Return the trials of one arm, block by block."""
        return [block[arm] for block in self.complete if arm in block]

    def pairs(self, a: str, b: str, metric: Metric) -> tuple[list[float], list[float]]:
        """Return the figures of two arms, paired by block; a block in which either is unknown is left out."""
        found = self.figures((a, b), metric)
        return list(found[a]), list(found[b])

    def figures(self, arms: Iterable[str], metric: Metric) -> dict[str, tuple[float, ...]]:
        """Return the figures of several arms, block by block; a block that lacks one of them is left out."""
        names = tuple(dict.fromkeys(arms))
        found: dict[str, list[float]] = {name: [] for name in names}
        for block in self.complete:
            ran = [block[name] for name in names if name in block]
            known = [figure for trial in ran if (figure := trial.figure(metric)) is not None and figure > 0]
            if len(known) == len(names):
                for name, figure in zip(names, known, strict=True):
                    found[name].append(figure)
        return {name: tuple(values) for name, values in found.items()}


def run_blocks(
    laboratory: Runs,
    arms: Mapping[str, Configuration],
    roles: Mapping[str, Role],
    *,
    seed: int,
    first_block: int,
    max_blocks: int,
    is_enough: Callable[[Blocks], bool],
    factors: Mapping[str, str] | None = None,
    short_from: int | None = None,
    has_room: Callable[[int], bool] | None = None,
    spare: Collection[str] = (),
    answered: Callable[[Blocks], Collection[str]] = lambda _: (),
) -> Blocks:
    """Run blocks until `is_enough` says so or `max_blocks` are complete; `factors` are those of every trial.

    `laboratory` runs the trials; `arms` has the configuration of each arm and `roles` the role of its trials, both by
    the arm's name. `seed` draws the order of the arms in each block, and blocks are numbered from `first_block` on.
    `factors` None stands for none. `is_enough` is asked after each complete block and must be a rule that allows
    looking (`stats.sequential`). Where the machine is too disturbed to go on and `short_from` blocks or more are
    complete, those are returned, with `stopped_short`: an interval that holds at every look holds there too.
    `short_from` None raises in any case. `has_room`, None where time is not limited, is asked before each block whether
    so many trials fit into the time that is left; where they do not, or the time is over in mid-block, what is complete
    is returned, with `stopped_short`. A `spare` arm that cannot be measured leaves the comparison; one whose question
    is `answered`, by a rule that allows looking, keeps what it has and runs no more. Raises ArmUnmeasured when another
    arm's configuration is not in force or a load fails with it twice in a row, and EnvironmentUnsuitable when the
    machine was too disturbed and there is nothing to give back.
    """
    blocks = Blocks(arms)
    running = dict(arms)
    block, lost_in_a_row = first_block, 0
    laboratory.expect(len(arms) * max_blocks, at_most=True)
    while len(blocks.complete) < max_blocks:
        if has_room is not None and not has_room(len(running)):
            blocks.stopped_short = NO_TIME
            break
        order = block_order(tuple(running), block, seed)
        try:
            trials = _run_block(laboratory, running, roles, block, order, factors or {})
        except BudgetSpent:
            blocks.stopped_short = NO_TIME
            break
        except ArmUnmeasured as error:
            if error.arm not in spare:
                raise
            blocks.unmeasured[error.arm] = error.detail or error.message
            blocks.arms = {name: one for name, one in blocks.arms.items() if name != error.arm}
            del running[error.arm]
            block += 1
            continue
        block += 1
        if trials is None:
            blocks.lost += 1
            lost_in_a_row += 1
            if lost_in_a_row < LOST_BLOCKS and blocks.lost < LOST_BLOCKS + len(blocks.complete):
                continue
            unsuitable = _unsuitable(laboratory, blocks)
            if short_from is None or len(blocks.complete) < short_from:
                raise unsuitable
            blocks.stopped_short = ": ".join(filter(None, (unsuitable.message, unsuitable.detail)))
            break
        lost_in_a_row = 0
        blocks.complete.append(trials)
        if is_enough(blocks):
            break
        for arm in answered(blocks):
            running.pop(arm, None)
    return blocks


def _run_block(
    laboratory: Runs,
    arms: Mapping[str, Configuration],
    roles: Mapping[str, Role],
    block: int,
    order: Sequence[str],
    factors: Mapping[str, str],
) -> Mapping[str, Trial] | None:
    trials: dict[str, Trial] = {}
    for slot, arm in enumerate(order):
        spec = TrialSpec(arms[arm], roles[arm], arm, block, slot, factors=factors)
        trial = run_repeating(laboratory.run, spec, company=laboratory.company)
        if trial.state is TrialState.FAILED:
            # Once may have been somebody else's doing: a server that was killed, a network that broke.
            trial = run_repeating(laboratory.run, replace(spec, repeats=trial.id), company=laboratory.company)
        if trial.state in (TrialState.VOID, TrialState.FAILED, TrialState.REFUSED):
            raise ArmUnmeasured(arm, trial)
        if trial.state is not TrialState.COMPLETE:
            return None
        trials[arm] = trial
    return trials


def run_repeating(
    run: Callable[[TrialSpec], Trial],
    spec: TrialSpec,
    *,
    spoilt: Collection[TrialState] = SPOILT,
    company: Company | None = None,
) -> Trial:
    """Run a trial until it counts, as `tries` does, and return the last one.

    `run` makes one trial of `spec`; `spoilt` and `company` decide, as in `tries`, whether it is repeated.
    """
    return tries(run, spec, spoilt=spoilt, company=company)[-1]


def tries(
    run: Callable[[TrialSpec], Trial],
    spec: TrialSpec,
    *,
    spoilt: Collection[TrialState] = SPOILT,
    company: Company | None = None,
) -> list[Trial]:
    """Run a trial, and again at once while it is `spoilt`, up to REPEATS times, and return them all.

    `run` makes one trial of `spec`, and `spoilt` are the states that are repeated. One that was unsteady although it
    was extended has had the time of a repetition already, and has one less. The laboratory's `company` says whether
    others stay: then a disturbed one is not repeated. With None it is repeated.
    """
    made = [run(spec)]
    outcome = made[0].outcome
    is_extended = made[0].state is TrialState.UNSTEADY and outcome is not None and EXTENDED in outcome.counters
    while len(made) <= REPEATS - is_extended and is_repeated(made[-1], spoilt, company):
        made.append(run(replace(spec, repeats=made[-1].id)))
    return made


def is_repeated(trial: Trial, spoilt: Collection[TrialState], company: Company | None) -> bool:
    """Tell whether a run is worth repeating at its place: not beside others who stayed when they were waited for."""
    others_stay = trial.state is TrialState.DISTURBED and company is not None and company.stayed
    return trial.state in spoilt and not others_stay


def hint_after(states: Collection[TrialState]) -> str:
    """Return what helps where runs ended so: a load that failed is no matter of a quiet machine."""
    if TrialState.FAILED in states and not SPOILT & set(states):
        return "Find out why the load failed; the server's log may say more."
    return "Quieten the machine, lengthen --warmup and --measure, or raise --foreign-cpu if that load belongs there."


def _unsuitable(laboratory: Runs, blocks: Blocks) -> EnvironmentUnsuitable:
    spoilt = [t for t in laboratory.store.trials(laboratory.study.id) if t.state in SPOILT]
    reasons = [trial.reason for trial in spoilt if trial.reason]
    return EnvironmentUnsuitable(
        f"{blocks.lost} of {blocks.lost + len(blocks.complete)} blocks could not be completed, as their trials were "
        "disturbed or never steady",
        detail="; ".join(told_once(reasons)) or None,
        hint=hint_after({trial.state for trial in spoilt}),
    )
