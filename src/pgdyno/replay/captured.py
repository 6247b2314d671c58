"""What a trace asks of a target, and its tape."""

from __future__ import annotations

import math
import os
from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Any, BinaryIO

from pgdyno.errors import UsageError
from pgdyno.outputs import open_new
from pgdyno.replay.key_map import MappedKeys, map_keys
from pgdyno.trace.engine.tape import Act
from pgdyno.trace.gates import Order, OrderedRow, gates, key_columns
from pgdyno.trace.parquet import (
    MEMORY_MB,
    connection,
    fetched,
    let_take,
    read_meta,
    trace_source,
    work_folder,
    write_rows,
)
from pgdyno.trace.schema import Row, TraceColumn
from pgdyno.trace.summary import PIPELINES
from pgdyno.trace.tape_maker import TraceRow, out_of_order, records_of
from pgdyno.trace.tape_writer import TapeWriter, gate_bytes

if TYPE_CHECKING:
    from pgdyno.trace.parquet import Connection

_GATES = (
    TraceColumn("session", "INTEGER", "who waits"),
    TraceColumn("seq", "INTEGER", "with which statement"),
    TraceColumn("gates_at", "BIGINT", "where in the file of gates its own begin"),
    TraceColumn("gates_size", "INTEGER", "how many bytes they are"),
)
_STORED = TraceRow._fields[: -len(TraceRow._field_defaults)]
"""Columns of the trace; the others are made here, for some rows."""
_MADE_FROM = ("gates_at", "gates_size", "learns", "names", "holds")
"""What they are made of."""
_NOWHERE = "session IS NULL OR session < 0 OR seq IS NULL OR seq < 0 OR kind IS NULL OR due_us IS NULL"
_NARROW_MB, _NARROW = 40, 1_000_000
"""What the sort of so many rows without texts needs: it writes to disk in any case."""
_SHORT_VALUES = 200
"""Characters of the values of a row that make it no wider than that."""
_FEW_TEXTS = 4 << 20
"""Characters of all texts together that are kept beside a sort instead of in each of its rows."""
_GROUPED, _MOST_PARTS = 125_000, 32
"""Rows whose transactions are looked at together, those of some sessions: a million at once take 80 MB."""
_GATES_MB = 32
"""Of which rows have gates."""
_JOINED_MB = 90
"""What joining gates to rows takes beside what becomes of them."""
_TELL_EVERY = 200_000


@dataclass(frozen=True, slots=True)
class Asked:
    """Roles and databases of a trace's sessions, how many sessions are open at one time at most, and its length."""

    users: tuple[str, ...]
    databases: tuple[str, ...]
    most_sessions: int
    last_due_us: int


@dataclass(frozen=True, slots=True)
class Taped:
    """What is on a tape: records that are sent, those that are skipped as refused, and captured pauses in us."""

    statements: int
    refused: int
    gated: int
    """Statements that wait for those of other sessions."""
    think_us: array[int]
    keys: MappedKeys = field(default_factory=MappedKeys)


def asked_of(trace: Path) -> Asked:
    """Return what the sessions of a trace ask for. Raises UsageError for one with a row that stands nowhere."""
    with connection() as db, trace_source(trace, db) as source:
        ask = db.execute
        if lost := ask(f"SELECT session, seq FROM {source} WHERE {_NOWHERE} LIMIT 1").fetchone():
            raise UsageError(
                f'"{trace}" has a row without session, place, kind or due moment: session {lost[0]}, row {lost[1]}',
                hint="Make the trace anew: pgdyno trace build.",
            )
        names = {column: _distinct(db, source, column) for column in ("user", "database")}
        most = ask(
            f"""SELECT coalesce(max(those), 0) FROM (SELECT sum(step) OVER (ORDER BY moment, step) AS those FROM (
                SELECT min(due_us) AS moment, 1 AS step FROM {source} GROUP BY session
                UNION ALL SELECT max(coalesce(end_us, due_us)), -1 FROM {source} GROUP BY session))"""
        ).fetchone()
        last = ask(f"SELECT coalesce(max(due_us), 0) FROM {source}").fetchone()
    assert most is not None
    assert last is not None
    return Asked(names["user"], names["database"], int(most[0]), int(last[0]))


