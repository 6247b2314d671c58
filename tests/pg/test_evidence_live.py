"""Evidence of real servers: the log under load, counters, classes of load, the collector, a plain monitor."""

from __future__ import annotations

import base64
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from advisor_case import make_host, make_server
from calm_load import SEGMENTS
from pgbench_beside import pgbench_beside, transactions_of
from pgdyno.errors import EnvironmentUnsuitable
from pgdyno.model.evidence import Evidence, LogEvidence, Statistics, WorkingSetClass, WorkloadClass
from pgdyno.model.facts import Unknown
from pgdyno.model.inventory import Database, Inventory
from pgdyno.probes.evidence.gather import evidence_of_capture, gather
from pgdyno.probes.evidence.snapshot import read_snapshot
from pgdyno.remote.dispatcher import Dispatcher
from pgdyno.sandbox.sandbox import Sandbox
from pgdyno.server.postgres import Postgres
from pgdyno.targets.inspect import read_facts
from pgdyno.targets.target import Target

pytestmark = pytest.mark.pg
HINT = 'Consider increasing the configuration parameter "max_wal_size".'
SCAN = "SELECT count(*) FROM pgbench_accounts WHERE abalance % 3 = 1;\n"
PIECES = "\\set a random(1, 80000)\nSELECT count(abalance) FROM pgbench_accounts WHERE aid BETWEEN :a AND :a + 20000;\n"
"""Hundreds of blocks a statement, through the buffers: of single rows a busy machine reads too few in a window."""
ONE_ROW = "BEGIN;\nUPDATE pgbench_branches SET bbalance = bbalance + 1 WHERE bid = 1;\nSELECT pg_sleep(0.02);\nEND;\n"
"""Whoever has the row keeps it for a while and does nothing: the others wait, however slow the machine is."""
DATABASE = "evidence"


def inventory_of(target: Target) -> Inventory:
    """Make the part of an inventory that evidence asks for."""
    facts = read_facts(target)
    rows = target.postgres.fetch("SELECT datname::text AS name, pg_database_size(oid) AS size FROM pg_database")
    server = replace(
        make_server(facts.server.major),
        settings=facts.settings,
        version_num=facts.server.version_num,
        databases=tuple(Database(str(row["name"]), int(str(row["size"]))) for row in rows),
    )
    return Inventory(make_host(ram_bytes=8 << 30), server)


@contextmanager
def settings(postgres: Postgres, **values: str) -> Iterator[None]:
    """Change settings that a reload brings in force, and put them back."""
    for name, value in values.items():
        postgres.execute(sql.SQL("ALTER SYSTEM SET {} = {}").format(sql.Identifier(name), sql.Literal(value)))
    postgres.execute("SELECT pg_reload_conf()")
    try:
        yield
    finally:
        for name in values:
            postgres.execute(sql.SQL("ALTER SYSTEM RESET {}").format(sql.Identifier(name)))
        postgres.execute("SELECT pg_reload_conf()")


@contextmanager
def bench_database(target: Target) -> Iterator[str]:
    target.postgres.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(DATABASE)))
    try:
        pgbench(target, "-i", "-q")
        yield DATABASE
    finally:
        target.postgres.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(DATABASE)))


def pgbench(target: Target, *words: str) -> str:
    argv = [str(target.program("pgbench")), *words]
    env = {**os.environ, **target.postgres.environment(DATABASE)}
    return subprocess.run(argv, env=env, check=True, capture_output=True, text=True, timeout=120).stdout


def under_load(target: Target, inventory: Inventory, *words: str, clients: int = 2) -> tuple[Evidence, int]:
    """Gather while pgbench runs; return the evidence and the transactions of the whole run.

    The words give it a rate: what is looked at are shares and signs, and at full speed it takes all CPUs.
    """
    with pgbench_beside(target, DATABASE, *words, clients=clients) as load:
        found = gather(target, inventory, window_s=2.0)
        return found, transactions_of(load)


