"""When a closed gate is opened: where a gate and a lock may wait for each other, which the server cannot see. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from pgdyno.trace.engine.session import ReplaySession


def opens_at(session: ReplaySession, sessions: Mapping[int, ReplaySession], asked: int, now: int, stall: int) -> int:
    """Return when the gates of a held session open or, where that is after `now`, are looked at again.

    They open where what they wait for may wait for them: a statement that is not answered for `stall` us, as a lock may
    hold it, the session itself, or nobody. What is late, or not due, gets there: to pass it would break the order, and
    then locks and gates do wait for each other. `asked` is the moment for which this look was planned; that an engine
    looks later does not prolong a stall, it is the engine's own lateness. `sessions` are all of the engine, by ordinal.
    """
    earliest, seen, held = now + stall, {session.ordinal}, [session]
    while held:
        for ordinal, _ in held.pop().gates:
            other = sessions.get(ordinal)
            if other is None or other is session:
                return asked
            if ordinal in seen:
                continue
            seen.add(ordinal)
            if other.is_held:
                held.append(other)
            elif other.is_busy and other.sent >= 0:
                earliest = min(earliest, max(asked, other.sent + stall))
    return earliest
