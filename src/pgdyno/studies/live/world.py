"""The server of a live study as the executor of its order needs it, and what ends a study from outside."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from pgdyno.errors import PgdynoError
from pgdyno.stats.body_index import PeriodCounts
from pgdyno.stats.statement_deltas import VoidCause

A, B, BASELINE_ARM = "A", "B", ""


class LiveStopped(PgdynoError):
    """The study has to end: somebody works on the same settings, or its load is gone."""


class StopAsked(LiveStopped):
    """A person wants the study to end."""


@dataclass(slots=True)
class StopFile:
    """A file whose appearance ends the study; `told` says who wanted its end, which needs no file."""

    path: Path
    told: str = ""

    @property
    def is_wanted(self) -> bool:
        """Return whether the study is to end."""
        return bool(self.told) or self.path.exists()

    def look(self) -> None:
        """Raise StopAsked when the study is to end."""
        if self.is_wanted:
            raise StopAsked(self.told or f'the stop file "{self.path}" was found')


class LiveWorld(Protocol):
    """The server and its guards, as the executor needs them.

    Everything but `put_back` may raise GuardBreached, and LiveStopped, after which the server is restored.
    """

    def apply(self, arm: str) -> None:
        """Bring an arm into force by a reload and read it back; BASELINE_ARM is the server as found.

        Raises ApplyError when it is not in force.
        """

    def wash(self, least_s: float, most_s: float) -> bool:
        """Wait until what began before the switch has ended, `least_s` at least; False when that takes `most_s`."""

    def count(self, seconds: float) -> PeriodCounts | VoidCause:
        """Count the statements of so many seconds from now on."""

    def has_room(self, seconds: float) -> bool:
        """Tell whether so much more fits into the study's time; raise LiveStopped when there is no load any more."""

    def rest(self, seconds: float) -> None:
        """Leave the server alone in the baseline."""

    def put_back(self) -> None:
        """End the session: the server is as it was found."""
