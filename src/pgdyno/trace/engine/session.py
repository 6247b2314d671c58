"""One session of a replay: where it is in the tape, what it waits for, and what the server has answered so far."""

from __future__ import annotations

import socket
import struct
from dataclasses import dataclass, field

from pgdyno.trace.engine.records import Skip
from pgdyno.trace.engine.tape import NO_ERROR
from pgdyno.trace.engine.wire import rows_of

_MOST_ROWS = (1 << 63) - 1
_LENGTH = struct.Struct("!i").unpack_from
_COMPLETE, _ERROR, _READY, _COPY_IN = b"CEZG"
_KEPT = (_COMPLETE, _ERROR, _READY, _COPY_IN)
_LONGEST = 65536
"""Bytes of a message that is waited for; what an error has beyond them is passed over."""


@dataclass(slots=True, eq=False)
class ReplaySession:
    """Its place in the tape's index, its connection, and the statement that it is at; times in us, -1 for not yet."""

    number: int
    """Among the sessions of its engine."""
    ordinal: int
    place: int
    last: int
    """Place of the first record that is not its own."""
    connection: socket.socket | None = None
    pid: int = 0
    key: bytes = b""
    restore_role: bytes = b""
    lost: Skip = Skip.SENT
    """Why nothing more is sent."""

    seq: int = 0
    act: int = 0
    flags: int = 0
    cancel_us: int = -1
    expected: bytes = NO_ERROR
    start: int = 0
    """Of the payload in the tape."""
    end: int = 0
    gates: list[tuple[int, int]] = field(default_factory=list)
    is_held: bool = False
    """It is due, and a gate is closed."""

    due: int = 0
    sent: int = -1
    first: int = -1
    previous_done: int = 0
    released: int = -1
    """When its last gate opened; -1 where none held it."""
    is_busy: bool = False
    is_restoring: bool = False
    """It is at a statement of ours, after one that reset its role."""
    unsent: memoryview | None = None
    """What the socket did not take yet."""
    rows: int = -1
    received: int = 0
    sqlstate: bytes = NO_ERROR
    wants_copy: bool = False
    """The server waits for data of a COPY."""
    partial: bytes = b""
    """The begin of a message whose rest has not come."""
    passing: int = 0
    """Bytes of a message that is passed over and have not come."""

    def take(self, data: bytes) -> bool:
        """Take bytes of the answer apart; return whether the server is ready for the next statement.

        Rows, notices and data of a COPY are counted and passed over, however large. Raises ValueError for what is not
        the protocol.
        """
        self.received += len(data)
        if self.passing:
            if self.passing >= len(data):
                self.passing -= len(data)
                return False
            data, self.passing = data[self.passing :], 0
        if self.partial:
            data, self.partial = self.partial + data, b""
        position, size, is_ready = 0, len(data), False
        while position + 5 <= size:
            kind, (length,) = data[position], _LENGTH(data, position + 1)
            if length < 4 or (length > _LONGEST and kind in _KEPT and kind != _ERROR):
                raise ValueError(f"a message of {length} bytes")
            end = position + 1 + length
            if end > size:
                if kind in _KEPT and size - position < _LONGEST:
                    break
                self.passing, end = end - size, size
            if kind == _COMPLETE:
                rows = rows_of(data[position + 5 : end])
                if rows is not None:
                    self.rows = rows if self.rows < 0 else min(self.rows + rows, _MOST_ROWS)
            elif kind == _READY:
                is_ready = True
            elif kind == _ERROR:
                at = data.find(b"\0C", position + 5, end)  # its length before that may look alike
                code = data[at + 2 : at + 7] if at >= 0 else b""
                self.sqlstate = code if len(code) == len(NO_ERROR) else b"XX000"
            elif kind == _COPY_IN:
                self.wants_copy = True
            position = end
        self.partial = data[position:]
        return is_ready
