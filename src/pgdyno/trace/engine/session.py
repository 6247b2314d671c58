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
_COMPLETE, _ERROR, _READY, _COPY_IN, _ROW, _CLOSED = b"CEZGD3"
_KEPT = (_COMPLETE, _ERROR, _READY, _COPY_IN)
_KEPT_ALSO = (*_KEPT, _ROW)
"""Where keys are waited for."""
_OPEN = (b"T", b"E")
"""What the server is ready with in a transaction, and in a failed one."""
_PASSED = (_ERROR, _ROW)
"""Of these, what is too long is passed over."""
_COUNT = struct.Struct("!H").unpack_from
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
    shift: int = 0
    """By how much pauses of the run have shifted its schedule."""
    sent: int = -1
    first: int = -1
    previous_done: int = 0
    released: int = -1
    """When its last gate opened; -1 where none held it."""
    debt: int = 0
    """By how much the engine was late at its last statement, or in reading the answer."""
    is_busy: bool = False
    in_transaction: bool = False
    """A transaction is open, failed or not, by what the server said last."""
    is_restoring: bool = False
    """It is at a statement of ours, after one that reset its role."""
    unsent: memoryview | None = None
    """What the socket did not take yet."""
    rows: int = -1
    received: int = 0
    sqlstate: bytes = NO_ERROR
    wants_copy: bool = False
    """The server waits for data of a COPY."""
    closes: int = 0
    """In a pipeline: so many things has the server to close until the statement is answered, without being ready."""
    wants_sync: bool = False
    """A statement of a pipeline failed: the server waits for its end."""
    is_broken: bool = False
    """A statement of its pipeline failed, so that the others are not sent."""
    learns: list[tuple[int, int, int]] = field(default_factory=list)
    """Keys that the answer brings: `trace.engine.keys`."""
    names: list[tuple[int, int, int, int, int]] = field(default_factory=list)
    """Keys that the message names."""
    brought: dict[tuple[int, int], bytes] = field(default_factory=dict)
    """Fields of the answer's rows, by row and place."""
    row: int = 0
    """The next row of the answer, where keys are waited for."""
    partial: bytes = b""
    """The begin of a message whose rest has not come."""
    passing: int = 0
    """Bytes of a message that is passed over and have not come."""

    @property
    def is_open(self) -> bool:
        """Return whether it is at something that a pause of the run lets end: a statement, or a transaction."""
        return self.is_busy or self.in_transaction

    def take(self, data: bytes) -> bool:
        """Take bytes of the answer apart; return whether it is whole: the server is ready for the next statement.

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
        kept = _KEPT_ALSO if self.learns else _KEPT
        while position + 5 <= size:
            kind, (length,) = data[position], _LENGTH(data, position + 1)
            if length < 4 or (length > _LONGEST and kind in kept and kind not in _PASSED):
                raise ValueError(f"a message of {length} bytes")
            end = position + 1 + length
            if end > size:
                if kind in kept and size - position < _LONGEST and (kind != _ROW or length <= _LONGEST):
                    break
                self.passing, end = end - size, size
            if kind == _COMPLETE:
                rows = rows_of(data[position + 5 : end])
                if rows is not None:
                    self.rows = rows if self.rows < 0 else min(self.rows + rows, _MOST_ROWS)
            elif kind == _READY:
                is_ready, self.in_transaction = True, data[position + 5 : end] in _OPEN
            elif kind == _ERROR:
                at = data.find(b"\0C", position + 5, end)  # its length before that may look alike
                code = data[at + 2 : at + 7] if at >= 0 else b""
                self.sqlstate = code if len(code) == len(NO_ERROR) else b"XX000"
                self.wants_sync, self.closes = self.closes > 0, 0
            elif kind == _CLOSED and self.closes:
                self.closes -= 1
                if not self.closes:
                    is_ready = self.in_transaction = True
            elif kind == _COPY_IN:
                self.wants_copy = True
            elif kind == _ROW and self.learns:
                if length <= _LONGEST:
                    self._keep_row(data, position + 5, end)
                self.row += 1
            position = end
        self.partial = data[position:]
        return is_ready

    def _keep_row(self, data: bytes, at: int, end: int) -> None:
        """Keep the fields of a row whose key may be asked for; of a damaged one those that are whole."""
        row = self.row
        if row > self.learns[-1][1] or at + 2 > end:
            return
        (count,) = _COUNT(data, at)
        at += 2
        for field_ in range(count):
            if at + 4 > end:
                return
            (length,) = _LENGTH(data, at)
            at += 4
            if length < 0:
                continue
            if at + length > end:
                return
            self.brought[row, field_] = data[at : at + length]
            at += length
