"""The smaller set: settings that a proof did not show to do anything alone go together, where fresh pairs bear it.

A proof leaves settings out one by one. Two that stand in for each other both look idle then, so that what is left
without all of them is measured anew, beside the baseline and beside what was proved: it is offered where it is better
than the one and not seen to be worse than the other. Where it is seen to be, they stay, as a group with one effect.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from pgdyno.model.configuration import BASELINE, Configuration
from pgdyno.model.trial import Role
from pgdyno.model.verdict import Metric, Verdict, Word
from pgdyno.stats.noninferiority import Removal, costs_nothing
from pgdyno.stats.sequential import is_final
from pgdyno.studies.pairs.blocks import BASE, JUDGEABLE, NO_TIME, WINNER, ArmUnmeasured, Blocks, run_blocks
from pgdyno.studies.pairs.judging import Unjudged, compare_arms, verdict_of
from pgdyno.studies.tune.options import TuneOptions
from pgdyno.studies.tune.proof import (
    RIVAL,
    WITHOUT,
    WITHOUT_REST,
    Proof,
    keep_untold,
    rivals_beside,
    tolerance_of,
)
from pgdyno.studies.tune.restart_room import room_for
from pgdyno.studies.tune.tuned import Tuned

LARGER = "with the settings not shown"
"""The arm of what was proved before, beside which the smaller set runs."""


def unshown_settings(proof: Proof, winner: Configuration, metric: Metric) -> list[str]:
    """Return the settings of a winner whose own effect was measured and is not shown, the least first.

    All of them at most but one: something has to stay.
    """
    found = [name for name, effect in proof.effects.items() if name in winner and effect.word is not Word.BETTER]
    found.sort(key=lambda name: _gain(proof.effects[name], metric))
    return found[: len(winner) - 1]


def _gain(effect: Verdict, metric: Metric) -> float:
    return math.log(effect.interval.ratio) * (1 if metric.higher_is_better else -1)


def leave_out_unshown(tuned: Tuned, options: TuneOptions, *, first_block: int, announce: Callable[[str], None]) -> int:
    """Prove the winner without the settings that are not shown to do anything, and take that where it holds.

    What could not be left out alone, because they or what is gone already needed it, goes with them. `tuned` is changed
    in place; `options` are those that its proof was judged by; `first_block` is the number of the first block that is
    free, and the next free one is returned. `announce` takes a sentence before the proof.
    """
    proof, search = tuned.proof, tuned.search
    if proof is None or not tuned.is_offered:
        return first_block
    names = unshown_settings(proof, tuned.winner, options.metric)
    needless = needed_by_none(tuned, proof, names)
    if not names and not needless:
        return first_block
    whose = "which nothing else needs now"
    which = f"{', '.join(names)}, not shown to do anything alone" if names else f"{', '.join(needless)}, {whose}"
    which += f", with {', '.join(needless)}, {whose}" if names and needless else ""
    names += needless
    smaller = tuned.winner.without(*names)
    if not smaller or not search.accepts(smaller):
        tuned.notes.append(f"kept: {which}, as other settings need them here")
        return first_block
    announce(f"proof: the winner without {which}; fresh pairs")
    after = first_block
    try:
        blocks = _measured(tuned, proof, smaller, options, first_block)
        after += len(blocks.complete) + blocks.lost + len(blocks.unmeasured)
        is_short = len(blocks.complete) < max(JUDGEABLE, options.confirm_min)
        found = None if is_short else _smaller(blocks, proof, names, options)
    except (ArmUnmeasured, Unjudged) as error:
        tuned.notes.append(f"kept: {which}, as the rest could not be judged without: {error.message}")
        return error.trial.spec.block + 1 if isinstance(error, ArmUnmeasured) else after
    if found is None:
        want = "restarts" if search.laboratory.stopwatch is None else "time"
        why = blocks.stopped_short if blocks.stopped_short != NO_TIME else f"for lack of {want}"
        tuned.notes.append(f"kept: {which}, as the rest could not be proved without: {why}")
    elif isinstance(found, Proof):
        tuned.take_smaller(found)
    else:
        _keep_together(tuned, proof, names, *found)
    return after


def needed_by_none(tuned: Tuned, proof: Proof, names: Sequence[str] = ()) -> list[str]:
    """Return the settings that could not be left out alone in a proof, and can go once the named ones have gone."""
    told = {*proof.effects, *proof.rest, *(arm.removeprefix(WITHOUT) for arm in proof.blocks.unmeasured)}
    accepts, smaller, found = tuned.search.accepts, tuned.winner.without(*names), []
    while can_go := [name for name in smaller if name not in told and accepts(smaller.without(name))]:
        found.append(can_go[0])
        smaller = smaller.without(can_go[0])
    return found


def _measured(tuned: Tuned, proof: Proof, smaller: Configuration, options: TuneOptions, first_block: int) -> Blocks:
    """Run the blocks of the smaller set; none where there is no room for the fewest pairs of it."""
    laboratory, metric = tuned.search.laboratory, options.metric
    design = options.design(min_pairs=options.confirm_min)
    rivals = {RIVAL + name: options.rival_configurations()[name] for name in proof.rivals}
    arms = {BASE: BASELINE, WINNER: smaller, LARGER: tuned.winner, **rivals}
    roles = {BASE: Role.BASELINE, WINNER: Role.CONFIRM, LARGER: Role.CONFIRM, **dict.fromkeys(rivals, Role.RIVAL)}

    def is_enough(blocks: Blocks) -> bool:
        headline = verdict_of(blocks, BASE, WINNER, metric, design)
        if headline is None or len(blocks.complete) < options.confirm_min or not is_final(headline, design):
            return False
        if headline.word is not Word.BETTER:
            return True
        removal = _removal(blocks, options)
        if removal is None or removal.final or removal.at_most is None:
            return removal is not None and removal.final
        return math.log1p(removal.at_most) <= tolerance_of(blocks, LARGER, options, design)

    watch = laboratory.stopwatch
    if watch is not None and not watch.has_room(len(arms) * options.confirm_min):
        return Blocks(arms, stopped_short=NO_TIME)
    return run_blocks(
        laboratory,
        arms,
        roles,
        seed=options.seed,
        first_block=first_block,
        max_blocks=options.confirm_max,
        is_enough=is_enough,
        short_from=0,
        has_room=room_for(laboratory, options, arms),
        spare=rivals.keys(),
    )


def _smaller(
    blocks: Blocks, proof: Proof, names: list[str], options: TuneOptions
) -> Proof | tuple[Removal, Verdict | None]:
    """Return the proof of the smaller set, or, where the settings have to stay, what they are worth together."""
    design = options.design(min_pairs=options.confirm_min)
    headline = compare_arms(blocks, BASE, WINNER, options.metric, design)
    removal = _removal(blocks, options)
    if removal is None:
        raise Unjudged(f"{options.metric.label} is unknown in too many of its runs")
    if headline.verdict.word is not Word.BETTER or not removal.droppable:
        return removal, verdict_of(blocks, WINNER, LARGER, options.metric, design)
    settings = blocks.arms[WINNER]
    effects = {name: effect for name, effect in proof.effects.items() if name in settings}
    if len(settings) == 1:
        effects = dict.fromkeys(settings, headline.verdict)
    keep_untold(blocks, proof)
    rivals, shares = rivals_beside(blocks, WINNER, options)
    return replace(
        proof,
        blocks=blocks,
        answer=WINNER,
        headline=headline,
        effects=effects,
        rivals=rivals,
        rival_shares=shares,
        unpruned=None,
        gone={**proof.gone, **dict.fromkeys(names, removal)},
        rest=() if proof.answer == WITHOUT_REST else proof.rest,
        rest_effect=None if proof.answer == WITHOUT_REST else proof.rest_effect,
    )


def _removal(blocks: Blocks, options: TuneOptions) -> Removal | None:
    """Return what the smaller set lacks of the larger one; None where fewer than two blocks have both figures."""
    pairs = blocks.pairs(WINNER, LARGER, options.metric)
    if len(pairs[0]) < JUDGEABLE:
        return None
    return costs_nothing(*pairs, design=options.design(min_pairs=options.confirm_min), metric=options.metric)


def _keep_together(tuned: Tuned, proof: Proof, names: list[str], removal: Removal, worth: Verdict | None) -> None:
    """Tell what settings are worth together that are not shown to do anything alone; they have one effect then."""
    together = ", ".join(names)
    if removal.droppable:
        tuned.notes.append(f"kept: {together}, as the rest without was not shown to be better than the baseline")
        return
    tuned.notes.append(f"not shown to do anything alone: {together}; in fresh pairs {removal.sentence(together)}")
    if removal.shown and worth is not None and len(names) > 1 and not proof.rest:
        effects = {name: effect for name, effect in proof.effects.items() if name not in names}
        tuned.proof = replace(proof, effects=effects, rest=tuple(names), rest_effect=worth)
