"""The TPROC-C-like load on real servers: its data, its checks, and what one run leaves."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import cast

import psycopg
import pytest
from psycopg import sql
from psycopg.rows import DictRow

from pgdyno.errors import EnvironmentUnsuitable
from pgdyno.model.record import Examination
from pgdyno.model.trial import LoadPlan, Outcome, TrialState
from pgdyno.sandbox.sandbox import Sandbox
from pgdyno.server.databases import clone_database, drop_database
from pgdyno.server.postgres import Postgres
from pgdyno.targets.inspect import read_facts
from pgdyno.targets.target import Target
from pgdyno.workloads.disk_room import require_room
from pgdyno.workloads.protocol import Workload
from pgdyno.workloads.registry import make_workload
from pgdyno.workloads.result import LoadResult
from pgdyno.workloads.template import APPLICATION_NAME
from pgdyno.workloads.tprocc.conditions import CONDITIONS, INITIAL, Condition, ask_together, violations

pytestmark = [pytest.mark.pg, pytest.mark.xdist_group("tprocc")]
SAME = "pg/test_tprocc_live.py::test_every_condition_holds_after_a_run"

CLIENTS = 4
RATE = 150.0
"""Transactions a second: enough for every share that is looked at, and an eighth of what a CPU can do."""


def workload(**parameters: str | int | bool) -> Workload:
    return make_workload("tprocc", {"warehouses": 2, **parameters})


@pytest.fixture(scope="module")
def target(sandbox18: Sandbox) -> Iterator[Target]:
    target = sandbox18.target()
    workload().prepare(target, progress=lambda text: None)
    yield target
    for shape in ("proc", "interactive"):
        workload(shape=shape).drop(target, template=True)
    workload(mix="hammerdb", home="random").drop(target, template=True)


@pytest.fixture(scope="module")
def single(target: Target) -> Iterator[Workload]:
    load = workload(warehouses=1)
    load.prepare(target, progress=lambda text: None)
    yield load
    load.drop(target, template=True)


Run = tuple[str, LoadResult, Examination, list[int]]


def run(
    target: Target,
    folder: Path,
    load: Workload,
    *,
    seconds: float = 4,
    clients: int = CLIENTS,
    rate: float | None = RATE,
) -> Run:
    dbname = load.reset(target)
    looking = target.postgres.connect()
    running = load.begin(target, dbname, LoadPlan(clients, 1, 1, seconds - 1, seed=1, rate=rate), folder)
    sessions: list[int] = []
    query = "SELECT count(*) AS n FROM pg_stat_activity WHERE datname = %s AND application_name = %s"
    try:
        while not running.poll():
            (row,) = looking.execute(query, [dbname, APPLICATION_NAME]).fetchall()
            sessions.append(int(str(row["n"])))
            time.sleep(0.1)
        result = running.finish()
    finally:
        running.terminate()
        looking.close()
    window = Outcome(TrialState.COMPLETE, steady_from=steady_from(result), ended_at=result.ended_at)
    return dbname, result, load.examine(target, dbname, result, window), sessions


def steady_from(result: LoadResult) -> float:
    """Return the end of the ramp-up: after a second, but half a second after a transaction's first end at least."""
    return result.log.begin_s(max(result.began_at + 1, result.log.first_end_us / 1e6 + 0.5))


@pytest.fixture(scope="module")
def runs(target: Target) -> Iterator[dict[str, Run]]:
    """The run of each shape, made once: in a random order tests of both alternate."""
    made: dict[str, Run] = {}
    yield made
    for dbname, *_ in made.values():
        drop_database(target.postgres, dbname)


@pytest.fixture(params=["proc", "interactive"])
def ended(
    request: pytest.FixtureRequest, target: Target, runs: dict[str, Run], tmp_path_factory: pytest.TempPathFactory
) -> Run:
    if request.param not in runs:
        dbname, *rest = run(target, tmp_path_factory.mktemp("run"), workload(shape=request.param))
        kept = f"ended_{request.param}"  # a copy: a test between those that look at it may put the load's own back
        clone_database(target.postgres, dbname, kept)  # not through WAL, which took a CPU second
        runs[request.param] = (kept, *rest)
    return runs[request.param]


