"""A window of the night in a time zone: when it opens and closes, over midnight and over changes of the clocks. Pure.

The occurrence of a date begins at `begin` of that date and ends at the next `end` by the clock on the wall. A moment
that the clocks skip in spring counts as the same reading of the old time; one that they show twice in autumn is its
first. So a window never closes later than a person would read off the wall, and a night may be an hour longer or
shorter. One that the clocks skip altogether does not happen on that date.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta, tzinfo
from zoneinfo import ZoneInfo

from pgdyno.control.restart_budget import DayWindow, RestartBudget
from pgdyno.errors import UsageError

_DAY = timedelta(days=1)
_AHEAD = 4
"""Days in which the window opens for certain: the clocks skip it on one of them at most."""
_HINT = "Write it as HH:MM-HH:MM, such as 22:00-06:00."


@dataclass(frozen=True, slots=True)
class Occurrence:
    """One night: from `opens` to before `closes`, seconds since the epoch."""

    opens: float
    closes: float


@dataclass(frozen=True, slots=True)
class NightWindow:
    """A window of the day. `zone` None is this machine's own time zone."""

    window: DayWindow
    zone: tzinfo | None = None

    @classmethod
    def parse(cls, text: str, zone: str | None = None) -> NightWindow:
        """Read HH:MM-HH:MM and the name of a time zone. Raises UsageError on any other form."""
        try:
            window = RestartBudget.parse(text).window
        except UsageError as error:
            raise UsageError(f'window "{text}" cannot be read', detail=error.detail, hint=_HINT) from error
        if window is None or "@" in text:
            raise UsageError(f'window "{text}" cannot be read', hint=_HINT)
        return cls(window, None if zone is None else _zone(zone))

    def now(self, at: float) -> Occurrence | None:
        """Return the occurrence that holds this moment, None when the window is closed."""
        return next((night for night in self._around(at) if night.opens <= at < night.closes), None)

    def following(self, at: float) -> Occurrence:
        """Return the first occurrence that opens after this moment."""
        return next(night for night in self._around(at) if night.opens > at)

    def clock_text(self, at: float) -> str:
        """Write a moment as the clock on the wall shows it, with the zone's name."""
        shown = datetime.fromtimestamp(at, self.zone)
        local = shown.astimezone() if self.zone is None else shown
        return f"{local:%Y-%m-%d %H:%M %Z}"

    def __str__(self) -> str:
        return str(self.window)

    def _around(self, at: float) -> Iterator[Occurrence]:
        today = datetime.fromtimestamp(at, self.zone).date()
        nights = (self._of(today + days * _DAY) for days in range(-1, _AHEAD))
        return (night for night in nights if night.closes > night.opens)

    def _of(self, day: date) -> Occurrence:
        last = day if self.window.begin < self.window.end else day + _DAY
        return Occurrence(self._moment(day, self.window.begin), self._moment(last, self.window.end))

    def _moment(self, day: date, at: time) -> float:
        return datetime.combine(day, at, self.zone).timestamp()


def _zone(name: str) -> tzinfo:
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError) as error:
        raise UsageError(
            f'time zone "{name}" is not known here',
            detail=None if isinstance(error, KeyError) else str(error),
            hint="Name it as the zone files do, such as Europe/Berlin; leave it out for this machine's own.",
        ) from error
