"""What every engine must keep, on a real server: order, answers, lag by its causes, and nothing left behind."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from psycopg import sql

from engine_tapes import DATABASE, USER, Stage, connect, database_and_role, leave, one, send
from pgdyno.errors import EnvironmentUnsuitable
from pgdyno.sandbox.sandbox import Sandbox
from pgdyno.trace.engine import wire
from pgdyno.trace.engine.keys import KeyPlace
from pgdyno.trace.engine.plan import Clock
from pgdyno.trace.engine.records import Skip
from pgdyno.trace.engine.tape import RESETS_ROLE, Act
from pgdyno.trace.engines import PYTHON, run_engines
from pgdyno.trace.outcome import classes, read_records
from pgdyno.trace.tape_maker import TraceRow, records_of
from pgdyno.trace.tape_writer import TapeRecord, gate_bytes

pytestmark = pytest.mark.pg

ENGINES = ("python", "compiled")


@pytest.fixture(params=ENGINES)
def stage(request: pytest.FixtureRequest, sandbox18: Sandbox, tmp_path: Path) -> Iterator[Stage]:
    program = PYTHON if request.param == "python" else (str(request.getfixturevalue("compiled_engine")),)
    postgres = sandbox18.target().postgres
    table = sql.SQL("CREATE TABLE public.t (id int PRIMARY KEY, v text); GRANT ALL ON public.t TO {}")
    with database_and_role(postgres):
        postgres.execute(table.format(sql.Identifier(USER)), dbname=DATABASE)
        yield Stage(sandbox18, program, tmp_path)


def test_every_kind_of_statement_has_its_answer(stage: Stage) -> None:
    stage.write(
        connect(),
        send(1, wire.query("INSERT INTO t VALUES (1, 'a'), (2, 'b')")),
        send(2, wire.query("INSERT INTO t VALUES (1, 'twice')"), expected="23505"),
        send(3, wire.query("SELECT 1/0"), expected="23505"),
        send(4, wire.query("SELECT nothing")),
        send(5, wire.query("SELECT 1"), expected="22012"),
        send(6, wire.parse("p", "SELECT v FROM t WHERE id = $1 OR v = $2") + wire.SYNC),
        send(7, wire.extended("p", ["1", None], None)),
        send(8, wire.extended("", ["", "ü\n'x'"], "INSERT INTO t SELECT 3, $1 || $2")),
        send(9, wire.query("UPDATE t SET v = v; SELECT * FROM t; SELECT repeat('x', 3000000)")),
        send(10, wire.query("COPY t FROM STDIN")),
        send(11, wire.extended("", [], "COPY t FROM STDIN")),
        send(12, wire.query("DO $$BEGIN RAISE NOTICE 'hello'; END$$")),
        TapeRecord(0, 13, Act.SKIP, 0),
        send(14, wire.query("")),
        leave(15),
    )
    tally, found = stage.run()
    assert tally.reasons == {}
    assert list(found["seq"]) == list(range(16))
    assert list(classes(found)) == [
        "success", "success", "expected", "changed", "new", "missing", "success", "success", "success", "success",
        "new", "new", "success", "skipped", "success", "success",
    ]  # fmt: skip
    assert [found[n]["sqlstate"] for n in (4, 10, 11)] == [b"42703", b"57014", b"57014"]
    assert [found[n]["rows"] for n in (1, 2, 7, 8, 9, 14)] == [2, -1, 1, 1, 7, -1]
    assert found[9]["bytes"] > 3_000_000
    assert found[13]["skip"] == Skip.REFUSED
    assert stage.ask("SELECT v FROM public.t ORDER BY id") == [("a",), ("b",), ("ü\n'x'",)]
    assert (tally.sent, tally.done, tally.errors, tally.skipped, tally.ended) == (13, 15, 5, 1, "complete")


@pytest.mark.requirement("R-RPL-11")
def test_statements_are_sent_when_they_are_due_at_every_speed(stage: Stage) -> None:
    stage.write(connect(), *(send(n, wire.query("SELECT 1"), due=n * 100_000) for n in range(1, 11)), leave(11))
    for speed in (0.6, 1.0, 1.667, 2.5):
        _, found = stage.run(replace(stage.plan, speed=speed))
        assert list(found["due_us"][1:11]) == [int(n * 100_000 / speed) for n in range(1, 11)]
        sent = found[found["sent_us"] >= 0]
        assert (sent["sent_us"] >= sent["due_us"]).all()
        lag = sent["injector_us"] + sent["gate_us"] + sent["server_us"]
        assert (lag[1:-1] == (sent["sent_us"] - sent["due_us"])[1:-1]).all()
        assert (found["first_us"][1:11] <= found["done_us"][1:11]).all()


@pytest.mark.requirement("R-RPL-11")
def test_a_load_that_is_compressed_ends_in_its_share_of_the_time(stage: Stage) -> None:
    stage.write(connect(), *(send(n, wire.query("SELECT 1"), due=n * 100_000) for n in range(1, 11)), leave(11))
    for speed, share in ((1.667, 0.6), (2.5, 0.4)):
        for _ in range(60):
            _, found = stage.run(replace(stage.plan, speed=speed))
            took = one(found, 0, 10)["sent_us"]
            if took == pytest.approx(share * 1_000_000, rel=0.01):
                break  # a busy machine may hold up most of them
        assert took == pytest.approx(share * 1_000_000, rel=0.01)


@pytest.mark.requirement("R-RPL-11")
def test_a_slow_answer_is_the_servers_lag_and_think_times_wait_for_it(stage: Stage) -> None:
    stage.write(
        connect(),
        send(1, wire.query("SELECT pg_sleep(0.4)"), due=100_000, think_us=100_000),
        send(2, wire.query("SELECT 1"), due=200_000, think_us=60_000),
        leave(3, due=200_000),
    )
    _, found = stage.run()
    late = found[2]
    assert late["server_us"] + late["injector_us"] == late["sent_us"] - 200_000, "and no gate"
    assert late["sent_us"] >= found[1]["done_us"]
    assert late["server_us"] > 200_000
    _, found = stage.run(replace(stage.plan, clock=Clock.THINK, speed=2.0))
    assert found[2]["server_us"] == 0
    assert found[2]["due_us"] == found[1]["done_us"] + 30_000
    assert found[1]["done_us"] - found[1]["sent_us"] >= 400_000, "a pause is scaled, a duration is not"


def test_a_gate_holds_until_the_other_has_ended(stage: Stage) -> None:
    stage.write(
        connect(0),
        send(1, wire.query("SELECT pg_sleep(1.0)"), due=100_000),
        leave(2, due=100_000),
        connect(1),
        send(1, wire.query("SELECT 1"), due=110_000, session=1, gates=[(0, 1)]),
        leave(2, session=1, due=110_000),
    )
    tally, found = stage.run(replace(stage.plan, stall_ms=60_000))  # it is no busy machine that opens it
    held, holder = (
        found[(found["session"] == 1) & (found["seq"] == 1)][0],
        found[(found["session"] == 0) & (found["seq"] == 1)][0],
    )
    assert held["sent_us"] >= holder["done_us"]
    assert held["gate_us"] > 50_000
    assert tally.stalls == 0


def test_a_gate_that_would_wait_for_ever_is_opened_and_counted(stage: Stage) -> None:
    stage.write(
        connect(0),
        send(1, wire.query("BEGIN; INSERT INTO t VALUES (9, 'x')"), due=300_000),
        send(2, wire.query("COMMIT"), due=1_600_000, gates=[(1, 1)]),
        leave(3, due=1_600_000),
        connect(1),
        send(1, wire.query("INSERT INTO t VALUES (9, 'y')"), due=1_300_000, session=1, expected="23505",
             gates=[(0, 1)]),  # which a busy server has at hand long before, and which is never the other way round
        leave(2, session=1, due=1_300_000),
    )  # fmt: skip
    tally, found = stage.run()
    assert (tally.stalls, tally.errors, tally.ended) == (1, 0, "complete")
    held, before, blocker = one(found, 0, 2), one(found, 0, 1), one(found, 1, 1)
    begin = max(held["due_us"], before["done_us"])
    assert begin + held["gate_us"] == max(begin, blocker["sent_us"]) + 250_000, "whatever the engine was late itself"


def test_a_gate_stays_closed_while_what_it_waits_for_is_not_at_the_server(stage: Stage) -> None:
    records = [connect(0), send(1, wire.query("SELECT 1"), due=1_900_000), leave(2, due=1_900_000)]
    for session in (1, 2):  # each waits for the one before
        gated = send(1, wire.query("SELECT 1"), due=100_000, session=session, gates=[(session - 1, 1)])
        records += [connect(session), gated, leave(2, session, 100_000)]
    stage.write(*records)
    tally, found = stage.run(replace(stage.plan, stall_ms=1500))
    assert (tally.ended, tally.stalls) == ("complete", 0)
    for session in (1, 2):
        assert one(found, session, 1)["sent_us"] >= one(found, session - 1, 1)["done_us"]


def test_gates_that_wait_for_each_other_are_opened(stage: Stage) -> None:
    records = []
    for session in (0, 1):
        gated = send(1, wire.query("SELECT 1"), due=50_000, session=session, gates=[(1 - session, 1)])
        records += [connect(session), gated, leave(2, session, 50_000)]
    stage.write(*records)
    tally, _ = stage.run()
    assert (tally.ended, tally.stalls, tally.errors) == ("complete", 1, 0)


def test_a_key_that_the_server_makes_is_sent_in_the_place_of_the_captured_one(stage: Stage) -> None:
    def plain(seq: int, kind: str, sql: str, params: list[str | None] | None = None, **more: Any) -> TraceRow:
        return TraceRow(0, seq, kind, 0, 1, "", sql, params, None, None, None, None, None, **more)

    made = "INSERT INTO t SELECT v, 'made' FROM (VALUES (4711), (4712)) AS g (v) RETURNING repeat('x', 70000), id"
    rows = [
        plain(1, "simple", made, learns=[[0, 0, 1], [1, 1, 1]]),
        plain(2, "extended", "INSERT INTO t VALUES ($1, $2)", ["18", "17"], names=[[1, KeyPlace.BOUND, 2, 2]],
              gates=gate_bytes([(9, 1)])),
        plain(3, "simple", "UPDATE t SET v = '17' WHERE id = 17 OR id = 9",
              names=[[1, KeyPlace.QUOTED, 18, 2], [1, KeyPlace.NUMBER, 33, 2], [7, KeyPlace.NUMBER, 44, 1]]),
    ]  # fmt: skip
    short = rows[0]._replace(sql=made.replace("70000", "7"))
    for first, learned in ((rows[0], 0), (short, 2)):
        stage.write(connect(), *records_of([first, *rows[1:]]), leave(4))
        tally, _ = stage.run()
        assert tally.keys_learned == learned
        assert tally.stalls == 1, "a gate of nobody, beside keys"
        assert (tally.keys_sent, tally.keys_unknown) == ((3, 1) if learned else (0, 4))
        stage.ask("DELETE FROM public.t WHERE v = 'made' AND id = 4711 RETURNING id")
        found = stage.ask("DELETE FROM public.t RETURNING id, v")
        assert sorted(found) == ([(18, "4712"), (4712, "4712")] if learned else [(18, "17"), (4712, "made")])


def test_a_pipeline_is_one_transaction(stage: Stage) -> None:
    def step(seq: int, sql: str, params: list[str | None] = [], *, holds: bool = True, **more: Any) -> TraceRow:  # noqa: B006
        kind = more.pop("kind", "extended")
        return TraceRow(0, seq, kind, 0, 1, more.pop("statement", ""), sql, params, more.pop("sqlstate", None),
                        None, None, None, None, holds=holds or None, **more)  # fmt: skip

    insert = "INSERT INTO t VALUES ($1, $2)"
    stage.write(connect(), *records_of([
        step(1, insert, ["1", "whole"]),
        step(2, insert, kind="parse", statement="p"),
        step(3, insert, ["2", "whole"], statement="p"),
        step(4, "SELECT count(*) FROM t", kind="parse", statement="p"),
        step(5, "SELECT count(*) FROM t", statement="p"),
        step(6, "", []),
        step(7, insert, ["3", "whole"], holds=False),
        step(8, insert, ["4", "rolled back"]),
        step(9, insert, ["4", "fails as it did"], holds=False, sqlstate="23505"),
        step(10, insert, ["5", "rolled back"]),
        step(11, insert, ["5", "fails"]),
        step(12, insert, ["6", "not sent"]),
        step(13, insert, ["7", "not sent"], holds=False),
        step(14, "SELECT 1/0"),
        step(15, insert, ["8", "not sent"], holds=False),
        step(16, "INSERT INTO t SELECT 9, count(*) FROM t", holds=False),
    ]), leave(17))  # fmt: skip
    tally, found = stage.run()
    assert tally.reasons == {}
    assert tally.ended == "complete"
    assert list(classes(found)[8:]) == [
        "success", "expected", "success", "new", "skipped", "skipped", "new", "skipped", "success", "success",
    ]  # fmt: skip
    assert set(classes(found)[:8]) == {"success"}
    assert [one["seq"] for one in found if one["skip"] == Skip.PIPELINE_FAILED] == [12, 13, 15]
    assert [found[n]["rows"] for n in (1, 3, 5, 6, 7)] == [1, 1, 1, -1, 1]
    assert [found[n]["sqlstate"] for n in (11, 14)] == [b"23505", b"22012"]
    stage.ask("DELETE FROM public.t WHERE id = 9 AND v = '3' RETURNING id")
    assert stage.ask("SELECT id, v FROM public.t ORDER BY id") == [(n, "whole") for n in (1, 2, 3)]
    assert len({row[0] for row in stage.ask("SELECT xmin::text FROM public.t")}) == 1


def test_a_session_of_a_stand_in_is_the_roles_after_a_reset(stage: Stage) -> None:
    stage.write(
        connect(),
        send(1, wire.query("INSERT INTO t VALUES (1, session_user)")),
        send(2, wire.query("DISCARD ALL"), flags=RESETS_ROLE),
        send(3, wire.query("INSERT INTO t VALUES (2, session_user)")),
        leave(4),
    )
    _, found = stage.run()
    assert list(found["seq"]) == list(range(5))
    assert stage.ask("SELECT v FROM public.t ORDER BY id") == [(USER,), (USER,)]


def test_a_session_that_cannot_be_opened_skips_what_is_its_own_and_says_why(stage: Stage) -> None:
    stage.write(connect(0, database="nowhere"), send(1, wire.query("SELECT 1")), leave(2), connect(1), leave(1, 1))
    tally, found = stage.run()
    lost = found[found["session"] == 0]
    assert lost[0]["sqlstate"] == b"08001"
    assert list(lost["skip"]) == [Skip.SENT, Skip.NOT_CONNECTED, Skip.NOT_CONNECTED]
    assert tally.reasons == {'database "nowhere" does not exist': 1}
    assert tally.not_opened == 1


def test_a_lost_connection_ends_its_session_alone(stage: Stage) -> None:
    stage.write(
        connect(0, user=stage.owner),
        send(1, wire.query("SELECT pg_terminate_backend(pg_backend_pid())")),
        send(2, wire.query("SELECT 1")),
        leave(3),
        connect(1),
        send(1, wire.query("SELECT 1"), session=1, due=500_000),
        leave(2, 1),
    )
    tally, found = stage.run()
    lost = found[found["session"] == 0]
    assert lost[1]["sqlstate"] in (b"57P01", b"08006")
    assert list(lost["skip"][2:]) == [Skip.CONNECTION_LOST, Skip.CONNECTION_LOST]
    assert list(classes(found[found["session"] == 1])) == ["success"] * 3
    assert (tally.lost_sessions, tally.ended) == (1, "complete")


def test_a_session_that_is_lost_between_its_statements_sends_no_more(stage: Stage) -> None:
    others = "application_name = 'replayed' AND pid <> pg_backend_pid()"
    stage.write(
        connect(0),
        send(1, wire.query("SELECT 1")),
        send(2, wire.query("SELECT 1"), gates=[(1, 2)]),
        leave(3),
        connect(1, user=stage.owner),
        send(1, wire.query(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {others}"), session=1,
             gates=[(0, 1)]),
        send(2, wire.query("SELECT pg_sleep(2)"), session=1),
        leave(3, 1),
    )  # fmt: skip
    tally, found = stage.run(replace(stage.plan, stall_ms=60_000))
    lost = found[found["session"] == 0]
    assert list(lost["skip"]) == [Skip.SENT, Skip.SENT, Skip.CONNECTION_LOST, Skip.CONNECTION_LOST]
    assert [(row["sqlstate"], row["bytes"]) for row in lost[2:]] == [(b"", 0)] * 2
    assert (tally.lost_sessions, tally.errors, tally.ended) == (1, 0, "complete")


def test_a_notice_between_two_statements_belongs_to_neither(stage: Stage) -> None:
    stage.write(
        connect(0),
        send(1, wire.query("LISTEN told")),
        send(2, wire.query("SELECT 1"), gates=[(1, 3)]),
        leave(3),
        connect(1),
        send(1, wire.query("SELECT 1"), session=1, gates=[(0, 1)]),
        send(2, wire.query("NOTIFY told"), session=1),
        send(3, wire.query("SELECT pg_sleep(2)"), session=1),
        leave(4, 1),
    )
    _, found = stage.run(replace(stage.plan, stall_ms=60_000))
    record = one(found, 0, 2)
    assert record["bytes"] == one(found, 1, 1)["bytes"]
    assert record["first_us"] >= record["sent_us"]


def test_what_was_cancelled_is_cancelled(stage: Stage) -> None:
    stage.write(connect(), send(1, wire.query("SELECT pg_sleep(60)"), cancel_us=1_000_000, expected="57014"), leave(2))
    tally, found = stage.run()
    assert list(classes(found)) == ["success", "expected", "success"]
    assert tally.cancelled == 1


@pytest.mark.requirement("R-SAF-12")
@pytest.mark.parametrize("how", ["limit", "watch"])
def test_a_run_that_is_ended_leaves_no_session(stage: Stage, how: str) -> None:
    stage.write(connect(), send(1, wire.query("SELECT pg_sleep(60)")), leave(2), connect(1), leave(1, 1, 60_000_000))
    if how == "limit":
        tally, found = stage.run(replace(stage.plan, max_seconds=6.0))
    else:
        tally, found = stage.run(watch=lambda told: told.sent == 1)
    assert tally.ended == ("the time limit" if how == "limit" else "SIGTERM")
    assert list(found["skip"]) == [Skip.SENT, Skip.SENT, Skip.RUN_ENDED]
    stage.await_no_session()


def test_a_full_disk_ends_the_run_with_its_reason_and_leaves_no_session(stage: Stage) -> None:
    stage.write(connect(), send(1, wire.query("SELECT pg_sleep(60)")), leave(2))
    with pytest.raises(EnvironmentUnsuitable, match="an engine of the replay ended") as raised:
        run_engines(stage.plan, stage.tape, [Path("/dev/full")], program=stage.program)
    assert raised.value.detail == "the records cannot be written: No space left on device"
    stage.await_no_session()


def test_shares_send_each_session_once(stage: Stage) -> None:
    records = [
        one
        for n in range(7)
        for one in (connect(n), send(1, wire.query(f"INSERT INTO t VALUES ({n}, '')"), session=n), leave(2, n))
    ]
    stage.write(*records)
    tally, found = stage.run(shards=3)
    assert (tally.sent, tally.done, tally.errors) == (7, 21, 0)
    assert set(found["session"]) == {0, 3, 6}
    assert stage.ask("SELECT count(*) FROM public.t") == [(7,)]


def test_an_engine_ends_with_who_started_it(stage: Stage) -> None:
    stage.write(connect(), send(1, wire.query("SELECT pg_sleep(60)")), leave(2))
    (stage.folder / "0.records").write_bytes(b"")
    code = (
        "import sys, json; sys.path[:0] = json.loads(sys.argv[2])\n"
        "from pathlib import Path\n"
        "from pgdyno.trace.engine.__main__ import plan_of\n"
        "from pgdyno.trace.engines import run_engines\n"
        "run_engines(plan_of(json.loads(sys.argv[1])), Path('x.tape'), [Path('0.records')], program=sys.argv[3:],\n"
        "            watch=lambda told: print(told.sent, flush=True))\n"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", code, json.dumps(asdict(stage.plan)), json.dumps(sys.path), *stage.program],
        stdout=subprocess.PIPE, cwd=stage.folder,
    )  # fmt: skip
    assert parent.stdout is not None
    with parent.stdout as lines:
        next(line for line in lines if line == b"1\n")
        parent.kill()
        parent.wait()
    stage.await_no_session()
    assert list(read_records(stage.folder / "0.records")["skip"]) == [Skip.SENT, Skip.RUN_ENDED]
