"""What a live study comes to: a server under its users' own load, and what could be, or was, told of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pgdyno.errors import ExitCode
from pgdyno.model.results.parts import StudyResult

RESOLVABLE, UNRESOLVABLE = "resolvable", "not resolvable"


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveEffect:
    """The smallest effect, a ratio distance, that `pairs` pairs show in `minutes` with 80 % probability.

    `at_most` with the largest scatter that so short a reference leaves possible (90 % confidence); None where none
    below a doubling is shown.
    """

    minutes: int
    pairs: int
    effect: float | None
    at_most: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LivePeriod:
    """One length of a period, in seconds: the scatter of its pairs, and what they show.

    `covered` is the share of the statements' time that the body holds, `kept` that of the pairs with about the same
    offered work; `calls` and `statements` are those of a period and of the body.
    """

    period_s: float
    wash_s: float
    pair_sd: float | None
    pairs: int
    kept: float
    covered: float
    calls: float
    statements: int
    effects: tuple[LiveEffect, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveStatement:
    """One statement of the reference, by its queryid: no text is kept.

    `share` of the statements' time, `weight` in the body (None: not in it), calls a period, mean time and coefficient
    of variation of a call (None: unknown).
    """

    queryid: str
    database: str
    role: str
    share: float
    weight: float | None
    calls: float
    mean_ms: float
    cv: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveReference:
    """The baseline as it was watched, for `seconds`, in `steps` readings of which `void` were lost, by cause.

    `statements` ran in it, of `entries` in pg_stat_statements. `own_share` is our own role's part of the statements'
    time, `new_share` that of statements which were not there at its begin. `visible` is the statements' time over the
    time that sessions were at work (None before 14). Sessions are those of others.
    """

    seconds: float
    steps: int
    void: Mapping[str, int] = field(default_factory=dict)
    statements: int
    entries: int
    calls_a_second: float
    commits_a_second: float
    statement_ms_a_second: float
    own_share: float
    new_share: float
    visible: float | None
    sessions: float
    active_median: float
    active_most: int
    old_share: float
    oldest_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveResult(StudyResult):
    """What the reference says: the length of a period (None: none can carry a claim), and what it shows.

    `body` are the statements by which a claim would be made, dearest first; `beside` the dearest that are not in it.
    """

    title: str
    word: str
    reference: LiveReference
    periods: tuple[LivePeriod, ...]
    period_s: float | None
    body: tuple[LiveStatement, ...]
    beside: tuple[LiveStatement, ...]
    confidence: float
    notes: tuple[str, ...] = ()

    @property
    def chosen(self) -> LivePeriod | None:
        """Return the length that a study would take."""
        return next((one for one in self.periods if one.period_s == self.period_s), None)

    @property
    def exit_code(self) -> ExitCode:
        """Return "not resolved" where this load can carry no claim."""
        return ExitCode.OK if self.period_s is not None else ExitCode.NOT_RESOLVED
