"""What runs on a real server leave: what held them back, plans, clients, failures, samples that join by run."""

import os
import signal
import sqlite3
import threading
import time
from contextlib import closing, suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import psycopg
import pytest

from pgdyno.errors import ConnectError
from pgdyno.model.bottleneck import Resource
from pgdyno.model.record import PlanRecord
from pgdyno.model.trial import LoadPlan, TrialState
from pgdyno.report.run_details import slow_clients
from pgdyno.trial.plan_changes import plan_changes
from pgdyno.workloads.statement_plans import plan_records
from pgdyno.workloads.template import APPLICATION_NAME
from real_laboratory import ITEMS, real_laboratory

pytestmark = [pytest.mark.pg, pytest.mark.xdist_group("run-evidence")]

SHORT = LoadPlan(clients=4, jobs=1, warmup_s=1.0, measure_s=3.0)
SLOW = replace(SHORT, rate=100.0)
"""For what does not depend on how much work there is."""


@pytest.fixture
def lab(sandbox18, tmp_path):
    with real_laboratory(sandbox18, tmp_path) as made:
        yield made


@pytest.mark.requirement("R-MON-14", "R-MON-04")
def test_a_row_that_all_clients_want_is_a_lock_and_counted_by_mode(lab):
    script = "BEGIN;\nUPDATE item SET n = n + 1 WHERE id = 1;\nSELECT pg_sleep(0.02);\nEND;\n"
    trial = lab.run(script, replace(SHORT, clients=8))
    found = lab.evidence(trial)
    assert trial.state in (TrialState.COMPLETE, TrialState.UNSTEADY)
    assert found.bottleneck.resource is Resource.LOCKS
    assert "Lock:" in found.bottleneck.evidence[0]
    assert trial.outcome is not None
    assert (trial.outcome.counters["over_network"], trial.outcome.counters["round_trips"]) == (0, 4)
    modes = {one.mode: one for one in found.locks}
    assert modes["RowExclusiveLock"].most >= modes["RowExclusiveLock"].mean > 0
    assert modes["ShareLock"].waiting_mean > 0
    assert any(one.mode == "AccessShareLock" for one in found.locks)


@pytest.mark.requirement("R-MON-14")
def test_a_throttled_client_is_limited_by_nothing(lab):
    trial = lab.run("SELECT n FROM item WHERE id = 7;\n", replace(SHORT, clients=1, rate=40.0))
    found = lab.evidence(trial).bottleneck
    assert found.resource in (Resource.NONE, Resource.CPU)  # others may keep the CPUs busy
    assert found.resource is Resource.CPU or "not asked for more" in found.evidence[0]


@pytest.mark.requirement("R-MON-14", "R-MON-01")
def test_more_work_than_cpus_is_the_cpu(lab):
    clients = 3 * (os.cpu_count() or 2)
    trial = lab.run("SELECT count(*) FROM generate_series(1, 30000);\n", replace(SHORT, clients=clients, measure_s=2.0))
    found = lab.evidence(trial).bottleneck
    assert found.resource is Resource.CPU
    (cpu,) = [one for one in found.candidates if one.resource is Resource.CPU]
    assert "the server had" in cpu.sentence


@pytest.mark.requirement("R-MON-14")
def test_time_that_the_clients_think_is_not_the_servers(lab):
    trial = lab.run("\\sleep 400 ms\nSELECT n FROM item WHERE id = 7;\n", SHORT)
    found = lab.evidence(trial).bottleneck
    (client,) = [one for one in found.candidates if one.resource is Resource.CLIENT]
    assert client.share > 0.7
    assert found.resource in (Resource.CLIENT, Resource.CPU)  # others may keep the CPUs busy


