"""What both engines do alike: the same rows of one tape, passwords, and servers that are none."""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from engine_tapes import NOT_TIMES, connect, leave, run_tape, send, write_tape
from fix_postgres import find_build, public_dir
from locked_server import PASSWORD, LockedServer, locked_server
from pgdyno.trace.engine import wire
from pgdyno.trace.engine.plan import EndPoint, EnginePlan, Login
from pgdyno.trace.engine.records import Skip
from pgdyno.trace.engine.tally import RunTally
from pgdyno.trace.engine.tape import RESETS_ROLE, Act
from pgdyno.trace.engines import PYTHON
from pgdyno.trace.tape_writer import TapeRecord

pytestmark = pytest.mark.pg

ROLES = ("tuner", "hashed", "plain", "wrong", "unknown")
REASONS = {
    'password authentication failed for user "wrong"': 1,
    "the server asks for the password of 'unknown', and none is known": 1,
    'database "nowhere" does not exist': 1,
}


@pytest.fixture(scope="module")
def server() -> Iterator[LockedServer]:
    with locked_server(find_build("embedded-18"), public_dir()) as server:
        for statement in (
            "CREATE ROLE wrong LOGIN PASSWORD 'other'; CREATE ROLE unknown LOGIN PASSWORD 'x'",
            "CREATE ROLE plain LOGIN PASSWORD 'in clear'; CREATE TABLE public.both (id int PRIMARY KEY, v text)",
            "SET password_encryption = 'md5'; CREATE ROLE hashed LOGIN PASSWORD 'as PostgreSQL 9'",
        ):
            server.admin.execute(statement)
        hba = server.config / "pg_hba.conf"
        kinds = "host all hashed 127.0.0.1/32 md5\nhost all plain 127.0.0.1/32 password\n"
        hba.write_text(kinds + hba.read_text())
        server.admin.execute("SELECT pg_reload_conf()")
        yield server


@pytest.fixture
def programs(compiled_engine: Path) -> list[tuple[str, ...]]:
    return [PYTHON, (str(compiled_engine),)]


def plan_for(server: LockedServer, **more) -> EnginePlan:
    passwords = {"tuner": PASSWORD, "hashed": "as PostgreSQL 9", "plain": "in clear", "wrong": "no"}
    return EnginePlan(-1, -1, EndPoint("127.0.0.1", server.port), Login(passwords), starts_in_s=0.1, **more)


def test_both_open_sessions_by_every_kind_of_password(
    server: LockedServer, programs: list[tuple[str, ...]], tmp_path: Path
) -> None:
    tape = tmp_path / "x.tape"
    is_me = "SELECT 1 / (current_user = '{}' AND current_setting('work_mem') = '7MB')::int"
    write_tape(tape, [
        one
        for number, role in enumerate(ROLES)
        for one in (
            connect(number, user=f"old {role}", database="old"),
            send(1, wire.query(is_me.format(role)), session=number),
            leave(2, number),
        )
    ] + [connect(9, user="tuner", database="nowhere"), leave(1, 9)])  # fmt: skip
    users = {f"old {role}": role for role in ROLES}
    for program in programs:
        plan = plan_for(server, users=users, databases={"old": "postgres"}, settings={"work_mem": "7MB"})
        tally, found = run_tape(program, plan, tape)
        assert tally.reasons == REASONS
        assert (tally.sent, tally.errors, tally.ended) == (3, 3, "complete")
        assert set(found["skip"][found["session"] < 3]) == {Skip.SENT}


