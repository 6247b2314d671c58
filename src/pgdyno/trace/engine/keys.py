"""Keys that a server made: learned from answers as they come, and sent in the place of the captured ones.

A record of a tape with `HAS_KEYS` has before its message a block: `HEAD`, `LEARN` for each key that its answer brings,
`NAME` for each place of the message that names one. A value that is none of a key's letters is not taken: nothing that
a server says becomes SQL.
"""

from __future__ import annotations

import re
import struct
from enum import IntEnum

from pgdyno.trace.engine.session import ReplaySession
from pgdyno.trace.engine.tally import RunTally
from pgdyno.trace.engine.tape import NO_ERROR

HEAD = struct.Struct("<HH")
"""How many `LEARN` and `NAME` follow."""
LEARN = struct.Struct("<IHH")
"""The key's number; row and field of the answer, from 0."""
NAME = struct.Struct("<IBIIH")
"""The key's number; `KeyPlace`; where its message begins, where its value does, and how long that is, in bytes."""
_VALUE = re.compile(rb"[0-9A-Za-z-]{1,64}")
_LENGTH = struct.Struct("!i")


class KeyPlace(IntEnum):
    """How a key stands in a message."""

    BOUND = 0
    """A parameter, after its length."""
    QUOTED = 1
    """Between quotes in a text."""
    NUMBER = 2
    """Digits in a text."""


class KeyBook:
    """The keys of a run, by their numbers."""

    def __init__(self, tally: RunTally) -> None:
        self._values, self._tally = dict[int, bytes](), tally

    def load(self, session: ReplaySession, view: memoryview) -> None:
        """Take the block before a session's message apart."""
        learned, named = HEAD.unpack_from(view, session.start)
        names = session.start + HEAD.size + learned * LEARN.size
        message = names + named * NAME.size
        session.learns = list(LEARN.iter_unpack(view[session.start + HEAD.size : names]))
        session.names = list(NAME.iter_unpack(view[names:message]))
        session.start = message

    def message(self, session: ReplaySession, payload: memoryview) -> memoryview:
        """Return the message with the keys of this run; where one is not known, it stays the captured one."""
        found, grown = bytearray(payload), 0
        for key, place, begin, at, length in session.names:
            value = self._values.get(key)
            if value is None or (place == KeyPlace.NUMBER and not value.isdigit()):
                self._tally.keys_unknown += 1
                continue
            at, more = at + grown, len(value) - length  # all stand in one message: its begin does not move
            found[at : at + length] = value
            _add(found, begin + 1, more)
            if place == KeyPlace.BOUND:
                _add(found, at - _LENGTH.size, more)
            grown += more
            self._tally.keys_sent += 1
        return memoryview(found)

    def learn(self, session: ReplaySession) -> None:
        """Take what the answer brought."""
        if session.sqlstate == NO_ERROR:
            for key, row, field in session.learns:
                value = session.brought.get((row, field), b"")
                if _VALUE.fullmatch(value):
                    self._values[key] = value
                    self._tally.keys_learned += 1

    def forget(self, session: ReplaySession) -> None:
        """Leave the record."""
        session.learns, session.names, session.brought, session.row = [], [], {}, 0


def _add(message: bytearray, at: int, more: int) -> None:
    _LENGTH.pack_into(message, at, _LENGTH.unpack_from(message, at)[0] + more)
