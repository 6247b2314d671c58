"""What the advisor says: one finding a rule, with its evidence, its proposal, its source and its state.

Every rule answers on every target: with a finding, "in order", "unknown" (and why), or "does not apply" (and why).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

OF_STUDY = "study"
"""The origin of a finding that is the winner of a study."""


class Severity(StrEnum):
    """How bad it is; the order is that of the list."""

    CRITICAL = "critical"
    """Data, availability or the start of the server is at stake."""
    WARNING = "warning"
    """It costs much, or something does not work as configured."""
    ADVICE = "advice"
    """A candidate for a measured improvement."""
    NOTE = "note"
    """Worth knowing; nothing to do."""

    @property
    def rank(self) -> int:
        """Return 0 for the worst."""
        return list(Severity).index(self)


class Answer(StrEnum):
    """What a rule says of a target."""

    FINDING = "finding"
    OK = "ok"
    UNKNOWN = "unknown"
    NOT_APPLICABLE = "not applicable"


class RuleGroup(StrEnum):
    """The groups of the tuning guide for Linux on IBM Z, 2017."""

    THROUGHPUT = "throughput"
    RESPONSE_TIME = "response time"
    GENERAL = "general"


class Depth(StrEnum):
    """How deep the advice goes; each contains the one before."""

    LEAVE_ALONE = "leave-alone"
    """Only what is critical or broken."""
    BASIC = "basic"
    """Best practice."""
    DEEP = "deep"
    """Everything, experiments included."""

    @property
    def rank(self) -> int:
        """Return 0 for the shallowest."""
        return list(Depth).index(self)


class Cost(StrEnum):
    """What putting a change in force costs."""

    NONE = "none"
    RELOAD = "reload"
    RESTART = "restart"
    REBOOT = "reboot"

    @property
    def rank(self) -> int:
        """Return 0 for the cheapest."""
        return list(Cost).index(self)


class Confidence(StrEnum):
    """How far the source's figure can be expected here."""

    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"
    UNKNOWN = "unknown"
    """No source gives a figure: there is nothing to be confident of."""

    def lowered(self, steps: int = 1) -> Confidence:
        """Return it lowered by so many steps, `low` at most; what is unknown stays so."""
        words = [word for word in Confidence if word is not Confidence.UNKNOWN]
        return self if self is Confidence.UNKNOWN else words[min(len(words) - 1, words.index(self) + steps)]


class ProofState(StrEnum):
    """Whether the proposal has been measured here."""

    PROPOSED = "proposed"
    NEEDS_TEST = "needs-test"
    TESTED = "tested here"
    REFUTED = "refuted here"


class ChangeKind(StrEnum):
    """What kind of thing is changed."""

    POSTGRESQL = "postgresql"
    """A parameter of the server."""
    LINUX = "linux"
    """A Linux knob of the catalogue, or any other sysctl."""
    BLOCK = "block"
    """A block device or logical volume: `device` names it, `knob` is read_ahead_kb or scheduler."""
    DDL = "ddl"
    """SQL statements, in `commands`."""
    COMMAND = "command"
    """Shell commands for review, in `commands`."""
    MANUAL = "manual"
    """Something that only people can do."""


@dataclass(frozen=True, slots=True)
class Change:
    """One proposed change. Values are text as PostgreSQL or the kernel reads them; `current` None means not known.

    `commands` do it and `undo` takes it back, for kinds without a knob. A command is one line for a shell, a DDL one
    statement with its semicolon.
    """

    kind: ChangeKind
    knob: str = ""
    value: str = ""
    current: str | None = None
    device: str = ""
    commands: tuple[str, ...] = ()
    undo: tuple[str, ...] = ()

    @property
    def was(self) -> str:
        """Return the current value in words."""
        return "unknown" if self.current is None else self.current or "empty"


@dataclass(frozen=True, slots=True)
class Provenance:
    """Where a statement comes from and where its figure was measured. `document` is a key of documents.toml."""

    document: str
    section: str
    year: int
    platform: str = ""
    version: str = ""
    workload: str = ""


@dataclass(frozen=True, slots=True)
class StatedEffect:
    """An effect as its source states it; `low` and `high` are relative gains (0.35 is +35 %), None when only words."""

    text: str
    source: Provenance
    low: float | None = None
    high: float | None = None
    metric: str = "throughput"
    together_with: str = ""
    """What was changed along with it when the figure was measured; empty where nothing was."""
    buffers_share: float | None = None
    """The share of the memory that shared_buffers had then; None where the figure does not depend on it."""

    @property
    def figure(self) -> float | None:
        """Return the lower figure, the only one where a source has no other, None for words."""
        return self.high if self.low is None else self.low


@dataclass(frozen=True, slots=True)
class Resolution:
    """A contradiction of the sources and the condition that decided it here."""

    id: str
    """CON-01 to CON-45."""
    decided: str
    """Which statement holds here, and the condition that decided, with this target's facts."""


@dataclass(frozen=True, slots=True)
class RuleProof:
    """A measured verdict on this target: the study, its words and its ratio.

    `settings` are what the study's B had and its A had not; a proposal of other values is not proved by it.
    """

    study: str
    verdict: str
    ratio: float | None
    lo: float | None
    hi: float | None
    metric: str = "throughput"
    settings: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Finding:
    """What one rule says of this target; texts are whole sentences for a DBA.

    `reason` holds for the answers ok, unknown and not applicable; `title`, `why` and the rest for a finding.
    """

    rule: str
    answer: Answer
    group: RuleGroup
    depth: Depth
    title: str
    reason: str = ""
    severity: Severity = Severity.ADVICE
    current: str = ""
    proposed: str = ""
    changes: tuple[Change, ...] = ()
    why: str = ""
    mechanism: str = ""
    evidence: tuple[str, ...] = ()
    """The facts of this target that it rests on, one sentence each."""
    effects: tuple[StatedEffect, ...] = ()
    """Those of the source closest to this target first."""
    confidence: Confidence = Confidence.MEDIUM
    doubts: tuple[str, ...] = ()
    """Where this target differs from what the figure was measured on."""
    risk: str = ""
    risk_level: int = 0
    """0 none, 1 low, 2 medium, 3 high."""
    cost: Cost = Cost.NONE
    apply: str = ""
    persist: str = ""
    verify: str = ""
    revert: str = ""
    provenance: tuple[Provenance, ...] = ()
    origin: str = "document"
    """Where the candidate came from: document, documentation, list post, run-time analysis, tune, OF_STUDY."""
    requirements: tuple[str, ...] = ()
    resolutions: tuple[Resolution, ...] = ()
    after: tuple[str, ...] = ()
    """Rules whose changes come first."""
    alternatives: tuple[str, ...] = ()
    state: ProofState = ProofState.PROPOSED
    proof: RuleProof | None = None
    waits_for_load: bool = False
    """Only a load could justify it, and the server was seen idle: it comes after everything else."""

    @property
    def main_effect(self) -> StatedEffect | None:
        """Return the effect that stands for the finding: the first with a figure, else the first in words."""
        return next((effect for effect in self.effects if effect.figure is not None), next(iter(self.effects), None))
