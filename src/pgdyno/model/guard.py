"""Guards as frozen dataclasses: what is watched, where it ends, what was read, and what came of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated

from pgdyno.model.live import Colour
from pgdyno.model.shapes import Named, plain

TRIPS = 3
"""How many configurations guards may reject before the study is ended."""


class GuardKind(StrEnum):
    """What a breach is blamed on: the configuration under trial is rejected, or the study is ended."""

    CONFIGURATION = "configuration"
    ENVIRONMENT = "environment"


@dataclass(frozen=True, slots=True)
class Guard:
    """One guard as the reference page has it.

    `unit` is `B`, `B/s`, `s`, `%`, `count` or `x` (times). A guard `is_floor` when too little is the danger. `default`
    holds in `unit`, or in percent of the whole where `default_is_share`. A breach must last `hold_s` before it counts.
    `can_be_off` is False where only a mistake could want it off. `reads` and `reason` are sentences for people.
    """

    name: str
    kind: GuardKind
    unit: str
    default: float
    reads: str
    reason: str
    is_floor: bool = False
    default_is_share: bool = False
    hold_s: float = 0.0
    can_be_off: bool = True
    least_default: float = 0.0
    """The default share of a whole is at least this much ..."""
    most_default: float = float("inf")
    """... and at most this much."""


@dataclass(frozen=True, slots=True)
class GuardLimit:
    """Where a guard trips. `value` None: switched off by the user. `is_share`: percent of the reading's whole."""

    value: float | None
    is_share: bool = False


@dataclass(frozen=True, slots=True)
class GuardPlan:
    """The limits that a user set, by name of guard, and how many trips end the study; the rest are defaults."""

    limits: Mapping[str, GuardLimit] = field(default_factory=dict)
    trips: int = TRIPS

    def to_json(self) -> dict[str, object]:
        """Return plain JSON values for the study's options."""
        return {"limits": plain(self.limits), "trips": self.trips}


@dataclass(frozen=True, slots=True)
class Absent:
    """A quantity that this host or server does not have; told once, never a breach."""

    reason: str


@dataclass(frozen=True, slots=True)
class Failed:
    """A quantity that is there and could not be read: a breach when it lasts longer than the guards' patience."""

    reason: Annotated[str, Named("failed")]
    """In JSON of another name than that of `Absent`, which tells the two apart."""


@dataclass(frozen=True, slots=True)
class GuardReading:
    """One quantity at `t` in the guard's unit. `whole` is what a share is of; `about` adds words, such as a name.

    `warns` turns the indicator amber whatever the limit. `blame` replaces the guard's kind.
    """

    name: str
    t: float
    value: float | Absent | Failed
    whole: float | None = None
    about: str = ""
    warns: bool = False
    blame: GuardKind | None = None


@dataclass(frozen=True, slots=True)
class Indicator:
    """What a display shows of a guard: `text` is the reading and the limit, or why there is none."""

    name: str
    colour: Colour
    text: str


@dataclass(frozen=True, slots=True)
class Breach:
    """A guard that tripped: at `at` (seconds since the epoch), with the reading and the limit in words.

    `began_at` is when the quantity was first seen beyond its limit; it is earlier than `at` where a breach must last.
    """

    name: str
    kind: GuardKind
    at: float
    began_at: float
    reading: GuardReading
    limit: float
    words: str

    def __str__(self) -> str:
        return f"guard {self.name}: {self.words}"


@dataclass(frozen=True, slots=True)
class Concurrent:
    """The study's latest baseline trials, which the running load is held against."""

    throughput: float
    p99_ms: float | None
