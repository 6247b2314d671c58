"""What a live study comes to: a server under its users' own load, and what could be, or was, told of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated

from pgdyno.errors import ExitCode
from pgdyno.model.results.parts import EXIT_CODES, PlanChange, StudyResult
from pgdyno.model.results.tune import SearchModel
from pgdyno.model.shapes import OMITTED, Named
from pgdyno.model.verdict import Interval, Verdict, Word

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
    time that sessions were at work (None before 14). Sessions are those of others; `computing_median` is how many
    processes of theirs waited for nothing but perhaps a CPU (None in studies from before it was counted).
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
    computing_median: Annotated[float | None, OMITTED] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LivePair:
    """One pair that was judged: B over A of the statements' time, and of the offered work; `first` came first.

    `interval` is that of the verdict after this pair; None before its first look.
    """

    number: int
    ratio: float
    work: float
    first: str
    interval: Annotated[Interval | None, OMITTED] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveChange:
    """One statement over all pairs that were judged: calls under A and B, and B over A of its mean time.

    `ratio` is None where an arm has no call; its interval is this statement's own, by the scatter of its calls in the
    reference. `state` is vetoed, vanished, suspected, watched or not watched.
    """

    queryid: str
    database: str
    role: str
    share: float
    calls_a: float
    calls_b: float
    ratio: Interval | None
    state: Annotated[str, Named("lamp")]


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveBreach:
    """A guard that tripped `at` (seconds since the epoch); `kind` is configuration or environment."""

    guard: str
    kind: str
    at: float
    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveSecond:
    """What the server did beside its statements, for each second of offered work: `name` as in `ServerUse`, A and B.

    `verdict` is None where nothing is judged or a period did not know it: what is read, written and spilled is told
    alone. `in_each_pair` says whether it moved the same way in all of them.
    """

    name: str
    a: float
    b: float
    verdict: Verdict | None = None
    in_each_pair: Annotated[bool, OMITTED] = True

    @property
    def is_worse(self) -> bool:
        """Return whether it was shown to be worse under B."""
        return self.verdict is not None and self.verdict.word is Word.WORSE


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveSwitch:
    """B against A on the live load. `a` and `b` are what the arms set, `before` the values as found.

    `ending` is how it ended, `stopped` what ended it from outside, and `against` why B is not to be accepted whatever
    the verdict says. `lost` counts the pairs that were not judged by cause; `tail` is B over A of what is in no body.
    `unwatched` statements have `unwatched_share` of the time. `not_tested` says why equal arms prove nothing: too much
    of the load cannot have seen the change. `session` is the undo session, empty where none began. `plans` are those of
    the dearest statements under the settings of either arm, `memory_bytes` what B can demand at worst (None: not
    reckoned). `restarts` were made in `windows` of the day, of the `restarts_most` that were announced (None: reloads
    only); those of them that were timed took the seconds of `outages`.
    """

    a: Mapping[str, str]
    b: Mapping[str, str]
    before: Mapping[str, str]
    ending: str
    period_s: float
    wash_s: float
    seed: int
    verdict: Verdict | None = None
    pairs: tuple[LivePair, ...] = ()
    lost: Mapping[str, int] = field(default_factory=dict)
    covered: float = 0.0
    tail: Interval | None = None
    second: tuple[LiveSecond, ...] = ()
    statements: tuple[LiveChange, ...] = ()
    unwatched: int = 0
    unwatched_share: float = 0.0
    breaches: tuple[LiveBreach, ...] = ()
    stopped: str = ""
    against: tuple[str, ...] = ()
    is_restored: bool = False
    """A guard, a veto or somebody else ended it before its verdict."""
    session: str = ""
    not_tested: str = ""
    plans: tuple[PlanChange, ...] = ()
    memory_bytes: int | None = None
    restarts: int | None = None
    restarts_most: int | None = None
    outages: tuple[float, ...] = ()
    windows: tuple[str, ...] = ()

    @property
    def says_nothing(self) -> bool:
        """Return whether its verdict is "equivalent" for a change that the load can hardly have seen."""
        return self.verdict is not None and self.verdict.word is Word.EQUIVALENT and bool(self.not_tested)

    @property
    def is_acceptable(self) -> bool:
        """Return whether B is better and nothing speaks against it."""
        return self.verdict is not None and self.verdict.word is Word.BETTER and not self.against

    @property
    def exit_code(self) -> ExitCode:
        """Return what the verb ends with: 1 for better with something against it, too."""
        if self.is_restored:
            return ExitCode.RESTORED
        if self.verdict is None or self.says_nothing:
            return ExitCode.NOT_RESOLVED
        found = EXIT_CODES[self.verdict.word]
        return ExitCode.FINDINGS if found is ExitCode.OK and self.against else found


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveCandidate:
    """One configuration of a search: what it set, why it was tried (`origin`), what became of it and for which reason.

    `ratio` is B over A of the statements' time, the mean of `pairs` pairs, and `error` its standard error in ln, by the
    scatter of the reference; None where no pair was whole. `cpu`, `reads` and `device` are B over A of the server's
    CPU, of the blocks that it read, from disk or the page cache, and of the requests to the disks of its host, all for
    the same work; None where they are not known. `memory_bytes` is what it can demand at worst. `reasons` are what
    moved with it, `plans` the statements that it gives another plan.
    """

    number: int
    settings: Mapping[str, str]
    origin: str
    fate: str
    why: str = ""
    pairs: int = 0
    ratio: float | None = None
    error: float | None = None
    cpu: float | None = None
    reads: float | None = None
    memory_bytes: int | None = None
    device: float | None = None
    reasons: tuple[str, ...] = ()
    plans: tuple[PlanChange, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveOwnEffect:
    """What one setting of the winner does: all of the winner against the winner without it."""

    setting: str
    verdict: Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveSearch:
    """A search on the live load: candidates by few pairs each, finalists by fresh ones, against the server as it was.

    `left_out` has the reason of each knob that was not searched. `finals` are the finalists, each as B; `chosen` is the
    number of the one that is offered. `stopped` says why no more candidates were tried, `is_restored` that guards or
    somebody else ended all of it. `model` is what the search's model says of the knobs, once it is over.
    """

    knobs: tuple[str, ...]
    left_out: Mapping[str, str] = field(default_factory=dict)
    candidates: tuple[LiveCandidate, ...] = ()
    finals: tuple[LiveSwitch, ...] = ()
    chosen: int | None = None
    effects: tuple[LiveOwnEffect, ...] = ()
    stopped: str = ""
    notes: tuple[str, ...] = ()
    is_restored: bool = False
    session: str = ""
    model: Annotated[SearchModel | None, OMITTED] = None

    @property
    def conservative(self) -> LiveSwitch | None:
        """Return the finalist that holds with the least memory, whether it is the fastest or not."""
        held = [one for one in self.finals if one.is_acceptable and one.memory_bytes is not None]
        return min(held, key=lambda one: one.memory_bytes or 0, default=self.winner)

    @property
    def winner(self) -> LiveSwitch | None:
        """Return the comparison of what is offered with the server as it was."""
        return None if self.chosen is None else self.finals[self.chosen]

    @property
    def exit_code(self) -> ExitCode:
        """Return what the verb ends with: 3 where nothing is offered."""
        if self.winner is not None:
            return self.winner.exit_code
        return ExitCode.RESTORED if self.is_restored else ExitCode.NOT_RESOLVED


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveDecision:
    """What a person decided: `answer` to what was `asked` (empty for an order of theirs), and `why`, in their words.

    `at` is seconds since the epoch; `where` is terminal, dashboard, or command line for who wanted not to be asked.
    """

    at: float
    who: str
    where: str
    asked: str
    answer: str
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveMoment:
    """Something that went on `at` (seconds since the epoch), for so many seconds; 0 where it has no length.

    `lane` is baseline, A or B for the arm in force, else pause, rest, checkpoint, vacuum or guard.
    """

    lane: str
    at: float
    seconds: float
    words: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveResult(StudyResult):
    """What the reference says: the length of a period (None: none can carry a claim), and what it shows.

    `body` are the statements by which a claim would be made, dearest first; `beside` the dearest that are not in it.
    `switch` is what came of two arms, `search` of a search, where that was asked for and the load can carry a claim.
    `decisions` are those of persons, in their order, `moments` what went on from the first switch on, the newest 4000.
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
    switch: Annotated[LiveSwitch | None, OMITTED] = None
    search: Annotated[LiveSearch | None, OMITTED] = None
    decisions: Annotated[tuple[LiveDecision, ...], OMITTED] = ()
    moments: Annotated[tuple[LiveMoment, ...], OMITTED] = ()

    @property
    def headline(self) -> Verdict | None:
        """Return the verdict on B, or on what a search offers, against A."""
        if self.search is not None:
            return None if self.search.winner is None else self.search.winner.verdict
        return None if self.switch is None else self.switch.verdict

    @property
    def chosen(self) -> LivePeriod | None:
        """Return the length that a study would take."""
        return next((one for one in self.periods if one.period_s == self.period_s), None)

    @property
    def exit_code(self) -> ExitCode:
        """Return what two arms or a search came to; else "not resolved" where this load can carry no claim."""
        if self.search is not None:
            return self.search.exit_code
        if self.switch is not None:
            return self.switch.exit_code
        return ExitCode.OK if self.period_s is not None else ExitCode.NOT_RESOLVED