@pytest.mark.requirement("R-MON-10")
def test_one_throttled_client_shows_in_the_table_of_clients(lab):
    script = "\\if :client_id = 2\nSELECT pg_sleep(0.15);\n\\endif\nSELECT n, pg_sleep(0.01) FROM item WHERE id = 7;\n"
    found = lab.evidence(lab.run(script, SHORT))
    assert [one.client for one in found.clients] == [0, 1, 2, 3]
    assert 2 in slow_clients(found.clients)  # on a busy machine another may be slow as well
    assert max(found.clients, key=lambda one: one.p50_ms).client == 2
    slow = found.clients[2]
    assert slow.p50_ms >= 150
    assert slow.transactions < min(one.transactions for one in found.clients if one.client != 2)


@pytest.mark.requirement("R-MON-15", "R-MON-09", "R-TUN-07")
def test_a_run_without_failures_says_so_and_is_kept_with_all_that_was_measured(lab):
    trial = lab.run("SELECT n FROM item WHERE id = 7;\n", SLOW)
    found = lab.evidence(trial)
    kept = lab.store.trial(trial.id)
    assert (kept.spec.configuration, kept.outcome) == (trial.spec.configuration, trial.outcome)
    assert kept.outcome is not None
    assert {"blks_read", "blks_hit", "disk_read_bytes"} <= kept.outcome.counters.keys()
    tables = {table: lab.store.samples(trial.id, table) for table in ("memory", "cpu", "disk", "database")}
    assert all(tables[name] for name in ("memory", "cpu", "database")), "a machine may have no disk of its own"
    assert [one.shape for one in lab.store.records(trial.id, PlanRecord)]
    assert found.failures is not None
    assert set(found.failures.values()) == {0}
    assert found.failed_transactions == 0
    assert found.smoothness is None or found.smoothness.cv >= 0


def _during_the_load(lab, act):
    """Begin a thread that acts on a backend of the load once that has run for a while."""

    def wait_and_act():
        deadline = time.monotonic() + 60
        query = (
            "SELECT pid FROM pg_stat_activity WHERE application_name = %s AND datname LIKE %s AND backend_start < %s"
        )
        while time.monotonic() < deadline:
            with suppress(psycopg.Error, ConnectError):
                since = datetime.now(UTC) - timedelta(seconds=1.2)
                rows = lab.target.postgres.fetch(query, [APPLICATION_NAME, "%_load", since])
                if rows:
                    act(int(str(rows[0]["pid"])))
                    return
            time.sleep(0.1)

    thread = threading.Thread(target=wait_and_act)
    thread.start()
    return thread


@pytest.mark.requirement("R-MON-15")
def test_a_backend_that_is_killed_is_a_crash_that_is_counted_and_flags_the_run(make_sandbox, tmp_path):
    sandbox = make_sandbox("evidence-crash")
    sandbox.start()
    with real_laboratory(sandbox, tmp_path) as lab:
        thread = _during_the_load(lab, lambda pid: os.kill(pid, signal.SIGKILL))
        trial = lab.run("SELECT n FROM item WHERE id = 7;\n", replace(SLOW, measure_s=10.0))  # killed before the end
        thread.join()
        assert trial.state is TrialState.FAILED
        assert lab.evidence(trial).failures["crash"] == 1
        assert any("server failed during the run: 1 crash" in warning for warning in trial.outcome.warnings)
        assert any("ended by signal 9 (SIGKILL)" in warning for warning in trial.outcome.warnings)
        assert "crash" in {event.kind for event in lab.store.events(trial.id)}


@pytest.mark.requirement("R-MON-15")
def test_a_session_that_an_operator_ends_is_counted(make_sandbox, tmp_path):
    sandbox = make_sandbox("evidence-killed")
    sandbox.start()
    with real_laboratory(sandbox, tmp_path) as lab:
        thread = _during_the_load(lab, lambda pid: lab.target.postgres.fetch("SELECT pg_terminate_backend(%s)", [pid]))
        trial = lab.run("SELECT n FROM item WHERE id = 7;\n", replace(SLOW, measure_s=10.0))  # seen before the end
        thread.join()
        assert trial.state is TrialState.FAILED
        assert lab.evidence(trial).failures["session_killed"] == 1
        assert lab.evidence(trial).failures["crash"] == 0