@pytest.mark.requirement("R-TPC-01", "R-TPC-03")
def test_every_condition_holds_after_a_run(ended: Run) -> None:
    _, result, examination, _ = ended
    assert result.reason is None
    assert examination.violation is None
    found = {check.condition: check.violations for check in examination.checks}
    assert found == {name: 0 for name in found if name != "C11"} | {"C11": None}
    assert {f"C{n:02d}" for n in range(1, 13)} | {"X1", "X2", "X3", "X4", "X5", "D1"} == set(found)


@pytest.mark.requirement("R-TPC-01", "R-TPC-04")
def test_new_orders_a_minute_are_those_of_the_window_alone(ended: Run) -> None:
    _, result, examination, _ = ended
    figures = dict(examination.figures)
    assert 0 < figures["nopm"] < figures["tpm"]
    minutes = (result.ended_at - steady_from(result)) / 60
    assert figures["nopm"] * minutes < figures["new_orders"], "orders of the ramp-up do not count"
    others = figures["database_transactions"] - result.transactions
    assert 0 <= others < 100, "the database counts the driver's transactions and a few of vacuum's and pgdyno's own"


@pytest.mark.requirement("R-TPC-03")
def test_the_mix_is_that_of_the_plan(ended: Run) -> None:
    _, result, examination, _ = ended
    figures = dict(examination.figures)
    spread = 6 * 50 / result.transactions**0.5 + 0.1  # six standard deviations of a share, in percent
    new_orders = figures["mix_new_order_pct"] + figures["mix_new_order_rolled_back_pct"]
    assert new_orders == pytest.approx(45, abs=spread)
    assert figures["mix_payment_pct"] == pytest.approx(43, abs=spread)
    assert figures["mix_stock_level_pct"] == pytest.approx(4, abs=spread)
    assert sum(value for name, value in figures.items() if name.startswith("mix_")) == pytest.approx(100)


@pytest.mark.requirement("R-TPC-04", "R-TPC-09")
def test_a_virtual_user_is_one_server_process_from_ramp_up_to_the_end(ended: Run) -> None:
    *_, sessions = ended
    first = sessions.index(CLIENTS)
    last = len(sessions) - sessions[::-1].index(CLIENTS)
    assert max(sessions) == CLIENTS
    assert set(sessions[first:last]) == {CLIENTS}
    there = [count for count in sessions if count]  # how long its program takes to start is the machine's to say
    assert last - first > len(there) / 3


def one(target: Target, dbname: str, query: sql.SQL) -> list[object]:
    return list(target.postgres.for_load(dbname).fetch(query)[0].values())


def test_orders_reach_other_warehouses_and_payments_other_customers(ended: Run, target: Target) -> None:
    dbname, result, *_ = ended
    lines = one(target, dbname, sql.SQL(
        "SELECT count(*) AS n, count(*) FILTER (WHERE ol_supply_w_id <> ol_w_id) AS remote FROM order_line"
        " WHERE ol_o_id > 3000"
    ))  # fmt: skip
    every, remote = (int(str(value)) for value in lines)
    assert 0 < remote < 0.05 * every
    marked = one(target, dbname, sql.SQL(
        "SELECT count(*) FROM orders WHERE o_id > 3000 AND (o_all_local = 0) <> EXISTS (SELECT FROM order_line"
        " WHERE ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id AND ol_supply_w_id <> o_w_id)"
    ))  # fmt: skip
    assert marked == [0]
    paid = one(target, dbname, sql.SQL(
        "SELECT count(*) AS n, count(*) FILTER (WHERE h_c_w_id <> h_w_id) AS m FROM history WHERE h_date > '2020-01-02'"
    ))  # fmt: skip
    payments, foreign = (int(str(value)) for value in paid)
    assert foreign / payments == pytest.approx(0.15, abs=6 * 0.36 / payments**0.5)
    assert result.transactions > payments


def test_updates_are_hot_from_the_first_second_on(target: Target, tmp_path: Path) -> None:
    dbname, *_ = run(target, tmp_path, workload(check=False), seconds=3)
    found = one(target, dbname, sql.SQL(
        "SELECT sum(n_tup_upd) AS u, sum(n_tup_hot_upd) AS h FROM pg_stat_user_tables WHERE schemaname = 'public'"
    ))  # fmt: skip
    updated, hot = (int(str(value)) for value in found)
    assert hot > 0.93 * updated, "without room in the pages three quarters were"


