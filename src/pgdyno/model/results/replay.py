"""What a replay comes to: how it kept its schedule, and how the answers stand to the captured ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pgdyno.errors import ExitCode
from pgdyno.model.replay_comparison import Fidelity, ReplayPause
from pgdyno.model.results.parts import StudyResult
from pgdyno.model.results.parts.contents import ContentsComparison

GUARD = "guard "
"""How `ended` begins where a guard of the target ended the run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeysKept:
    """Keys that servers made: what the capture has of them, and what of them the replay sent as its own."""

    captured: int
    without: Mapping[str, int]
    """Those that no answer of the replay brings back, by reason."""
    unplaced: int
    """Captured transactions with such keys, of which nobody can tell which statements they were."""
    named: int
    """Places of statements that name one of the others."""
    learned: int
    sent: int
    """Places that had the key of this replay."""
    unknown: int
    """Places that were sent as captured, as the key had not come back before."""
    left: Mapping[str, int] = field(default_factory=dict)
    """What may name keys and was sent as captured without a look at them, by reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayResult(StudyResult):
    """A run of a trace on a target. `answers` counts them by class; `reasons` says why sessions were lost.

    `ended` is `complete`, or why the run ended before. `phases` are seconds of each step; `cpu_s` that of the engines.
    """

    trace: str
    outcome: str
    engine: str
    speed: float
    level: float
    """Per cent of production's rate: the level at which the trace was captured, by the speed."""
    clock: str
    order: str = "session"
    """What was kept of the order between sessions."""
    gated: int = 0
    """Statements that waited for others by it."""
    stalls: int = 0
    """Gates that were opened as they were closed for too long."""
    ended: str
    answers: Mapping[str, int]
    fidelity: Fidelity
    reasons: Mapping[str, int] = field(default_factory=dict)
    phases: Mapping[str, float] = field(default_factory=dict)
    cpu_s: float = 0.0
    wanted_s: float = 0.0
    """The schedule's length at this speed."""
    took_s: float = 0.0
    """Until the last answer, pauses included."""
    pauses: tuple[ReplayPause, ...] = ()
    """Of the run; one that was paused does not count."""
    restored_by: str = ""
    """How the state that it began from was brought back; empty where nothing was."""
    restored_s: float | None = None
    cache: str = ""
    """What the caches held then."""
    stand_in: str = ""
    """A superuser who opened the sessions of `stood_for`, whose passwords are not known; empty where there was none."""
    stood_for: tuple[str, ...] = ()
    """Roles that he took on by SET SESSION AUTHORIZATION."""
    service_ms: Mapping[str, float] = field(default_factory=dict)
    """Quantiles of the time from sending to the answer, by name."""
    response_ms: Mapping[str, float] = field(default_factory=dict)
    """The same from the moment at which a statement was due."""
    keys: KeysKept | None = None
    """None where the capture has no generated keys."""
    data: tuple[ContentsComparison, ...] = ()
    """What the target held at the end, database by database, beside what it should hold; empty: not compared."""

    @property
    def is_valid(self) -> bool:
        """Return whether the run may be compared."""
        return self.ended == "complete" and not self.fidelity.invalid

    @property
    def exit_code(self) -> ExitCode:
        """Return "not resolved" for a run that does not count, and of a guard that ended it that."""
        if self.ended.startswith(GUARD):
            return ExitCode.RESTORED
        return ExitCode.OK if self.is_valid else ExitCode.NOT_RESOLVED
