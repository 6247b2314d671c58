"""The proof: fresh randomised blocks in which baseline, winner, its leave-one-out arms and the rivals all run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pgdyno.model.configuration import BASELINE, Configuration
from pgdyno.model.study import Comparison
from pgdyno.model.trial import Role
from pgdyno.model.verdict import Interval, Verdict, Word
from pgdyno.stats.paired import log_ratios, t_interval
from pgdyno.stats.sequential import is_final
from pgdyno.studies.blocks import JUDGEABLE, Blocks, run_blocks
from pgdyno.studies.judging import compare_arms, verdict_of
from pgdyno.studies.options import TuneOptions
from pgdyno.studies.restart_room import has_restarts
from pgdyno.trial.laboratory import Laboratory

BASE, WINNER, UNPRUNED = "baseline", "winner", "unpruned winner"
WITHOUT, RIVAL = "without ", "rival "


@dataclass(frozen=True, slots=True)
class Proof:
    """What the fresh blocks say.

    `answer` is the arm that the tune ends with: the pruned winner, or the unpruned one where the pruned is shown to be
    worse than it; headline and rivals are of that arm. `effects` maps a retained knob to the verdict on winner against
    winner without it, where that was measured; of an unpruned answer nothing was.
    """

    blocks: Blocks
    answer: str
    headline: Comparison
    effects: Mapping[str, Verdict]
    rivals: Mapping[str, Verdict]
    rival_shares: Mapping[str, Interval]
    """The winner's throughput as a ratio of the rival's, with its interval."""
    unpruned: Verdict | None
    """The pruned winner against the unpruned one; None where pruning dropped nothing."""

    @property
    def is_pruning_taken_back(self) -> bool:
        """Return whether what pruning had dropped stays after all."""
        return self.answer == UNPRUNED


def prove(
    laboratory: Laboratory,
    winner: Configuration,
    unpruned: Configuration,
    options: TuneOptions,
    *,
    first_block: int,
    alone: Sequence[str],
    rivals: Sequence[str],
    with_unpruned: bool,
) -> Proof | None:
    """Measure until the headline and every effect are resolved, or the pairs are spent.

    A pruned winner that these blocks show to be worse than the unpruned one is given up for it: pruning looks for what
    costs nothing, and it was wrong. The unpruned one ran in the same fresh blocks, so its figures are no search's.
    `alone` names the settings of the winner that are left out one by one, `rivals` the rivals that there is time for.
    Returns None where the time was over before there were pairs to judge.
    """
    arms: dict[str, Configuration] = {BASE: BASELINE, WINNER: winner}
    roles = {BASE: Role.BASELINE, WINNER: Role.CONFIRM}
    if len(winner) > 1:
        for knob in alone:
            arms[WITHOUT + knob], roles[WITHOUT + knob] = winner.without(knob), Role.EFFECT
    for name in rivals:
        arms[RIVAL + name], roles[RIVAL + name] = options.rival_configurations()[name], Role.RIVAL
    if with_unpruned:
        arms[UNPRUNED], roles[UNPRUNED] = unpruned, Role.CONFIRM
    design = options.design(min_pairs=options.confirm_min)
    effect_design = options.design(min_pairs=options.confirm_min, comparisons=max(1, len(alone)))

    def is_enough(blocks: Blocks) -> bool:
        if len(blocks.complete) < options.confirm_min:
            return False
        verdicts = [verdict_of(blocks, BASE, WINNER, options.metric, design)]
        verdicts += [verdict_of(blocks, arm, WINNER, options.metric, effect_design) for arm in arms if WITHOUT in arm]
        return all(v is not None and is_final(v, design) for v in verdicts)

    def has_room(trials: int) -> bool:
        watch = laboratory.stopwatch
        return (watch is None or watch.has_room(trials)) and has_restarts(laboratory, options, tuple(arms.values()))

    blocks = run_blocks(
        laboratory,
        arms,
        roles,
        seed=options.seed,
        first_block=first_block,
        max_blocks=options.confirm_max,
        is_enough=is_enough,
        has_room=has_room,
    )
    if blocks.stopped_short and len(blocks.complete) < JUDGEABLE:
        return None
    metric = options.metric
    against_unpruned = verdict_of(blocks, UNPRUNED, WINNER, metric, design) if with_unpruned else None
    is_worse = against_unpruned is not None and against_unpruned.word is Word.WORSE
    answer = UNPRUNED if is_worse else WINNER
    headline = compare_arms(blocks, BASE, answer, metric, design)
    if answer == UNPRUNED:
        effects: dict[str, Verdict | None] = {}
    elif len(winner) == 1:
        effects = dict.fromkeys(winner, headline.verdict)
    else:
        effects = {knob: verdict_of(blocks, WITHOUT + knob, WINNER, metric, effect_design) for knob in alone}
    beside = {name: verdict_of(blocks, BASE, RIVAL + name, metric, design) for name in rivals}
    return Proof(
        blocks=blocks,
        answer=answer,
        headline=headline,
        effects={knob: verdict for knob, verdict in effects.items() if verdict is not None},
        rivals={name: verdict for name, verdict in beside.items() if verdict is not None},
        rival_shares={name: _share(blocks, RIVAL + name, answer, options) for name in rivals},
        unpruned=against_unpruned,
    )


def _share(blocks: Blocks, rival: str, answer: str, options: TuneOptions) -> Interval:
    left, right = blocks.pairs(rival, answer, options.metric)
    return t_interval(log_ratios(left, right), options.confidence)
