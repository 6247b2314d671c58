"""Tapes of a few records, and runs of an engine over them."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql

from pgdyno.sandbox.sandbox import Sandbox
from pgdyno.server.postgres import Postgres
from pgdyno.trace.engine.plan import EndPoint, EnginePlan, Login
from pgdyno.trace.engine.tally import RunTally
from pgdyno.trace.engine.tape import GATE, RECORD, Act, Tape, map_tape
from pgdyno.trace.engines import run_engines
from pgdyno.trace.outcome import Records, read_records
from pgdyno.trace.tape_writer import TapeRecord, TapeWriter, gate_bytes

DATABASE = "engine_contract"
USER = "engine_role"
NOT_TIMES = ["session", "seq", "rows", "bytes", "sqlstate", "expected", "skip"]
"""Columns of records in which two engines must agree; `due_us` beside them, by the clock of the schedule."""


@contextmanager
def database_and_role(postgres: Postgres) -> Iterator[None]:
    """Make the database and the role that the tapes name, and drop both at the end."""
    postgres.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(DATABASE)))
    try:
        postgres.execute(sql.SQL("CREATE ROLE {} LOGIN").format(sql.Identifier(USER)))
        yield
    finally:
        postgres.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(DATABASE)))
        postgres.execute(sql.SQL("DROP ROLE IF EXISTS {}").format(sql.Identifier(USER)))


def connect(session: int = 0, due: int = 0, user: str = USER, database: str = DATABASE) -> TapeRecord:
    return TapeRecord(session, 0, Act.CONNECT, due, f"{user}\0{database}\0replayed\0".encode())


def send(
    seq: int, payload: bytes, due: int = 0, session: int = 0, gates: Sequence[tuple[int, int]] = (), **more: Any
) -> TapeRecord:
    return TapeRecord(session, seq, Act.SEND, due, payload, gates=gate_bytes(gates), **more)


def leave(seq: int, session: int = 0, due: int = 0, gates: Sequence[tuple[int, int]] = ()) -> TapeRecord:
    return TapeRecord(session, seq, Act.DISCONNECT, due, gates=gate_bytes(gates))


def write_tape(path: Path, records: Iterable[TapeRecord]) -> None:
    with path.open("wb") as file:
        writer = TapeWriter(file)
        for record in records:
            writer.add(record)
        writer.close()


def mapped(path: Path) -> Tape:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        return map_tape(descriptor)
    finally:
        os.close(descriptor)


def read_record(tape: Tape, place: int) -> TapeRecord:
    """Return the record at a place of the index."""
    offset = tape.index[place]
    due, think, cancel, session, seq, act, flags, expected, gates, length = RECORD.unpack_from(tape.content, offset)
    start = offset + RECORD.size + gates * GATE.size
    waits = bytes(tape.view[offset + RECORD.size : start])
    state = expected.decode() if expected.strip(b"\0") else None
    payload = bytes(tape.view[start : start + length])
    return TapeRecord(session, seq, Act(act), due, payload, think, cancel, flags, state, waits)


def run_tape(
    program: Sequence[str],
    plan: EnginePlan,
    tape: Path,
    shards: int = 1,
    watch: Callable[[RunTally], bool] = lambda _: False,
    pauses: Callable[[], bool] = lambda: False,
) -> tuple[RunTally, Records]:
    """Return the sum of all shares, and the records of the first."""
    files = [tape.with_name(f"{number}.records") for number in range(shards)]
    for file in files:
        file.write_bytes(b"")
    tally = run_engines(plan, tape, files, program=program, watch=watch, pauses=pauses)
    return tally, read_records(files[0])


def one(found: Records, session: int, seq: int) -> Any:
    (record,) = found[(found["session"] == session) & (found["seq"] == seq)]
    return record


class Stage:
    """A server, an engine, and tapes of a few records."""

    def __init__(self, sandbox: Sandbox, program: Sequence[str], folder: Path) -> None:
        given = sandbox.target().postgres.parameters
        self.server, self.program, self.folder = sandbox, program, folder
        self.owner = given["user"]
        self.plan = EnginePlan(
            -1, -1, EndPoint(given["host"], int(given.get("port", 5432))), Login(stand_in=self.owner), starts_in_s=0.1
        )
        self.tape = folder / "x.tape"

    def write(self, *records: TapeRecord) -> None:
        write_tape(self.tape, records)

    def run(
        self, plan: EnginePlan | None = None, shards: int = 1, watch: Callable[[RunTally], bool] = lambda _: False
    ) -> tuple[RunTally, Records]:
        return run_tape(self.program, plan or self.plan, self.tape, shards, watch)

    def ask(self, query: str) -> list[tuple[object, ...]]:
        with (
            self.server.target().postgres.connect(DATABASE) as connection,
            connection.cursor(row_factory=psycopg.rows.tuple_row) as cursor,
        ):
            return cursor.execute(sql.SQL(query)).fetchall()

    def await_no_session(self) -> None:
        """Wait until the server has ended every session of the replay."""
        deadline = time.monotonic() + 60
        while self.ask("SELECT pid FROM pg_stat_activity WHERE application_name = 'replayed'"):
            assert time.monotonic() < deadline
            time.sleep(0.05)
