"""When a live study leaves the server alone: at times of the day, and for as long as a person wants a pause. Pure.

A pair is begun only where it is over before such a time; the server waits for its end in the baseline.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pgdyno.studies.night.window import NightWindow

LONGER = 4 / 3
"""A pair may take so much longer than its periods: the wash-out waits for statements from before."""


@dataclass(frozen=True, slots=True)
class QuietTimes:
    """Windows of the day by this machine's clock, and the file that is there while a person wants a pause."""

    windows: tuple[NightWindow, ...] = ()
    pause: Path | None = None

    @classmethod
    def of(cls, words: Sequence[str], pause: Path | None = None) -> QuietTimes:
        """Read HH:MM-HH:MM words. Raises UsageError on any other form."""
        return cls(tuple(NightWindow.parse(word) for word in words), pause)

    @property
    def words(self) -> tuple[str, ...]:
        """Return the windows as words."""
        return tuple(map(str, self.windows))

    def why_wait(self, at: float, seconds: float) -> str:
        """Return why a pair of so many seconds is not to begin at this moment (Unix time); empty where it may."""
        if self.pause is not None and self.pause.exists():
            return f'the pause file "{self.pause}" exists'
        for window in self.windows:
            if window.now(at) is not None or window.following(at).opens < at + LONGER * seconds:
                return f"nothing is switched {window}"
        return ""
