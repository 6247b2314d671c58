"""The probes on real servers: every view works, counters follow the load, the observer stays out of it."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest
from psycopg import sql
from psycopg.rows import DictRow

from pgdyno.errors import ConnectError
from pgdyno.model.configuration import BASELINE
from pgdyno.model.sample_tables import TABLES
from pgdyno.model.samples import SampleRow, SampleValue
from pgdyno.model.study import Study, StudyKind, StudyState
from pgdyno.model.trial import LoadPlan, Role, TrialSpec, WorkloadSpec
from pgdyno.probes.observer import Observer
from pgdyno.probes.sampler import Sampler
from pgdyno.probes.views import VIEWS
from pgdyno.sandbox.sandbox import Sandbox
from pgdyno.server.postgres import Postgres
from pgdyno.store.catalogue import Store

pytestmark = pytest.mark.pg


@contextmanager
def load_database(postgres: Postgres) -> Iterator[str]:
    name = f"probed_{uuid4().hex[:10]}"
    postgres.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    # autovacuum would insert into the statistics of the table, which are rows of this database as well
    postgres.execute("CREATE TABLE public.t (id int PRIMARY KEY, v text) WITH (autovacuum_enabled = off)", None, name)
    yield name
    postgres.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


@pytest.fixture
def postgres(any_postgres: Sandbox) -> Postgres:
    return any_postgres.target().postgres


@pytest.fixture
def load(postgres: Postgres) -> Iterator[str]:
    with load_database(postgres) as name:
        yield name


def sampler(sandbox: Sandbox, load: str) -> Sampler:
    return Sampler(sandbox.target(), load_database=load, driver_pids=tuple)


@pytest.fixture
def made(any_postgres: Sandbox, load: str) -> Iterator[Sampler]:
    """A sampler of the load's database that has not been started; its session is closed at the end."""
    probe = sampler(any_postgres, load)
    yield probe
    probe.stop()


def named(rows: list[SampleRow], table: str) -> list[dict[str, SampleValue]]:
    names = TABLES[table].column_names()
    return [dict(zip(names, (row.t, *row.values), strict=True)) for row in rows if row.table == table]


def total(rows: list[SampleRow], table: str, column: str) -> float:
    return sum(float(row[column] or 0) for row in named(rows, table))


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, "it did not happen within a minute"
        time.sleep(0.05)


def insert_rows(postgres: Postgres, load: str, count: int) -> None:
    """Commit `count` transactions; the session's end hands its counters in."""
    with postgres.connect(load) as connection:
        for number in range(count):
            connection.execute("INSERT INTO public.t VALUES (%s, 'x')", [number])


def version_of(postgres: Postgres) -> int:
    return int(str(postgres.fetch("SELECT current_setting('server_version_num') AS n")[0]["n"]))


@pytest.mark.requirement("R-MON-05", "R-MON-01")
def test_every_view_of_this_version_can_be_read(postgres: Postgres, load: str) -> None:
    observer = Observer(postgres, load)
    reading = observer.read(1.0, VIEWS)
    observer.close()
    assert reading.failures == {}
    expected = set(VIEWS) - (set() if version_of(postgres) >= 160000 else {"io"})
    assert set(reading.views) == expected
    for view in expected & set(TABLES):
        columns = {column.name for column in TABLES[view].columns}
        for row in reading.views[view]:
            assert set(row) <= columns
            assert all(value is None or isinstance(value, int | float | str) for value in row.values())


def wait_until_quiet(made: Sampler) -> None:
    """Wait until counters of earlier sessions, such as the one that made the table, have all been handed in."""

    def is_quiet() -> bool:
        rows = []
        for _ in range(6):  # longer than the half second after which servers before 15 write the counters down
            rows += made.take()
            time.sleep(0.2)
        return total(rows, "database", "xact_commit") == 0

    wait_until(is_quiet)


