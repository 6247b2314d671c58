"""Which statements wait for which, so that sessions meet in the captured order: by table, or by row. Pure.

A statement waits for the transactions that wrote what it touches and had committed, in the capture, before it ended.
That holds no one up who was not held up then, but a gate and a lock may still wait for each other: engines open a gate
that is closed for too long, and count it. Who reads is not waited for: what is kept is what statements find and leave,
not when they look. Inserts whose key the table makes itself follow each other, so that a sequence gives out the same
keys: in the order of the captured keys, where a trace has them.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple, TypeAlias

from pgdyno.trace.touches import Touch, touches

Gate: TypeAlias = tuple[int, int]
"""A session, and the seq of its statement that must have ended."""
MOST_ROWS = 1_000_000
"""Rows whose last writer is remembered, and at least half as many: one that was written before so many others has long
been written again."""
_SEQ = (1 << 32) - 1
_SLOTS = 1 << 10
MOST_SESSIONS = 64
"""Last writers of a table that a statement on all of it waits for."""


class Order(StrEnum):
    """What is kept of the order between sessions."""

    SESSION = "session"
    """Nothing: each session is in its own order."""
    TABLE = "table"
    ROW = "row"


class OrderedRow(NamedTuple):
    """What of a trace's row matters here; rows come in the order in which they ended."""

    session: int
    seq: int
    tx: int
    sql: str
    params: list[str | None] | None
    is_failed: bool
    ends_tx: bool
    """It is the last of its transaction."""
    turn: int | None = None
    """Of an INSERT whose key is known, its place among those of its table by their keys."""
    before_session: int | None = None
    before_seq: int | None = None
    """The INSERT with the key before."""


@dataclass(slots=True)
class _Table:
    """Who wrote to a table last, in transactions that had committed."""

    whole: Gate | None = None
    """Statements on all of it, or on rows that nobody can name."""
    inserted: Gate | None = None
    making_keys: Gate | None = None
    """The last statement, committed or not, that had the table make a key."""
    turn: int | None = None
    """Of that statement."""
    sessions: dict[int, int] = field(default_factory=dict)


class _Slots:
    """Gates by 64 bits, in two arrays with open addressing: 24 to 48 bytes for each, where a dict takes 150."""

    def __init__(self, size: int = _SLOTS) -> None:
        self.count = 0
        self._last = size - 1
        self._keys, self._gates = array("q", [0]) * size, array("Q", [0]) * size

    def get(self, key: int) -> int | None:
        keys, last, at = self._keys, self._last, key & self._last
        while (found := keys[at]) != key:
            if not found:
                return None
            at = (at + 1) & last
        return self._gates[at]

    def put(self, key: int, gate: int) -> None:
        keys, last, at = self._keys, self._last, key & self._last
        while (found := keys[at]) != key:
            if not found:
                keys[at] = key
                self.count += 1
                break
            at = (at + 1) & last
        self._gates[at] = gate
        if 3 * self.count > 2 * last:
            self._grow()

    def _grow(self) -> None:
        wider = _Slots(2 * len(self._keys))
        for key, gate in zip(self._keys, self._gates, strict=True):
            if key:
                wider.put(key, gate)
        self._last, self._keys, self._gates = wider._last, wider._keys, wider._gates


class _LastWriters:
    """Who wrote a row last, in transactions that had committed.

    A row is known by 64 bits of its table and its key: of a million two have the same once in 37 million traces, and
    then one waits for the writer of the other.
    """

    def __init__(self) -> None:
        self._young, self._old = _Slots(), _Slots()

    def get(self, table: str, value: str) -> Gate | None:
        key = _bits(table, value)
        found = self._young.get(key)
        if found is None and (found := self._old.get(key)) is None:
            return None
        return found >> 32, found & _SEQ

    def put(self, table: str, value: str, gate: Gate) -> None:
        self._young.put(_bits(table, value), gate[0] << 32 | gate[1])
        if 2 * self._young.count >= MOST_ROWS:
            self._young, self._old = _Slots(), self._young


def _bits(table: str, value: str) -> int:
    return hash(f"{table}\0{value}") or 1  # an empty slot has 0


def key_columns(texts: Iterable[tuple[str, int]]) -> dict[str, str]:
    """Return for each table the column by which most of its statements name a row; of each text how often it runs."""
    counts = Counter[tuple[str, str]]()
    for sql, calls in texts:
        for touch in touches(sql):
            if not touch.inserts:
                counts.update({(touch.table, one.column): calls for one in touch.equal})
    found = dict[str, str]()
    for (table, column), _ in counts.most_common():
        found.setdefault(table, column)
    return found


def gates(
    rows: Iterable[OrderedRow], keys: Mapping[str, str], making: frozenset[str] | None = None
) -> Iterator[tuple[int, int, list[Gate]]]:
    """Give session, seq and gates of each statement that waits; with `keys` by rows, without by tables.

    `making` are the tables that make keys themselves; None where nobody knows, and any may.
    """
    tables, written = dict[str, _Table](), _LastWriters()
    pending = dict[int, list[tuple[Touch, str | None]]]()
    for row in rows:
        found = dict[int, int]()
        for touch in touches(row.sql):
            table = tables.setdefault(touch.table, _Table())
            value = _value(touch, row, keys)
            makes = touch.inserts and value is None and (making is None or touch.table in making)
            turns = _turns(table, row) if makes else ()
            for gate in (*_before(touch, value, table, written), *turns):
                if gate[0] != row.session:
                    found[gate[0]] = max(found.get(gate[0], -1), gate[1])
            if touch.writes and not row.is_failed:
                pending.setdefault(row.session, []).append((touch, value))
                if makes:
                    table.making_keys, table.turn = (row.session, row.seq), row.turn
        if found:
            yield row.session, row.seq, sorted(found.items())
        if row.ends_tx:
            done = pending.pop(row.session, [])
            if not row.is_failed and not row.sql.lstrip()[:8].lower().startswith(("rollback", "abort")):
                _publish(done, (row.session, row.seq), tables, written)


def _value(touch: Touch, row: OrderedRow, keys: Mapping[str, str]) -> str | None:
    column = keys.get(touch.table)
    return next((one.value(row.params) for one in touch.equal if one.column == column), None)


def _turns(table: _Table, row: OrderedRow) -> Iterator[Gate]:
    """Give the inserts before which a sequence is not to be asked: by their keys, else as they ended."""
    if table.making_keys is not None and (row.turn is None or table.turn is None or table.turn < row.turn):
        yield table.making_keys
    if row.before_session is not None and row.before_seq is not None:
        yield row.before_session, row.before_seq


def _before(touch: Touch, value: str | None, table: _Table, written: _LastWriters) -> Iterator[Gate]:
    known = None if value is None else written.get(touch.table, value)
    if touch.inserts:
        yield from (gate for gate in (known, table.whole) if gate is not None)
    elif value is None:
        yield from table.sessions.items()
    else:
        named = (known, table.whole, table.inserted)
        yield from (gate for gate in named if gate is not None)


def _publish(
    done: Iterable[tuple[Touch, str | None]],
    gate: Gate,
    tables: Mapping[str, _Table],
    written: _LastWriters,
) -> None:
    for touch, value in done:
        table = tables[touch.table]
        table.sessions.pop(gate[0], None)
        table.sessions[gate[0]] = gate[1]
        if len(table.sessions) > MOST_SESSIONS:
            del table.sessions[next(iter(table.sessions))]
        if touch.inserts and value is None:
            table.inserted = gate
        elif value is None:
            table.whole = gate
        else:
            written.put(touch.table, value, gate)