def test_both_write_the_same_rows_but_for_the_times(
    server: LockedServer, programs: list[tuple[str, ...]], tmp_path: Path
) -> None:
    tape = tmp_path / "x.tape"
    write_tape(tape, [
        connect(0, user="tuner", database="postgres"),
        send(1, wire.query("INSERT INTO public.both SELECT n, repeat('ü', n) FROM generate_series(1, 3000) n")),
        send(2, wire.query("SELECT * FROM public.both; SELECT 1/0"), due=7),
        send(3, wire.parse("p", "SELECT v FROM public.both WHERE id = $1 OR v = $2") + wire.SYNC, due=15),
        *(send(n, wire.extended("p", [str(n), None], None), due=n * 1000) for n in range(4, 200)),
        send(200, wire.query("INSERT INTO public.both VALUES (1, '')"), expected="23505"),
        send(201, wire.extended("", [], "COPY public.both FROM STDIN"), expected="23505"),
        send(202, wire.query("COPY public.both FROM STDIN")),
        send(203, wire.query("COPY public.both TO STDOUT; DELETE FROM public.both")),
        send(204, wire.query("SELECT '" + "x" * 3_000_000 + "'")),
        TapeRecord(0, 205, Act.SKIP, 0),
        send(206, wire.query("DISCARD ALL"), flags=RESETS_ROLE),
        send(207, wire.query("SELECT pg_terminate_backend(pg_backend_pid())")),
        send(208, wire.query("SELECT 1")),
        leave(209),
        connect(1, user="tuner", database="nowhere"),
        send(1, wire.query("SELECT 1"), session=1),
        leave(2, 1),
        connect(2, user="unknown", database="postgres"),
        *(send(n, wire.query("SELECT session_user"), session=2, flags=n % 2, gates=[(0, n)]) for n in range(1, 50)),
        leave(50, 2),
    ])  # fmt: skip
    plan = replace(plan_for(server), login=Login({"tuner": PASSWORD}, "tuner"), speed=1.7)
    both = [run_tape(program, plan, tape) for program in programs]
    (first, mine), (second, other) = ((tally, np.sort(found, order=["session", "seq"])) for tally, found in both)
    for column in [*NOT_TIMES, "due_us"]:
        assert list(mine[column]) == list(other[column]), column
    for name in ("sent", "done", "errors", "skipped", "not_opened", "lost_sessions", "cancelled", "reasons", "ended"):
        assert getattr(first, name) == getattr(second, name), name
    assert (first.sent, len(mine)) == (255, 264)


def test_a_chain_of_thousands_that_wait_for_each_other_is_let_go(
    programs: list[tuple[str, ...]], tmp_path: Path
) -> None:
    chain = [leave(0, 0, due=200_000)] + [leave(0, n, gates=[(n - 1, 0)]) for n in range(1, 3000)]
    write_tape(tmp_path / "x.tape", chain)
    plan = EnginePlan(-1, -1, EndPoint("/nowhere", 1), starts_in_s=0.0, stall_ms=60_000)
    for program in programs:
        tally, found = run_tape(program, plan, tmp_path / "x.tape")
        assert (tally.done, tally.stalls, tally.ended) == (3000, 0, "complete")
        assert (np.diff(found["done_us"]) >= 0).all()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_both_take_on_the_account_before_they_connect(programs: list[tuple[str, ...]], tmp_path: Path) -> None:
    write_tape(tmp_path / "x.tape", [leave(0, due=60_000_000)])
    plan = EnginePlan(-1, -1, EndPoint("/nowhere", 1), starts_in_s=0.0, account="65534:65533:65532,65531")
    for program in programs:
        status: list[list[str]] = []

        def look(told: RunTally, status: list[list[str]] = status) -> bool:
            if not told.at_us:
                return False  # it is starting
            for child in Path(f"/proc/{os.getpid()}/task/{threading.get_native_id()}/children").read_text().split():
                status += [line.split() for line in Path(f"/proc/{child}/status").read_text().splitlines()]
            return True

        tally, found = run_tape(program, plan, tmp_path / "x.tape", watch=look)
        assert (tally.ended, len(found)) == ("SIGTERM", 0)
        assert ["Uid:", *["65534"] * 4] in status
        assert ["Gid:", *["65533"] * 4] in status
        assert ["Groups:", "65531", "65532"] in status
        assert ["NoNewPrivs:", "1"] in status


