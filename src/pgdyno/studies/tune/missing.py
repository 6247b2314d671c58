"""Which setting a part of what was found lacks: told by single trials, by halving what was left out.

The model chose what to leave out, and may be wrong; a dozen settings share the blame in it. A trial of the part with
half of them tells in which half the loss lies, where it is large against the noise of a trial. Nothing is claimed by
it: what is found is proved in fresh blocks.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from pgdyno.model.configuration import Configuration
from pgdyno.model.trial import Role, Trial, TrialSpec
from pgdyno.studies.pairs.blocks import FOUND, WINNER, ArmUnmeasured, run_repeating
from pgdyno.studies.tune.proof import GivenUp, Proof
from pgdyno.studies.tune.search import LOST, Search
from pgdyno.trial.stopwatch import BudgetSpent

ARM, WHOLE = "part of what was found", "all that was found"
TRIALS = 4
"""So many halvings leave one of sixteen settings."""
SEEN_TRIALS = TRIALS + 1
"""The halvings, and what they come to."""
LOOK_TRIALS = 2 + SEEN_TRIALS
"""The whole and the part before them."""
PLAIN = 5.0
"""In deviations of the difference of two trials: a loss so large is told by one trial of each."""


@dataclass(frozen=True, slots=True)
class Loss:
    """What a part lost against all that was found: `level` is ln(figure) of the whole, `gap` what the part lacks."""

    part: Configuration
    found: Configuration
    level: float
    gap: float

    def keeps_most(self, figure: float) -> bool:
        """Tell whether a part with this figure has more than half of what this one lost."""
        return (self.level - math.log(figure)) / self.gap < 1 / 2


def loss_in_proof(proof: Proof | GivenUp, search: Search) -> Loss | None:
    """Return what the winner of a proof lost; None where what was found did not run beside it."""
    blocks = proof.blocks
    if FOUND not in blocks.arms:
        return None
    lost, whole = blocks.pairs(WINNER, FOUND, search.options.metric)
    if not whole:
        return None
    level = statistics.fmean(map(math.log, whole))
    return Loss(blocks.arms[WINNER], blocks.arms[FOUND], level, level - statistics.fmean(map(math.log, lost)))


def loss_at_a_look(search: Search, part: Configuration, found: Configuration, *, block: int) -> Loss | None:
    """Run the whole and a part of it once each, and return what the part plainly lost; None where it did not.

    Plainly is more than half of the gain, and far more than noise. Where time has room for one proof only, a poor part
    then takes two trials and not all of that time. `found` is the whole and `part` what would be proved of it; the
    model of `search` learns from both trials, and `block` is the number of their block. Raises ArmUnmeasured where the
    part could not be measured and the whole could: it would fail in its proof as well.
    """
    whole = _trial(search, found, WHOLE, block, 0)
    lost = None if whole is None else _trial(search, part, ARM, block, 1)
    if whole is None or lost is None:
        return None
    gained, kept = search.score(whole), search.score(lost)
    if gained is not None and lost.state in LOST:
        raise ArmUnmeasured(ARM, lost)
    figures = [trial.figure(search.options.metric) for trial in (whole, lost)]
    if gained is None or kept is None or not all(figures):
        return None
    level, low = (math.log(figure) for figure in figures if figure)
    plain = PLAIN * math.sqrt(2) * search.noise_sd
    return Loss(part, found, level, level - low) if gained - kept > max(plain, gained / 2) and gained > plain else None


def seek_missing(search: Search, loss: Loss, needed: Sequence[str], *, block: int) -> tuple[str, ...] | None:
    """Return the needed settings and the one whose absence the loss comes from; None where it cannot be told.

    `loss` has the whole and the part that lost. Each trial has the settings that `needed` names, and half of those from
    which the loss may still come. `block` is the number of their block, and the model of `search` learns from them as
    well.
    """
    lacking = [name for name in loss.found if name not in loss.part]
    if not lacking or len(lacking) > 2**TRIALS:
        return None
    for slot in range(TRIALS):
        if len(lacking) == 1:
            break
        half = lacking[: (len(lacking) + 1) // 2]
        figure = _figure(search, _only(loss.found, (*needed, *half)), block, slot)
        if figure is None:
            return None
        lacking = half if loss.keeps_most(figure) else [name for name in lacking if name not in half]
    return (*needed, *lacking)


def seek_seen(search: Search, loss: Loss, needed: Sequence[str] = (), *, block: int) -> tuple[str, ...] | None:
    """Return what `seek_missing` does if a trial of that has most of what was lost; None where it has not.

    `search`, `loss`, `needed` and `block` are as there, and that trial is the last of the block. Where the loss is
    spread over many settings, or a trial met a busy neighbour, halving comes to one that does not matter, and a proof
    of it would be wasted.
    """
    missing = seek_missing(search, loss, needed, block=block)
    figure = None if missing is None else _figure(search, _only(loss.found, missing), block, TRIALS)
    return missing if figure is not None and loss.keeps_most(figure) else None


def _figure(search: Search, part: Configuration, block: int, slot: int) -> float | None:
    """Return the figure of one trial of a part; None where the constraints refuse it, or it has none."""
    if not search.accepts(part):
        return None
    trial = _trial(search, part, ARM, block, slot)
    if trial is None or search.score(trial) is None:
        return None
    return trial.figure(search.options.metric)


def _trial(search: Search, settings: Configuration, arm: str, block: int, slot: int) -> Trial | None:
    """Run a trial; None where time ran out in it: what was proved before is still to be told."""
    try:
        trial = run_repeating(search.laboratory.run, TrialSpec(settings, Role.SEARCH, arm, block, slot))
    except BudgetSpent:
        return None
    search.learn(trial)
    return trial


def _only(found: Configuration, names: Sequence[str]) -> Configuration:
    return found.without(*(name for name in found if name not in names))
