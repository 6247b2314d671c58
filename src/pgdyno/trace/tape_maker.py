"""Make a tape of a trace: rows of statements become messages of the wire protocol. Pure but for the writer.

What a log does not say is settled here, once for both engines: under which names statements are prepared at each
moment, when the client had thought, after how long it cancelled.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from pgdyno.errors import UsageError
from pgdyno.trace.engine import wire
from pgdyno.trace.engine.keys import HEAD, LEARN, NAME, KeyPlace
from pgdyno.trace.engine.tape import HAS_KEYS, HOLDS, RESETS_ROLE, Act
from pgdyno.trace.fingerprints import takes_values
from pgdyno.trace.schema import Row
from pgdyno.trace.tape_writer import TapeRecord

CANCELLED = "57014"
LOCKED = "55P03"
_PARAMETER = re.compile(r"\$[0-9]")
MOST_UNSEEN_US = 10_000_000
"""What a cancelled statement is taken to have run at most, where the log has its end alone."""
_AFTER_US = 50_000
"""By so much a cancel is later than the captured one: where a timeout of the server ended the statement, it does so
again before that, and no cancel is on its way that would meet the next one."""
MOST_KEYS = 0xFFFF
"""Of one statement; those beyond them stay as captured."""
_TEXT = 5
"""Where the text of a simple query begins in its message."""
_CLOSE = re.compile(r'\s*deallocate\s+(?:prepare\s+)?(?:(all)\b|"((?:[^"]|"")+)"|(\w+))', re.IGNORECASE)
_DISCARD = re.compile(r"\s*discard\s+all\b", re.IGNORECASE)
_LOCK_TIMEOUT = re.compile(
    r"""\s*(?:set|reset|select\s+(?:pg_catalog\.)?set_config)\b.*?\block_timeout\b(?:\s*(?:to|=|',)\s*'?(\d{1,9})\s*(us|ms|s|min|h|d)?\b)?""",
    re.IGNORECASE,
)
_UNITS_US = {"us": 1, "ms": 1_000, "s": 1_000_000, "min": 60_000_000, "h": 3_600_000_000, "d": 86_400_000_000}
_NO_WAIT = re.compile(r"\bnowait\b", re.IGNORECASE)
_ROLE = re.compile(r"\bdiscard\s+all\b|\bsession\s+authorization\b|\bsession_authorization\b", re.IGNORECASE)


class TraceRow(NamedTuple):
    """The columns of a trace that a tape is made of, in this order; their meaning is that of `trace.schema.TRACE`."""

    session: int
    seq: int
    kind: str
    due_us: int
    end_us: int | None
    statement: str | None
    sql: str | None
    params: list[str | None] | None
    sqlstate: str | None
    user: str | None
    database: str | None
    application: str | None
    refused: str | None
    gates: bytes | None = None
    """Which statements of other sessions it waits for (`trace.gates`), as `tape_writer.gate_bytes` has them."""
    learns: list[list[int]] | None = None
    """Keys that its answer brings: number, row and field of each, by row: see `replay.key_map`."""
    names: list[list[int]] | None = None
    """Keys that it names: number, `KeyPlace`, parameter or byte of the text, and length of each, in their order."""
    holds: bool | None = None
    """A later statement of its pipeline follows, with which it is committed."""


@dataclass(slots=True)
class _OpenSession:
    """What of a session's rows so far matters to those that follow."""

    seq: int = -1
    end_us: int | None = None
    names: dict[str, int] = field(default_factory=dict)
    """Under which statements are prepared, with the hash of the text of each."""
    lock_timeout_us: int = 0
    """That it set; 0 for none, or one that nobody knows."""


def records_of(rows: Iterable[TraceRow]) -> Iterator[TapeRecord]:
    """Give the record of each row. Rows of a session come in its order; memory is that of the sessions that are open.

    A row that cannot be sent, as it is refused or its text is not known, becomes one that is skipped. Raises UsageError
    for a session that is out of order.
    """
    sessions = dict[int, _OpenSession]()
    for row in rows:
        session = sessions.get(row.session)
        if session is None:
            session = sessions[row.session] = _OpenSession()
        if row.seq <= session.seq:
            raise out_of_order(row.session, row.seq)
        think = -1 if session.end_us is None else max(row.due_us - session.end_us, 0)
        unseen = min(max(think, 0), _unseen_us(row, session.lock_timeout_us))
        yield _record(row._replace(due_us=row.due_us - unseen), session.names, think - unseen)
        if row.sqlstate is None and row.sql:
            session.lock_timeout_us = _timeout_after(row.sql, session.lock_timeout_us)
        session.seq, session.end_us = row.seq, row.due_us if row.end_us is None else row.end_us
        if row.kind == Row.DISCONNECT:
            del sessions[row.session]


def out_of_order(session: int, seq: int) -> UsageError:
    """Return the error for a trace whose rows are not ordered by `due_us`, `session`, `seq`."""
    return UsageError(
        f"statement {seq} of session {session} is not in its place in the trace",
        hint="Make the trace anew: pgdyno trace build.",
    )


def _unseen_us(row: TraceRow, lock_timeout_us: int) -> int:
    """Return what a statement may have run of which the log has the end alone, as of a failed one in style B."""
    if row.end_us != row.due_us:
        return 0
    if row.sqlstate == LOCKED and not _NO_WAIT.search(row.sql or ""):
        return lock_timeout_us
    return MOST_UNSEEN_US if row.sqlstate == CANCELLED else 0


def unseen_timeouts(rows: Iterable[tuple[int, int, str | None, str]]) -> Iterator[tuple[int, int]]:
    """Give session and seq of what got no lock in time by a timeout that no statement of its session had set.

    `rows` are session, seq, SQLSTATE and text in their order: of such errors, and of statements that set a timeout.
    """
    before, timeout_us = -1, 0
    for session, seq, sqlstate, sql in rows:
        before, timeout_us = session, timeout_us if session == before else 0
        if sqlstate is None:
            timeout_us = _timeout_after(sql, timeout_us)
        elif not timeout_us and not _NO_WAIT.search(sql):
            yield session, seq


def _timeout_after(sql: str, before_us: int) -> int:
    """Return the lock_timeout that a session has set after a statement; 0 for none."""
    if _DISCARD.match(sql):
        return 0
    if (found := _LOCK_TIMEOUT.match(sql)) is None:
        return before_us
    return int(found[1] or 0) * _UNITS_US[(found[2] or "ms").lower()]


def _record(row: TraceRow, names: dict[str, int], think_us: int) -> TapeRecord:
    act, payload, flags, cancel_us = Act.SEND, b"", 0, -1
    if row.refused is not None:
        act = Act.SKIP
    elif row.kind == Row.CONNECT:
        act = Act.CONNECT
        payload = "\0".join((row.user or "", row.database or "", row.application or "", "")).encode()
    elif row.kind == Row.DISCONNECT:
        act = Act.DISCONNECT
    elif row.sql is None:
        act = Act.SKIP
    else:
        payload = _payload(row, row.sql, names)
        flags = RESETS_ROLE if _ROLE.search(row.sql) else 0
        if row.holds and not flags:  # a role that is reset is set again by a statement of its own
            payload, flags = payload.removesuffix(wire.SYNC) + wire.HOLD, HOLDS
        if (row.learns or row.names) and not _is_unbound(row, row.sql):
            payload, flags = _block(row, payload) + payload, flags | HAS_KEYS
        if row.sqlstate == CANCELLED and row.end_us is not None and row.end_us >= row.due_us:
            cancel_us = row.end_us - row.due_us + _AFTER_US
    is_edge = row.kind in (Row.CONNECT, Row.DISCONNECT)
    return TapeRecord(
        row.session,
        row.seq,
        act,
        row.due_us,
        payload,
        think_us,
        cancel_us,
        flags,
        row.sqlstate,
        row.gates or b"",
        is_edge,
    )


def _payload(row: TraceRow, sql: str, names: dict[str, int]) -> bytes:
    if row.kind == Row.SIMPLE:
        if row.sqlstate is None:
            _forget(sql, names)
        return wire.query(sql)
    name = row.statement or ""
    if row.kind == Row.PARSE:
        # The message that closes a statement is in no log: a name that is prepared again was closed before.
        closed = wire.close(name) if name in names else b""
        if row.sqlstate is None:
            names[name] = hash(sql)
        return closed + wire.parse(name, sql) + wire.SYNC
    # A log without durations, as pgreplay wants it, has no parse: a name with another text was prepared again.
    known = names.get(name) if name else None
    is_known, closed = known == hash(sql), wire.close(name) if known not in (None, hash(sql)) else b""
    if name and row.sqlstate is None:
        names[name] = hash(sql)
    if row.sqlstate is None:
        _forget(sql, names)
    if not is_known and _is_unbound(row, sql):
        return closed + wire.parse(name, sql) + wire.SYNC
    return closed + wire.extended(name, row.params or (), None if is_known else sql)


def _is_unbound(row: TraceRow, sql: str) -> bool:
    """Tell whether a statement got no lock in time when it was parsed, before its values came.

    In a replay that lock may be free: to bind no values would then be an error of the protocol, which no client had
    made. Any other error of parsing comes again before a Bind. What failed by its values is bound without them: it
    fails as well, and so aborts its transaction.
    """
    failed = row.kind == Row.EXTENDED and row.params is None and row.sqlstate == LOCKED
    return failed and _PARAMETER.search(sql) is not None and takes_values(sql)


def _block(row: TraceRow, payload: bytes) -> bytes:
    """Return what stands before the message of a row with keys."""
    learns, names = (row.learns or [])[:MOST_KEYS], (row.names or [])[:MOST_KEYS]
    begin, starts = 0, list[int]()
    if row.kind == Row.EXTENDED:
        bound = wire.bind(row.statement or "", row.params or ())
        begin = payload.rindex(bound)
        at = begin + len(bound) - 2
        for value in reversed(row.params or ()):
            at -= len((value or "").encode())
            starts.append(at)
            at -= 4
        starts.reverse()
    parts = [HEAD.pack(len(learns), len(names)), *(LEARN.pack(*one) for one in learns)]
    for number, place, at, length in names:
        where = starts[at - 1] if place == KeyPlace.BOUND else _TEXT + at
        parts.append(NAME.pack(number, place, begin, where, length))
    return b"".join(parts)


def _forget(sql: str, names: dict[str, int]) -> None:
    """Take the names away that a statement of SQL closes."""
    if found := _CLOSE.match(sql):
        every, quoted, plain = found.groups()
        if every:
            names.clear()
        else:
            names.pop(quoted.replace('""', '"') if quoted else plain.lower(), None)
    elif _DISCARD.match(sql):
        names.clear()
