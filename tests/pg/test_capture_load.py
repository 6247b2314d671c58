"""`pgdyno capture` on real servers, 13 and 18: what a client sent stands in the log, and the server logs as before."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from engine_tapes import run_tape
from fix_postgres import BUILDS, find_build
from pgdyno.errors import EnvironmentUnsuitable, RestartError
from pgdyno.owner.hands import hands_of
from pgdyno.replay.captured import write_tape
from pgdyno.sandbox.sandbox import Sandbox
from pgdyno.studies.capture.plan import CaptureOptions, plan_capture
from pgdyno.studies.capture.register import CaptureState, finish_killed, known_captures
from pgdyno.trace.build import BuildOptions, build_trace
from pgdyno.trace.capture_record import CaptureRecord, parse_record
from pgdyno.trace.cut import CutOptions, cut_trace
from pgdyno.trace.engine.plan import EndPoint, EnginePlan
from pgdyno.trace.engines import PYTHON
from pgdyno.trace.gates import Order
from pgdyno.trace.schema import KeyLink
from server_image import eventually, files_of, settings_of
from warm_program import RunningPgdyno, run_pgdyno

pytestmark = [pytest.mark.pg, pytest.mark.slow]
KEYED = """
CREATE TABLE public.parent (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, n int);
CREATE TABLE public.child (parent bigint NOT NULL REFERENCES public.parent, n int)
"""
MESSAGE, APPLICATION = 13, 22
"""Columns of csvlog, the same in every supported version."""


def started_with_collector(make: Callable[..., Sandbox], build: str) -> Sandbox:
    sandbox = make(f"captured-{build}", bin_dir=find_build(build))
    sandbox.start()
    for setting in ("logging_collector = on", "wal_level = logical"):
        sandbox.target().postgres.execute(f"ALTER SYSTEM SET {setting}")  # type: ignore[arg-type]  # a text of ours
    control = sandbox.target().control
    assert control is not None
    control.restart()
    return sandbox


@contextmanager
def capturing(sandbox: Sandbox, *words: str) -> Iterator[RunningPgdyno]:
    """Run `capture start` until the logging is on; ended for good afterwards."""
    conninfo = make_conninfo(sandbox.target().postgres.conninfo, dbname="postgres")
    words = ("capture", "start", "--target", conninfo, "--yes", "--commit-order", "--json", *words)
    with RunningPgdyno(*words) as process:
        try:
            said = list[str]()
            for line in process.stderr:
                said.append(line)
                if "capturing for" in line:
                    break
            assert process.poll() is None, said
            yield process
        finally:
            process.kill()


def pgdyno(*words: str) -> subprocess.CompletedProcess[str]:
    return run_pgdyno(*words, timeout_s=120)


def send_load(sandbox: Sandbox) -> None:
    """Send 40 simple statements, 30 with values, 5 errors, and 200 transactions of pgbench, 7 statements each."""
    target = sandbox.target()
    conninfo = make_conninfo(target.postgres.conninfo, dbname="postgres")
    with psycopg.connect(conninfo, application_name="counted", autocommit=True) as connection:
        for number in range(40):
            connection.execute(f"SELECT {number}, 'two\nlines'")  # type: ignore[arg-type]  # a text of ours
        for number in range(30):
            connection.execute("SELECT %s::int + %s", [number, None], prepare=True)
        for _ in range(5):
            with suppress(psycopg.Error):
                connection.execute("SELECT 1 / 0")
        connection.execute("""INSERT INTO public."Or ders" (text) VALUES ('a: INSERT: id[integer]:9'), (NULL)""")
        for number in range(6):
            # the simple protocol logs no transaction id with what commits by itself
            (key,) = connection.execute(f"INSERT INTO public.parent (n) VALUES ({number}) RETURNING id").fetchone()  # type: ignore[misc, arg-type]
            connection.execute("INSERT INTO public.child VALUES (%s, %s)", [key, number])
            with connection.transaction():
                both = "INSERT INTO public.parent (n) VALUES (%s), (%s) RETURNING *"
                _, (key, n) = connection.execute(both, [number + 10, number + 20]).fetchall()
                connection.execute(f"INSERT INTO public.child (n, parent) VALUES ({n}, '{key}')")  # type: ignore[arg-type]
    environment = {**os.environ, **target.postgres.environment("postgres"), "PGAPPNAME": "bench"}
    for words in (["-i", "-q"], ["-n", "-c", "2", "-t", "100", "-M", "prepared"]):
        program = [str(target.program("pgbench")), *words]
        subprocess.run(program, env=environment, check=True, capture_output=True, timeout=60)


def lines_of(record: CaptureRecord, folder: Path) -> list[list[str]]:
    rows = list[list[str]]()
    for log in record.logs:
        assert log.copy is not None
        rows += csv.reader((folder / log.copy).read_text().splitlines(keepends=True))
    return rows


@pytest.mark.requirement("R-RPL-01", "R-SAF-02")
@pytest.mark.parametrize("build", BUILDS)
def test_what_a_client_sent_is_in_the_log_and_the_server_logs_as_before(
    build: str, make_sandbox: Callable[..., Sandbox], pgdyno_home: Path, tmp_path: Path
) -> None:
    sandbox = started_with_collector(make_sandbox, build)
    sandbox.target().postgres.execute('CREATE TABLE public."Or ders" (id serial, text text)', dbname="postgres")
    sandbox.target().postgres.fetch("""SELECT nextval('public."Or ders_id_seq"')""", dbname="postgres")
    for name in ("postgres", "again"):
        if name == "again":
            sandbox.target().postgres.execute("CREATE DATABASE again")
        sandbox.target().postgres.execute(KEYED, dbname=name)
    before = settings_of(sandbox), files_of(sandbox.data_directory)
    folder = tmp_path / "out"
    with capturing(sandbox, "--for", "10min", "--output", str(folder)) as process:
        send_load(sandbox)
        stopped = pgdyno("capture", "stop")
        assert stopped.returncode == 0, stopped.stderr
        assert lines_of(parse_record((folder / "capture.json").read_bytes(), "it"), folder), "stop waits for the copy"
        told, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert (settings_of(sandbox), files_of(sandbox.data_directory)) == before

    record = parse_record((folder / "capture.json").read_bytes(), "it")
    assert parse_record(told, "it") == record
    assert record.end is not None
    assert record.end.because == "stopped"
    assert (record.style, record.sampled, record.holes, record.unread) == ("csvlog B", None, (), {})
    assert record.sequences == {"postgres.public.Or ders_id_seq": 1}
    assert record.lsn < record.end.lsn  # type: ignore[operator]  # the server was up
    assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o600}

    rows = lines_of(record, folder)
    assert sum(log.end or 0 for log in record.logs) == sum(path.stat().st_size for path in folder.glob("pgdyno-*.csv"))
    counted = [row for row in rows if row[APPLICATION] == "counted"]
    assert sum("two\nlines" in row[MESSAGE] for row in counted) == 40
    assert sum("execute " in row[MESSAGE] and "$1::int" in row[MESSAGE] for row in counted) == 30
    assert [row[12] for row in counted if row[11] == "ERROR"] == ["22012"] * 5
    bench = [row[MESSAGE] for row in rows if row[APPLICATION] == "bench" and "  execute P_" in row[MESSAGE]]
    assert len(bench) == 7 * 200

    with (folder / "commits.csv").open(newline="") as file:
        commits = list(csv.DictReader(file))
    assert (record.commits, record.commits_lost) == ("commits.csv", None)
    written = {row[10] for row in rows if row[APPLICATION] == "bench" and " UPDATE pgbench_tellers" in row[MESSAGE]}
    assert len(written - {"0"}) == 200
    assert written - {"0"} <= {row["xid"] for row in commits}
    keys = [json.loads(row["keys"]) for row in commits if row["keys"]]
    assert keys[0] == [['public."Or ders"', {"id": "2"}], ['public."Or ders"', {"id": "3"}]]
    assert [len(one) for one in keys[1:]] == [1, 2] * 6
    moments = [int(row["commit_us"]) for row in commits]
    assert moments[0] > 1_700_000_000_000_000
    assert sandbox.target().postgres.fetch("SELECT * FROM pg_replication_slots") == []
    keys_are_those_of_the_replay(sandbox, folder)


@pytest.mark.requirement("R-SAF-02")
def test_a_capture_that_is_killed_leaves_a_server_that_logs_as_before_and_a_record_to_finish(
    make_sandbox: Callable[..., Sandbox], pgdyno_home: Path
) -> None:
    sandbox = started_with_collector(make_sandbox, "embedded-18")
    before = settings_of(sandbox), files_of(sandbox.data_directory)
    with capturing(sandbox, "--for", "10min") as process:
        assert settings_of(sandbox) != before[0]
        process.send_signal(signal.SIGKILL)
        process.wait(60)
    eventually(lambda: settings_of(sandbox) == before[0], "the logging put back by the watchdog")
    assert files_of(sandbox.data_directory) == before[1]
    killed = known_captures()[0]
    assert killed.state is CaptureState.KILLED
    slots = "SELECT * FROM pg_catalog.pg_replication_slots"
    eventually(lambda: sandbox.target().postgres.fetch(slots) == [], "the slot gone with its session")
    told = list[str]()
    record = finish_killed(killed, told.append)
    assert told != []
    assert record.end is not None
    assert record.end.because == "killed"
    assert known_captures()[0].state is CaptureState.ENDED
    sizes = [hands_of(sandbox.data_directory).look(Path(log.path)) for log in record.logs]
    assert [log.end for log in record.logs] == [status.st_size for status in sizes if status is not None] != []


@pytest.mark.requirement("R-SAF-02")
def test_a_server_that_is_killed_under_a_capture_logs_as_before_and_its_slot_is_gone(
    make_sandbox: Callable[..., Sandbox], pgdyno_home: Path
) -> None:
    sandbox = started_with_collector(make_sandbox, "embedded-18")
    before = settings_of(sandbox), files_of(sandbox.data_directory)
    control = sandbox.target().control
    assert control is not None
    with capturing(sandbox, "--for", "10min") as process:
        os.kill(int((sandbox.data_directory / "postmaster.pid").read_text().split()[0]), signal.SIGKILL)
        told = process.communicate(timeout=120)[1]
    assert "Traceback" not in told
    assert process.returncode != 0
    eventually(lambda: files_of(sandbox.data_directory) == before[1], "the files put back")
    if not control.is_running():
        with suppress(RestartError):  # the watchdog's own start came before it
            control.start()
    sandbox.target().postgres.wait_ready(60)
    eventually(lambda: settings_of(sandbox) == before[0], "the logging put back")
    slots = "SELECT * FROM pg_catalog.pg_replication_slots"
    eventually(lambda: sandbox.target().postgres.fetch(slots) == [], "the slot gone with its server")
    assert known_captures()[0].state is CaptureState.ENDED


def test_a_server_without_a_collector_is_refused_with_the_command_that_proves_it_first(sandbox18: Sandbox) -> None:
    plan = plan_capture(sandbox18.target(), CaptureOptions(seconds=60, max_bytes=1 << 30), rate_s=0)
    with pytest.raises(EnvironmentUnsuitable, match="the load cannot be captured: logging_collector is off") as refused:
        plan.require()
    assert refused.value.hint is not None
    assert refused.value.hint.startswith("Nothing was changed.")
    proof = next(part for part in refused.value.hint.split(": ", 1)[1].split("; ") if "-C" in part)
    program, *words = proof.split()
    target = sandbox18.target()
    done = target.runner.run([program, *words], user=target.os_user)
    assert done.stdout.strip() == "on"


def keys_are_those_of_the_replay(sandbox: Sandbox, folder: Path) -> None:
    """Replay what was captured into a database whose keys are others: children must find the parents that they had."""
    trace, tape = folder.with_name("load.parquet"), folder.with_name("load.tape")
    meta = build_trace([folder], trace, BuildOptions())
    assert meta.key_links == (KeyLink("child", "parent", "parent", "id"),)
    named = cut_trace(trace, folder.with_name("cut.parquet"), CutOptions(applications=("counted",)))
    assert named.key_links == meta.key_links
    taped = write_tape(folder.with_name("cut.parquet"), tape, Order.SESSION, lambda _: None)
    returned = 6 + 2 * 6
    assert taped.keys.captured - sum(taped.keys.without.values()) == returned - meta.keys_unplaced
    target = sandbox.target()
    target.postgres.execute("SELECT setval('public.parent_id_seq', 5000)", dbname="again")
    target.postgres.execute('CREATE TABLE public."Or ders" (id serial, text text)', dbname="again")
    given = target.postgres.parameters
    plan = EnginePlan(
        -1, -1, EndPoint(given["host"], int(given.get("port", 5432))), databases={"postgres": "again"}, starts_in_s=0.1
    )
    tally, _ = run_tape(PYTHON, plan, tape)
    assert (tally.ended, tally.not_opened, tally.keys_unknown) == ("complete", 0, 0)
    assert tally.keys_sent == tally.keys_learned == 12 - meta.keys_unplaced
    children = target.postgres.fetch(
        "SELECT count(*) AS all, count(*) FILTER (WHERE p.n = c.n AND p.id > 5000) AS right"
        " FROM public.child AS c JOIN public.parent AS p ON p.id = c.parent", dbname="again"
    )  # fmt: skip
    assert children == [{"all": 12 - meta.keys_unplaced, "right": 12 - meta.keys_unplaced}]