def test_counters_grow_with_the_load_and_only_with_it(made: Sampler, postgres: Postgres, load: str) -> None:
    wait_until_quiet(made)
    insert_rows(postgres, load, 200)
    rows: list[SampleRow] = []

    def handed_in() -> bool:
        rows.extend(made.take())
        return total(rows, "database", "tup_inserted") >= 200

    wait_until(handed_in)
    assert total(rows, "database", "tup_inserted") == 200
    assert total(rows, "database", "xact_commit") >= 200
    assert total(rows, "database", "blks_hit") > 200
    assert total(rows, "wal", "bytes") > 200 * 30
    if version_of(postgres) >= 140000:
        assert total(rows, "wal", "records") >= 400
    wait_until_quiet(made)  # which would never come if reading committed in the load's database


def test_the_observer_sits_in_a_database_of_its_own(made: Sampler, postgres: Postgres, load: str) -> None:
    made.take()
    query = "SELECT datname FROM pg_stat_activity WHERE application_name = 'pgdyno_observer'"

    def places() -> set[object]:
        return {row["datname"] for row in postgres.fetch(query)}

    # The server lists sessions that earlier tests have closed until it has ended them; ours is there throughout.
    wait_until(lambda: places() == {"pgdyno_observer"})
    made.stop()


def test_without_its_database_the_observer_uses_postgres(postgres: Postgres, load: str) -> None:
    observer = Observer(postgres, load, database="not_there")
    assert observer.read(1.0).failures == {}
    query = "SELECT datname FROM pg_stat_activity WHERE application_name = 'pgdyno_observer' AND datname = 'postgres'"
    assert postgres.fetch(query)
    observer.close()


def locks(made: Sampler) -> dict[str, tuple[SampleValue, SampleValue]]:
    return {str(row["mode"]): (row["granted"], row["waiting"]) for row in named(made.take(), "locks")}


@pytest.mark.requirement("R-MON-04")
def test_an_idle_server_has_no_locks_because_the_observer_does_not_count_itself(made: Sampler, load: str) -> None:
    wait_until(lambda: locks(made) == {})


@pytest.mark.requirement("R-MON-04")
def test_locks_are_counted_by_mode_held_and_awaited(made: Sampler, postgres: Postgres, load: str) -> None:
    with postgres.connect(load) as holder, postgres.connect(load) as waiter:
        holder.execute("BEGIN")
        holder.execute("LOCK TABLE public.t IN SHARE UPDATE EXCLUSIVE MODE")
        wait_until(lambda: locks(made).get("ShareUpdateExclusiveLock") == (1, 0))
        thread = threading.Thread(target=waiter.execute, args=("DROP TABLE public.t",))
        thread.start()
        wait_until(lambda: locks(made).get("AccessExclusiveLock") == (0, 1))

        def waits() -> list[tuple[SampleValue, SampleValue]]:
            return [(row["wait_event_type"], row["sessions"]) for row in named(made.take(), "waits")]

        wait_until(lambda: ("Lock", 1) in waits())
        holder.execute("ROLLBACK")
        thread.join()


def test_locks_in_another_database_are_not_counted(made: Sampler, postgres: Postgres, load: str) -> None:
    with load_database(postgres) as other, postgres.connect(other) as holder:
        holder.execute("BEGIN")
        holder.execute("LOCK TABLE public.t IN EXCLUSIVE MODE")
        kinds = {(row["mode"], row["locktype"]) for row in named(made.take(), "locks")}
        assert ("ExclusiveLock", "relation") not in kinds
        holder.execute("ROLLBACK")


def sleep_until_cancelled(connection: psycopg.Connection[DictRow]) -> None:
    with suppress(psycopg.errors.QueryCanceled):
        connection.execute("SELECT pg_sleep(60)")


def test_sessions_are_counted_by_state_and_wait(made: Sampler, postgres: Postgres, load: str) -> None:
    with postgres.connect(load) as idle, postgres.connect(load) as open_, postgres.connect(load) as sleeper:
        idle.execute("SELECT 1")
        open_.execute("BEGIN")
        thread = threading.Thread(target=sleep_until_cancelled, args=(sleeper,))
        thread.start()
        expected = {"total": 3, "active": 1, "waiting": 1, "idle": 1, "idle_in_transaction": 1}
        wait_until(lambda: expected.items() <= named(made.take(), "sessions")[0].items())

        def waits() -> list[tuple[SampleValue, ...]]:
            names = "wait_event_type", "wait_event", "sessions"
            return [tuple(row[name] for name in names) for row in named(made.take(), "waits")]

        wait_until(lambda: waits() == [("Timeout", "PgSleep", 1)])
        sleeper.cancel_safe()
        thread.join()


