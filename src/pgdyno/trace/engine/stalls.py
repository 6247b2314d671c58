"""When a closed gate is opened: where a gate and a lock may wait for each other, which the server cannot see. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from pgdyno.trace.engine.session import ReplaySession


def opens_at(session: ReplaySession, sessions: Mapping[int, ReplaySession], now: int, stall: int) -> int:
    """Return when to open the gates of a held session: now where what they wait for may wait for it.

    That is a statement that is not answered for `stall` us, as a lock may hold it, the session itself, or nobody. What
    is late, or not due, gets there: to pass it would break the order, and then locks and gates do wait for each other.
    `sessions` are all of the engine, by ordinal.
    """
    earliest, seen, held = now + stall, {session.ordinal}, [session]
    while held:
        for ordinal, _ in held.pop().gates:
            other = sessions.get(ordinal)
            if other is None or other is session:
                return now
            if ordinal in seen:
                continue
            seen.add(ordinal)
            if other.is_held:
                held.append(other)
            elif other.is_busy and other.sent >= 0:
                earliest = min(earliest, other.sent + stall)
    return earliest
