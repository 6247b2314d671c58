"""How long a period of a live study should be, and what it can then show: from equal periods of the reference. Pure.

The reference is cut into periods of each length, and neighbours are compared as if one of each two were B. A coin says
which, so that a pair's difference has a mean of zero and its scatter is the root of the mean square: the expectation
over all coins, which nobody has to draw.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pgdyno.model.results.live import LiveEffect
from pgdyno.stats.body_index import LEAST_CALLS as BODY_CALLS
from pgdyno.stats.body_index import (
    LEAST_COVERED,
    LEAST_PRECISION,
    PeriodCounts,
    StatementBody,
    StatementReference,
    added,
    body_of,
    pair_index,
)
from pgdyno.stats.detect import at_most, detectable
from pgdyno.stats.sequential import Design

LENGTHS = (15.0, 30.0, 60.0, 120.0)
USUAL_S = 30.0
"""Taken unless another length shows an effect that is smaller by MARGIN: 60 pairs an hour, and a body of most of the
time (62 % where 15 s held 47 %, by simulation)."""
MARGIN = 0.9
WASH_S = 5.0
"""What is left out after a switch, at most a third of the period."""
SWITCH_S = 0.3
"""A reload until the value is read back (measured: 0.25 to 0.37 s)."""
FEWEST_PAIRS = 4
"""From fewer neighbours the scatter of a length is not known."""
LEAST_CALLS = 100
"""A period with fewer calls holds next to no load."""
MINUTES = (10, 30, 60)


@dataclass(frozen=True, slots=True)
class PeriodNoise:
    """What periods of `period_s` seconds, the first `wash_s` of which do not count, carry on this load.

    `pair_sd` is the scatter of a pair's log ratio between equal periods, None where fewer than FEWEST_PAIRS of
    `pairs` neighbours could be compared; `kept` is the share of them with about the same offered work. `covered` is
    the body's share of the database time, `calls` those of the whole load that a period counts.
    """

    period_s: float
    wash_s: float
    pair_sd: float | None
    pairs: int
    kept: float
    covered: float
    calls: float
    statements: int

    @property
    def pair_s(self) -> float:
        """Return the time of a pair in seconds, both switches included."""
        return 2 * (self.period_s + SWITCH_S)

    @property
    def is_usable(self) -> bool:
        """Return True when a claim for the server could rest on such periods."""
        return self.pair_sd is not None and self.covered >= LEAST_COVERED and self.calls >= LEAST_CALLS


def wash_of(period_s: float) -> float:
    """Return the wash-out of a period of this length, in seconds."""
    return min(WASH_S, period_s / 3)


def period_noise(
    steps: Sequence[PeriodCounts | None], step_s: float, reference: StatementReference, period_s: float
) -> PeriodNoise:
    """Return what periods of this length carry; `steps` are the reference in parts of `step_s`, None where void.

    `step_s` and `period_s`, the length, are in seconds. `steps` are in the order of time, without a hole, and
    `reference` adds up those that are not void.
    """
    wash_s = wash_of(period_s)
    whole, wash = round(period_s / step_s), round(wash_s / step_s)
    body = body_of(reference, (whole - wash) * step_s)
    periods = [_period(steps[at + wash : at + whole]) for at in range(0, len(steps) - whole + 1, whole)]
    found = [_between(body, one, other) for one, other in itertools.pairwise(periods)]
    compared = [one for one in found if one is not None]
    kept = [log_ratio for log_ratio, matched in compared if matched]
    return PeriodNoise(
        period_s=period_s,
        wash_s=wash_s,
        pair_sd=math.sqrt(sum(one * one for one in kept) / len(kept)) if len(kept) >= FEWEST_PAIRS else None,
        pairs=len(compared),
        kept=len(kept) / len(compared) if compared else 0.0,
        covered=body.covered,
        calls=float(reference.calls.sum()) * (whole - wash) * step_s / reference.seconds,
        statements=int(body.ids.size),
    )


def covering_s(reference: StatementReference) -> float:
    """Return how many seconds a period must count for its body to hold LEAST_COVERED of the time.

    A statement needs some calls, and more the more its calls scatter. Infinite where the statements whose scatter is
    known hold less.
    """
    known = np.isfinite(reference.cv)
    needs = np.maximum(BODY_CALLS, (reference.cv[known] / LEAST_PRECISION) ** 2)
    seconds = needs / reference.calls[known] * reference.seconds
    order = np.argsort(seconds)
    enough = np.flatnonzero(np.cumsum(reference.shares[known][order]) >= LEAST_COVERED)
    return float(seconds[order][enough[0]]) if enough.size else math.inf


def _period(steps: Sequence[PeriodCounts | None]) -> PeriodCounts | None:
    known = [step for step in steps if step is not None]
    return added(known) if known and len(known) == len(steps) else None


def _between(body: StatementBody, a: PeriodCounts | None, b: PeriodCounts | None) -> tuple[float, bool] | None:
    pair = None if a is None or b is None else pair_index(body, a, b)
    return None if pair is None else (pair.log_ratio, pair.is_matched)


def effects_within(noise: PeriodNoise, design: Design, minutes: Sequence[int] = MINUTES) -> tuple[LiveEffect, ...]:
    """Return what such periods show in so many minutes, at most with the pairs that the design allows."""
    found = []
    for time in minutes:
        pairs = min(design.max_pairs, int(60 * time / noise.pair_s * noise.kept))
        sd = noise.pair_sd
        effect = None if sd is None else detectable(sd, pairs, design)
        worst = None if sd is None else detectable(at_most(sd, noise.pairs + 1), pairs, design)
        found.append(LiveEffect(minutes=time, pairs=pairs, effect=effect, at_most=worst))
    return tuple(found)


def chosen(noises: Sequence[PeriodNoise], design: Design) -> PeriodNoise | None:
    """Return the length that shows the smallest effect in an hour, the usual one where none is clearly better.

    None where no length can carry a claim.
    """
    reach = [(one, effects_within(one, design, (60,))[0].effect) for one in noises if one.is_usable]
    known = [(effect, one) for one, effect in reach if effect is not None]
    if not known:
        return None
    smallest, best = min(known, key=lambda item: item[0])
    usual = next((item for item in known if item[1].period_s == USUAL_S), None)
    return usual[1] if usual is not None and smallest > MARGIN * usual[0] else best
