"""A tape: what is to be sent, as messages, for engines that know nothing of SQL. Read here, written by `tape_writer`.

Little-endian, in this order: `HEADER`; records, each `RECORD`, its gates (`GATE`), its payload; the index: 64-bit
offsets of all records, those of one session together in the order in which it sends them; the sessions: `SESSION`,
in the order in which they are due first. The payload of a connect is role, database and application, each ended by a
zero byte; of a message, what goes over the wire, all of it at once.
"""

from __future__ import annotations

import mmap
import struct
from dataclasses import dataclass
from enum import IntEnum

MAGIC, VERSION = b"PGDYTAPE", 3
HEADER = struct.Struct("<8sIIQQQ")
"""Magic, version, sessions, records, offset of the index, offset of the sessions."""
RECORD = struct.Struct("<qqqIIBB5sHI")
"""Due, think time (-1: unknown) and cancelled after (-1: never) in us; session, seq; what it is, flags; the expected
SQLSTATE (zero bytes: success), number of gates, length of the payload."""
GATE = struct.Struct("<II")
"""A session, and the seq of the statement of it that must have ended."""
SESSION = struct.Struct("<IQI")
"""Ordinal of a session, place of its first record in the index, number of its records."""
RESETS_ROLE = 1
"""Flag: after it, a session that a stand-in opened would be the stand-in's."""
HAS_KEYS = 2
"""Flag: before the message stands which keys its answer brings, and which it names: `trace.engine.keys`."""
HOLDS = 4
"""Flag: its message ends with `wire.HOLD`, since the next record of the session belongs to the same pipeline."""
NO_ERROR = b"\0\0\0\0\0"


class Act(IntEnum):
    """What an engine does with a record."""

    CONNECT, SEND, DISCONNECT, SKIP = range(4)


class TapeError(ValueError):
    """A file is no tape of this version, or not a whole one."""


@dataclass(frozen=True, slots=True)
class Tape:
    """A tape as it lies in memory, mapped from its file: pages come and go with what is being sent."""

    content: mmap.mmap
    view: memoryview
    index: memoryview
    """Offsets of records."""
    sessions: list[tuple[int, int, int]]
    """Ordinal, place of the first record in the index, number of records."""

    def let_go(self) -> None:
        """Give the pages back that were read; what is read again comes from the system's cache."""
        self.content.madvise(mmap.MADV_DONTNEED)


def map_tape(descriptor: int) -> Tape:
    """Map an open tape; raises TapeError for anything that is not a whole one of this version."""
    try:
        content = mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ)
    except ValueError:
        raise TapeError("the tape is empty") from None
    size = len(content)
    if size < HEADER.size or content[: len(MAGIC)] != MAGIC:
        raise TapeError("the file is no tape")
    _, version, sessions, records, index, table = HEADER.unpack_from(content)
    if version != VERSION:
        raise TapeError(f"a tape of version {version}; this engine reads {VERSION}")
    if table != index + 8 * records or size != table + SESSION.size * sessions:
        raise TapeError("the tape is not whole: whoever wrote it has not ended")
    view = memoryview(content)
    return Tape(content, view, view[index:table].cast("Q"), list(SESSION.iter_unpack(view[table:])))