def test_the_statements_of_a_run_leave_their_plans(lab):
    script = "\\set id random(1, 2000)\nSELECT n FROM item WHERE id = :id;\nUPDATE item SET n = 1 WHERE id = :id;\n"
    trial = lab.run(script, SLOW)
    plans = {one.statement: one.plan for one in lab.evidence(trial).plans}
    assert set(plans) == {"SELECT n FROM item WHERE id = $1", "UPDATE item SET n = 1 WHERE id = $1"}
    assert all("item" in plan for plan in plans.values())


STATEMENTS = [
    "SELECT n FROM item WHERE id = $1",
    "SELECT nonsense FROM item",
    "SELECT count(*) FROM item WHERE n > $1 + $2",
]


def test_plans_can_be_had_on_every_version_and_a_setting_changes_them(any_postgres):
    postgres, name = any_postgres.target().postgres, "planned_by_test"
    postgres.execute(f"CREATE DATABASE {name}")
    try:
        with postgres.for_load(name).connect() as connection:
            connection.execute(ITEMS)
            connection.execute("ANALYZE item")
        before = plan_records(postgres, name, STATEMENTS)
        again = plan_records(postgres, name, STATEMENTS)
        for scan in ("indexscan", "indexonlyscan", "bitmapscan"):
            postgres.execute(f"ALTER DATABASE {name} SET enable_{scan} = off")
        after = plan_records(postgres, name, STATEMENTS)
    finally:
        postgres.execute(f"DROP DATABASE {name} WITH (FORCE)")
    assert [one.shape for one in before] == [one.shape for one in again]
    words = {change.statement: change.word for change in plan_changes([before], [after])}
    assert words == dict(zip(STATEMENTS, ("changed", "unknown", "same"), strict=True))
    (changed,) = [change for change in plan_changes([before], [after]) if change.word == "changed"]
    assert "Index" in changed.before[0]
    assert "Seq Scan on item" in changed.after[0]
    unknown: PlanRecord = before[1]
    assert "does not exist" in unknown.plan


def test_plans_of_a_database_that_is_gone_are_unknown(sandbox18):
    (record,) = plan_records(sandbox18.target().postgres, "not_there", ["SELECT 1"])
    assert record.shape == "unknown"
    assert "unknown:" in record.plan


@pytest.mark.requirement("R-MON-01", "R-MON-07", "R-MON-06")
def test_sql_on_the_store_joins_runs_and_samples_of_each_second(lab, tmp_path):
    trial = lab.run("SELECT n FROM item WHERE id = 7;\n", replace(SLOW, measure_s=6.0))
    seconds = trial.outcome.ended_at - trial.outcome.began_at
    with closing(sqlite3.connect(tmp_path / "store.db")) as database, database:
        joined = database.execute(
            "SELECT s.name, count(*), min(cpu.t), max(cpu.t) FROM trial AS t JOIN study AS s ON s.id = t.study_id "
            "JOIN cpu ON cpu.run_id = t.id JOIN sessions ON sessions.run_id = t.id AND sessions.t = cpu.t "
            'JOIN "database" AS d ON d.run_id = t.id AND d.t = cpu.t JOIN memory ON memory.run_id = t.id '
            "AND memory.t = cpu.t WHERE t.id = ? GROUP BY s.name",
            [trial.id],
        ).fetchall()
        late = database.execute(
            "SELECT max(h.second + 1 - c.t) FROM histogram AS h JOIN cpu AS c ON c.run_id = h.run_id "
            "AND abs(c.t - h.second - 1) <= 1 WHERE h.run_id = ?",
            [trial.id],
        ).fetchone()
    assert len(joined) == 1
    assert 2 <= joined[0][1] <= seconds + 2  # a machine without a CPU for us loses some
    assert late[0] is not None
    assert late[0] <= 1