def test_checkpoints_and_reloads_are_events(made: Sampler, postgres: Postgres, load: str) -> None:
    made.take()
    insert_rows(postgres, load, 10)
    postgres.execute("CHECKPOINT")
    postgres.fetch("SELECT pg_reload_conf()")

    def told() -> bool:
        made.take()
        return {"checkpoint", "reload"} <= {event.kind for event in made.events()}

    wait_until(told)
    batch = made.stop()
    assert total(batch.rows, "checkpointer", "requested") >= 1
    assert not {"restart", "probe"} & {event.kind for event in batch.events}


@pytest.mark.requirement("R-MON-05")
def test_io_says_who_read_and_wrote(made: Sampler, postgres: Postgres, load: str) -> None:
    if version_of(postgres) < 160000:
        pytest.skip("pg_stat_io came with 16")
    made.take()
    insert_rows(postgres, load, 300)
    rows: list[SampleRow] = []

    def handed_in() -> bool:
        rows.extend(made.take())
        clients = [row for row in named(rows, "io") if row["backend_type"] == "client backend"]
        return sum(int(row["hits"] or 0) for row in clients) > 300

    wait_until(handed_in)


def test_statements_are_the_deltas_of_the_run(made: Sampler, postgres: Postgres, load: str) -> None:
    insert_rows(postgres, load, 7)
    made.start()
    with postgres.connect(load) as connection:
        for number in range(100, 140):
            connection.execute("INSERT INTO public.t VALUES (%s, 'x')", [number])
    batch = made.stop()
    (row,) = [row for row in named(batch.rows, "statements") if "INSERT INTO public.t" in str(row["query"])]
    assert (row["calls"], row["rows"]) == (40, 40)
    assert float(row["total_exec_time_ms"] or 0) > 0
    assert int(row["wal_bytes"] or 0) > 40 * 30


def test_everything_that_was_sampled_can_be_stored(any_postgres: Sandbox, load: str, tmp_path: Path) -> None:
    made = Sampler(any_postgres.target(), load_database=load, driver_pids=tuple, interval_s=0.1)
    made.start()
    wait_until(lambda: made._kept.ticks > 5)
    batch = made.stop()
    workload, plan = WorkloadSpec("x", {}, "f", "d", True), LoadPlan(1, 1, 1.0, 1.0)
    with Store.open(tmp_path / "x.db") as store:
        store.add_study(Study("s", StudyKind.BENCH, "n", StudyState.RUNNING, 1.0, "t", "e", {}, workload, plan))
        run = store.begin_trial("s", TrialSpec(BASELINE, Role.ARM, "a", 0, 0))
        assert store.add_samples(run, batch.rows) == len(batch.rows)
        store.add_events(run, batch.events)
        times = store.samples(run, "cpu")["t"]
    assert len(times) >= 4
    assert times == sorted(times)
    assert made.reading()


def test_a_role_without_privileges_is_told_less_but_not_stopped(sandbox18: Sandbox) -> None:
    postgres = sandbox18.target().postgres
    with load_database(postgres) as load:
        role = f"poor_{uuid4().hex[:8]}"
        postgres.execute(sql.SQL("CREATE ROLE {}").format(sql.Identifier(role)))
        observer = Observer(Postgres(f"{postgres.conninfo} options='-c role={role}'"), load)
        reading = observer.read(1.0, VIEWS)
        observer.close()
        postgres.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(role)))
    assert {"database", "wal", "locks"} <= set(reading.views)
    assert set(reading.failures) <= {"statements"}


@pytest.mark.requirement("R-MON-15")
def test_a_restart_is_an_event_and_sampling_goes_on(make_sandbox: Callable[..., Sandbox]) -> None:
    sandbox = make_sandbox("probes-restart")
    sandbox.start()
    made = Sampler(sandbox.target(), load_database="postgres", driver_pids=tuple, interval_s=0.1)
    made.start()
    sandbox.stop()
    wait_until(lambda: any("server cannot be read" in event.text for event in made.events()))
    sandbox.start()
    wait_until(lambda: any(event.kind == "restart" for event in made.events()))
    batch = made.stop()
    kinds = [event.kind for event in batch.events]
    assert kinds.count("restart") == 1
    assert any("server can be read again" in event.text for event in batch.events)
    last = max(row.t for row in batch.rows if row.table == "cpu")
    assert max(row.t for row in batch.rows if row.table == "sessions") == last


