from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from pgdyno.model.trial import LoadPlan
from pgdyno.sandbox.sandbox import Sandbox
from pgdyno.targets.target import Target
from pgdyno.workloads.protocol import Workload
from pgdyno.workloads.registry import make_workload

pytestmark = pytest.mark.pg

ROWS, BATCH, TOUCHED = 100_000, 500, 20_000
RATE = 30.0
"""Transactions a second, for what does not depend on how many there are."""
PARAMETERS = {"tab_rows": ROWS, "batch_size": BATCH, "tab_num": 3}


@pytest.fixture(scope="module")
def target(sandbox18: Sandbox) -> Iterator[Target]:
    target = sandbox18.target()
    yield target
    for share in (0, 100, 50):
        workload(share).drop(target, template=True)


def workload(pct_update: int) -> Workload:
    run_tab_rows = TOUCHED if pct_update == 100 else 0
    return make_workload("ybio", {**PARAMETERS, "pct_update": pct_update, "run_tab_rows": run_tab_rows})


def database(target: Target, pct_update: int) -> str:
    load = workload(pct_update)
    load.prepare(target, progress=lambda text: None)
    return load.reset(target)


def one(target: Target, dbname: str, query: str) -> dict[str, float]:
    row = target.postgres.for_load(dbname).fetch(query)[0]
    return {name: float(str(value)) for name, value in row.items()}


def test_the_table_is_as_asked_for(target: Target) -> None:
    dbname = database(target, 0)
    row = one(
        target,
        dbname,
        "SELECT count(*) AS n, count(DISTINCT mykey) AS keys, min(mykey) AS least, max(mykey) AS most,"
        " min(octet_length(filler)) AS filler FROM bench0003",
    )
    assert row == {"n": ROWS, "keys": ROWS, "least": 1, "most": ROWS, "filler": 400}
    analysed = one(
        target,
        dbname,
        "SELECT relpages, relpages - relallvisible AS not_visible FROM pg_class WHERE relname = 'bench0003'",
    )
    assert analysed["relpages"] > 0
    assert analysed["not_visible"] == 0, "frozen by the load: nothing is left to do for vacuum"


def test_rows_are_scattered_as_if_at_random(target: Target) -> None:
    dbname = database(target, 0)
    correlation = one(
        target, dbname, "SELECT correlation FROM pg_stats WHERE tablename = 'bench0003' AND attname = 'mykey'"
    )
    assert abs(correlation["correlation"]) < 0.1
    row = one(
        target,
        dbname,
        "SELECT pg_relation_size('bench0003') / 8192 AS pages, avg(touched) AS touched FROM ("
        " SELECT count(DISTINCT (ctid::text::point)[0]) AS touched FROM bench0003"
        f" GROUP BY (mykey - 1) / {BATCH}) AS batches",
    )
    expected = row["pages"] * (1 - (1 - 1 / row["pages"]) ** BATCH)
    assert row["touched"] == pytest.approx(expected, rel=0.02)


def test_two_loads_give_the_same_data(target: Target) -> None:
    query = "SELECT sum(hashtextextended(ctid::text || mykey || ' ' || scratch, 0)) AS hash FROM bench0003"
    first = one(target, database(target, 0), query)
    workload(0).drop(target, template=True)
    assert one(target, database(target, 0), query) == first


def test_updates_touch_the_working_set_only(target: Target, tmp_path: Path) -> None:
    load, dbname = workload(100), database(target, 100)
    result = load.begin(target, dbname, LoadPlan(2, 2, warmup_s=0.0, measure_s=1.0, rate=RATE), tmp_path).finish()
    assert (result.reason, result.failed) == (None, 0)
    row = one(
        target,
        dbname,
        "SELECT count(*) AS n, max(mykey) AS most FROM bench0003"
        f" WHERE xmin::text <> (SELECT xmin::text FROM bench0003 WHERE mykey = {ROWS})",
    )
    assert row["n"] > 0
    assert row["most"] <= TOUCHED
    assert "--max-tries=10" in result.argv


def test_the_share_of_updates_is_honoured(target: Target, tmp_path: Path) -> None:
    load, dbname = workload(50), database(target, 50)
    result = load.begin(target, dbname, LoadPlan(2, 1, warmup_s=0.0, measure_s=2.0, seed=1), tmp_path).finish()
    counts = {name: sum(row.count for row in result.histograms if row.script == name) for name in ("read", "update")}
    total = sum(counts.values())
    assert total == result.transactions
    assert counts["update"] / total == pytest.approx(0.5, abs=6 * 0.5 / total**0.5)


def test_the_plan_is_that_of_the_load(target: Target, tmp_path: Path) -> None:
    load, dbname = workload(0), database(target, 0)
    plan = LoadPlan(1, 1, warmup_s=0.0, measure_s=1.0, rate=RATE, protocol="simple")
    (simple,) = load.begin(target, dbname, plan, tmp_path / "simple").finish().plans
    assert simple.startswith("read:\n")
    assert re.search(r"mykey >= '?\d+", simple), "the simple protocol plans with values"
    target.postgres.execute(f'ALTER DATABASE "{dbname}" SET enable_indexscan = off')
    target.postgres.execute(f'ALTER DATABASE "{dbname}" SET enable_bitmapscan = off')
    plan = LoadPlan(1, 1, warmup_s=0.0, measure_s=1.0, rate=RATE)
    result = load.begin(target, dbname, plan, tmp_path / "seq").finish()
    load.reset(target, policy="always")
    assert "Seq Scan" in result.plans[0]
    assert any("seq scan" in warning.text for warning in result.warnings)
