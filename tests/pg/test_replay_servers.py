"""Replays to servers of other versions, to one that is killed under way, and by an engine that is kept from running."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from psycopg import sql

from fix_postgres import BUILDS, find_build
from made_trace import ITEMS, made_trace
from pgdyno.errors import ExitCode
from pgdyno.sandbox.sandbox import Sandbox
from pgdyno.trace.build import BuildOptions, build_trace
from pgdyno.trace.engine.tally import RunTally
from pgdyno.trace.gates import Order
from pgdyno.trace.outcome_file import read_facts
from pgdyno.trace.parquet import read_rows
from replay_run import replayed
from trace_load import run_load
from warm_program import RunningPgdyno

pytestmark = pytest.mark.pg

TABLE = f"""
CREATE TABLE public.item AS SELECT i AS id, 0 AS n, 'label ' || i AS label FROM generate_series(1, {ITEMS}) AS g (i)"""
EDGES = ("embedded-18", "npm-13")
"""The newest and the oldest; each of the others is held against both."""
PAIRS = [(source, target) for source in BUILDS for target in BUILDS if source != target and {source, target} & {*EDGES}]
LOGGING = {
    "logging_collector": "on", "log_destination": "csvlog", "log_min_duration_statement": "0", "log_timezone": "UTC",
    "log_connections": "on", "log_disconnections": "on", "log_parameter_max_length_on_error": "-1",
    "log_filename": "load.log", "log_directory": "log",
}  # fmt: skip


@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_what_one_version_logged_another_one_answers_alike(
    source: str, target: str, make_sandbox: Callable[..., Sandbox], tmp_path: Path
) -> None:
    logged = make_sandbox(f"from-{source}", bin_dir=find_build(source))
    logged.start()
    postgres = logged.target().postgres
    for name, value in LOGGING.items():
        postgres.execute(sql.SQL("ALTER SYSTEM SET {} = {}").format(sql.Identifier(name), sql.Literal(value)))
    logged.stop()
    logged.start()
    sent = run_load(postgres.conninfo, rounds=1)
    logged.stop()
    trace = tmp_path / "load.parquet"
    meta = build_trace([logged.data_directory / "log" / "load.csv"], trace, BuildOptions())
    other = make_sandbox(f"to-{target}", bin_dir=find_build(target))
    other.start()
    found = replayed(other, trace, tmp_path, order=Order.ROW)
    assert (found.ended, found.reasons) == ("complete", {})
    told = {name: found.answers[name] for name in ("expected", "new", "missing", "changed")}
    assert told == {"expected": meta.errors, "new": 0, "missing": 0, "changed": 0}
    assert meta.errors == sum(one.sqlstate is not None for one in sent) > 10
    assert found.fidelity.sent == found.fidelity.statements >= len(sent)


@pytest.mark.requirement("R-RPL-17")
@pytest.mark.parametrize("engine", ["python", "compiled"])
def test_an_engine_that_is_kept_from_running_voids_the_run(
    engine: str, make_sandbox: Callable[..., Sandbox], tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if engine == "compiled":
        request.getfixturevalue("compiled_engine")
    sandbox = make_sandbox("starved")
    sandbox.start()
    target = sandbox.target()
    target.postgres.execute(TABLE, dbname="postgres")
    user = target.postgres.parameters["user"]
    trace = made_trace(
        tmp_path / "dense.parquet", seconds=8.0, pause_s=0.02, by_key=True, user=user, database="postgres"
    )
    stopped = list[int]()

    def stop(tally: RunTally) -> None:
        if stopped or tally.sent < 40:
            return
        stopped.extend(engines())
        for pid in stopped:
            os.kill(pid, signal.SIGSTOP)
        threading.Timer(4.0, lambda: [os.kill(pid, signal.SIGCONT) for pid in stopped]).start()

    found = replayed(sandbox, trace, tmp_path, engine=engine, tell=stop)
    assert len(stopped) == 1
    assert (found.ended, found.exit_code) == ("complete", ExitCode.NOT_RESOLVED)
    assert found.fidelity.invalid[0].startswith("the injector was late: p99 ")
    injector, _, server = found.fidelity.lateness
    assert injector.p99 > 1000
    assert injector.p50 > server.p50, "though statements waited for answers meanwhile"


def test_a_run_that_was_paused_is_shown_and_does_not_count(
    make_sandbox: Callable[..., Sandbox], tmp_path: Path
) -> None:
    sandbox, resting = make_sandbox("rested"), tmp_path / "rest"
    sandbox.start()
    postgres = sandbox.target().postgres
    postgres.execute(TABLE, dbname="postgres")
    user = postgres.parameters["user"]
    trace = made_trace(tmp_path / "t.parquet", seconds=3.0, pause_s=0.02, by_key=True, user=user, database="postgres")
    told = list[RunTally]()

    def tell(tally: RunTally) -> None:
        told.append(replace(tally))
        if tally.sent > 40 and not tally.pauses:
            resting.touch()
        elif tally.is_paused and tally.schedule_us + 1_000_000 < tally.at_us and len(rested()) > 1:
            resting.unlink(missing_ok=True)

    def rested() -> list[int]:
        """Return how much was sent, each time that this was told in the pause."""
        return [tally.sent for tally in told if tally.is_paused and not tally.pauses[-1][2]]

    found = replayed(sandbox, trace, tmp_path, tell=tell, pause_file=resting)
    assert (found.ended, found.exit_code) == ("complete", ExitCode.NOT_RESOLVED)
    assert found.fidelity.sent == found.fidelity.statements
    assert found.fidelity.invalid[0].startswith("the run was paused once, ")
    (pause,) = found.pauses
    assert read_facts(tmp_path / "run").pauses == found.pauses
    assert pause.seconds == pytest.approx(pause.end_s - pause.begin_s)
    assert pause.seconds > 1
    assert len(rested()) > 1
    assert len(set(rested())) == 1, "nothing is sent in a pause"
    assert found.took_s > found.wanted_s + 1


def engines() -> list[int]:
    """Return the engines that this process has started."""
    found = list[int]()
    for path in Path("/proc/self/task").glob("*/children"):
        for pid in map(int, path.read_text().split()):
            with suppress(OSError):  # it has ended since
                words = Path(f"/proc/{pid}/cmdline").read_bytes()
                if b"pgdyno.trace.engine" in words or b"pgdyno-engine" in words:
                    found.append(pid)
    return found


def test_a_target_that_is_killed_ends_the_run_and_what_was_answered_can_be_read(
    make_sandbox: Callable[..., Sandbox], pgdyno_home: Path, tmp_path: Path
) -> None:
    sandbox = make_sandbox("killed-target")
    sandbox.start()
    postgres = sandbox.target().postgres
    postgres.execute(TABLE, dbname="postgres")
    trace = made_trace(tmp_path / "t.parquet", seconds=10.0, user=postgres.parameters["user"], database="postgres")
    allowed = pgdyno_home / "data" / "allowed-targets"
    allowed.parent.mkdir(exist_ok=True)
    allowed.touch(0o600)
    folder = tmp_path / "x"
    words = ["replay", str(trace), "--target", postgres.conninfo, "--yes", "--output", str(folder)]
    words += ["--max-seconds", "30"]
    with RunningPgdyno(*words, "--dry-run", PGDYNO_HOME=str(pgdyno_home)) as asked:
        told = asked.communicate(timeout=120)[1]
    allowed.write_text(told.split('write the line "')[1].split('"')[0] + "\n")
    with RunningPgdyno(*words, PGDYNO_HOME=str(pgdyno_home)) as process:
        records = folder / "engine-0.records"
        while not (records.exists() and records.stat().st_size > 5000):
            assert process.poll() is None, process.stderr.read()
            time.sleep(0.05)
        os.kill(int((sandbox.data_directory / "postmaster.pid").read_text().split()[0]), signal.SIGKILL)
        _, said = process.communicate(timeout=120)
    assert "Traceback" not in said
    assert process.returncode in (ExitCode.NOT_RESOLVED, ExitCode.RESTORED), said
    facts = read_facts(folder)
    assert facts.ended != ""
    answered = [row for part in folder.glob("part-*.parquet") for row in read_rows(part, ["answer"])]
    assert {"success"} < {row[0] for row in answered}
    assert not list(folder.glob("engine-*.records"))
