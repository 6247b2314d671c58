"""What every workload must keep, whatever it runs: checked on real servers."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from psycopg import sql

from made_trace import INIT, made_trace
from pgdyno.model.trial import LoadPlan
from pgdyno.sandbox.sandbox import Sandbox
from pgdyno.stats.histogram import LatencyHistogram
from pgdyno.targets.target import Target
from pgdyno.workloads.protocol import Workload
from pgdyno.workloads.registry import make_workload
from pgdyno.workloads.result import LoadResult

pytestmark = pytest.mark.pg

PLAN = LoadPlan(clients=2, jobs=2, warmup_s=0.0, measure_s=1.0, seed=7)
RATE = 100.0
"""Transactions per second, where a load may have a rate: what is asserted of one that ends by itself is no speed."""
ENOUGH = 20
"""Transactions."""
SMALL: dict[str, dict[str, str | int]] = {
    "tpcb-like": {"scale": 1},
    "simple-update": {"scale": 1},
    "select-only": {"scale": 1},
    "ybio": {"tab_rows": 20_000, "batch_size": 50, "pct_update": 20},
    "custom": {"variables": "rows=500"},
    "replay": {"engine": "python"},
}
CASES = [*((name, "embedded-18") for name in SMALL), ("tpcb-like", "debian-15"), ("ybio", "debian-15")]
"""The older server is asked for one workload of each kind of data."""


@dataclass(frozen=True)
class Case:
    workload: Workload
    target: Target


@dataclass(frozen=True)
class Run:
    """One load of a case, which several tests look at. `commits` is what the server counted meanwhile."""

    result: LoadResult
    commits: int


@pytest.fixture(scope="module")
def cases() -> Iterator[dict[object, Case]]:
    """The workloads that left databases on the shared servers."""
    prepared: dict[object, Case] = {}
    yield prepared
    for one in prepared.values():
        one.workload.drop(one.target, template=True)


@pytest.fixture(scope="module")
def runs() -> dict[object, Run]:
    return {}


@pytest.fixture(params=CASES, ids=lambda param: "-on-".join(param))
def case(
    request: pytest.FixtureRequest,
    sandbox18: Sandbox,
    shared_servers: Callable[[str], Sandbox],
    server_home: Path,
    cases: dict[object, Case],
) -> Case:
    if request.param in cases:
        return cases[request.param]
    name, build = request.param
    parameters: dict[str, str | int] = dict(SMALL[name])
    target = sandbox18.target() if build == "embedded-18" else shared_servers(build).target()
    if name == "custom":
        parameters |= custom_files(server_home)
    if name == "replay":
        parameters |= replay_files(server_home, target)
    workload = make_workload(name, parameters)
    workload.prepare(target, progress=lambda text: None)
    return cases.setdefault(request.param, Case(workload, target))


@pytest.fixture
def one_run(request: pytest.FixtureRequest, case: Case, runs: dict[object, Run], tmp_path: Path) -> Run:
    key = request.node.callspec.params["case"]
    if key not in runs:
        for seconds in (1.0, 5.0, 25.0):  # a second of a busy machine may have too few transactions to be looked at
            dbname = case.workload.reset(case.target)
            before = commits(case.target, dbname)
            folder = tmp_path / f"{seconds:.0f}"
            folder.mkdir()
            result = run(case, dbname, folder, seconds)
            if result.transactions > ENOUGH:
                break
        deadline = time.monotonic() + 60
        while commits(case.target, dbname) - before < result.transactions and time.monotonic() < deadline:
            time.sleep(0.1)
        runs[key] = Run(result, commits(case.target, dbname) - before)
    return runs[key]


def custom_files(folder: Path) -> dict[str, str]:
    files = {
        "init.sql": "CREATE TABLE item (id int PRIMARY KEY, n int NOT NULL);\n"
        "INSERT INTO item SELECT i, 0 FROM generate_series(1, 500) AS g (i);\n",
        "look.sql": "\\set id random(1, :rows)\nSELECT n FROM item WHERE id = :id;\n",
        "bump.sql": "\\set id random(1, :rows)\nUPDATE item SET n = n + 1 WHERE id = :id;\n",
    }
    for name, text in files.items():
        (folder / name).write_text(text)
    return {"init": str(folder / "init.sql"), "scripts": f"{folder / 'look.sql'}@3,{folder / 'bump.sql'}@1"}


def replay_files(folder: Path, target: Target) -> dict[str, str]:
    trace, init = folder / "load.parquet", folder / "before.sql"
    if not trace.exists():
        made_trace(trace)
        init.write_text(INIT)
    return {"trace": str(trace), "init": str(init), "role": target.postgres.parameters["user"]}


def contents(target: Target, dbname: str) -> dict[str, tuple[object, object]]:
    """Return the row count and a checksum that does not depend on order, for each table of the user."""
    tables = target.postgres.fetch(
        "SELECT n.nspname AS schema, c.relname AS name FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
        " WHERE c.relkind = 'r' AND n.nspname = 'public' ORDER BY 2",
        dbname=dbname,
    )
    found = {}
    for table in tables:
        query = sql.SQL("SELECT count(*) AS rows, sum(hashtextextended(t::text, 0)) AS hash FROM {} AS t").format(
            sql.Identifier(str(table["schema"]), str(table["name"]))
        )
        row = target.postgres.for_load(dbname).fetch(query)[0]
        found[str(table["name"])] = (row["rows"], row["hash"])
    return found


def oid(target: Target, dbname: str) -> object:
    return target.postgres.fetch("SELECT oid FROM pg_database WHERE datname = %s", [dbname])[0]["oid"]


def commits(target: Target, dbname: str) -> int:
    rows = target.postgres.fetch("SELECT xact_commit FROM pg_stat_database WHERE datname = %s", [dbname])
    return int(str(rows[0]["xact_commit"]))


def paced(case: Case, measure_s: float) -> LoadPlan:
    rate = None if case.workload.spec().name == "replay" else RATE  # its trace says when
    return replace(PLAN, measure_s=measure_s, rate=rate)


def run(case: Case, dbname: str, directory: Path, measure_s: float = PLAN.measure_s) -> LoadResult:
    return case.workload.begin(case.target, dbname, paced(case, measure_s), directory, instance=4).finish()


def test_the_same_parameters_give_the_same_spec(case: Case) -> None:
    spec = case.workload.spec()
    assert make_workload(spec.name, spec.parameters).spec() == spec
    assert spec.description


def test_preparing_twice_loads_once(case: Case) -> None:
    names = "SELECT datname, oid FROM pg_database WHERE datname LIKE 'pgdyno%%template' ORDER BY 1"
    before = case.target.postgres.fetch(names)
    said: list[str] = []
    case.workload.prepare(case.target, progress=said.append)
    assert case.target.postgres.fetch(names) == before
    assert len(said) == 1
    assert "data are there" in said[0]


def test_a_load_is_counted_as_the_server_counts_it(one_run: Run) -> None:
    result = one_run.result
    assert (result.reason, result.exit_code, result.failed, result.skipped) == (None, 0, 0, 0)
    assert (result.malformed_lines, result.aborted_clients) == (0, 0)
    assert result.transactions > ENOUGH
    # pgbench, autovacuum and this test open some transactions of their own.
    assert 0 <= one_run.commits - result.transactions < 60


def test_every_view_of_a_load_adds_up(one_run: Run) -> None:
    result = one_run.result
    rows = result.histograms
    assert sum(row.count for row in rows) == result.transactions == len(result.log)
    assert {row.instance for row in rows} == {4}
    assert LatencyHistogram.merged(row.blob for row in rows).quantile_ms(1.0) > 0
    assert 0 < result.bins.counts.sum() <= result.transactions
    whole = result.window(result.began_at, result.ended_at + 1)
    assert whole.transactions == result.transactions
    assert whole.latency is not None
    assert 0 < whole.latency.p50 <= whole.latency.p95 <= whole.latency.p99 <= whole.latency.p999 <= whole.latency.max
    middle = round(2 * (result.began_at + result.ended_at)) / 4  # windows begin and end at a quarter of a second
    halves = [result.window(result.began_at, middle), result.window(middle, result.ended_at + 1)]
    assert sum(half.transactions for half in halves) == result.transactions
    assert halves[0].throughput == pytest.approx(halves[0].transactions / halves[0].seconds)
    assert result.began_at <= result.log.first_end_us / 1e6 <= result.ended_at <= time.time()
    assert 0 < result.driver_cpu_s < PLAN.jobs * (result.ended_at - result.began_at + 1)


def test_a_reset_gives_the_first_state_back(case: Case, tmp_path: Path) -> None:
    read_only = case.workload.spec().read_only
    dbname = case.workload.reset(case.target)
    fresh, first_oid = contents(case.target, dbname), oid(case.target, dbname)
    assert fresh
    run(case, dbname, tmp_path)
    assert (contents(case.target, dbname) == fresh) == read_only
    assert case.workload.reset(case.target) == dbname
    assert contents(case.target, dbname) == fresh
    assert (oid(case.target, dbname) == first_oid) == read_only, "what only reads is cloned once"


def test_terminate_leaves_nothing_behind(case: Case, tmp_path: Path) -> None:
    dbname = case.workload.reset(case.target, policy="never")
    load = case.workload.begin(case.target, dbname, paced(case, 60.0), tmp_path)
    reading, deadline = None, time.monotonic() + 40
    while (reading is None or not reading.transactions) and time.monotonic() < deadline:
        time.sleep(0.2)
        reading = load.live()
    assert reading is not None
    assert reading.transactions > 0
    assert not load.poll()
    load.terminate()
    assert load.poll()
    with pytest.raises(ProcessLookupError):
        os.killpg(load.pids[0], 0)
    result = load.finish()
    assert result.reason is not None
    assert result.transactions >= reading.transactions
    deadline = time.monotonic() + 60
    while (left := sessions(case.target, dbname)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert left == 0


def test_a_load_that_is_told_that_its_time_is_over_ends_whole(case: Case, tmp_path: Path) -> None:
    """As at the end of its own time: no client is cut off in a transaction, and no line of the log is lost."""
    dbname = case.workload.reset(case.target, policy="never")
    load = case.workload.begin(case.target, dbname, paced(case, 60.0), tmp_path)
    series, deadline = None, time.monotonic() + 40
    while (series is None or not series.counts.sum()) and time.monotonic() < deadline:
        time.sleep(0.2)
        load.live()
        series = load.series()
    assert series is not None
    load.let_end()
    while not load.wait(0.2) and time.monotonic() < deadline + 60:
        pass
    result = load.finish()
    assert (result.reason, result.partial, result.exit_code, result.aborted_clients) == (None, None, 0, 0)
    assert (result.malformed_lines, result.failed) == (0, 0)
    assert result.ended_at - result.began_at < 58, "long before its own time was over"
    assert series.origin_s == result.bins.origin_s
    assert list(series.counts) == list(result.bins.counts[: len(series.counts)]), "what it had told does not change"
    assert list(series.latency_us) == list(result.bins.latency_us[: len(series.counts)])
    load.let_end()


def sessions(target: Target, dbname: str) -> int:
    query = "SELECT count(*) AS n FROM pg_stat_activity WHERE datname = %s AND application_name = 'pgdyno load'"
    return int(str(target.postgres.fetch(query, [dbname])[0]["n"]))