def test_a_tape_takes_no_more_memory_than_what_is_being_sent(
    server: LockedServer, programs: list[tuple[str, ...]], tmp_path: Path
) -> None:
    large = wire.query("SELECT 1 -- " + "x" * 1_000_000)
    records = [send(n, large) for n in range(1, 41)]
    first = connect(0, user="tuner", database="postgres")
    write_tape(tmp_path / "x.tape", [first, *records, leave(41, due=60_000_000)])
    for program in programs:
        held: list[int] = []

        def look(told: RunTally, held: list[int] = held, program: tuple[str, ...] = program) -> bool:
            if told.sent == len(records):
                for child in Path(f"/proc/self/task/{threading.get_native_id()}/children").read_text().split():
                    if program[-1].encode() in Path(f"/proc/{child}/cmdline").read_bytes().split(b"\0"):
                        status = Path(f"/proc/{child}/status").read_text()
                        held.append(int(status.split("RssFile:")[1].split()[0]))
            return len(held) > 6  # more than a second of them

        tally, _ = run_tape(program, plan_for(server), tmp_path / "x.tape", watch=look)
        assert (tally.done, tally.errors) == (41, 0)
        assert min(held) < 25_000, "kB of files, its programs among them, of a tape of 40 MB"


GREETINGS = (
    b"",
    b"HTTP/1.1 400 Bad Request\r\n\r\n",
    b"R\0\0\0\4",
    b"R\0\0\0\3",
    b"R\x7f\xff\xff\xff",
    wire.message(b"R", struct.pack("!i", 11) + b"r=x"),
    wire.message(b"R", struct.pack("!i", 10) + b"SCRAM-SHA-512\0\0"),
    wire.message(b"R", struct.pack("!i", 10) + b"SCRAM-SHA-256\0\0") + wire.message(b"R", struct.pack("!i", 0)),
    wire.message(b"R", struct.pack("!i", 10) + b"SCRAM-SHA-256\0\0")
    + wire.message(b"R", struct.pack("!i", 11) + b"r=x,s=,i=\xff"),
    wire.message(b"R", struct.pack("!i", 7)),
    wire.message(b"E", b"\xff\0M" + b"no" * 5000 + b"\0\0"),
    wire.message(b"R", struct.pack("!i", 0)) + wire.message(b"K", b"") + wire.message(b"Z", b"I"),
    wire.message(b"R", struct.pack("!i", 0)) + wire.message(b"K", bytes(8)) + wire.message(b"Z", b"I") + b"D\0\0\0\0",
)


@contextlib.contextmanager
def liar(folder: Path) -> Iterator[EndPoint]:
    """Serve each greeting once to whoever comes, then again from the first, and close."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(folder / ".s.PGSQL.1"))
        listener.listen(64)

        def serve() -> None:
            for number in range(2 * len(GREETINGS)):
                with listener.accept()[0] as client, contextlib.suppress(OSError):
                    client.recv(4096)
                    client.sendall(GREETINGS[number % len(GREETINGS)])
                    client.shutdown(socket.SHUT_WR)
                    while client.recv(4096):
                        pass

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield EndPoint(str(folder), 1)
        thread.join(20)
        assert not thread.is_alive()


def test_a_server_that_lies_ends_its_sessions_and_no_engine(programs: list[tuple[str, ...]], tmp_path: Path) -> None:
    write_tape(tmp_path / "x.tape", [one for n in range(len(GREETINGS)) for one in (
        connect(n, user="u"), send(1, wire.query("SELECT 1"), session=n), leave(2, n))])  # fmt: skip
    with liar(tmp_path) as end_point:
        plan = EnginePlan(-1, -1, end_point, Login({"u": "s3cret"}), starts_in_s=0.0, max_seconds=60)
        told = [run_tape(program, plan, tmp_path / "x.tape")[0] for program in programs]
    for tally in told:
        assert (tally.ended, tally.not_opened, tally.lost_sessions) == ("complete", len(GREETINGS) - 1, 1)
        assert all(len(reason) <= 1000 and "s3cret" not in reason for reason in tally.reasons)
