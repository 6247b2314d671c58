"""Data of an earlier study are read into the page cache before a run needs them: files on a real disk."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from psycopg import sql

from pgdyno.model.facts import Facts, Unknown
from pgdyno.model.loading import LoadedShare
from pgdyno.sandbox.sandbox import Sandbox
from pgdyno.server.postgres import Postgres
from pgdyno.targets.inspect import read_facts
from pgdyno.targets.target import Target
from pgdyno.workloads.buffer_warmth import warm_buffers
from pgdyno.workloads.page_cache import read_in
from pgdyno.workloads.protocol import Workload
from pgdyno.workloads.registry import make_workload
from server_image import eventually

pytestmark = pytest.mark.pg

READS = {"tab_rows": 60_000, "batch_size": 100, "pct_update": 0}


@pytest.fixture(scope="module")
def target() -> Iterator[Target]:
    """Yield a sandbox whose files are on a disk: what lives in a file system in memory cannot leave the page cache."""
    folder = Path(tempfile.mkdtemp(prefix="pgdyno-test-", dir="/var/tmp"))
    folder.chmod(0o755)
    sandbox = Sandbox.open_or_create("on-disk", root=folder)
    try:
        sandbox.start()
        sandbox.target().postgres.execute("ALTER SYSTEM SET autovacuum = off")  # it reads the tables too
        sandbox.target().postgres.execute("SELECT pg_reload_conf()")
        yield sandbox.target()
    finally:
        sandbox.destroy()
        shutil.rmtree(folder)


@pytest.fixture(scope="module")
def facts(target: Target) -> Facts:
    found = read_facts(target)
    if found.host.data_filesystem in ("tmpfs", "ramfs"):
        pytest.skip("/var/tmp is in memory here: its files cannot leave the page cache")
    return found


def prepared(target: Target, parameters: dict[str, int], *, by: Target | None = None) -> tuple[Workload, str]:
    """Load data, as another role where one is given, and write all of them to the disk."""
    workload, loader = make_workload("ybio", parameters), by or target
    workload.prepare(loader, progress=lambda text: None)
    dbname = workload.reset(loader)
    target.postgres.execute("CHECKPOINT")  # what the server writes later is in the page cache again
    return workload, dbname


def files(target: Target, dbname: str) -> list[Path]:
    query = "SELECT pg_relation_filepath(oid) AS path FROM pg_class WHERE relname LIKE 'bench0001%%'"
    assert target.directory is not None
    return [target.directory / str(row["path"]) for row in target.postgres.fetch(query, dbname=dbname)]


def forget(paths: list[Path]) -> None:
    for path in paths:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)


def cached_share(paths: list[Path]) -> float:
    listed = subprocess.run(
        ["fincore", "--bytes", "--json", *map(str, paths)], check=True, capture_output=True, text=True
    )
    rows = json.loads(listed.stdout)["fincore"]
    return sum(int(row["res"]) for row in rows) / sum(path.stat().st_size for path in paths)


def blocks_read(target: Target, dbname: str) -> list[dict[str, object]]:
    return target.postgres.fetch(
        "SELECT relname, heap_blks_read, heap_blks_hit, idx_blks_read FROM pg_statio_user_tables"
        " WHERE relname LIKE 'bench%%'",
        dbname=dbname,
    )


def test_kept_data_are_read_and_nothing_else_changes(target: Target, facts: Facts) -> None:
    workload, dbname = prepared(target, READS)
    paths = files(target, dbname)
    assert len(paths) >= 2, "the table and its index"
    sessions = "SELECT pid FROM pg_stat_activity WHERE datname = %s"
    eventually(lambda: target.postgres.fetch(sessions, [dbname]) == [], "all who filled it have told their counts")
    before = blocks_read(target, dbname)
    forget(paths)
    assert cached_share(paths) < 0.1

    told: list[str] = []
    done = read_in(workload, target, facts, policy="auto", progress=told.append)

    assert cached_share(paths) > 0.95
    assert done >= sum(path.stat().st_size for path in paths)
    assert blocks_read(target, dbname) == before, "shared buffers and their statistics are left alone"
    shares = [text.percent for text in told if isinstance(text, LoadedShare)]
    assert shares == sorted(shares)


def test_what_is_cloned_for_each_run_is_in_memory_by_that(target: Target, facts: Facts) -> None:
    workload, _ = prepared(target, {**READS, "pct_update": 50})
    assert read_in(workload, target, facts, policy="auto", progress=print) == 0


@pytest.mark.parametrize(("share", "policy", "reads"), [(0, "always", False), (50, "never", True)])
def test_what_is_read_follows_from_how_runs_are_reset(
    target: Target, facts: Facts, share: int, policy: str, reads: bool
) -> None:
    workload, _ = prepared(target, {**READS, "pct_update": share})
    assert (read_in(workload, target, facts, policy=policy, progress=print) > 0) is reads


def test_nothing_is_read_before_a_first_study(target: Target, facts: Facts) -> None:
    workload = make_workload("ybio", {**READS, "tab_num": 7})
    assert read_in(workload, target, facts, policy="auto", progress=print) == 0


@pytest.mark.parametrize("memory", [20_000_000, Unknown("the server is elsewhere")])
def test_data_that_would_not_stay_are_not_read(target: Target, facts: Facts, memory: int | Unknown) -> None:
    workload, dbname = prepared(target, READS)
    paths = files(target, dbname)
    forget(paths)
    bounded = replace(facts, host=replace(facts.host, memory_limit_bytes=memory))
    assert read_in(workload, target, bounded, policy="auto", progress=print) == 0
    assert cached_share(paths) < 0.1


def test_a_role_that_may_not_read_files_measures_all_the_same(target: Target, facts: Facts) -> None:
    target.postgres.execute(sql.SQL("CREATE ROLE reader LOGIN CREATEDB"))
    parameters = {key: value for key, value in target.postgres.parameters.items() if key != "user"}
    conninfo = " ".join(f"{key}='{value}'" for key, value in {**parameters, "user": "reader"}.items())
    theirs = replace(target, postgres=Postgres(conninfo))
    workload, dbname = prepared(target, {**READS, "tab_num": 2}, by=theirs)
    try:
        assert workload.spec().read_only
        told: list[str] = []
        assert read_in(workload, theirs, facts, policy="auto", progress=told.append) == 0
        assert any("not read into the page cache" in line and "permission denied" in line for line in told)
        function = "pg_read_binary_file(text, bigint, bigint, boolean)"
        target.postgres.execute(sql.SQL(f"GRANT EXECUTE ON FUNCTION {function} TO reader"), dbname=dbname)
        assert read_in(workload, theirs, facts, policy="auto", progress=print) > 0
    finally:
        workload.drop(theirs, template=True)
        target.postgres.execute(sql.SQL("DROP ROLE reader"))


def from_outside(target: Target, dbname: str) -> int:
    """Read the table and return how many of its blocks were not in shared buffers."""
    with target.postgres.for_load(dbname).connect() as session:
        session.execute("SET enable_seqscan = off")
        plan = session.execute("EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) SELECT sum(scratch) FROM bench0001").fetchone()
    assert plan is not None
    return int(plan["QUERY PLAN"][0]["Plan"]["Shared Read Blocks"])


def test_a_load_finds_its_data_in_shared_buffers_after_a_restart(target: Target, facts: Facts) -> None:
    _, dbname = prepared(target, READS)
    assert target.control is not None
    target.control.restart()
    target.postgres.wait_ready(30)
    done, why_not = warm_buffers(target, dbname, facts)
    assert why_not is None
    assert done >= sum(path.stat().st_size for path in files(target, dbname))
    assert from_outside(target, dbname) == 0
    bounded = replace(facts, host=replace(facts.host, memory_limit_bytes=20_000_000))
    assert warm_buffers(target, dbname, bounded) == (0, None), "what does not stay in memory is not read each time"


def test_a_role_that_may_not_make_the_extension_is_told_why_its_buffers_are_cold(target: Target, facts: Facts) -> None:
    target.postgres.execute(sql.SQL("CREATE ROLE plain LOGIN CREATEDB"))
    conninfo = " ".join(f"{key}='{value}'" for key, value in {**target.postgres.parameters, "user": "plain"}.items())
    plain = replace(target, postgres=Postgres(conninfo))
    workload, dbname = prepared(target, {**READS, "tab_num": 3}, by=plain)
    try:
        done, why_not = warm_buffers(plain, dbname, facts)
        assert (done, "pg_prewarm" in (why_not or "")) == (0, True)
    finally:
        workload.drop(plain, template=True)
        target.postgres.execute(sql.SQL("DROP ROLE plain"))