def _distinct(db: Connection, source: str, column: str) -> tuple[str, ...]:
    opened = f"{source} WHERE kind = ? AND refused IS NULL"
    found = db.execute(f'SELECT DISTINCT "{column}" FROM {opened} ORDER BY 1', [Row.CONNECT])
    return tuple(str(row[0]) for row in found.fetchall() if row[0] is not None)


def _rows(trace: Path, folder: Path, order: Order, mapped: list[MappedKeys]) -> Iterator[TraceRow]:
    """Give the rows in the order of the trace, a batch at a time; what is sorted is on the disk of the outcome."""
    with connection(folder, of="tape") as db, trace_source(trace, db) as source:
        meta = read_meta(trace)
        keys = map_keys(source, meta, folder, db)
        mapped.append(keys)
        making = frozenset(one.name for one in meta.key_tables if one.generated) or None
        beside = _beside(source, folder, order, db, keys, making if order is Order.ROW else None)
        db.execute("SET preserve_insertion_order = true")
        stored = ", ".join(f'"{name}"' for name in _STORED)
        more = next(beside, None)
        for row in fetched(db, f"SELECT {stored} FROM {source}"):
            if more is not None and more[:2] == row[:2]:
                yield TraceRow(*row, *more[2:])
                more = next(beside, None)
            else:
                yield TraceRow(*row)
        if more is not None:
            raise out_of_order(*more[:2])


def _beside(
    source: str, folder: Path, order: Order, db: Connection, keys: MappedKeys, making: frozenset[str] | None
) -> Iterator[tuple[Any, ...]]:
    """Give session, seq, gates, keys and whether a pipeline goes on, of rows that have any, in the trace's order."""
    joined, made = f"(SELECT session, seq, due_us FROM {source})", list[str]()
    with TemporaryFile(dir=folder) as gates_file:
        if order is not Order.SESSION:
            gated = folder / "gates.parquet"
            found = _gated(source, order, db, gates_file, making, has_turns=keys.captured > 0)
            write_rows(gated, _GATES, found, memory_mb=_GATES_MB)
            joined, made = f"{joined} LEFT JOIN '{gated}' USING (session, seq)", ["gates_at", "gates_size"]
        if keys.named:
            joined += " LEFT JOIN learns USING (session, seq) LEFT JOIN names USING (session, seq)"
            made += ["learns", "names"]
        if _finds_pipelines(source, db):
            joined += " LEFT JOIN held USING (session, seq)"
            made.append("holds")
        if not made:
            return
        columns = ", ".join(name if name in made else "NULL" for name in _MADE_FROM)
        known = " OR ".join(f"{name} IS NOT NULL" for name in made)
        query = f"SELECT session, seq, {columns} FROM {joined} WHERE {known} ORDER BY due_us, session, seq"
        for session, seq, at, size, *more in fetched(db, query):
            yield session, seq, None if at is None else os.pread(gates_file.fileno(), size, at), *more


