"""A group in halves: of settings that were only measured together, the half that does nothing goes.

A proof leaves out the settings that the model expects least of together, and keeps all of them where they matter
together. Often one of six does. So the winner runs without either half and without both, beside the baseline: the half
that costs least goes where that is surely no more than may be lost, and the effect of what stays is measured without
it. Again, until one setting is left, or neither half can go.

Errors: a round judges fresh pairs and shares its error rate between its two halves, not with the other rounds. A group
of n settings has at most log2(n) rounds, rounded up, and the chance that any of them lets a half go that costs more
than may be lost is at most their sum: for six settings three times that of one round.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from pgdyno.model.configuration import BASELINE
from pgdyno.model.trial import Role
from pgdyno.model.verdict import Verdict, Word
from pgdyno.stats.noninferiority import Removal, costs_nothing
from pgdyno.stats.sequential import Design, is_final
from pgdyno.studies.pairs.blocks import BASE, JUDGEABLE, WINNER, ArmUnmeasured, Blocks, run_blocks
from pgdyno.studies.pairs.judging import Unjudged, compare_arms, verdict_of
from pgdyno.studies.tune.options import TuneOptions
from pgdyno.studies.tune.proof import RIVAL, Proof, keep_untold, rivals_beside, tolerance_of
from pgdyno.studies.tune.restart_room import room_for
from pgdyno.studies.tune.smaller import needed_by_none
from pgdyno.studies.tune.tuned import Tuned

HALVES = ("without the first half", "without the second half")
NEITHER = "without both halves"
SHARE = 2
"""A round has at most this part of a proof's pairs: it shows what is plain, such as one setting of six that matters."""


@dataclass(frozen=True, slots=True)
class _Half:
    """A half that may go: what its removal costs, and what the other one is worth without it."""

    arm: str
    gone: tuple[str, ...]
    stays: tuple[str, ...]
    removal: Removal
    worth: Verdict