def test_no_latency_contains_a_pause_and_the_pauses_are_there(target: Target, tmp_path: Path) -> None:
    load = workload(wait_pct=1)  # half a second of every second or less
    _, result, examination, _ = run(target, tmp_path, load, seconds=5, rate=None)
    assert examination.violation is None, "the log counts new orders as the districts do: every pause was told apart"
    latency = result.log.latency()
    assert latency is not None
    assert result.pause_s > 0.02, "2 s of keying is the least, of which a hundredth was asked for"
    assert latency.mean / 1000 < result.pause_s
    took_s = max(result.ended_at - result.began_at, 5)  # a machine that stands still lets a transaction end late
    assert result.transactions * (latency.mean / 1000 + result.pause_s) < 1.2 * CLIENTS * took_s, "no second twice"
    load.drop(target)


def test_every_condition_holds_after_a_load_that_was_told_to_end(target: Target, tmp_path: Path) -> None:
    """As the laboratory tells it when the load has its window."""
    load = workload()
    dbname = load.reset(target)
    running = load.begin(target, dbname, LoadPlan(CLIENTS, 1, 1.0, 60.0, seed=1, rate=RATE), tmp_path)
    deadline = time.monotonic() + 30
    while not running.wait(0.2) and time.monotonic() < deadline:
        running.live()
        if (series := running.series()) is not None and series.counts.sum():
            break
    running.let_end()
    result = running.finish()
    assert (result.reason, result.exit_code, result.failed, result.malformed_lines) == (None, 0, 0, 0)
    assert result.ended_at - result.began_at < 55, "long before its own time was over"
    window = Outcome(TrialState.COMPLETE, steady_from=result.began_at, ended_at=result.ended_at)
    found = load.examine(target, dbname, result, window)
    assert found.violation is None
    assert len(found.checks) >= len(CONDITIONS)


def test_functions_return_what_a_terminal_shows(target: Target) -> None:
    dbname = workload().reset(target, policy="always")
    with target.postgres.for_load(dbname).connect() as connection, connection.transaction(force_rollback=True):
        lines = connection.execute("SELECT * FROM tproc_new_order(1, 2, 3, 7, 2, 0)").fetchall()
        written = connection.execute(
            "SELECT ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, i_price, i_name, s_quantity FROM order_line"
            " JOIN item ON i_id = ol_i_id JOIN stock ON s_w_id = ol_supply_w_id AND s_i_id = ol_i_id"
            " WHERE ol_w_id = 1 AND ol_d_id = 2 AND ol_o_id = %s",
            [lines[0]["order_id"]],
        ).fetchall()
        names = ("item", "supply", "quantity", "amount", "price", "name", "stock")
        told = {tuple(line[f"line_{name}"] for name in names) for line in lines}
        assert told == {tuple(row.values()) for row in written}
        assert len(told) == 7
        first = lines[0]
        taxes = 1 + first["warehouse_tax"] + first["district_tax"]
        assert first["total"] == sum(line["line_amount"] for line in lines) * (1 - first["discount"]) * taxes
        assert first["credit"].strip() in {"GC", "BC"}
        (paid,) = connection.execute("SELECT * FROM tproc_payment(1, 2, 1, 2, 3, 1000)").fetchall()
        assert (paid["amount"], paid["balance"]) == (10, -20), "10 had been paid before"
        assert (paid["notes"] is None) == (paid["credit"].strip() == "GC")
        status = connection.execute("SELECT * FROM tproc_order_status(1, 2, 3)").fetchall()
        assert {row["last_order"] for row in status} == {first["order_id"]}
        assert len(status) == 7
        delivered = connection.execute("SELECT * FROM tproc_delivery(1, 5)").fetchall()
        assert sorted((row["district"], row["delivered"]) for row in delivered) == [(d, 2101) for d in range(1, 11)]


def schema(target: Target, dbname: str) -> list[object]:
    query = sql.SQL(
        "SELECT (SELECT array_agg(pg_get_indexdef(indexrelid) ORDER BY 1) FROM pg_index JOIN pg_class c"
        " ON c.oid = indexrelid WHERE c.relnamespace = 'public'::regnamespace) AS indexes,"
        " (SELECT array_agg(pg_get_functiondef(oid) ORDER BY 1) FROM pg_proc"
        " WHERE pronamespace = 'public'::regnamespace) AS functions,"
        " (SELECT array_agg(concat(relname, reltablespace, reloptions) ORDER BY 1) FROM pg_class"
        " WHERE relnamespace = 'public'::regnamespace) AS storage"
    )
    return one(target, dbname, query)


