"""Messages of PostgreSQL's wire protocol, version 3, encoded and taken apart. Pure.

Source: the chapter "Frontend/Backend Protocol" of PostgreSQL's documentation, alike in every supported version.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from functools import lru_cache

PROTOCOL = 196608
SSL_REQUEST = struct.pack("!ii", 8, 80877103)
TERMINATE = b"X\x00\x00\x00\x04"
SYNC = b"S\x00\x00\x00\x04"
HOLD = b"C\x00\x00\x00\x06P\x00H\x00\x00\x00\x04"
"""In the place of a Sync: what was executed is answered, and not committed; the portal's end marks the answer's."""
EXECUTE = b"E\x00\x00\x00\x09\x00\x00\x00\x00\x00"
"""The unnamed portal, all rows."""
DESCRIBE = b"D\x00\x00\x00\x06P\x00"
"""The unnamed portal: libpq asks for it before each execution, so that most clients do."""

_HEAD = struct.Struct("!ci")


def message(kind: bytes, body: bytes) -> bytes:
    """Return a message of the kind: its letter, its length, its body."""
    return _HEAD.pack(kind, len(body) + 4) + body


COPY_FAIL = message(b"f", b"the data are not in the log\0")


def startup(settings: Mapping[str, str]) -> bytes:
    """Return the first message of a connection: user, database and settings of the session."""
    body = b"".join(_text(name) + _text(value) for name, value in settings.items()) + b"\0"
    return struct.pack("!ii", len(body) + 8, PROTOCOL) + body


def cancel_request(pid: int, key: bytes) -> bytes:
    """Return what asks the server, on a connection of its own, to cancel what process `pid` is at."""
    return struct.pack("!iii", 12 + len(key), 80877102, pid) + key


def query(sql: str) -> bytes:
    """Return a simple query."""
    return message(b"Q", _text(sql))


def parse(name: str, sql: str) -> bytes:
    """Return the message that prepares `sql`; the server infers the types of all parameters."""
    return message(b"P", _text(name) + _text(sql) + b"\0\0")


def close(name: str) -> bytes:
    """Return the message that gives up a prepared statement; one that is not there is no error."""
    return message(b"C", b"S" + _text(name))


def bind(name: str, params: Sequence[str | None]) -> bytes:
    """Return the message that binds values, as text, to the unnamed portal of a prepared statement; None is NULL."""
    parts = [b"\0", _text(name), b"\0\0", struct.pack("!H", len(params))]
    for value in params:
        if value is None:
            parts.append(b"\xff\xff\xff\xff")
        else:
            encoded = value.encode()
            parts += (struct.pack("!i", len(encoded)), encoded)
    parts.append(b"\0\0")
    return message(b"B", b"".join(parts))


def extended(name: str, params: Sequence[str | None], sql: str | None) -> bytes:
    """Return a whole execution: prepared on the way where `sql` is given, bound, described, executed, synchronised."""
    prepared = b"" if sql is None else parse(name, sql)
    return prepared + bind(name, params) + DESCRIBE + EXECUTE + SYNC


def fields_of_error(body: bytes) -> dict[str, str]:
    """Return the fields of an error or a notice by their letters: C the SQLSTATE, M the message."""
    return {part[:1].decode(): part[1:].decode(errors="replace") for part in body.split(b"\0") if part}


@lru_cache(maxsize=4096)
def rows_of(tag: bytes) -> int | None:
    """Return the rows that a command tag counts, `INSERT 0 5` -> 5; None where it counts none."""
    last = tag.rstrip(b"\0").rpartition(b" ")[2]
    return int(last) if last.isdigit() and len(last) <= 18 else None


def _text(value: str) -> bytes:
    encoded = value.encode()
    if b"\0" in encoded:
        raise ValueError("a text of the protocol cannot hold a zero byte")
    return encoded + b"\0"