def split_group(tuned: Tuned, options: TuneOptions, *, first_block: int, announce: Callable[[str], None]) -> None:
    """Prove the winner without the half of its group that does nothing, as often as there is one.

    `tuned` is changed in place; `options` are those that its proof was judged by; `first_block` is the number of the
    first block that is free for these proofs. `announce` takes a sentence before each of them.
    """
    while (proof := tuned.proof) is not None and tuned.is_offered:
        group = [name for name in proof.rest if name in tuned.winner]
        halves = tuple(group[: len(group) // 2]), tuple(group[len(group) // 2 :])
        arms = {arm: tuned.winner.without(*half) for arm, half in zip(HALVES, halves, strict=True)}
        arms[NEITHER] = tuned.winner.without(*group)
        possible = all(one and tuned.search.accepts(one) for one in (arms[HALVES[0]], arms[HALVES[1]], arms[NEITHER]))
        if len(group) < 2 or not possible or needed_by_none(tuned, proof):
            return
        if not _has_room(tuned, options, 2 + len(arms)):
            return
        announce(f"proof: the winner without either half of {', '.join(group)}; fresh pairs")
        rivals = {RIVAL + name: options.rival_configurations()[name] for name in proof.rivals}
        roles = {BASE: Role.BASELINE, WINNER: Role.CONFIRM, NEITHER: Role.EFFECT, **dict.fromkeys(HALVES, Role.CONFIRM)}
        asked = {BASE: BASELINE, WINNER: tuned.winner, **arms, **rivals}
        try:
            blocks = run_blocks(
                tuned.search.laboratory,
                asked,
                roles | dict.fromkeys(rivals, Role.RIVAL),
                seed=options.seed,
                first_block=first_block,
                max_blocks=max(options.confirm_min, options.confirm_max // SHARE),
                is_enough=partial(_is_enough, halves=halves, options=options),
                short_from=0,
                has_room=room_for(tuned.search.laboratory, options, asked),
                spare=rivals.keys(),
                answered=partial(_missed, options=options),
            )
            found = None
            if len(blocks.complete) >= max(JUDGEABLE, options.confirm_min):
                found = _best(blocks, halves, options)
        except (ArmUnmeasured, Unjudged) as error:
            tuned.notes.append(f"kept together: {', '.join(group)}, as a half of them could not be judged: {error}")
            return
        first_block += len(blocks.complete) + blocks.lost + len(blocks.unmeasured)
        if found is None:
            tuned.notes.append(f"kept together: {', '.join(group)}: no half of them was shown to be one that can go")
            return
        tuned.take_smaller(_without(blocks, proof, found, options))


def _has_room(tuned: Tuned, options: TuneOptions, arms: int) -> bool:
    watch = tuned.search.laboratory.stopwatch
    return watch is None or watch.has_room(arms * options.confirm_min)


def _is_enough(blocks: Blocks, halves: Sequence[tuple[str, ...]], options: TuneOptions) -> bool:
    """Tell whether a half goes for good and what stays is told, or whether both are surely missed."""
    if len(blocks.complete) < options.confirm_min:
        return False
    removals = _removals(blocks, options)
    if len(removals) == len(HALVES) and all(one.shown for one in removals.values()):
        return True
    best = _best(blocks, halves, options)
    return best is not None and is_final(best.worth, _design(options))


def _missed(blocks: Blocks, options: TuneOptions) -> list[str]:
    """Return the halves that are surely missed: their runs say no more."""
    return [arm for arm, removal in _removals(blocks, options).items() if removal.shown]


def _removals(blocks: Blocks, options: TuneOptions) -> Mapping[str, Removal]:
    """Return what going without each half costs, of those whose figures are known in enough blocks."""
    pairs = {arm: blocks.pairs(arm, WINNER, options.metric) for arm in HALVES}
    return {
        arm: costs_nothing(*known, design=_design(options), metric=options.metric)
        for arm, known in pairs.items()
        if len(known[0]) >= JUDGEABLE
    }


def _best(blocks: Blocks, halves: Sequence[tuple[str, ...]], options: TuneOptions) -> _Half | None:
    """Return the half that goes at the least cost, of which the rest beats the baseline; None where neither may go.

    Its interval must exclude a loss beyond what a frugal winner may lose: a group is shown to matter, and what it lacks
    could be more than a pair or two tell. What stays must be shown to matter without it: else which of the two does is
    not known, and both stay.
    """
    possible, most = [], tolerance_of(blocks, WINNER, options, _design(options))
    for arm, removal in _removals(blocks, options).items():
        place = HALVES.index(arm)
        headline = verdict_of(blocks, BASE, arm, options.metric, _design(options))
        worth = verdict_of(blocks, NEITHER, arm, options.metric, _design(options))
        is_proved = headline is not None and headline.word is Word.BETTER
        is_cheap = removal.proven or (removal.at_most is not None and math.log1p(removal.at_most) <= most)
        if is_cheap and is_proved and worth is not None and worth.word is Word.BETTER:
            possible.append(_Half(arm, halves[place], halves[1 - place], removal, worth))
    return min(possible, key=lambda one: math.inf if (lost := one.removal.at_most) is None else lost, default=None)


def _without(blocks: Blocks, proof: Proof, half: _Half, options: TuneOptions) -> Proof:
    """Return the proof of the winner without a half; what is left of the group has an effect of its own."""
    settings = blocks.arms[half.arm]
    effects = {name: effect for name, effect in proof.effects.items() if name in settings}
    is_one = len(half.stays) == 1
    keep_untold(blocks, proof)
    rivals, shares = rivals_beside(blocks, half.arm, options)
    return replace(
        proof,
        blocks=blocks,
        answer=half.arm,
        headline=compare_arms(blocks, BASE, half.arm, options.metric, _design(options)),
        effects={**effects, **dict.fromkeys(half.stays, half.worth)} if is_one else effects,
        rivals=rivals,
        rival_shares=shares,
        unpruned=None,
        gone={**proof.gone, **dict.fromkeys(half.gone, half.removal)},
        rest=() if is_one else half.stays,
        rest_effect=None if is_one else half.worth,
    )


def _design(options: TuneOptions) -> Design:
    return options.design(min_pairs=options.confirm_min, comparisons=2)
