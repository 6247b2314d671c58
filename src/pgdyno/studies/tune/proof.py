"""The proof: fresh randomised blocks in which baseline, winner, its leave-one-out arms and the rivals all run."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from pgdyno.model.configuration import BASELINE, Configuration
from pgdyno.model.study import Comparison
from pgdyno.model.trial import Role
from pgdyno.model.verdict import Interval, Metric, Verdict, Word
from pgdyno.optimizer.frugal import may_lose
from pgdyno.stats.noninferiority import Removal, costs_nothing
from pgdyno.stats.paired import log_ratios, t_interval
from pgdyno.stats.sequential import Design, is_final
from pgdyno.studies.pairs.blocks import BASE, FOUND, JUDGEABLE, WINNER, Blocks, run_blocks
from pgdyno.studies.pairs.judging import compare_arms, is_too_thin, verdict_of
from pgdyno.studies.tune.options import TuneOptions
from pgdyno.studies.tune.restart_room import room_for
from pgdyno.trial.laboratory import Laboratory

WITHOUT, RIVAL = "without ", "rival "
WITHOUT_REST = f"{WITHOUT}the other settings"
"""The arm without the settings that are left out together."""
TOLD = 2.0
"""So many times the half-width of its interval must an effect be for its arm to leave the blocks: it is told well."""
LOST, SHOWN = 2.5, 2.0
"""In standard errors: a loss so far above what may be lost ends a proof; an effect so large is a hint to the next."""
FEWEST_LOST = 2
"""Blocks before which no proof is given up: one may have met a busy neighbour."""


@dataclass(frozen=True, slots=True)
class Proof:
    """What the fresh blocks say.

    `answer` is the arm that the tune ends with: the winner, or the winner without a setting that is not shown to do
    anything, `gone`; headline and rivals are of that arm. `effects` maps a retained knob to the verdict on winner
    against winner without it; of an answer of one setting it is the headline.
    """

    blocks: Blocks
    answer: str
    headline: Comparison
    effects: Mapping[str, Verdict]
    rivals: Mapping[str, Verdict]
    rival_shares: Mapping[str, Interval]
    """The answer's throughput as a ratio of the rival's, with its interval."""
    unpruned: Verdict | None
    """The answer against what the search had found; None where that did not run or is the winner itself."""
    together: Verdict | None
    """What the search had found against the baseline; None as above."""
    is_vetoed: bool
    """Whether the winner is shown to be worse than what was found, by more than a frugal one may lose."""
    is_given_up: bool
    """Whether it ended early, as the winner surely loses too much and another part could still be proved."""
    gone: Mapping[str, Removal]
    """The settings that went, with what their removal cost; settings that went together share theirs."""
    rest: tuple[str, ...] = ()
    """The settings that were left out together; they are of the answer only where `rest_effect` is better."""
    rest_effect: Verdict | None = None
    """The winner against the winner without all of them; None where that could not be measured."""

    @property
    def is_only_together(self) -> bool:
        """Return whether what was found is shown to be better as a whole, and this part of it is not."""
        is_better = self.headline.verdict.word is Word.BETTER
        return not is_better and self.together is not None and self.together.word is Word.BETTER

    @property
    def lacks_something(self) -> bool:
        """Return whether another part of what was found is worth a proof: this one loses too much, or shows too little.

        Where the whole is not shown to be better either, another part would only be another draw of luck.
        """
        return self.is_vetoed or self.is_given_up or self.is_only_together


@dataclass(frozen=True, slots=True)
class GivenUp:
    """Blocks of a proof that ended before the fewest pairs: they say nothing but that another part is to be tried."""

    blocks: Blocks


def shows_a_gain(proof: Proof | GivenUp) -> bool:
    """Tell whether these blocks show a gain: over the baseline, or of all that was found over the part of it."""
    return isinstance(proof, GivenUp) or proof.headline.verdict.word is Word.BETTER or proof.lacks_something


def prove(
    laboratory: Laboratory,
    winner: Configuration,
    found: Configuration,
    options: TuneOptions,
    *,
    first_block: int,
    alone: Sequence[str],
    rest: Sequence[str],
    rivals: Sequence[str],
    with_found: bool,
    noise_sd: float,
    has_another_try: Callable[[], bool],
    is_needed: bool,
) -> Proof | GivenUp | None:
    """Measure until the headline and every effect are resolved, or nothing is to be claimed, or the pairs are spent.

    `laboratory` runs the blocks, numbered from `first_block` on, by the `options` of the tune. `winner` is what is to
    be proved of `found`, the best of the search. `alone` names the settings of the winner that are left out one by one,
    `rest` those that are left out together and go together where the winner is not shown to be better with them,
    `rivals` the rivals that there is time for; each may be empty. `with_found` lets what was found run beside a winner
    that is but a part of it, and veto it: the model chose that part, and the model may be wrong. Where
    `has_another_try` tells that another part could still be proved, it does not take the fewest pairs to see that
    (`noise_sd` is the scatter of ln(figure) of one trial): what ends so is returned as GivenUp, which claims nothing.
    Only baseline and winner are needed: another arm that cannot be measured is left out (`Blocks.unmeasured`), of these
    two `run_blocks` raises ArmUnmeasured, and `compare_arms` Unjudged of their runs. Returns None where time ran out
    before there were pairs to judge. One that is not `is_needed`, as another proof has an answer, ends as if time had
    run out where the machine is too disturbed, instead of raising EnvironmentUnsuitable.
    """
    asked = {WITHOUT + knob: winner.without(knob) for knob in alone if len(winner) > 1}
    if rest:
        asked[WITHOUT_REST] = winner.without(*rest)
    known = options.rival_configurations() if rivals else {}
    beside = {RIVAL + name: known[name] for name in rivals}
    arms = {BASE: BASELINE, WINNER: winner, **asked, **beside, **({FOUND: found} if with_found else {})}
    roles = {BASE: Role.BASELINE, WINNER: Role.CONFIRM, FOUND: Role.CONFIRM}
    roles |= dict.fromkeys(asked, Role.EFFECT) | dict.fromkeys(beside, Role.RIVAL)
    design = options.design(min_pairs=options.confirm_min)
    effect_design = options.design(min_pairs=options.confirm_min, comparisons=max(1, len(alone) + bool(rest)))
    gives_up = False

    def is_enough(blocks: Blocks) -> bool:
        nonlocal gives_up
        gives_up = is_hopeless(blocks, options, noise_sd) and has_another_try()
        return gives_up or _is_settled(blocks, options, design, effect_design)

    def answered(blocks: Blocks) -> list[str]:
        return [arm for arm in blocks.arms if arm.startswith(WITHOUT) and _is_told(blocks, arm, options, effect_design)]

    blocks = run_blocks(
        laboratory,
        arms,
        roles,
        seed=options.seed,
        first_block=first_block,
        max_blocks=options.confirm_max,
        is_enough=is_enough,
        short_from=None if is_needed else 0,
        has_room=room_for(laboratory, options, arms),
        spare=arms.keys() - {BASE, WINNER},
        answered=answered,
    )
    if blocks.stopped_short and len(blocks.complete) < JUDGEABLE:
        return None
    if not blocks.stopped_short and len(blocks.complete) < options.confirm_min:
        return GivenUp(blocks)
    return _proof(blocks, options, design, effect_design, tuple(rest), is_given_up=gives_up)


def _is_settled(blocks: Blocks, options: TuneOptions, design: Design, effect_design: Design) -> bool:
    """Tell whether more blocks would say no more: all is resolved, nothing is to be claimed, the load is too thin."""
    metric = options.metric
    if len(blocks.complete) < options.confirm_min:
        return False
    if is_too_thin(blocks, (BASE, WINNER), metric, options.confirm_min):
        return True
    both = (arm for arm in (WINNER, FOUND) if arm in blocks.arms)
    verdicts = {arm: verdict_of(blocks, BASE, arm, metric, design) for arm in both}
    final = {arm for arm, verdict in verdicts.items() if verdict is not None and is_final(verdict, design)}
    if _is_vetoed(blocks, options, design) or (final == set(verdicts) and not _any_better(verdicts.values())):
        return True
    effects = [verdict_of(blocks, arm, WINNER, metric, effect_design) for arm in blocks.arms if arm.startswith(WITHOUT)]
    return WINNER in final and all(v is not None and is_final(v, effect_design) for v in effects)


def _is_told(blocks: Blocks, arm: str, options: TuneOptions, design: Design) -> bool:
    """Tell whether the effect of what this arm lacks is shown, and told well enough, so that its runs can be saved."""
    verdict = verdict_of(blocks, arm, WINNER, options.metric, design)
    if verdict is None or verdict.word is not Word.BETTER:
        return False
    found = verdict.interval
    return abs(math.log(found.ratio)) >= TOLD * math.log(found.hi / found.ratio)


def _proof(
    blocks: Blocks,
    options: TuneOptions,
    design: Design,
    effect_design: Design,
    rest: tuple[str, ...],
    *,
    is_given_up: bool,
) -> Proof:
    """Return what complete blocks say; an arm that could not be measured is not in them."""

    def verdict(a: str, b: str, by: Design) -> Verdict | None:
        return verdict_of(blocks, a, b, options.metric, by) if a in blocks.arms and b in blocks.arms else None

    is_vetoed = _is_vetoed(blocks, options, design)
    rest_effect = verdict(WITHOUT_REST, WINNER, effect_design)
    is_idle = rest_effect is not None and rest_effect.word is not Word.BETTER
    gone = {} if is_vetoed or is_idle else _what_goes(blocks, options, effect_design)
    answer = WITHOUT_REST if is_idle else next((WITHOUT + knob for knob in gone), WINNER)
    headline = compare_arms(blocks, BASE, answer, options.metric, design if answer == WINNER else effect_design)
    effects = {knob: verdict(WITHOUT + knob, WINNER, effect_design) for knob in _left_out(blocks) if knob not in gone}
    if len(blocks.arms[answer]) == 1:
        effects = dict.fromkeys(blocks.arms[answer], headline.verdict)
    rivals, shares = rivals_beside(blocks, answer, options)
    return Proof(
        blocks=blocks,
        answer=answer,
        headline=headline,
        effects={knob: effect for knob, effect in effects.items() if effect is not None},
        rivals=rivals,
        rival_shares=shares,
        unpruned=verdict(FOUND, answer, design),
        together=verdict(BASE, FOUND, design),
        is_vetoed=is_vetoed,
        is_given_up=is_given_up,
        gone=gone,
        rest=rest,
        rest_effect=rest_effect,
    )


def rivals_beside(blocks: Blocks, answer: str, options: TuneOptions) -> tuple[dict[str, Verdict], dict[str, Interval]]:
    """Return the verdict on each rival that can be judged, and the share of its figure that an answer reaches."""
    design = options.design(min_pairs=options.confirm_min)
    rivals = [arm.removeprefix(RIVAL) for arm in blocks.arms if arm.startswith(RIVAL)]
    beside = {name: verdict_of(blocks, BASE, RIVAL + name, options.metric, design) for name in rivals}
    shares = {name: share for name in rivals if (share := _share(blocks, RIVAL + name, answer, options))}
    return {name: found for name, found in beside.items() if found is not None and name in shares}, shares


def keep_untold(blocks: Blocks, proof: Proof) -> None:
    """Keep with later blocks what those of a proof left untold: arms without a run, and rivals of too few figures.

    The latter do not run again, and are no less known for that.
    """
    blocks.unmeasured = {**proof.blocks.unmeasured, **blocks.unmeasured}
    rivals = {arm: one for arm, one in proof.blocks.arms.items() if arm.startswith(RIVAL)}
    unknown = {arm: one for arm, one in rivals.items() if arm.removeprefix(RIVAL) not in proof.rivals}
    blocks.arms = {**blocks.arms, **unknown}


def _left_out(blocks: Blocks) -> list[str]:
    """Return the settings that have an arm without them alone."""
    return [arm.removeprefix(WITHOUT) for arm in blocks.arms if arm.startswith(WITHOUT) and arm != WITHOUT_REST]


def is_hopeless(blocks: Blocks, options: TuneOptions, noise_sd: float) -> bool:
    """Return whether the winner loses so much against what was found that its proof is not worth going on with."""
    if FOUND not in blocks.arms:
        return False
    metric = options.metric
    lost, gained = _gains(blocks, WINNER, FOUND, metric), _gains(blocks, BASE, FOUND, metric)
    if len(lost) < FEWEST_LOST or not gained:
        return False
    scatter = _scatter(lost, noise_sd)
    return statistics.fmean(lost) - LOST * scatter / math.sqrt(len(lost)) > _bound(statistics.fmean(gained), options)


def needed_settings(blocks: Blocks, options: TuneOptions, noise_sd: float) -> tuple[str, ...]:
    """Return the settings of a vetoed winner that are worth keeping, the one of most effect first.

    By these blocks alone: a hint to the model, and no claim. What the winner lacks is among the settings that it does
    not have; the rest of its own only take their place.
    """
    winner, metric = blocks.arms[WINNER], options.metric
    arms = {arm.removeprefix(WITHOUT): arm for arm in blocks.arms if arm.startswith(WITHOUT)}
    arms = arms or (dict.fromkeys(winner, BASE) if len(winner) == 1 else {})
    gained = _gains(blocks, BASE, FOUND, metric)
    least = _bound(statistics.fmean(gained) if gained else 0.0, options)
    effects: dict[str, float] = {}
    for arm in arms.values():
        gains = _gains(blocks, arm, WINNER, metric)
        effect = statistics.fmean(gains) if gains else 0.0
        if effect > least and effect > SHOWN * _scatter(gains, noise_sd) / math.sqrt(len(gains)):
            left_out = [name for name in winner if name not in blocks.arms[arm]]
            effects |= dict.fromkeys(left_out, effect / len(left_out))
    return tuple(sorted(effects, key=lambda name: -effects[name]))


def _scatter(gains: Sequence[float], noise_sd: float) -> float:
    """Return the scatter of a pair: that of the noise floor, or what these pairs themselves show where that is more."""
    return max(math.sqrt(2) * noise_sd, statistics.stdev(gains) if len(gains) > 1 else 0.0)


def _gains(blocks: Blocks, a: str, b: str, metric: Metric) -> list[float]:
    """Return by how much B is better than A, in ln, block by block."""
    sign = 1 if metric.higher_is_better else -1
    return [sign * math.log(right / left) for left, right in zip(*blocks.pairs(a, b, metric), strict=True)]


def _any_better(verdicts: Iterable[Verdict | None]) -> bool:
    return any(verdict is not None and verdict.word is Word.BETTER for verdict in verdicts)


def _is_vetoed(blocks: Blocks, options: TuneOptions, design: Design) -> bool:
    """Return whether the winner is shown to be worse than what was found, and loses more than it may."""
    if FOUND not in blocks.arms:
        return False
    verdict = verdict_of(blocks, FOUND, WINNER, options.metric, design)
    if verdict is None or verdict.word is not Word.WORSE:
        return False
    return abs(math.log(verdict.interval.ratio)) > tolerance_of(blocks, FOUND, options, design)


def _what_goes(blocks: Blocks, options: TuneOptions, design: Design) -> dict[str, Removal]:
    """Return the setting that is not shown to do anything nor looks as if it did, the cheapest one; empty for none.

    The rest must be better than the baseline by itself, and so must the winner: no arm is offered for its luck alone.
    """
    metric, found = options.metric, {}
    for knob in _left_out(blocks):
        arm = WITHOUT + knob
        pairs = blocks.pairs(arm, WINNER, metric)
        if len(pairs[0]) < 2 or not _any_better([verdict_of(blocks, BASE, arm, metric, design)]):
            continue
        removal = costs_nothing(*pairs, design=design, metric=metric)
        if removal.droppable:
            found[knob] = removal
    if not found or not _any_better([verdict_of(blocks, BASE, WINNER, metric, design)]):
        return {}
    cheapest = min(found, key=lambda name: math.inf if (lost := found[name].at_most) is None else lost)
    return {cheapest: found[cheapest]}


def tolerance_of(blocks: Blocks, arm: str, options: TuneOptions, design: Design) -> float:
    """Return what may be lost of this arm, in ln, and at least the smallest effect of interest.

    The gain of `arm` over the baseline is judged by `design` from `blocks`, and is 0 where it cannot be. `options` has
    the metric, the smallest effect and the tolerance.
    """
    verdict = verdict_of(blocks, BASE, arm, options.metric, design)
    change = 0.0 if verdict is None else math.log(verdict.interval.ratio)
    gain = change if options.metric.higher_is_better else -change
    return _bound(gain, options)


def _bound(gain: float, options: TuneOptions) -> float:
    least = math.log1p(options.smallest_effect)
    return max(least, may_lose(gain, options.tolerance, least))


def _share(blocks: Blocks, rival: str, answer: str, options: TuneOptions) -> Interval | None:
    """Return None where the metric is unknown in all blocks but one, as server CPU can be."""
    left, right = blocks.pairs(rival, answer, options.metric)
    return None if len(left) < JUDGEABLE else t_interval(log_ratios(left, right), options.confidence)