@pytest.mark.requirement("R-PG-01", "R-PG-02", "R-VER-04", "R-VER-08", "R-VER-14")
def test_small_max_wal_size_shows_in_the_log_of_every_version(any_postgres: Sandbox, tmp_path: Path) -> None:
    target = any_postgres.target()
    small = {"max_wal_size": "32MB", "min_wal_size": "32MB", "log_checkpoints": "on"}
    with settings(target.postgres, **small), bench_database(target):
        pgbench(target, "-n", "-f", str(SEGMENTS), "-R", "6", "-t", "12")  # a slow machine writes little WAL by itself
        inventory = inventory_of(target)
        found, transactions = under_load(target, inventory, "-b", "tpcb-like", "-R", "200")
        stored = gather(target, inventory, window_s=1.0, folder=tmp_path)
    assert isinstance(found.log, LogEvidence)
    assert len(found.log.too_frequent_s) > 0
    assert found.log.hints == (HINT,)
    assert "checkpoints are occurring too frequently" in found.log.quotes["too_frequent"]
    assert found.log.checkpoints
    assert found.log.starts["wal"] > 0
    statistics = found.statistics
    assert isinstance(statistics, Statistics)
    assert statistics.window.source == "sampled"
    assert 0 < statistics.commits_s * statistics.window.seconds <= transactions + 100
    assert statistics.rows_written_s > statistics.commits_s
    assert isinstance(statistics.checkpoints_requested, int)
    assert statistics.wal_bytes_s > 0
    assert found.wal_rate_bytes_s >= statistics.wal_bytes_s, "the log's checkpoints may tell of more"
    unknown = {name for name in Statistics.__slots__ if isinstance(getattr(statistics, name), Unknown)}
    major = inventory.server.major
    allowed = {"full_page_image_share", "wal_buffers_full", "session_busy_ratio"} if major == 13 else set()
    assert unknown <= allowed | ({"evictions_s"} if major < 16 else set())
    assert not isinstance(found.tables, Unknown)
    assert {table.name for table in found.tables[:4]} >= {"pgbench_accounts"}
    assert found.tables[0].database == DATABASE
    assert sum(table.io_share for table in found.tables) == pytest.approx(1, abs=0.01)
    assert not isinstance(found.concurrency, Unknown)
    assert found.concurrency.connected >= 2
    again = evidence_of_capture(tmp_path, inventory)
    for name in ("statistics", "tables", "statements", "concurrency", "devices", "host", "workload", "tiny_requests"):
        assert getattr(again, name) == getattr(stored, name)
    assert again.log.checkpoints == stored.log.checkpoints
    assert again.log.too_frequent_s == stored.log.too_frequent_s


@pytest.mark.requirement("R-INV-22")
def test_classes_of_three_loads_differ(sandbox18: Sandbox, tmp_path: Path) -> None:
    target = sandbox18.target()
    (tmp_path / "scan.sql").write_text(SCAN)
    # An analysis by autovacuum within the window writes statistics, and a slow machine reads few rows beside them.
    with settings(target.postgres, autovacuum="off"), bench_database(target):
        inventory = inventory_of(target)
        found = {}
        for words, rate in ((["-S"], "300"), (["-b", "tpcb-like"], "200"), (["-f", str(tmp_path / "scan.sql")], "10")):
            evidence, _ = under_load(target, inventory, *words, "-R", rate)
            found[" ".join(words)[:12]] = evidence.workload
    assert list(found.values()) == [WorkloadClass.READ_ONLY, WorkloadClass.OLTP, WorkloadClass.OLAP]


@pytest.mark.requirement("R-ADV-09", "R-ADV-10")
def test_single_row_statements_are_tiny_requests(sandbox18: Sandbox) -> None:
    target = sandbox18.target()
    target.postgres.execute("CREATE EXTENSION IF NOT EXISTS pg_stat_statements SCHEMA public")
    target.postgres.execute("SELECT public.pg_stat_statements_reset()")  # other tests left more than is read of it
    with bench_database(target):
        found, _ = under_load(target, inventory_of(target), "-S", "-R", "1000")
    assert not isinstance(found.tiny_requests, Unknown)
    assert found.tiny_requests.calls_share > 0.9


def test_statements_are_unknown_where_nobody_counts_them(sandbox18: Sandbox) -> None:
    target = sandbox18.target()
    was_there = target.postgres.fetch("SELECT 1 AS one FROM pg_extension WHERE extname = 'pg_stat_statements'")
    target.postgres.execute("DROP EXTENSION IF EXISTS pg_stat_statements")
    try:
        found = gather(target, inventory_of(target), window_s=1.0)
    finally:
        if was_there:
            target.postgres.execute("CREATE EXTENSION pg_stat_statements SCHEMA public")
    assert isinstance(found.statements, Unknown)
    assert "pg_stat_statements" in found.statements.reason


@pytest.mark.parametrize("kind", ["csvlog", "jsonlog", "stderr"])
def test_collected_logs_are_found_by_asking_the_server(make_sandbox: Callable[..., Sandbox], kind: str) -> None:
    sandbox = make_sandbox(f"collects-{kind}")
    sandbox.start()
    target = sandbox.target()
    for name, value in {"logging_collector": "on", "log_destination": kind, "log_line_prefix": "%n %u@%d:"}.items():
        target.postgres.execute(sql.SQL("ALTER SYSTEM SET {} = {}").format(sql.Identifier(name), sql.Literal(value)))
    sandbox.stop()
    sandbox.start()
    target.postgres.execute("CHECKPOINT")
    inventory = inventory_of(target)
    there, deadline = gather(target, inventory).log, time.monotonic() + 60
    while time.monotonic() < deadline and not (isinstance(there, LogEvidence) and there.starts["requested"]):
        there = gather(target, inventory).log  # the collector is a process of its own and may be late
    assert isinstance(there, LogEvidence)
    assert there.starts["requested"] >= 1
    assert not isinstance(there.began, Unknown)
    dispatcher = Dispatcher()
    dispatcher.calls["open"]({"conninfo": target.postgres.conninfo})
    listed = dispatcher.calls["log_files"]({})
    assert isinstance(listed, dict)
    paths = [file["path"] for file in listed["files"]]
    block = dispatcher.calls["read_log"]({"path": paths[-1], "start": 0, "count": 1 << 16})
    assert isinstance(block, dict)
    assert b"checkpoint" in base64.b64decode(block["block"])
    with pytest.raises(EnvironmentUnsuitable, match="not a file of the server's log"):
        dispatcher.calls["read_log"]({"path": "/etc/passwd", "start": 0, "count": 10})
    folder = Path(paths[-1]).parent
    (folder / f"link{Path(paths[-1]).suffix}").symlink_to("/etc/passwd")
    (folder / f"other{Path(paths[-1]).suffix}").write_text("not the server's")
    again = dispatcher.calls["log_files"]({})
    assert isinstance(again, dict)
    own = os.geteuid() == sandbox.data_directory.stat().st_uid
    assert [file["path"] for file in again["files"] if "other" not in file["path"] or not own] == paths
    through_server = gather(replace(target, local=False), inventory).log
    assert isinstance(through_server, LogEvidence)
    assert through_server.starts["requested"] >= 1


