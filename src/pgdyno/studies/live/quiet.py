"""When a live study leaves the server alone: at times of the day, and for as long as a person wants a pause. Pure.

A pair is begun only where it is over before such a time; the server waits for its end in the baseline. Where windows
for restarts are given, such a time ends a window, and what is left of it is another one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pgdyno.errors import UsageError
from pgdyno.studies.live.windows import SWITCHES, next_quiet, open_parts
from pgdyno.studies.night.window import NightWindow, Occurrence
from pgdyno.units import seconds_text

LONGER = 4 / 3
"""A pair may take so much longer than its periods: the wash-out waits for statements from before."""
LOOKED_AT_S = 3 * 24 * 3600.0
"""Times of the day are the same on so many days; the clocks change on one of them at most."""


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
        """Read HH:MM-HH:MM words, of `only` too. Raises UsageError on any other form.

        Nothing is switched within `words`, and pairs are begun within `only`, at any time where that is empty. `pause`
        is the pause file, None for none; `switch_s`, the seconds of a switch, counts with `only` alone.
        """
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
        nights = [night for one in self.only if (night := one.now(at)) is not None]
        need = seconds + SWITCHES * self.switch_s if self.only else LONGER * seconds
        if self.only and not any(at + need <= night.closes for night in nights):
            opens = min((one.following(at).opens for one in self.only), default=at)
            return f"the next window for restarts opens at {self.only[0].clock_text(opens)}"
        for window in self.windows:
            if next_quiet((window,), at) < at + need:
                return f"nothing is switched {window}"
        return ""

    def require_room(self, at: float, seconds: float) -> None:
        """Raise UsageError where from this moment on (Unix time) no pair of so many seconds may ever begin."""
        days = Occurrence(at, at + LOOKED_AT_S)
        if all(part.closes - part.opens < LONGER * seconds for part in open_parts(days, self.windows)):
            raise UsageError(
                f"--not-during {', '.join(self.words)} leaves no time of the day for a pair",
                detail=f"A pair takes {seconds_text(LONGER * seconds)} at most, and is over before such a time begins.",
                hint="Leave a longer time between them.",
            )

    def is_closing(self, at: float) -> bool:
        """Tell whether what remains of a window at this moment (Unix time) is for the way back; never without windows.

        A pair that was begun in time comes here where a restart took longer than was reckoned, or the clock was set.
        """
        quiet, nights = next_quiet(self.windows, at), [one.now(at) for one in self.only]
        return bool(nights) and not any(
            night is not None and at + self.switch_s < min(night.closes, quiet) for night in nights
        )
