"""When a live study may restart a server: which pairs fit into which maintenance windows, and how many restarts. Pure.

A pair is begun only where both its periods and the way back end before the window closes, or before a time of the day
at which nothing is to be switched; between windows, and in such a time, the server is as it was found. The order is
A B, B A: one restart a pair, and one more to end a window that closes under B.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from pgdyno.errors import UsageError
from pgdyno.studies.night.window import NightWindow, Occurrence
from pgdyno.units import plural, seconds_text

PAIRS = 4
"""Four pairs show about 22 % (`stats.restart_pairs`); they are four outages or more."""
OUTAGE_S = 60.0
"""Left for each restart where nobody knows how long it takes."""
SWITCHES = 4
"""Restarts that a window must hold beside both periods of a pair: to each arm and back, and one that takes longer."""
LONGER = 2.0
"""A restart may take so many times the longest one that was measured: in a window there must be time for it."""
SPARE = 2
"""Restarts that may come on top of those planned: one pair that is lost and drawn again."""
_MOST_WINDOWS = 400


@dataclass(frozen=True, slots=True)
class Booking:
    """So many pairs in one window, or in a part of one that lies outside of quiet times."""

    window: Occurrence
    pairs: int


@dataclass(frozen=True, slots=True)
class RestartPlan:
    """What is announced before anything is restarted: `planned` restarts, never more than `most`, in these windows.

    `most` includes the way back, that after a guard, and those that were `made` before the study was ended: it holds
    for all of the study. `outage` says in words how long each takes, `until` when the last window that is needed
    closes. Without bookings there is none left for a pair. `quiet` are times in which nothing is switched, in words.
    """

    bookings: tuple[Booking, ...]
    planned: int
    most: int
    outage: str
    words: tuple[str, ...]
    until: str
    made: int = 0
    quiet: tuple[str, ...] = ()

    @property
    def when(self) -> str:
        """Return the windows, without what is left out of them."""
        return ", ".join(self.words) + (f" without {', '.join(self.quiet)}" if self.quiet else "")

    @property
    def text(self) -> str:
        """Return the plan as a sentence without its full stop."""
        pairs, windows = sum(one.pairs for one in self.bookings), len(self.bookings)
        if not pairs:
            return self.spent
        which = "which" if windows == 1 else "the last of which"
        most = f"never more than {self.most}"
        if self.made:
            most += f" with the {self.made} before it was ended"
        return (
            f"{plural(self.planned, 'restart')} for {plural(pairs, 'pair')}, {most}, in "
            f"{plural(windows, 'window')} ({self.when}), {which} closes at {self.until}; outage "
            f"{self.outage}"
        )

    @property
    def spent(self) -> str:
        """Return why no further pair may come, empty where one may."""
        if self.bookings:
            return ""
        return f"{plural(self.most, 'restart')} were approved, and after {self.made} there are too few left for a pair"


def pair_s(period_s: float, outage_s: float) -> float:
    """Return how long a window must be open for one pair: two periods and SWITCHES."""
    return 2 * period_s + SWITCHES * outage_s


def next_quiet(quiet: Sequence[NightWindow], at: float) -> float:
    """Return when the next of these times of the day begins (Unix time), `at` itself in one; never is infinite."""
    return min((at if one.now(at) else one.following(at).opens for one in quiet), default=math.inf)


def open_parts(night: Occurrence, quiet: Sequence[NightWindow]) -> Iterator[Occurrence]:
    """Yield the parts of a window that lie outside of these times of the day."""
    at = night.opens
    while at < night.closes:
        if now := [found for one in quiet if (found := one.now(at)) is not None]:
            at = max(one.closes for one in now)
            continue
        part = Occurrence(at, min(night.closes, next_quiet(quiet, at)))
        yield part
        at = part.closes


def book(
    windows: Sequence[NightWindow],
    at: float,
    pairs: int,
    *,
    period_s: float,
    outage_s: float,
    first_s: float,
    quiet: Sequence[NightWindow] = (),
) -> tuple[Booking, ...]:
    """Return in which `windows` from `at` on (Unix time) so many `pairs` fit; the first holds `first_s` seconds more.

    That is the reference, which is watched in a window as the pairs are: the load of another hour is another load.
    `windows`, at least one, are the times of the day at which the server may be restarted; each of a pair's two periods
    lasts `period_s` seconds, and `outage_s` seconds are left for each restart. In the `quiet` times of the day, of
    which there may be none, nothing is switched, and the server is as it was found. Raises UsageError where no window
    is long enough for a pair.
    """
    found: list[Booking] = []
    each, left = 2 * (period_s + outage_s), pairs
    for _ in range(_MOST_WINDOWS):
        if left <= 0:
            return tuple(found)
        here = min(
            (now for one in windows if (now := one.now(at)) is not None), key=lambda one: one.closes, default=None
        )
        if here is None:
            here = min((one.following(at) for one in windows), key=lambda one: one.opens)
        for part in open_parts(here, quiet):
            room = part.closes - max(at, part.opens) - (0.0 if found else first_s) - (SWITCHES - 2) * outage_s
            if (fit := min(left, int(room // each))) > 0:
                found.append(Booking(part, fit))
                left -= fit
        at = here.closes
    need = pair_s(period_s, outage_s) + (0.0 if found else first_s)
    without = f", without {', '.join(map(str, quiet))}," if quiet else ""
    raise UsageError(
        f"no window of {', '.join(map(str, windows))}{without} has room for {seconds_text(need)}: the reference, two "
        f"periods of {seconds_text(period_s)} and {SWITCHES} restarts of {seconds_text(outage_s)} at most",
        hint="Give --windows a longer one, or a shorter --period or --reference.",
    )


def restarts_of(bookings: Sequence[Booking], drawn: int = 0) -> int:
    """Return how often these pairs restart the server, the way back at the end of each window included.

    `drawn` pairs were before them: the order goes on.
    """
    count, is_b = 0, False
    for booking in bookings:
        for _ in range(booking.pairs):
            for arm_is_b in b_order(drawn):
                count, is_b = count + (arm_is_b != is_b), arm_is_b
            drawn += 1
        count, is_b = count + is_b, False
    return count


def b_order(drawn: int) -> tuple[bool, bool]:
    """Tell of both periods of the pair after so many others whether they are of B: A B, then B A."""
    return (False, True) if drawn % 2 == 0 else (True, False)


def plan_of(
    windows: Sequence[NightWindow],
    at: float,
    pairs: int,
    *,
    period_s: float,
    outage_s: float,
    outage: str,
    first_s: float,
    drawn: int = 0,
    made: int = 0,
    approved: int | None = None,
    quiet: Sequence[NightWindow] = (),
) -> RestartPlan:
    """Return what is announced; arguments and errors as of `book` and `restarts_of`, `outage` in words.

    `windows`, `at`, `pairs`, `period_s`, `outage_s`, `first_s` and `quiet` are those of `book`, `drawn` is that of
    `restarts_of`. A study that goes on has `made` some restarts. What a person has `approved` in all, None before that,
    holds for all of it, however often it is ended and continued: where too few are left, there are fewer pairs.
    """
    bookings = book(windows, at, pairs, period_s=period_s, outage_s=outage_s, first_s=first_s, quiet=quiet)
    while approved is not None and bookings and made + restarts_of(bookings, drawn) > approved:
        *others, last = bookings
        bookings = (*others, replace(last, pairs=last.pairs - 1)) if last.pairs > 1 else tuple(others)
    planned = restarts_of(bookings, drawn)
    until = windows[0].clock_text(bookings[-1].window.closes) if bookings else ""
    most = made + planned + SPARE if approved is None else approved
    words, left_out = tuple(map(str, windows)), tuple(map(str, quiet))
    return RestartPlan(bookings, planned, most, outage, words, until, made, left_out)


@dataclass(frozen=True, slots=True)
class RestartsMade:
    """The restarts that a study has made, with those outages in seconds that are known."""

    made: int = 0
    outages: tuple[float, ...] = ()


@dataclass(slots=True)
class RestartCount:
    """The restarts of approved plans: those made, and whether another switch still leaves room for the way back.

    `keep` puts them on disk, the way back included where one is due: a study that is killed comes back by it.
    """

    most: int
    made: int = 0
    outages: tuple[float, ...] = ()
    keep: Callable[[RestartsMade], None] = lambda _made: None

    def has_room(self, *, to_b: bool) -> bool:
        """Tell whether a switch that restarts may be made: to B only where the way back has one left."""
        return self.made + (2 if to_b else 1) <= self.most

    @property
    def longest_s(self) -> float | None:
        """Return how long a restart may take by those that were timed, None before the first."""
        return LONGER * max(self.outages) if self.outages else None

    def begin(self, *, is_b: bool) -> None:
        """Count on disk one that is about to be made, for B with its way back: nobody may be left to count it then."""
        self.keep(RestartsMade(self.made + 1 + is_b, self.outages))

    def count(self, outage_s: float | None = None, *, is_b: bool = False) -> None:
        """Count one that was made, or tried, after which arm B may be in force."""
        self.made += 1
        self.outages += () if outage_s is None else (outage_s,)
        self.settle(is_b=is_b)

    def failed(self, *, is_b: bool, none: bool) -> None:
        """Count a switch that failed, after which `is_b` is in force as before: its restart and that of the way back.

        Where `none` was made, such as for a value that was refused before, none is counted.
        """
        self.made += 0 if none else 2
        self.settle(is_b=is_b)

    def settle(self, *, is_b: bool) -> None:
        """Keep what was made so far, with the way back from B."""
        self.keep(RestartsMade(self.made + is_b, self.outages))
