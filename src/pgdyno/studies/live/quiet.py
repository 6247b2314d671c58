"""When a live study leaves the server alone: at times of the day, and for as long as a person wants a pause. Pure.

A pair is begun only where it is over before such a time; the server waits for its end in the baseline.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pgdyno.studies.live.windows import SWITCHES
from pgdyno.studies.night.window import NightWindow

LONGER = 4 / 3
"""A pair may take so much longer than its periods: the wash-out waits for statements from before."""


@dataclass(frozen=True, slots=True)
class QuietTimes:
    """Windows of the day by this machine's clock, and the file that is there while a person wants a pause.

    Where windows are given, a pair is begun in these `only`, where it and SWITCHES of `switch_s` end before they close.
    """

    windows: tuple[NightWindow, ...] = ()
    pause: Path | None = None
    only: tuple[NightWindow, ...] = ()
    switch_s: float = 0.0

    @classmethod
    def of(
        cls, words: Sequence[str], pause: Path | None = None, only: Sequence[str] = (), switch_s: float = 0.0
    ) -> QuietTimes:
        """Read HH:MM-HH:MM words, of `only` too. Raises UsageError on any other form."""
        first, second = (tuple(NightWindow.parse(word) for word in each) for each in (words, only))
        return cls(first, pause, second, switch_s)

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
        if self.only and not any(
            (night := one.now(at)) is not None and at + seconds + SWITCHES * self.switch_s <= night.closes
            for one in self.only
        ):
            opens = min((one.following(at).opens for one in self.only), default=at)
            return f"the next window for restarts opens at {self.only[0].clock_text(opens)}"
        return ""

    def is_closing(self, at: float) -> bool:
        """Tell whether what remains of a window at this moment (Unix time) is for the way back; never without windows.

        A pair that was begun in time comes here where a restart took longer than was reckoned, or the clock was set.
        """
        nights = [one.now(at) for one in self.only]
        return bool(nights) and not any(night is not None and at + self.switch_s < night.closes for night in nights)