def test_monitor_role_is_enough_and_a_plain_role_learns_less(sandbox18: Sandbox) -> None:
    target = sandbox18.target()
    inventory = inventory_of(target)
    for role, statement in (("evidence_monitor", "GRANT pg_monitor TO evidence_monitor"), ("evidence_nobody", None)):
        name = sql.Identifier(role)
        target.postgres.execute(sql.SQL("CREATE ROLE {} LOGIN").format(name))
        try:
            if statement is not None:
                target.postgres.execute(sql.SQL(statement))
            as_role = replace(target, postgres=Postgres(make_conninfo(target.postgres.conninfo, user=role)))
            with settings(target.postgres, autovacuum="off"):  # what others left to analyse is no load, and writes rows
                found = gather(as_role, inventory, window_s=1.0)
        finally:
            target.postgres.execute(sql.SQL("DROP ROLE {}").format(name))
        assert isinstance(found.statistics, Statistics)
        assert not isinstance(found.tables, Unknown)
        assert isinstance(found.workload, Unknown)  # nobody works


def test_reset_within_the_window_makes_it_unknown(sandbox18: Sandbox) -> None:
    target = sandbox18.target()
    inventory = inventory_of(target)

    def reset_once(text: str) -> None:
        if text.startswith("watching"):
            target.postgres.execute("SELECT pg_stat_reset()")

    found = gather(target, inventory, window_s=1.0, progress=reset_once)
    assert isinstance(found.statistics, Unknown)
    assert "reset" in found.statistics.reason


def test_nothing_is_changed_and_a_lost_server_is_unknown(make_sandbox: Callable[..., Sandbox]) -> None:
    sandbox = make_sandbox("lost")
    sandbox.start()
    target = sandbox.target()
    inventory = inventory_of(target)
    before = target.postgres.fetch("SELECT oid FROM pg_class ORDER BY oid")
    snapshot = read_snapshot(target.postgres)
    assert target.postgres.fetch("SELECT oid FROM pg_class ORDER BY oid") == before
    assert set(snapshot["failures"]) <= {"statements", "buffers"}
    sandbox.stop()
    found = gather(target, inventory)
    assert isinstance(found.statistics, Unknown)
    assert isinstance(found.log, LogEvidence)


@pytest.mark.requirement("R-ADV-11", "R-INV-23")
def test_small_cache_shows_misses_and_evictions(make_sandbox: Callable[..., Sandbox], tmp_path: Path) -> None:
    (tmp_path / "pieces.sql").write_text(PIECES)
    sandbox = make_sandbox("small-cache")
    sandbox.start()
    target = sandbox.target()
    target.postgres.execute("ALTER SYSTEM SET shared_buffers = '1MB'")
    sandbox.stop()
    sandbox.start()
    with bench_database(target):
        found, _ = under_load(target, inventory_of(target), "-f", str(tmp_path / "pieces.sql"), "-R", "40")
    statistics = found.statistics
    assert isinstance(statistics, Statistics)
    assert not isinstance(statistics.hit_ratio, Unknown)
    assert statistics.hit_ratio < 0.99
    assert not isinstance(statistics.evictions_s, Unknown)
    assert statistics.evictions_s > 0
    assert not isinstance(found.working_set, Unknown)
    assert found.working_set.kind is WorkingSetClass.RAM_TWICE


@pytest.mark.requirement("R-PG-35")
def test_waits_for_locks_grow_with_clients_on_few_rows(sandbox18: Sandbox, tmp_path: Path) -> None:
    target = sandbox18.target()
    (tmp_path / "row.sql").write_text(ONE_ROW)
    waiting = []
    with bench_database(target):
        inventory = inventory_of(target)
        for clients in (1, 24):
            found, _ = under_load(target, inventory, "-f", str(tmp_path / "row.sql"), clients=clients)
            assert not isinstance(found.concurrency, Unknown)
            waiting.append(found.concurrency.lock_waiters_mean)
            assert isinstance(found.concurrency.knee_clients, Unknown)
    assert waiting[1] > waiting[0]
