"""The candidates of a live search: how far one may lie from another, what a person is asked, and words. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from pgdyno.knobs.dimension import Dimension, Value
from pgdyno.model.configuration import Configuration
from pgdyno.model.results.live import LiveCandidate
from pgdyno.report.wording import settings_text
from pgdyno.studies.live.course.outcome import LiveOutcome
from pgdyno.studies.live.rationale import reasons
from pgdyno.trial.live_cycle import LiveEnding
from pgdyno.units import digits_text, plural

STEP = 4.0
"""A candidate moves no knob further than by this factor from the server as it is, or from the best that was tried."""
SAME_CPU = 0.05
"""Few pairs tell no smaller difference of the server's CPU."""

MEASURED, VETOED, GUARDED, REJECTED, REFUSED, LOST = (
    "measured", "vetoed", "stopped by a guard", "rejected", "not in force", "not measured",
)  # fmt: skip
EDITED = "edited by hand"
"""Where the settings of a candidate come from that a person has changed."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """What a person is asked: candidate `number` of at most `most`, and `learnt` of those before; or a finalist.

    Or the winner as it is but for the setting that it `leaves_out`, which is there to be taken or not.
    """

    number: int
    most: int
    settings: Configuration
    origin: str
    learnt: str
    is_final: bool = False
    leaves_out: str = ""

    @property
    def name(self) -> str:
        """Return what it is called."""
        if self.leaves_out:
            return f"the winner without {self.leaves_out}"
        return f"{'finalist' if self.is_final else 'candidate'} {self.number} of {self.most}"


@dataclass(frozen=True, slots=True)
class Reply:
    """What a person said: these settings, which they may have edited; None for a rejection; `ends` the search."""

    settings: Configuration | None
    ends: bool = False


def is_near(dimension: Dimension, value: Value, around: Value) -> bool:
    """Tell whether a value is within one step of another: words and special values are, amounts by their ratio."""
    if isinstance(value, str) or isinstance(around, str) or value in dimension.special or around in dimension.special:
        return True
    least = min((float(one) for one in dimension.levels if not isinstance(one, str) and one > 0), default=1.0)
    return max(float(value), least) <= STEP * max(float(around), least) and max(float(around), least) <= STEP * max(
        float(value), least
    )


def step_towards(dimension: Dimension, value: Value) -> Value:
    """Return a value of the dimension on the way from the default to this one, no further than one step."""
    if is_near(dimension, value, dimension.default):
        return value
    near = [one for one in dimension.levels if not isinstance(one, str) and is_near(dimension, one, dimension.default)]
    return min(near, key=lambda one: abs(float(one) - float(value)), default=dimension.default)


def told(one: LiveCandidate) -> str:
    """Return what a candidate was and came to, in one line."""
    words = settings_text(one.settings)
    if one.ratio is None or one.error is None:
        return f"{words}: {one.fate}{f', {one.why}' if one.why else ''}"
    pairs = plural(one.pairs, "pair")
    figure = f"{digits_text(one.ratio)} of the time, give or take {100 * one.error:.1f} %, in {pairs}"
    return f"{words}: {figure}{f'; {one.fate}: {one.why}' if one.fate != MEASURED else ''}"


def cheaper_neighbour(one: LiveCandidate, among: Iterable[LiveCandidate]) -> LiveCandidate | None:
    """Return the fastest candidate that needs less memory or CPU, no more of either, and is not clearly slower.

    What a guard or a veto stopped is no neighbour, whatever its pairs had said until then.
    """
    if one.ratio is None or one.error is None:
        return None
    others = [other for other in among if other.number != one.number and other.fate == MEASURED]
    found = [other for other in others if _is_cheaper(other, one)]
    near = [other for other in found if _lag(other, one) <= math.hypot(other.error or 0.0, one.error)]
    return min(near, key=lambda other: _lag(other, one), default=None)


def _lag(other: LiveCandidate, one: LiveCandidate) -> float:
    """Return by how much another one is slower, in ln; endless for one without a figure."""
    return math.log(other.ratio / one.ratio) if other.ratio and one.ratio else math.inf


def _is_cheaper(other: LiveCandidate, one: LiveCandidate) -> bool:
    memory = _cost(other.memory_bytes, one.memory_bytes, 0.0)
    cpu = _cost(other.cpu, one.cpu, SAME_CPU)
    return max(memory, cpu) <= 0 and min(memory, cpu) < 0


def _cost(other: float | None, one: float | None, tolerance: float) -> int:
    """Tell whether another one costs less (-1), as much (0) or more (1); what is not known costs as much."""
    if other is None or one is None or abs(other - one) <= tolerance * one:
        return 0
    return -1 if other < one else 1


def candidate_of(
    number: int, settings: Configuration, origin: str, outcome: LiveOutcome, *, pair_sd: float, memory_bytes: int
) -> LiveCandidate:
    """Return a candidate with what its pairs came to; `pair_sd` is the scatter of one, `memory_bytes` its demand.

    `number` counts candidates from 1. `origin` says where `settings` come from: a strategy of the optimiser, or EDITED.
    `outcome` is of these settings against the server as it is; the scatter is the standard deviation of a pair's log
    ratio, and the demand is that of the worst case.
    """
    ratios = tuple(pair.log_ratio for pair in outcome.pairs)
    fate, why = fate_of(outcome)
    changed = tuple(one for one in outcome.plans if one.word == "changed")
    return LiveCandidate(
        number=number,
        settings=dict(settings),
        origin=origin,
        fate=fate,
        why=why,
        pairs=len(ratios),
        ratio=math.exp(sum(ratios) / len(ratios)) if ratios else None,
        error=pair_sd / math.sqrt(len(ratios)) if ratios else None,
        cpu=_ratio_of(outcome, "cpu_ms"),
        reads=_ratio_of(outcome, "blocks_read"),
        memory_bytes=memory_bytes,
        device=_ratio_of(outcome, "device_requests"),
        reasons=reasons(outcome.second, changed) if ratios else (),
        plans=changed,
    )


def _ratio_of(outcome: LiveOutcome, name: str) -> float | None:
    """Return B over A of a second metric, None where it is not known or A had none of it."""
    return next((one.b / one.a for one in outcome.second if one.name == name and one.a > 0), None)


def fate_of(outcome: LiveOutcome) -> tuple[str, str]:
    """Return what became of a candidate, and why."""
    if outcome.breaches:
        return GUARDED, str(outcome.breaches[-1])
    if outcome.vetoed:
        count = plural(len(outcome.vetoed), "statement")
        most, which = max(one.factor for one in outcome.vetoed.values()), "it" if len(outcome.vetoed) == 1 else "one"
        return VETOED, f"{count} became too slow: {which} takes {most:.1f} times as long"
    if outcome.ending is LiveEnding.NOT_IN_FORCE:
        return REFUSED, outcome.stopped
    if outcome.pairs:
        return MEASURED, ""
    return LOST, outcome.stopped or f"the comparison ended: {outcome.ending}"