@pytest.mark.requirement("R-TPC-07")
def test_no_run_alters_tables_indexes_or_functions(ended: Run, target: Target) -> None:
    load = workload()
    before = load.reset(target)
    assert schema(target, ended[0]) == schema(target, before)
    assert "tproc_delivery" in str(schema(target, before))


def test_the_mix_of_hammerdb_with_random_homes_holds_too(target: Target, tmp_path: Path) -> None:
    dbname, _, examination, _ = run(target, tmp_path, workload(mix="hammerdb", home="random"), clients=1, seconds=3)
    assert examination.violation is None
    assert one(target, dbname, sql.SQL("SELECT count(DISTINCT o_w_id) FROM orders WHERE o_id > 3000")) == [2]


Session = psycopg.Connection[DictRow]
BREAKS = {
    "C01": "UPDATE warehouse SET w_ytd = w_ytd + 0.01 WHERE w_id = 1",
    "C02": "UPDATE district SET d_next_o_id = d_next_o_id + 1 WHERE d_w_id = 1 AND d_id = 3",
    "C03": "DELETE FROM new_order WHERE no_w_id = 1 AND no_d_id = 3 AND no_o_id = 2500",
    "C04": "DELETE FROM order_line WHERE ol_w_id = 1 AND ol_d_id = 3 AND ol_o_id = 7 AND ol_number = 1",
    "C05": "UPDATE orders SET o_carrier_id = 1 WHERE o_w_id = 1 AND o_d_id = 3 AND o_id = 2500",
    "C06": "UPDATE orders SET o_ol_cnt = o_ol_cnt + 1 WHERE o_w_id = 1 AND o_d_id = 3 AND o_id = 7",
    "C07": "UPDATE order_line SET ol_delivery_d = NULL WHERE ol_w_id = 1 AND ol_d_id = 3 AND ol_o_id = 7"
    " AND ol_number = 1",
    "C08": "DELETE FROM history WHERE h_w_id = 1 AND h_d_id = 3 AND h_c_id = 7",
    "C09": "UPDATE district SET d_ytd = d_ytd - 0.01 WHERE d_w_id = 1 AND d_id = 3",
    "C10": "UPDATE customer SET c_balance = c_balance + 0.01 WHERE c_w_id = 1 AND c_d_id = 3 AND c_id = 7",
    "C11": "DELETE FROM new_order WHERE no_w_id = 1 AND no_d_id = 3 AND no_o_id = 2101",
    "C12": "UPDATE customer SET c_ytd_payment = 0 WHERE c_w_id = 1 AND c_d_id = 3 AND c_id = 7",
    "X1": "ALTER TABLE order_line ALTER ol_amount DROP NOT NULL;"
    " UPDATE order_line SET ol_amount = NULL WHERE ol_w_id = 1 AND ol_d_id = 3 AND ol_o_id = 7",
    "X2": "UPDATE order_line SET ol_i_id = 100001 WHERE ol_w_id = 1 AND ol_d_id = 3 AND ol_o_id = 7",
    "X3": "UPDATE stock SET s_order_cnt = s_order_cnt + 1 WHERE s_w_id = 1 AND s_i_id = 7",
    "X4": "INSERT INTO order_line SELECT 3001, ol_d_id, ol_w_id, ol_number, ol_i_id, ol_supply_w_id, NULL, 1, 0.01,"
    " ol_dist_info FROM order_line WHERE ol_w_id = 1 AND ol_d_id = 3 AND ol_o_id = 7",
}


@pytest.mark.requirement("R-TPC-03")
def test_each_condition_finds_what_breaks_it(target: Target, single: Workload) -> None:
    dbname = single.reset(target, policy="always")  # what is broken below is chosen for the first population
    found: dict[str, bool] = {}
    whole: dict[tuple[str, ...], Sequence[int]] = {}
    with target.postgres.for_load(dbname).connect() as connection:
        for name, statement in BREAKS.items():
            (condition,) = [one for one in (*CONDITIONS, INITIAL) if name in one.names]
            if condition.names not in whole:
                whole[condition.names] = violations(connection, condition)
            place = condition.names.index(name)
            with connection.transaction(force_rollback=True):
                connection.execute(statement.encode())
                found[name] = violations(connection, condition)[place] > whole[condition.names][place]
    assert found == dict.fromkeys(BREAKS, True)


