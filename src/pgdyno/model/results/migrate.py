"""What a rehearsal of a migration comes to: its phases and items with their times, what was found, and the verdict."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from pgdyno.errors import ExitCode
from pgdyno.model.results.parts import StudyResult
from pgdyno.units import plural


class MigrationPhase(StrEnum):
    """A phase of a migration. Which of them there are, and which waits for which, the mover says."""

    ASSESS = "assess"
    CONFIGURATION = "configuration"
    """Settings of the target for the load."""
    EXPORT = "export"
    TRANSFER = "transfer"
    STRUCTURES = "structures"
    IMPORT = "import"
    UPGRADE = "upgrade"
    CATCH_UP = "catch-up"
    INDEXES = "indexes"
    CONSTRAINTS = "constraints"
    SEQUENCES = "sequences"
    STATISTICS = "statistics"
    RUN_TIME = "run-time settings"
    """The target's settings for the load are put back."""
    CUT_OVER = "cut-over"
    VALIDATION = "validation"
    WAY_BACK = "way back"
    """The way back is rehearsed: what leads to the old server again, after the cut-over."""
    REPLAY = "replay"
    """A captured load is replayed on the target, last of all."""


SIDE = "side"
"""The factor by which the samples of a rehearsal are told apart: source and target have a run each."""
AFTERWARDS = frozenset({MigrationPhase.WAY_BACK, MigrationPhase.REPLAY})
"""Phases that are rehearsed when all has arrived: no total and no window counts them."""


class ItemEnd(StrEnum):
    """How an item or a phase ended."""

    DONE = "done"
    FAILED = "failed"
    NOT_RUN = "not run"
    LEFT_OUT = "left out"
    """This mover or this plan has nothing to do in it, with the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemTiming:
    """One item of a phase: a table, an index, a file. Times in seconds since the rehearsal began.

    `attempt` is the run of the rehearsal that did it: 1, or more after it was resumed.
    """

    phase: MigrationPhase
    item: str
    kind: str
    end: ItemEnd
    began_s: float | None = None
    ended_s: float | None = None
    bytes: int | None = None
    rows: int | None = None
    attempt: int = 1
    reason: str = ""

    @property
    def seconds(self) -> float | None:
        """Return how long it took; None where it never ran."""
        return None if self.began_s is None or self.ended_s is None else self.ended_s - self.began_s


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseTiming:
    """One phase. `after` are those that it waited for; times as those of an item.

    `source_limit` and `target_limit` name the resource that limited it on each side, with the sentence that says so
    in `limits`, by side. `planned_s` is what the plan allowed for it.
    """

    phase: MigrationPhase
    end: ItemEnd
    after: tuple[MigrationPhase, ...] = ()
    began_s: float | None = None
    ended_s: float | None = None
    jobs: int = 1
    items: int = 0
    bytes: int | None = None
    rows: int | None = None
    planned_s: float | None = None
    source_limit: str = ""
    target_limit: str = ""
    limits: Mapping[str, str] = field(default_factory=dict)
    reason: str = ""

    @property
    def seconds(self) -> float | None:
        """Return how long it took; None where it never ran."""
        return None if self.began_s is None or self.ended_s is None else self.ended_s - self.began_s


class FindingWeight(StrEnum):
    """What an assessment's finding means for the migration."""

    STOPS = "stops the migration"
    DIFFERS = "the target will differ"
    KNOW = "good to know"


@dataclass(frozen=True, slots=True)
class AssessFinding:
    """What the assessment found. `object` names it, `text` says it; `hint` is what to do."""

    weight: FindingWeight
    topic: str
    object: str
    text: str
    hint: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidationFinding:
    """A difference between source and target after the migration. `rows` are the keys of rows that differ.

    `expected` or `found` is "missing" where the object is on one side alone.
    `topic` is one word or two: rows, sequence, index, constraint, privilege, owner, extension, collation, role ...
    """

    topic: str
    object: str
    expected: str
    found: str
    rows: tuple[str, ...] = ()

    @property
    def sentence(self) -> str:
        """Return the difference in words."""
        named = f" ({'; '.join(self.rows)})" if self.rows else ""
        if "missing" in (self.expected, self.found):
            return f"{self.topic} {self.object} is {'missing' if self.found == 'missing' else 'on the target alone'}"
        return f"{self.topic} {self.object}: {self.expected} expected, {self.found} found{named}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidationResult:
    """What the validation found. `compared` counts what was compared by topic; `unread` says what could not be read.

    `notes` are differences that are no fault, with the reason: of versions, or what else the target's server has.
    """

    compared: Mapping[str, int] = field(default_factory=dict)
    findings: tuple[ValidationFinding, ...] = ()
    unread: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    seconds: float | None = None

    @property
    def is_same(self) -> bool:
        """Return whether nothing differs and all was read."""
        return not (self.findings or self.unread)

    @property
    def exit_code(self) -> ExitCode:
        """Return 1 where something differs, 3 where only what could not be read is open."""
        if self.findings:
            return ExitCode.FINDINGS
        return ExitCode.NOT_RESOLVED if self.unread else ExitCode.OK

    def lines(self) -> Iterator[str]:
        """Return what was found in words, a line each."""
        rows, tables = self.compared.get("rows", 0), self.compared.get("tables", 0)
        others = sum(count for topic, count in self.compared.items() if topic not in ("rows", "tables"))
        found = plural(len(self.findings), "difference") if self.findings else "no difference"
        yield f"{plural(tables, 'table')} with {plural(rows, 'row')} and {plural(others, 'object')} compared, {found}"
        yield from (one.sentence for one in self.findings)
        yield from (f"not compared: {one}" for one in self.unread)
        yield from (f"note: {one}" for one in self.notes)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadSetting:
    """A setting of the target while it was loaded: `during` as it was read back, `before` and `after` as they stood."""

    name: str
    before: str
    during: str
    after: str | None = None
    """None where the rehearsal ended before it was read again."""

    @property
    def is_reverted(self) -> bool | None:
        """Return whether it stands as before; None where it was not read again."""
        return None if self.after is None else self.after == self.before


