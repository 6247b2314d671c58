"""What a watch comes to: what became slower, or was changed by somebody, while a server ran its users' load."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from pgdyno.errors import ExitCode
from pgdyno.model.results.parts import StudyResult


class WatchEventKind(StrEnum):
    """What a watch tells of."""

    SLOWER = "slower"
    """A statement, or the server as a whole, takes longer from one moment on."""
    FASTER = "faster again"
    SETTING = "setting changed"
    RESTARTED = "restarted"
    RESET = "statistics reset"
    DEPLOYED = "new statements"
    AWAY = "away"


FOUND = (WatchEventKind.SLOWER, WatchEventKind.SETTING)
"""What a scheduler should hear of: the rest only explains it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchEvent:
    """One thing that happened, in words, at `at`; it began at `since` (both seconds since the epoch).

    Of a statement: `queryid`, `database` and `role`; `factor` is the time of a call over that before, `share` its part
    of all statements' time now, `blocks` the blocks a call over those before. None where it is of something else.
    """

    what: WatchEventKind
    at: float
    since: float
    text: str
    queryid: str | None = None
    database: str | None = None
    role: str | None = None
    factor: float | None = None
    share: float | None = None
    blocks: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchResult(StudyResult):
    """What was seen in `seconds`, in `readings` a `period_s` apart, of which `void` were lost, by cause.

    `statements` of the newest periods could be told of, with `covered` of their time; half of that time would be told
    of when a call takes `detectable` times as long (None: not known yet). `own_cpu_pct` of one core was ours here.
    `proposals` are settings that were put in force long ago, with the study that would tell whether they still pay.
    """

    title: str
    word: str
    seconds: float
    period_s: float
    readings: int
    void: Mapping[str, int] = field(default_factory=dict)
    events: tuple[WatchEvent, ...] = ()
    statements: int = 0
    covered: float = 0.0
    detectable: float | None = None
    own_cpu_pct: float | None = None
    notes: tuple[str, ...] = ()
    proposals: tuple[str, ...] = ()

    @property
    def found(self) -> tuple[WatchEvent, ...]:
        """Return what somebody should hear of."""
        return tuple(event for event in self.events if event.what in FOUND)

    @property
    def exit_code(self) -> ExitCode:
        """Return "findings" for what was found, "not resolved" where nothing could be told of yet."""
        if self.found:
            return ExitCode.FINDINGS
        return ExitCode.OK if self.detectable is not None else ExitCode.NOT_RESOLVED