def _finds_pipelines(source: str, db: Connection) -> bool:
    """Make a table `held` of the statements after which their pipeline goes on; tell whether there are any."""
    db.execute("CREATE TABLE held (session INTEGER, seq INTEGER, holds BOOLEAN)")
    ((rows,),) = db.execute(f"SELECT count(*) FROM {source}").fetchall()
    parts = min(_MOST_PARTS, 1 + rows // _GROUPED)
    for part in range(parts):
        some = f"(SELECT * FROM {source} WHERE session % {parts} = {part})"
        db.execute(
            f"INSERT INTO held SELECT session, seq, true FROM {some}"
            f" JOIN ({PIPELINES.format(trace=some)}) USING (session, tx) WHERE seq < last"
        )
    return db.execute("SELECT 1 FROM held LIMIT 1").fetchone() is not None


def _gated(
    source: str, order: Order, db: Connection, file: BinaryIO, making: frozenset[str] | None, *, has_turns: bool
) -> Iterator[tuple[int, int, int, int]]:
    """Give session and seq of the statements that wait, and which bytes of `file` are their gates.

    By tables a statement may wait for many others: lists of them take the memory of the trace many times over. What is
    sorted is as narrow: tables are those of any text with the same fingerprint, and rows alone have values; where texts
    are few, as prepared ones are, each has a number.
    """
    asked = f"FROM {source} WHERE sql IS NOT NULL AND refused IS NULL"
    number, params, keys, texts = "NULL::UBIGINT", "params", dict[str, str](), dict[int, str]()
    if order is Order.ROW:
        calls = fetched(db, f"SELECT sql, count(*) {asked} GROUP BY sql")
        keys = key_columns((str(sql), int(count)) for sql, count in calls)
        every = f"SELECT DISTINCT sql {asked}"
        is_short = f"coalesce(sum(length(sql)), 0) <= {_FEW_TEXTS}"
        ((is_few,),) = db.execute(
            f"SELECT count(DISTINCT hash(sql)) = count(*) AND {is_short} FROM ({every})"
        ).fetchall()
        if is_few:
            number = "hash(sql)"
            texts.update(fetched(db, f"SELECT {number}, sql FROM ({every})"))
    else:
        number, params = "TRY_CAST('0x' || fingerprint AS UBIGINT)", "NULL::VARCHAR[]"
        texts.update(fetched(db, f"SELECT {number}, any_value(sql) {asked} AND {number} IS NOT NULL GROUP BY 1"))
    is_wide = f"{number} IS NULL OR length(array_to_string({params}, '')) > {_SHORT_VALUES}"
    ((rows, wide),) = db.execute(f"SELECT count(*), count(*) FILTER ({is_wide}) {asked}").fetchall()
    narrow_mb = min(MEMORY_MB, round(_NARROW_MB * math.sqrt(max(1.0, rows / _NARROW))))
    turns = "turn, before_session, before_seq" if has_turns else "NULL, NULL, NULL"
    joined = asked.replace(" WHERE", " LEFT JOIN turns USING (session, seq) WHERE", 1) if has_turns else asked
    query = f"""
        SELECT {number}, session, seq, tx, CASE WHEN {number} IS NULL THEN sql END, {params}, sqlstate IS NOT NULL,
               seq = max(seq) OVER (PARTITION BY session, tx), {turns} {joined}
        ORDER BY place NULLS LAST, end_us NULLS LAST, session, seq"""
    found = (
        OrderedRow(session, seq, tx, texts.get(text, sql), *more)
        for text, session, seq, tx, sql, *more in fetched(db, query)
    )
    at = 0
    let_take(db, MEMORY_MB if wide or has_turns else narrow_mb)
    for session, seq, waits in gates(found, keys, making):
        size = file.write(gate_bytes(waits))
        yield session, seq, at, size
        at += size
    file.flush()
    let_take(db, MEMORY_MB if has_turns else _JOINED_MB)


def write_tape(
    trace: Path, tape: Path, order: Order, tell: Callable[[int], None], application: str | None = None
) -> Taped:
    """Write the tape of a trace; `tell` is now and then given the number of rows so far.

    `trace` is the trace's file and `tape` the one to make; `order` is what is kept of the order between sessions. They
    all name themselves `application`, or as captured where that is None. Raises UsageError for what cannot be sent,
    such as a zero byte in a text.
    """
    statements = refused = gated = 0
    think = array("q")
    with open_new(tape) as file, work_folder(tape) as folder:
        writer = TapeWriter(file)
        mapped = list[MappedKeys]()
        rows = _rows(trace, folder, order, mapped)
        named = rows if application is None else (row._replace(application=application) for row in rows)
        try:
            for number, record in enumerate(records_of(named)):
                writer.add(record)
                if record.act is Act.SEND:
                    statements += 1
                    gated += bool(record.gates)
                    if record.think_us > 0:
                        think.append(record.think_us)
                elif record.act is Act.SKIP and not record.is_edge:
                    refused += 1
                if number % _TELL_EVERY == _TELL_EVERY - 1:
                    tell(number + 1)
        except ValueError as error:
            raise UsageError(
                f'"{trace}" cannot be sent: {error}', hint="Make the trace anew: pgdyno trace build."
            ) from error
        writer.close()
    return Taped(statements, refused, gated, think, *mapped)