@pytest.mark.requirement("R-MON-15")
def test_a_crash_resets_counters_without_negative_deltas(make_sandbox: Callable[..., Sandbox]) -> None:
    sandbox = make_sandbox("probes-crash")
    sandbox.start()
    postgres = sandbox.target().postgres
    with load_database(postgres) as load:
        made = sampler(sandbox, load)
        insert_rows(postgres, load, 50)
        made.take()
        sandbox.crash()
        sandbox.start()
        rows = [row for _ in range(3) for row in made.take()]
        batch = made.stop()
    assert "restart" in {event.kind for event in batch.events}
    for table in ("database", "wal", "checkpointer", "io"):
        for row in named(rows, table):
            assert all(value >= 0 for value in row.values() if isinstance(value, int | float))


def checkpointer(postgres: Postgres) -> object:
    """Return which checkpointer the server has now; None while it takes nobody in."""
    with suppress(psycopg.Error, ConnectError):
        rows = postgres.fetch("SELECT pid FROM pg_stat_activity WHERE backend_type = 'checkpointer'")
        return rows[0]["pid"] if rows else None
    return None


@pytest.mark.requirement("R-MON-15")
def test_a_crash_right_after_a_tick_is_seen_at_the_end(make_sandbox: Callable[..., Sandbox]) -> None:
    """The load dies with its session, and the run ends before another tick is due."""
    sandbox = make_sandbox("probes-crash-late")
    sandbox.start()
    postgres = sandbox.target().postgres
    with load_database(postgres) as load:
        made = Sampler(sandbox.target(), load_database=load, driver_pids=tuple, interval_s=1e4)
        made.start()
        before, deadline = checkpointer(postgres), time.monotonic() + 60
        with suppress(psycopg.Error), postgres.connect(load) as victim:
            os.kill(victim.info.backend_pid, signal.SIGKILL)
            victim.execute("SELECT pg_sleep(60)")
        while checkpointer(postgres) in (before, None):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        kinds = [event.kind for event in made.stop().events]
    assert kinds.count("crash") == 1


def _cpu_s(pid: int) -> float:
    """Return the CPU seconds of a process, which the kernel counts by the nanosecond."""
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9


@pytest.mark.requirement("R-MON-13")
def test_a_tick_takes_less_than_one_percent_of_a_cpu_at_one_a_second(sandbox18: Sandbox) -> None:
    with load_database(sandbox18.target().postgres) as load:
        made = sampler(sandbox18, load)
        made.take()
        query = "SELECT pid FROM pg_stat_activity WHERE application_name = 'pgdyno_observer' AND backend_start IN "
        newest = "(SELECT max(backend_start) FROM pg_stat_activity WHERE application_name = 'pgdyno_observer')"
        pid = int(str(sandbox18.target().postgres.fetch(query + newest)[0]["pid"]))
        session, thread, ticks = -_cpu_s(pid), -time.thread_time(), 100
        for _ in range(ticks):
            made.take()
        session, thread = session + _cpu_s(pid), thread + time.thread_time()
        made.stop()
    assert (session + thread) / ticks < 0.01


def test_one_round_trip_and_one_by_one_read_the_same_and_a_view_that_fails_costs_itself(
    postgres: Postgres, load: str
) -> None:
    together, alone = Observer(postgres, load), Observer(postgres, load, in_one_trip=False)
    for observer in (together, alone):
        observer.read(1.0)
        observer._queries["locks"] = "SELECT 1 / 0 AS granted"
    readings = [observer.read(2.0) for observer in (together, alone)]
    again = together.read(3.0)
    together.close()
    alone.close()
    assert set(readings[0].views) == set(readings[1].views)
    assert "database" in readings[0].views
    assert "division by zero" in readings[0].failures["locks"]
    assert again.failures == {}
    assert "locks" not in again.views
