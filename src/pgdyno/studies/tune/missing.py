"""Which setting a vetoed winner lacks: found by halving what it left out, a trial for each half.

The model chose what to leave out, and was wrong; a dozen settings share the blame in it. A trial of the winner with
half of them tells in which half the loss lies, where it is large against the noise of a trial. Nothing is claimed by
it: what is found is proved in fresh blocks.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from pgdyno.model.configuration import Configuration
from pgdyno.model.trial import Role, TrialSpec
from pgdyno.studies.pairs.blocks import FOUND, WINNER, run_repeating
from pgdyno.studies.tune.proof import GivenUp, Proof
from pgdyno.studies.tune.search import Search

ARM = "part of what was found"
TRIALS = 4
"""So many halvings leave one of sixteen settings."""


def seek_missing(
    search: Search, proof: Proof | GivenUp, needed: Sequence[str], *, block: int
) -> tuple[str, ...] | None:
    """Return the needed settings and the one whose absence the loss comes from; None where it cannot be told.

    `block` is that of its trials, from which the model learns as well.
    """
    blocks, metric = proof.blocks, search.options.metric
    if FOUND not in blocks.arms:
        return None
    found, winner = blocks.arms[FOUND], blocks.arms[WINNER]
    lacking = [name for name in found if name not in winner]
    lost, whole = blocks.pairs(WINNER, FOUND, metric)
    if not lacking or len(lacking) > 2**TRIALS or not whole:
        return None
    level = statistics.fmean(map(math.log, whole))
    gap = level - statistics.fmean(map(math.log, lost))
    for slot in range(TRIALS):
        if len(lacking) == 1:
            break
        half = lacking[: (len(lacking) + 1) // 2]
        part = _only(found, (*needed, *half))
        if not search.accepts(part):
            return None
        trial = run_repeating(search.laboratory.run, TrialSpec(part, Role.SEARCH, ARM, block, slot))
        figure = trial.figure(metric)
        if not search.learn(trial) or not figure:
            return None
        is_whole = (level - math.log(figure)) / gap < 1 / 2
        lacking = half if is_whole else [name for name in lacking if name not in half]
    return (*needed, *lacking)


def _only(found: Configuration, names: Sequence[str]) -> Configuration:
    return found.without(*(name for name in found if name not in names))