def test_conditions_that_are_asked_together_see_the_same_rows(target: Target) -> None:
    postgres = target.postgres.for_load(workload().reset(target, policy="always"))

    class Restless:
        """Somebody writes before each session of ours."""

        def connect(self) -> psycopg.Connection[DictRow]:
            postgres.execute("INSERT INTO history SELECT * FROM history LIMIT 1")
            return postgres.connect()

    rows = sql.SQL("SELECT count(*) AS n FROM history")
    several = [Condition((str(number),), ("",), rows) for number in range(4)]
    answers = ask_together(cast(Postgres, Restless()), several)
    assert [condition for condition, _ in answers] == several
    assert len({counts for _, counts in answers}) == 1


def test_broken_data_make_the_run_void(target: Target, tmp_path: Path) -> None:
    load = workload(check=False)
    dbname, result, unchecked, _ = run(target, tmp_path, load, seconds=2, clients=1)
    assert unchecked.violation is None
    assert [check.violations for check in unchecked.checks] == [None, 0, 0]
    target.postgres.for_load(dbname).execute("UPDATE district SET d_next_o_id = d_next_o_id + 1 WHERE d_id = 1")
    window = Outcome(TrialState.COMPLETE, steady_from=result.began_at, ended_at=result.ended_at)
    violation = workload().examine(target, dbname, result, window).violation or ""
    assert "C02: 2" in violation
    assert "X5: 2" in violation, "the driver did not order what the districts counted"
    load.drop(target)


def test_more_than_the_disk_holds_is_refused_before_anything_is_loaded(target: Target) -> None:
    huge = make_workload("tprocc", {"warehouses": 20_000})
    with pytest.raises(EnvironmentUnsuitable, match="of disk") as caught:
        require_room(huge, target, read_facts(target))
    assert "fewer warehouses" in (caught.value.hint or "")
    require_room(workload(), target, read_facts(target))
    assert not huge.drop(target, template=True)


@pytest.mark.requirement("R-TPC-02")
def test_size_grows_with_the_warehouses(target: Target, single: Workload) -> None:
    query = sql.SQL("SELECT pg_database_size(current_database()) - pg_total_relation_size('item') AS bytes")
    sizes = [int(str(one(target, load.reset(target), query)[0])) for load in (single, workload())]
    assert 1.8 < sizes[1] / sizes[0] < 2.0, "the catalogue is the same in both"
    rows = sql.SQL(
        "SELECT (SELECT count(*) FROM stock) AS s, (SELECT count(*) FROM customer) AS c,"
        " (SELECT count(*) FROM item) AS i"
    )
    assert one(target, workload().reset(target), rows) == [200_000, 60_000, 100_000]
    frozen = sql.SQL(
        "SELECT count(*) FROM pg_class WHERE relkind = 'r' AND relallvisible < relpages"
        " AND relnamespace = 'public'::regnamespace"
    )
    assert one(target, single.reset(target), frozen) == [0]
    unknown = sql.SQL(
        "SELECT count(*) FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace"
        " AND (reltuples <= 0 OR NOT EXISTS (SELECT FROM pg_statistic WHERE starelid = pg_class.oid))"
    )
    assert one(target, single.reset(target), unknown) == [0], (
        "each session analyses its table, and nobody does it again"
    )


@pytest.mark.parametrize("any_postgres", ["npm-13"], indirect=True)
@pytest.mark.parametrize(
    "shape",
    [
        "proc",
        pytest.param("interactive", marks=pytest.mark.night(SAME)),
    ],
)
def test_the_oldest_server_runs_both_shapes(any_postgres: Sandbox, tmp_path: Path, shape: str) -> None:
    target = any_postgres.target()
    load = make_workload("tprocc", {"warehouses": 1, "shape": shape})
    load.prepare(target, progress=lambda text: None)
    _, result, examination, _ = run(target, tmp_path / shape, load, seconds=2, clients=2)
    assert result.reason is None
    assert examination.violation is None
    load.drop(target, template=True)
