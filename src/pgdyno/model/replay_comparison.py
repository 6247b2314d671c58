"""A replay held against its capture or another replay: what `compare --replay` prints as JSON and its page draws.

Times are milliseconds, shares per cent, unless a name says otherwise. A is what is compared with: the capture, or a
replay on the old platform; B is the platform that is judged. *Again* is a second replay on A's platform.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from pgdyno.errors import ExitCode
from pgdyno.model.verdict import Interval, Word

_DRIFT = (
    "Whatever drifted between two runs, such as other load on a host, counts as a difference of the platforms here. "
    "For a verdict let the platforms alternate: pgdyno replay TRACE --target OLD --versus NEW --runs 3."
)


class Basis(StrEnum):
    """What is compared with what."""

    SERVER = "server"
    """Both as the server logged them: time in the server, without network and without waiting to be sent."""
    CLIENT = "client"
    """Both as a caller saw them, from the moment at which a statement was due."""
    UNLIKE = "unlike"
    """A as the server logged it, B as a caller saw it: nothing can be concluded."""

    @property
    def sentence(self) -> str:
        """Say it for people."""
        return {
            Basis.SERVER: "Server against server: both sides are times that a server logged.",
            Basis.CLIENT: "Client against client: both sides are times that a caller saw, from the moment at which a "
            "statement was due.",
            Basis.UNLIKE: "Server against client: A was logged by a server, B was seen by a caller, network and "
            "waiting included. Such times cannot be compared.",
        }[self]


class Cause(StrEnum):
    """Why an answer is not the captured one."""

    ENVIRONMENT = "environment"
    """The control run has the same: the data set or the environment is not complete."""
    ORDER = "order of simultaneous transactions"
    ROW_IDENTITY = "row identity"
    """It names rows by what each database chooses for itself: ctid, transaction ids, generated keys."""
    UNEXPECTED = "unexpected"


@dataclass(frozen=True, slots=True)
class ReplayPause:
    """A pause of a replay, in seconds since its begin.

    `open_sessions` were at a statement or in a transaction when it ended: these did not rest.
    """

    begin_s: float
    end_s: float
    seconds: float
    open_sessions: int = 0


@dataclass(frozen=True, slots=True)
class CountedShare:
    """A count and its share; those of one list sum to 100."""

    name: str
    count: int
    percent: float


@dataclass(frozen=True, slots=True)
class DelayBin:
    """How many delays lie from `low` to below `high` ms; None is without end."""

    low: float
    high: float | None
    count: int


@dataclass(frozen=True, slots=True)
class DurationClass:
    """Transactions that took from `low` to below `high` ms before, and the mean delay of those that were delayed."""

    low: float
    high: float | None
    transactions: int
    delayed: int
    mean_delay_percent: float | None
    """Mean over transactions of their own delay in per cent of their own time; None where none was delayed."""
    mean_delay_ms: float | None


@dataclass(frozen=True, slots=True)
class DelayTables:
    """Delays of delayed transactions: by length, by what the transaction took before, and as a histogram."""

    by_length: tuple[CountedShare, ...]
    by_duration: tuple[DurationClass, ...]
    histogram: tuple[DelayBin, ...]


@dataclass(frozen=True, slots=True)
class GlobalChange:
    """Time of all compared transactions together, in seconds."""

    a_seconds: float
    b_seconds: float

    @property
    def improvement_percent(self) -> float | None:
        """Return how much less time B took; negative where it took more, None where A took none."""
        return 100 * (1 - self.b_seconds / self.a_seconds) if self.a_seconds > 0 else None


@dataclass(frozen=True, slots=True)
class RawShare:
    """How many of the compared transactions were not slower, beside what is required.

    One with an answer that is not the captured one is among them, and is no success.
    """

    not_slower: int
    of: int
    required_percent: float
    is_passed: bool

    @property
    def percent(self) -> float | None:
        """Return the share, None of nothing."""
        return 100 * self.not_slower / self.of if self.of else None


@dataclass(frozen=True, slots=True)
class ShareDifference:
    """Share "not slower" of B less that of the A/A run, over the same transactions, in points of per cent."""

    again: RawShare
    points: float
    lo: float
    hi: float
    confidence: float
    tolerance_points: float
    blocks: int
    made_of: str
    word: Word


@dataclass(frozen=True, slots=True)
class QuantileRatio:
    """A quantile on both sides; `interval` of B over A is None where there are too few executions or blocks."""

    share: float
    a_ms: float | None
    b_ms: float | None
    interval: Interval | None


@dataclass(frozen=True, slots=True)
class ClassComparison:
    """One class: statements of one fingerprint, or transactions of one sequence of them."""

    name: str
    text: str
    """Normalised, without values; empty where it is not known."""
    executions: int
    word: Word
    reason: str
    """Why it is not resolved; empty otherwise."""
    chance_slower: float
    """That an execution of B takes longer than one of A, ties counted half."""
    p_slower: float
    p_faster: float
    """One-sided, adjusted for all classes together."""
    quantiles: tuple[QuantileRatio, ...]
    seconds_lost: float
    """Of B against A over all executions; negative where it won time."""


@dataclass(frozen=True, slots=True)
class ClassTable:
    """Classes of one kind, those that lost most time first; `too_few` have fewer than 20 executions to compare."""

    classes: tuple[ClassComparison, ...]
    too_few: int
    left_out: int = 0
    """Classes that were judged and are not listed, all of them neither better nor worse."""

    def count(self, word: Word) -> int:
        """Return how many listed classes have this word."""
        return sum(one.word is word for one in self.classes)


@dataclass(frozen=True, slots=True)
class DelayedStatement:
    """A statement that users waited longer for."""

    name: str
    text: str
    delayed: int
    executions: int
    seconds_lost: float
    """Of the delayed executions alone."""
    largest_ms: float
    sessions: int
    """In which it was delayed."""


@dataclass(frozen=True, slots=True)
class ErrorLine:
    """Answers of one kind: what was captured, what came, why, and how often; an SQLSTATE is empty for success."""

    answer: str
    captured: str
    came: str
    cause: Cause
    count: int
    text: str
    """Of the most frequent statement, normalised."""


@dataclass(frozen=True, slots=True)
class Errors:
    """Errors of a replay. Those of the environment are discounted: they say nothing of the platform."""

    expected: int
    lines: tuple[ErrorLine, ...]
    has_control: bool
    unseen_timeouts: int = 0
    """Of the missing ones: raised in the capture by a lock_timeout that no log has, of role, database or server."""

    def count(self, cause: Cause) -> int:
        """Return how many answers have this cause."""
        return sum(line.count for line in self.lines if line.cause is cause)

    @property
    def unexpected(self) -> int:
        """Return how many answers differ and are not of the environment."""
        return sum(line.count for line in self.lines if line.cause is not Cause.ENVIRONMENT)


@dataclass(frozen=True, slots=True)
class RowsCompared:
    """Rows that statements returned or changed; `reason` says why they are not known of both sides."""

    compared: int
    different: int
    by_row_identity: int
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Lateness:
    """Quantiles of one part of the lateness of statements."""

    part: str
    p50: float
    p99: float
    largest: float


@dataclass(frozen=True, slots=True)
class Limits:
    """What a run must keep to count; fixed before it starts."""

    error_percent: float = 1.0
    refused_percent: float = 1.0
    sent_percent: float = 99.0
    rate_percent: float = 1.0
    injector_ms: float = 2.0
    injector_of_think_percent: float = 10.0
    injector_most_ms: float = 100.0
    certification: int = 1_000_000
    """Transactions, below which a certification warns."""


@dataclass(frozen=True, slots=True)
class Fidelity:
    """Whether the schedule was kept. `invalid` says why the run does not count; `unknown` why nobody can tell."""

    invalid: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    unknown: str = ""
    statements: int = 0
    refused: int = 0
    sent: int = 0
    lateness: tuple[Lateness, ...] = ()
    injector_limit_ms: float | None = None
    think_ms: float | None = None
    """Median captured think time; None where there was none."""
    rate_off_percent: float | None = None
    """How much longer the schedule took, for the injector's and the gates' part."""
    limits: Limits = Limits()

    @property
    def is_valid(self) -> bool:
        """Return True where nothing voids it."""
        return not self.invalid


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayComparison:
    """What a replay comes to. `word` is the verdict on B, and `sentence` says it with its figures."""

    a: str
    b: str
    again: str | None = None
    basis: Basis
    word: Word
    sentence: str
    fidelity: Fidelity
    transactions: tuple[CountedShare, ...]
    """Success, delayed, error."""
    left_out: Mapping[str, int] = field(default_factory=dict)
    """Transactions that are in none of these, by reason."""
    share: RawShare
    difference: ShareDifference | None = None
    service_share: RawShare | None = None
    """Of the time from sending to answer; None where the basis has no other time."""
    change: GlobalChange
    delays: DelayTables
    statements: ClassTable
    transaction_classes: ClassTable
    delayed: tuple[DelayedStatement, ...]
    errors: Errors
    rows: RowsCompared
    notes: tuple[str, ...] = ()
    amendments: tuple[str, ...] = ()
    """What an outcome says otherwise than the record of its run, which was fixed before it and holds."""

    def alone(self) -> ReplayComparison:
        """Return it where no other pair of runs is told beside it: its words say that it is one pair."""
        if self.word is Word.NOT_RESOLVED:
            return self
        return replace(self, sentence=f"one pair of runs says: {self.sentence}", notes=(*self.notes, _DRIFT))

    @property
    def exit_code(self) -> ExitCode:
        """Return 3 for a run that does not count or says nothing, 1 for one that is worse, 0 otherwise."""
        if not self.fidelity.is_valid or self.basis is Basis.UNLIKE:
            return ExitCode.NOT_RESOLVED
        if self.word is Word.WORSE:
            return ExitCode.FINDINGS
        return ExitCode.NOT_RESOLVED if self.word is Word.NOT_RESOLVED else ExitCode.OK