@dataclass(frozen=True, slots=True, kw_only=True)
class WayBackEvidence:
    """What was seen of the source after the rehearsal, beside before: `is_alike` is None where that proves nothing."""

    what: str
    found: str
    is_alike: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WayBack:
    """The way back to the source, rehearsed: a session there, and what proves that it is as it was."""

    evidence: tuple[WayBackEvidence, ...]
    seconds: float

    @property
    def differs(self) -> tuple[WayBackEvidence, ...]:
        """Return what is not as it was: empty where the source is proved untouched."""
        return tuple(one for one in self.evidence if one.is_alike is False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayedLoad:
    """A captured load on the target: what the replay's own study came to. `unlike` answers are not as captured."""

    study: str
    trace: str
    speed: float
    sent: int
    unlike: int
    unlike_limit_percent: float
    void: str = ""
    """Why the replay does not count; empty where it does."""

    @property
    def fault(self) -> str:
        """Return why the rehearsal is no success by it; empty where it stands."""
        if self.void:
            return f"the replay on the target does not count: {self.void}"
        if 100 * self.unlike > self.unlike_limit_percent * self.sent:
            limit = f"more than {self.unlike_limit_percent:g} %"
            return f"the target answered {self.unlike:,} of {plural(self.sent, 'statement')} not as captured, {limit}"
        return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlierRehearsal:
    """A rehearsal of the same plan that came before. `began_at` in seconds since the epoch."""

    study: str
    began_at: float
    total_s: float
    jobs: int
    source_bytes: int | None = None
    exit_code: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class MigrateResult(StudyResult):
    """A rehearsal. Times in seconds; what a resumed one stood still in between is in `paused_s` and in no other."""

    plan: str
    fingerprint: str = ""
    """Of what is moved and how: rehearsals with the same one make a trend."""
    mover: str = ""
    source: str = ""
    source_version: str = ""
    target_version: str = ""
    database: str = ""
    jobs: int = 1
    number: int = 1
    """Which of the rehearsals of this plan in the store it is, from 1 on."""
    began_at: float = 0.0
    window_s: float | None = None
    planned_s: float | None = None
    total_s: float | None = None
    """From the first phase's begin to the last one's end; None where it did not come to its end."""
    outage_s: float | None = None
    """How long nobody could have worked: the whole, or what a mover with a cut-over measured."""
    paused_s: float = 0.0
    attempts: int = 1
    source_bytes: int | None = None
    target_bytes: int | None = None
    rows: int | None = None
    phases: tuple[PhaseTiming, ...] = ()
    items: tuple[ItemTiming, ...] = ()
    assessment: tuple[AssessFinding, ...] = ()
    validation: ValidationResult | None = None
    settings: tuple[LoadSetting, ...] = ()
    way_back: str = ""
    back: WayBack | None = None
    """None where it was not rehearsed."""
    replay: ReplayedLoad | None = None
    """None where the plan has no replay, or none came to its end."""
    earlier: tuple[EarlierRehearsal, ...] = ()
    forecast: tuple[str, ...] = ()
    """What this rehearsal and others of smaller sizes say of the full one, where the plan names that."""
    ended: str = ""
    """Why it did not come to its end; empty where it did."""

    @property
    def margin_s(self) -> float | None:
        """Return what is left of the window; negative where it was too short, None where one is not known."""
        return None if self.window_s is None or self.total_s is None else self.window_s - self.total_s

    @property
    def margin_pct(self) -> float | None:
        """Return the margin in percent of the window."""
        return None if self.margin_s is None or not self.window_s else 100 * self.margin_s / self.window_s

    @property
    def faults(self) -> tuple[str, ...]:
        """Return why it is no success, a clause each: empty for one that may be repeated in earnest."""
        failed = [f"{one.phase} failed: {one.reason}" for one in self.phases if one.end is ItemEnd.FAILED]
        found = [f"ended by {self.ended}"] if self.ended and self.ended not in failed else []
        found += [f"phase {one}" for one in failed]
        if self.validation is None and not self.ended:
            found.append("nothing was validated")
        if self.validation is not None and self.validation.findings:
            found.append(f"the validation found {plural(len(self.validation.findings), 'difference')}")
        if self.validation is not None and self.validation.unread:
            found.append(f"the validation could not read {plural(len(self.validation.unread), 'thing')}")
        if any(one.is_reverted is False for one in self.settings):
            found.append("settings for the load are still in force")
        if any(one.is_reverted is None for one in self.settings):
            found.append("whether settings for the load are still in force is unknown: they were not read again")
        if self.back is not None:
            found += [f"left on the source: {one.found}" for one in self.back.differs if "pgdyno_migrate_" in one.found]
        if self.replay is not None and self.replay.fault:
            found.append(self.replay.fault)
        if self.margin_s is not None and self.margin_s < 0:
            found.append("the window was too short")
        return tuple(found)

    @property
    def exit_code(self) -> ExitCode:
        """Return 1 where it failed, differs, or took longer than its window."""
        return ExitCode.FINDINGS if self.faults else ExitCode.OK
