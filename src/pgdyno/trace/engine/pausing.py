"""A pause of a run: no transaction is begun, open ones end by the schedule, and every later moment shifts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from pgdyno.trace.engine.session import ReplaySession
from pgdyno.trace.engine.tally import RunTally

Moment: TypeAlias = tuple[int, int, int, int]
"""When, what for, number of the session, and its place: what is past its place is of no meaning."""


class Pausing:
    """A pause that lasts, and what those before it came to; times in us.

    A session rests where it is in no transaction and its moment has come. Its due moment, and all after it, are later
    by as long as the pause took; a session in a transaction is shifted from the end of that on.
    """

    def __init__(self, tally: RunTally, *, thinks: bool) -> None:
        self._tally, self._thinks = tally, thinks
        self.is_asked = False
        """What who started us wants; may be set by a signal's handler."""
        self.since: int | None = None
        """Since when one lasts."""
        self.shift = 0
        """By how much those that are over have shifted the schedule."""
        self._resting: list[ReplaySession] = []

    def rests(self, session: ReplaySession) -> bool:
        """Tell whether a session may begin nothing now."""
        return self.since is not None and not session.in_transaction

    def rest(self, session: ReplaySession) -> None:
        """Keep a session whose moment came for the end of the pause."""
        self._resting.append(session)

    def total(self, now: int) -> int:
        """Return how long all pauses took until now, the one that lasts included."""
        return self.shift + (0 if self.since is None else now - self.since)

    def begin(self, now: int) -> None:
        """Begin a pause."""
        self.since = now
        self._tally.pauses.append([now, -1, 0])

    def count(self, sessions: Iterable[ReplaySession]) -> None:
        """Count the sessions that are at something in the pause that lasts, if one does."""
        if self.since is not None:
            self._tally.pauses[-1][2] = sum(one.connection is not None and one.is_open for one in sessions)

    def end(self, now: int, sessions: Iterable[ReplaySession]) -> None:
        """End the pause that lasts, if one does; nobody is woken."""
        if self.since is not None:
            self.count(sessions)
            self._tally.pauses[-1][1] = now
            self.shift += now - self.since
            self.since = None

    def go_on(self, now: int, sessions: list[ReplaySession], heap: list[Moment], due: int) -> list[Moment]:
        """End the pause and return the moments that take the place of those in `heap`, in no order.

        `now` is in us since the begin of the run; `sessions` are all of the engine's, each at the place of its number.
        `due` is the kind of moment at which a session sends: these are shifted for sessions that are at nothing, and
        added for those that rested.
        """
        since = now if self.since is None else self.since
        self.end(now, sessions)
        for session in sessions:
            if session.is_open:
                continue
            # a captured pause that began while the clock stood still begins when it goes on
            session.due += now - (max(since, session.previous_done) if self._thinks else since)
            session.shift = self.shift
            session.previous_done = now if session.previous_done > since else session.previous_done
            session.released = now if session.released > since else session.released
        moments = []
        for moment, kind, number, place in heap:
            session = sessions[number]
            if kind == due and session.place == place and not session.is_open:
                moment = max(session.due, now)
            moments.append((moment, kind, number, place))
        moments += [(max(session.due, now), due, session.number, session.place) for session in self._resting]
        self._resting.clear()
        return moments
