"""What a tune comes to: the winner with its evidence, or the answer to keep the configuration."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated

from pgdyno.errors import ExitCode
from pgdyno.model.results.parts import Compared
from pgdyno.model.shapes import FLAT, OMITTED, Named
from pgdyno.model.verdict import Interval, Verdict, Word


@dataclass(frozen=True, slots=True, kw_only=True)
class Unmeasured:
    """A retained setting whose own effect was not measured: it cannot go alone, or an earlier version kept it."""

    knob: str
    before: Annotated[str, Named("from")]
    after: Annotated[str, Named("to")]
    why: str
    durability: str
    context: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect(Unmeasured):
    """The measured effect of one retained setting: the winner against the winner without it."""

    interval: Annotated[Interval, FLAT]
    word: Word


@dataclass(frozen=True, slots=True, kw_only=True)
class JointEffect:
    """What the settings that were left out together are worth: the winner against the winner without all of them."""

    knobs: tuple[str, ...]
    interval: Annotated[Interval, FLAT]
    word: Word


Retained = Effect | Unmeasured
"""A setting of the winner, as reports list it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dropped:
    """A setting that was found and did not stay."""

    knob: str
    before: Annotated[str, Named("from")]
    after: Annotated[str, Named("to")]
    why: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class OddRun:
    """A baseline run that was left out because it stood apart, as a ratio of the others."""

    run: int | None
    ratio: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NoiseRecord:
    """The noise of single runs; `detectable` is the effect that so many pairs would show with 80 % power.

    It is None where the runs differ too much to tell, or are fewer than four.
    """

    cv: float
    pair_sd: float
    pairs: int
    detectable: float | None
    runs: tuple[int, ...]
    odd: OddRun | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Excluded:
    """A knob that was not searched."""

    knob: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchFigures:
    """The course of the search; `best` is what it found, before anything was left out."""

    knobs: tuple[str, ...]
    excluded: tuple[Excluded, ...]
    trials: int
    stopped: str
    ended_early: int = 0
    best: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rival:
    """A configuration of others that ran in the same blocks."""

    name: str
    settings: Mapping[str, str]
    verdict: Verdict | None
    winner_over_rival: Interval


@dataclass(frozen=True, slots=True, kw_only=True)
class ParetoPoint:
    """A configuration that none beats in both gain and memory (bytes at worst); `basis` is measured or model.

    `cpu` is the server's CPU a transaction over the baseline's, None where it is not known.
    """

    settings: Mapping[str, str]
    memory_bytes: int
    ratio: Interval
    basis: str
    runs: int
    taken: bool
    cpu: Annotated[float | None, OMITTED] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class KnobValue:
    """A value of a knob, and the performance with it over that with the default, all others as they were tried."""

    value: str
    ratio: Interval


@dataclass(frozen=True, slots=True, kw_only=True)
class KnobImportance:
    """What the model of the search says of a knob: `span` is the performance at its best value over that at its worst.

    `tried` are the values that ran, ascending; `values` is empty for all but the most important knobs.
    """

    knob: str
    span: Interval
    best: str
    worst: str
    default: str
    tried: tuple[str, ...] = ()
    values: tuple[KnobValue, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchModel:
    """The knobs that were changed, the most important first; `unknown` says why the model tells nothing of them."""

    knobs: tuple[KnobImportance, ...] = ()
    unknown: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TuneResult(Compared):
    """The whole result. `keep` is True when the answer is to keep the configuration.

    `joint` is the effect of those of `unmeasured` that were left out together. `unpruned` is what pruning left against
    what it was before; `together` all that was found against the baseline; `taken_back` what an earlier version's
    pruning had left, where the proof showed that to be worse.
    """

    keep: bool
    noise_floor: NoiseRecord
    effects: tuple[Effect, ...] = ()
    unmeasured: tuple[Unmeasured, ...] = ()
    joint: Annotated[JointEffect | None, OMITTED] = None
    dropped: tuple[Dropped, ...] = ()
    rivals: tuple[Rival, ...] = ()
    search: SearchFigures
    pareto: tuple[ParetoPoint, ...] = ()
    fragment: str
    linux: Mapping[str, str] = field(default_factory=dict)
    undo: str
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    explanation: Annotated[tuple[str, ...], OMITTED] = ()
    unpruned: Annotated[Verdict | None, OMITTED] = None
    together: Annotated[Verdict | None, OMITTED] = None
    taken_back: Annotated[Mapping[str, str], OMITTED] = field(default_factory=dict)
    model: Annotated[SearchModel | None, OMITTED] = None

    @property
    def retained(self) -> tuple[Retained, ...]:
        """Return the settings that stay: those that were measured first, the largest effect on top."""
        measured = [one for one in self.effects if one.interval.is_closed]
        return (*sorted(measured, key=lambda one: -abs(math.log(one.interval.ratio))), *self.unmeasured)

    @property
    def best(self) -> Mapping[str, str]:
        """Return the settings of the best candidate, whether it proved better or not."""
        return (self.winner.settings if self.winner else {}) or self.search.best

    @property
    def exit_code(self) -> ExitCode:
        """Return whether there is an answer: a worse candidate is one, because the baseline stands."""
        if self.verdict is None or self.verdict.word is Word.NOT_RESOLVED or self.is_only_together:
            return ExitCode.NOT_RESOLVED
        return ExitCode.OK

    @property
    def is_only_together(self) -> bool:
        """Return True where only all that was found proved better: which of it matters is not known."""
        better = self.together is not None and self.together.word is Word.BETTER
        return self.keep and better and self.verdict is not None and self.verdict.word is not Word.BETTER
