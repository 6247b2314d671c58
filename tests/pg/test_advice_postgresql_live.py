"""The advice on PostgreSQL on real servers: found under load, applied by a reload, gone; and what its sizes cost."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from psycopg import sql

from advisor_case import make_host, make_server
from calm_load import SEGMENTS
from pgbench_beside import pgbench_beside
from pgdyno.advisor.engine import advise
from pgdyno.advisor.rulebook import shipped_rules
from pgdyno.model.finding import Answer, Cost, Finding
from pgdyno.model.inventory import Inventory
from pgdyno.probes.evidence.gather import gather
from pgdyno.sandbox.sandbox import Sandbox
from pgdyno.targets.inspect import read_facts
from pgdyno.targets.target import Target
from pgdyno.trial.plan_changes import plan_changes
from pgdyno.workloads.statement_plans import plan_records
from server_image import eventually

pytestmark = [pytest.mark.pg, pytest.mark.slow]
DATABASE = "advised"
WRITING = ("-f", str(SEGMENTS), "-R", "6")
SEGMENT = 16 << 20
WINDOWS_S = (2.0, 4.0, 8.0, 16.0, 32.0)
"""A machine that hardly gives the server a CPU needs more than the shortest, and others no more than that."""
TRANSACTIONS = 300
FEW_PAGES = "\\set a random(1, 10000)\nUPDATE pgbench_accounts SET abalance = abalance + 1 WHERE aid = :a;\n"


def pgbench(target: Target, *words: str) -> None:
    argv = [str(target.program("pgbench")), "-n", *words]
    env = {**os.environ, **target.postgres.environment(DATABASE)}
    subprocess.run(argv, env=env, check=True, capture_output=True, text=True, timeout=120)


def make_database(target: Target, *words: str, scale: int = 2) -> None:
    target.postgres.execute(sql.SQL("DROP DATABASE IF EXISTS {}").format(sql.Identifier(DATABASE)))
    target.postgres.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(DATABASE)))
    pgbench(target, "-i", "-s", str(scale), *words)


def configure(target: Target, **values: str) -> None:
    for name, value in values.items():
        target.postgres.execute(sql.SQL("ALTER SYSTEM SET {} = {}").format(sql.Identifier(name), sql.Literal(value)))
    target.postgres.execute("SELECT pg_reload_conf()")


def reset(target: Target) -> None:
    target.postgres.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(DATABASE)))
    target.postgres.execute("ALTER SYSTEM RESET ALL")
    target.postgres.execute("SELECT pg_reload_conf()")


def under_load(target: Target, rule: str, *words: str, window_s: float) -> Finding:
    """Gather evidence while pgbench runs and return what a rule says."""
    facts = read_facts(target)
    server = replace(
        make_server(facts.server.major), settings=facts.settings, version_num=facts.server.version_num, databases=()
    )
    inventory = Inventory(make_host(ram_bytes=8 << 30), server)
    with pgbench_beside(target, DATABASE, *words):
        found = gather(target, inventory, window_s=window_s)
    return next(finding for finding in advise(inventory, found, shipped_rules()) if finding.rule == rule)


def found_under_load(target: Target, rule: str, *words: str) -> Finding:
    """Return what a rule says of the first window in which it finds something, or else of the longest one.

    In two seconds a busy machine may write too little WAL to start two checkpoints, or end no scan of a table.
    """
    for window_s in WINDOWS_S:
        finding = under_load(target, rule, *words, window_s=window_s)
        if finding.answer is Answer.FINDING:
            break
    return finding


def is_hinted_with(sandbox: Sandbox, knob: str, value: str) -> bool:
    """Put a value in force by a reload and return whether the log hints at max_wal_size under load after it."""
    target = sandbox.target()
    configure(target, **{knob: value})
    target.postgres.execute("CHECKPOINT")
    seen = sandbox.log_file.stat().st_size
    pgbench(target, *WRITING, "-T", "3")
    return is_hinted(sandbox, seen)


def is_hinted(sandbox: Sandbox, seen: int) -> bool:
    """Tell whether the log says behind the first `seen` bytes that checkpoints come too frequently."""
    return b"too frequently" in sandbox.log_file.read_bytes()[seen:]


@pytest.mark.requirement("R-PG-03", "R-PG-08", "R-PG-09", "CON-18")
def test_hint_is_found_and_a_reload_ends_it(any_postgres: Sandbox) -> None:
    target = any_postgres.target()
    try:
        configure(target, max_wal_size="32MB", min_wal_size="32MB", log_checkpoints="on", checkpoint_timeout="30s")
        make_database(target, scale=1)
        started = target.postgres.fetch("SELECT pg_postmaster_start_time()::text AS at")
        seen = any_postgres.log_file.stat().st_size
        with pgbench_beside(target, DATABASE, *WRITING):
            eventually(lambda: is_hinted(any_postgres, seen), "the hint of the log")
        finding = found_under_load(target, "max-wal-size", *WRITING)
        assert (finding.answer, finding.cost) == (Answer.FINDING, Cost.RELOAD)
        assert any("checkpoints are occurring too frequently" in text for text in finding.evidence)
        hinted = True
        for _ in range(3):  # a rate that was measured on a busy machine is too low, and the next one is not
            (change,) = finding.changes
            hinted = is_hinted_with(any_postgres, change.knob, change.value)
            if not hinted:
                break
            finding = found_under_load(target, "max-wal-size", *WRITING)
        assert not hinted
        assert target.postgres.fetch("SELECT pg_postmaster_start_time()::text AS at") == started
    finally:
        reset(target)


@pytest.mark.requirement("R-ADV-11")
def test_buffers_of_1mb_are_too_small_for_reads(make_sandbox: Callable[..., Sandbox], tmp_path: Path) -> None:
    """Pages of a few rows each are read from end to end: of single rows a busy machine reads too few in a window."""
    scan = tmp_path / "scan.sql"
    scan.write_text("SELECT count(*) FROM pgbench_accounts;\n")
    sandbox = make_sandbox("small")
    sandbox.start()
    target = sandbox.target()
    make_database(target, "-F", "10", scale=1)
    configure(target, shared_buffers="1MB")
    sandbox.stop()
    sandbox.start()
    assert found_under_load(sandbox.target(), "buffer-cache-small", "-f", str(scan)).answer is Answer.FINDING


def since_checkpoint(target: Target) -> int:
    """Return how much WAL a crash now would replay."""
    query = "SELECT pg_current_wal_lsn()::text AS now, redo_lsn::text AS redo FROM pg_control_checkpoint()"
    (row,) = target.postgres.fetch(query)
    return position(str(row["now"])) - position(str(row["redo"]))


def redone_bytes(log: str) -> int:
    """Return how much WAL the last recovery replayed."""
    began, ended = re.findall(r"redo (?:starts|done) at ([0-9A-F]+/[0-9A-F]+)", log)[-2:]
    return position(ended) - position(began)


def position(lsn: str) -> int:
    high, low = lsn.split("/")
    return (int(high, 16) << 32) + int(low, 16)


@pytest.mark.requirement("R-PG-07")
def test_crash_replays_more_with_a_larger_max_wal_size(make_sandbox: Callable[..., Sandbox]) -> None:
    replayed = {}
    for size in ("32MB", "2GB"):
        sandbox = make_sandbox(f"crash-{size.lower()}")
        sandbox.start()
        target = sandbox.target()
        configure(target, max_wal_size=size, min_wal_size="32MB", checkpoint_timeout="1h")
        make_database(target, scale=1)
        target.postgres.execute("CHECKPOINT")
        pgbench(target, "-f", str(SEGMENTS), "-R", "4", "-t", "20")
        if size == "32MB":  # whose last checkpoint a busy machine may not have ended yet
            eventually(lambda target=target: since_checkpoint(target) < 4 * SEGMENT, "its WAL is behind a checkpoint")
        sandbox.crash()
        sandbox.start()
        replayed[size] = redone_bytes(Path(sandbox.log_file).read_text(errors="replace"))
    assert replayed["2GB"] > 2 * replayed["32MB"]


def vacuums_by_itself(target: Target) -> bool:
    """Tell whether a worker of autovacuum is at work, which ends its tables after it was switched off."""
    return bool(target.postgres.fetch("SELECT pid FROM pg_stat_activity WHERE backend_type = 'autovacuum worker'"))


@pytest.mark.requirement("R-PG-10", "R-PG-11")
def test_wal_of_a_transaction_falls_with_the_distance_of_checkpoints(sandbox18: Sandbox, tmp_path: Path) -> None:
    """Of updates in so few pages that each is written to again and again."""
    target, update = sandbox18.target(), tmp_path / "update.sql"
    update.write_text(FEW_PAGES)
    try:
        configure(target, autovacuum="off")  # what it writes of other tests' tables is WAL, too
        make_database(target, scale=1)
        eventually(lambda: not vacuums_by_itself(target), "the workers of autovacuum have ended")
        per_transaction = {}
        for checkpoints in (10, 1):
            before = target.postgres.fetch("SELECT pg_current_wal_lsn()::text AS at")[0]["at"]
            for _ in range(checkpoints):
                target.postgres.execute("CHECKPOINT")
                pgbench(target, "-f", str(update), "-t", str(TRANSACTIONS // checkpoints))
            after = target.postgres.fetch("SELECT pg_current_wal_lsn()::text AS at")[0]["at"]
            per_transaction[checkpoints] = (position(str(after)) - position(str(before))) / TRANSACTIONS
        assert per_transaction[10] > 1.2 * per_transaction[1]
    finally:
        reset(target)


YBIO_QUERY = "SELECT count(*), max(scratch) FROM bench1 WHERE mykey BETWEEN $1 AND $2"
YBIO_TABLE = """
CREATE TABLE bench1 (mykey bigint NOT NULL, scratch bigint NOT NULL, filler char(100));
INSERT INTO bench1 SELECT (n * 7919) % 100003, n, '' FROM generate_series(1, 100000) AS n;
CREATE INDEX ON bench1 (mykey);
ANALYZE bench1
"""


@pytest.mark.requirement("R-PG-31", "CON-39")
def test_equal_page_costs_turn_the_bitmap_scan_of_the_field_report_into_an_index_scan(sandbox18: Sandbox) -> None:
    postgres, name = sandbox18.target().postgres, "page_costs"
    postgres.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    try:
        with postgres.for_load(name).connect() as connection:
            connection.execute(YBIO_TABLE)
        before = plan_records(postgres, name, [YBIO_QUERY])
        postgres.execute(sql.SQL("ALTER DATABASE {} SET random_page_cost = 1").format(sql.Identifier(name)))
        after = plan_records(postgres, name, [YBIO_QUERY])
    finally:
        postgres.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))
    (change,) = plan_changes([before], [after])
    assert (change.word, "Bitmap Heap Scan" in change.before[0]) == ("changed", True)
    assert "Index Scan using" in change.after[0]
    assert "Bitmap" not in change.after[0]
