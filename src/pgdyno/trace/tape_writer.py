"""Write tapes."""

from __future__ import annotations

import struct
from array import array
from collections.abc import Iterable
from dataclasses import dataclass
from typing import BinaryIO

import numpy as np

from pgdyno.trace.engine.tape import GATE, HEADER, MAGIC, NO_ERROR, RECORD, SESSION, VERSION, Act

_CHUNK = 1 << 16
"""So many records of the index are put in order at once."""


@dataclass(frozen=True, slots=True)
class TapeRecord:
    """One record; times are whole microseconds, as `trace.engine.tape` has them."""

    session: int
    seq: int
    act: Act
    due_us: int
    payload: bytes = b""
    think_us: int = -1
    cancel_us: int = -1
    flags: int = 0
    expected: str | None = None
    """The SQLSTATE that it ended with; None for success."""
    gates: bytes = b""
    """As `gate_bytes` makes them."""
    is_edge: bool = False
    """It is the begin or the end of a session; not on the tape, `act` says that of those that are done."""


def gate_bytes(gates: Iterable[tuple[int, int]]) -> bytes:
    """Return gates, each a session and a seq, as they stand on a tape."""
    numbers = [number for gate in gates for number in gate]
    return struct.pack(f"<{len(numbers)}I", *numbers)


class TapeWriter:
    """Writes records as they come, and at the end what leads to them. Keeps 16 bytes a record in memory."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._offset = file.write(bytes(HEADER.size))
        self._offsets, self._keys = array("Q"), array("Q")
        self._first = dict[int, tuple[int, int]]()
        """Of each session the seq of its first record, and when that is due."""

    def add(self, record: TapeRecord) -> None:
        """Append a record, in any order. Raises ValueError for one that no tape can hold."""
        expected = NO_ERROR if record.expected is None else record.expected.encode()
        if len(expected) != len(NO_ERROR):
            raise ValueError(f"{record.expected!r} is no SQLSTATE")
        try:
            head = RECORD.pack(
                record.due_us, record.think_us, record.cancel_us, record.session, record.seq, record.act,
                record.flags, expected, len(record.gates) // GATE.size, len(record.payload),
            )  # fmt: skip
        except struct.error as error:
            raise ValueError(f"session {record.session}, statement {record.seq}: {error}") from None
        self._offsets.append(self._offset)
        self._keys.append(record.session << 32 | record.seq)
        first = self._first.get(record.session)
        if first is None or record.seq < first[0]:
            self._first[record.session] = record.seq, record.due_us
        self._offset += self._file.write(head + record.gates + record.payload)

    def close(self) -> None:
        """Write the index and the sessions, then the header that makes the tape whole."""
        offsets, keys = np.frombuffer(self._offsets, np.uint64), np.frombuffer(self._keys, np.uint64)
        order = np.argsort(keys)  # no key twice, so that it need not be a stable sort, which takes as much memory again
        first, before = list[int](), -1
        for place in range(0, order.size, _CHUNK):
            chunk = order[place : place + _CHUNK]
            self._file.write(offsets[chunk].data)
            sessions = (keys[chunk] >> np.uint64(32)).astype(np.int64)
            first += (place + np.flatnonzero(np.diff(sessions, prepend=before))).tolist()
            before = int(sessions[-1])
        counts = np.diff([*first, order.size])
        numbers = sorted(self._first)
        due = np.array([self._first[session][1] for session in numbers], np.int64)
        for place in np.argsort(due, kind="stable"):
            self._file.write(SESSION.pack(numbers[place], first[place], int(counts[place])))
        self._file.seek(0)
        table = self._offset + 8 * len(self._offsets)
        self._file.write(HEADER.pack(MAGIC, VERSION, len(first), len(self._offsets), self._offset, table))
