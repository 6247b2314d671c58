from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from psycopg.conninfo import make_conninfo

from fix_postgres import find_build
from pgdyno.errors import EnvironmentUnsuitable, WorkloadError
from pgdyno.model.trial import LoadPlan
from pgdyno.sandbox.sandbox import Sandbox
from pgdyno.server.postgres import Postgres
from pgdyno.targets.target import Target
from pgdyno.workloads.dataset import LoadSite, PgbenchTables
from pgdyno.workloads.load_warnings import LoadWarningKind
from pgdyno.workloads.pgbench.log import PgbenchLogFormat, parse_lines
from pgdyno.workloads.pgbench.workload import PgbenchWorkload
from pgdyno.workloads.protocol import RunningLoad
from pgdyno.workloads.registry import make_workload
from pgdyno.workloads.result import LoadResult
from server_image import eventually

pytestmark = pytest.mark.pg

SECOND = LoadPlan(clients=2, jobs=1, warmup_s=0.0, measure_s=1.0, seed=3)
LASTING = replace(SECOND, measure_s=120.0, rate=300.0)
PACED = replace(SECOND, rate=300.0)
INIT = "CREATE TABLE item (id int PRIMARY KEY, n int NOT NULL); INSERT INTO item VALUES (1, 0), (2, 0);"
Parameters = str | int | float | bool


@dataclass(frozen=True)
class Bench:
    """Makes custom workloads from texts and runs them on the shared server."""

    target: Target
    folder: Path
    made: list[PgbenchWorkload]

    def workload(self, scripts: dict[str, str], *, init: str = INIT, **parameters: Parameters) -> PgbenchWorkload:
        (self.folder / "init.sql").write_text(init)
        for name, text in scripts.items():
            (self.folder / f"{name.partition('@')[0]}.sql").write_text(text)
        named = [f"{self.folder / name.partition('@')[0]}.sql@{name.partition('@')[2] or 1}" for name in scripts]
        given = {"scripts": ",".join(named), "init": str(self.folder / "init.sql"), **parameters}
        return self.keep(make_workload("custom", given))

    def keep(self, workload: object) -> PgbenchWorkload:
        assert isinstance(workload, PgbenchWorkload)
        self.made.append(workload)
        return workload

    def run(self, workload: PgbenchWorkload, plan: LoadPlan = SECOND) -> LoadResult:
        workload.prepare(self.target, progress=lambda text: None)
        return workload.begin(self.target, workload.reset(self.target), plan, self.folder / "run").finish()


@pytest.fixture
def bench(sandbox18: Sandbox, tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(sandbox18.target(), tmp_path, [])
    yield bench
    for workload in bench.made:
        workload.drop(bench.target, template=True)


def items(bench: Bench, workload: PgbenchWorkload) -> int:
    dbname = workload.reset(bench.target, policy="never")
    return int(str(bench.target.postgres.for_load(dbname).fetch("SELECT sum(n) AS n FROM item")[0]["n"]))


def until_working(load: RunningLoad) -> None:
    """Wait until a load's log tells of transactions: how soon they come is the machine's to say."""
    eventually(lambda: (seen := load.live()) is not None and seen.transactions > 0, "transactions in the log")


def test_a_log_line_bears_the_time_of_the_end(bench: Bench) -> None:
    workload = bench.workload({"slow": "SELECT pg_sleep(0.2);\n", "fast": "SELECT 1;\n"})
    (file,) = bench.run(workload, replace(SECOND, clients=1, measure_s=2.0)).log_files
    log = parse_lines(file.read_bytes(), PgbenchLogFormat()).log
    begins = log.end_us - log.latency_us
    assert len(set(log.script.tolist())) == 2
    # One client: a transaction begins after the end of the one before it. Were the line's time that of the
    # beginning, a slow one after a fast one would begin 200 ms too early. pgbench reads the clock once more for the
    # line: half of that time is left for a process that gets no CPU in between.
    assert (np.diff(log.end_us) >= log.latency_us[1:] - 100_000).all()
    assert (begins[1:] >= log.end_us[:-1] - 100_000).all()


def test_weights_are_honoured(bench: Bench) -> None:
    workload = bench.workload({"often@9": "SELECT 1;\n", "seldom@1": "SELECT 2;\n"})
    result = bench.run(workload)
    seldom = sum(row.count for row in result.histograms if row.script == "seldom")
    assert seldom / result.transactions == pytest.approx(0.1, abs=6 * 0.3 / result.transactions**0.5)


def test_an_open_loop_counts_from_the_schedule(bench: Bench) -> None:
    # One client manages 25 sleeps of 40 ms a second; the schedule wants twice that, so a queue builds up.
    workload = bench.workload({"slow": "SELECT pg_sleep(0.04);\n"})
    plan = replace(SECOND, clients=1, rate=50.0, measure_s=3.0)
    result = bench.run(workload, plan)
    window = result.window(result.began_at, result.ended_at + 1)
    assert window.latency is not None
    assert window.lag_ms is not None
    assert window.latency.mean > window.lag_ms > 100
    assert window.lag_ms + 39 <= window.latency.mean < 1.5 * window.lag_ms
    assert LoadWarningKind.RATE_NOT_REACHED in {warning.kind for warning in result.warnings}


def test_what_starts_too_late_is_skipped_and_counted(bench: Bench) -> None:
    workload = bench.workload({"slow": "SELECT pg_sleep(0.04);\n"}, latency_limit_ms=60)
    result = bench.run(workload, replace(SECOND, clients=1, rate=100.0))
    assert result.skipped > 0
    assert sum(row.skipped for row in result.histograms) == result.skipped
    assert result.transactions + result.skipped == len(result.log)


CONFLICT = "BEGIN ISOLATION LEVEL REPEATABLE READ;\nUPDATE item SET n = n + 1 WHERE id = 1;\nCOMMIT;\n"


@pytest.mark.requirement("R-BEN-23")
def test_retries_are_counted_and_nothing_is_lost(bench: Bench) -> None:
    workload = bench.workload({"bump": CONFLICT}, max_tries=1000)
    result = bench.run(workload, replace(SECOND, clients=4))
    assert (result.failed, result.reason) == (0, None)
    assert result.retried > 0
    assert items(bench, workload) == result.transactions


@pytest.mark.requirement("R-BEN-23")
def test_failures_are_counted_apart(bench: Bench) -> None:
    workload = bench.workload({"bump": CONFLICT})
    result = bench.run(workload, replace(SECOND, clients=4))
    assert result.failed > 0
    assert result.reason is None
    assert items(bench, workload) == result.transactions
    assert LoadWarningKind.TRANSACTIONS_FAILED in {warning.kind for warning in result.warnings}


def test_lost_sessions_make_the_load_void(bench: Bench) -> None:
    workload = bench.workload({"look": "SELECT n FROM item WHERE id = 1;\n"})
    workload.prepare(bench.target, progress=lambda text: None)
    dbname = workload.reset(bench.target)
    load = workload.begin(bench.target, dbname, LASTING, bench.folder / "run")
    until_working(load)
    bench.target.postgres.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [dbname])
    result = load.finish()
    assert result.aborted_clients >= 1
    assert result.exit_code == 2
    assert result.reason is not None
    assert "terminating connection" in result.reason
    assert result.transactions > 0


def test_a_killed_driver_still_gives_what_it_logged(bench: Bench) -> None:
    workload = bench.workload({"look": "SELECT n FROM item WHERE id = 1;\n"})
    workload.prepare(bench.target, progress=lambda text: None)
    dbname = workload.reset(bench.target)
    load = workload.begin(bench.target, dbname, LASTING, bench.folder / "run")
    until_working(load)
    os.kill(load.pids[0], signal.SIGKILL)
    result = load.finish()
    assert result.exit_code == -signal.SIGKILL
    assert result.reason is not None
    assert result.transactions > 0
    assert result.driver_cpu_s > 0
    assert result.malformed_lines <= 1


def test_a_broken_script_is_an_error_with_the_servers_words(bench: Bench) -> None:
    workload = bench.workload({"look": "SELECT no_such_column FROM item;\n"})
    with pytest.raises(WorkloadError) as error:
        bench.run(workload)
    assert "no_such_column" in (error.value.detail or "")


def test_a_broken_init_script_is_an_error_and_is_redone(bench: Bench) -> None:
    broken = bench.workload({"look": "SELECT 1;\n"}, init="CREATE TABLE a (b int);\nSELECT nonsense;\n")
    for _ in range(2):
        with pytest.raises(WorkloadError) as error:
            broken.prepare(bench.target, progress=lambda text: None)
        assert "nonsense" in (error.value.detail or "")


def test_scripts_that_only_read_are_held_to_it(bench: Bench) -> None:
    workload = bench.workload({"bump": "UPDATE item SET n = n + 1 WHERE id = 1;\n"}, read_only=True)
    with pytest.raises(WorkloadError) as error:
        bench.run(workload)
    assert "read-only transaction" in error.value.message


def test_sessions_of_a_killed_tuner_are_ended_by_the_next_reset(bench: Bench) -> None:
    workload = bench.workload({"look": "SELECT n FROM item WHERE id = 1;\n"}, read_only=True)
    workload.prepare(bench.target, progress=lambda text: None)
    dbname = workload.reset(bench.target)
    orphan = workload.begin(bench.target, dbname, LASTING, bench.folder / "run")
    until_working(orphan)
    assert workload.reset(bench.target) == dbname
    eventually(orphan.poll, "the end of a load without sessions")
    assert orphan.finish().aborted_clients > 0


class Interrupted(PgbenchTables):
    """Data whose load is interrupted when it is half done."""

    def load(self, site: LoadSite) -> None:
        site.postgres.execute("CREATE TABLE pgbench_accounts (half int)")
        raise KeyboardInterrupt


def test_an_interrupted_load_is_done_anew(bench: Bench) -> None:
    workload = bench.keep(make_workload("select-only", {"scale": 1, "fillfactor": 90}))
    with pytest.raises(KeyboardInterrupt):
        replace(workload, data=Interrupted(1, 90)).prepare(bench.target, progress=lambda text: None)
    with pytest.raises(EnvironmentUnsuitable, match="missing or incomplete"):
        workload.reset(bench.target)
    said: list[str] = []
    workload.prepare(bench.target, progress=said.append)
    assert "interrupted" in said[0]
    assert bench.run(workload, PACED).reason is None


def test_a_database_of_somebody_else_is_never_touched(bench: Bench) -> None:
    workload = bench.keep(make_workload("select-only", {"scale": 1, "fillfactor": 80}))
    postgres = bench.target.postgres
    workload.prepare(bench.target, progress=lambda text: None)
    load = workload.reset(bench.target)
    (template,) = (
        str(row["datname"])
        for row in postgres.fetch("SELECT datname FROM pg_database WHERE datname LIKE 'pgdyno%%template'")
        if workload.databases(bench.target)[1] == row["datname"]
    )
    workload.drop(bench.target, template=True)
    for name in (load, template):
        postgres.execute(f'CREATE DATABASE "{name}"')
        postgres.execute("CREATE TABLE public.precious AS SELECT 1 AS one", dbname=name)
    try:
        for action in (
            lambda: workload.prepare(bench.target, progress=lambda text: None),
            lambda: workload.reset(bench.target, policy="always"),
            lambda: workload.drop(bench.target, template=True),
        ):
            with pytest.raises(EnvironmentUnsuitable, match="was not made by pgdyno"):
                action()
        for name in (load, template):
            assert postgres.fetch("SELECT one FROM public.precious", dbname=name) == [{"one": 1}]
    finally:
        for name in (load, template):
            postgres.execute(f'DROP DATABASE "{name}" WITH (FORCE)')


@pytest.fixture
def as_role(bench: Bench) -> Iterator[Callable[[str], Target]]:
    made: list[str] = []

    def become(options: str) -> Target:
        role = f"pgdyno_test_{len(made)}"
        bench.target.postgres.execute(f"CREATE ROLE {role} LOGIN {options}")
        made.append(role)
        return replace(bench.target, postgres=Postgres(make_conninfo(bench.target.postgres.conninfo, user=role)))

    yield become
    for workload in bench.made:
        workload.drop(bench.target, template=True)
    for role in made:
        bench.target.postgres.execute(f"DROP OWNED BY {role}")
        bench.target.postgres.execute(f"DROP ROLE {role}")


def test_a_role_that_may_not_create_databases_is_told_what_to_grant(
    bench: Bench, as_role: Callable[[str], Target]
) -> None:
    target = as_role("NOCREATEDB")
    with pytest.raises(EnvironmentUnsuitable) as error:
        make_workload("select-only", {"scale": 1}).prepare(target, progress=lambda text: None)
    assert "ALTER ROLE" in (error.value.hint or "")
    assert "CREATEDB" in (error.value.hint or "")


def test_a_role_without_any_other_right_can_do_it_all(bench: Bench, as_role: Callable[[str], Target]) -> None:
    target = as_role("CREATEDB")
    workload = bench.keep(make_workload("tpcb-like", {"scale": 1, "fillfactor": 70}))
    workload.prepare(target, progress=lambda text: None)
    dbname = workload.reset(target)
    workload.reset(target)
    assert workload.begin(target, dbname, PACED, bench.folder / "run").finish().reason is None


def test_a_server_before_15_and_without_pgbench(make_sandbox: Callable[..., Sandbox], tmp_path: Path) -> None:
    sandbox = make_sandbox("old", bin_dir=find_build("npm-13"))
    sandbox.start()
    target = sandbox.target()
    assert target.postgres.fetch("SHOW server_version_num")[0]["server_version_num"] < "140000"
    workload = make_workload("ybio", {"tab_rows": 5000, "batch_size": 10})
    workload.prepare(target, progress=lambda text: None)
    result = workload.begin(target, workload.reset(target), PACED, tmp_path).finish()
    assert (result.reason, result.failed) == (None, 0)
    assert result.transactions > 0


def test_the_size_is_estimated_before_the_load(bench: Bench) -> None:
    workload = bench.keep(make_workload("select-only", {"scale": 5}))
    workload.prepare(bench.target, progress=lambda text: None)
    query = "SELECT pg_database_size(%s::text) - pg_database_size('template0') AS bytes"
    size = int(str(bench.target.postgres.fetch(query, [workload.reset(bench.target)])[0]["bytes"]))
    assert isinstance(workload.data, PgbenchTables)
    assert workload.data.estimated_bytes == pytest.approx(size, rel=0.05)


def test_the_example_runs_beside_a_built_in_script(bench: Bench) -> None:
    script = Path(__file__).parents[2] / "examples" / "scripts" / "account_page.sql"
    given = {"scripts": f"{script}@9,simple-update@1", "scale": 1}
    result = bench.run(bench.keep(make_workload("custom", given)), PACED)
    assert (result.reason, result.failed) == (None, 0)
    assert {row.script for row in result.histograms} == {"account_page", "simple-update"}


@pytest.mark.parametrize("which", ["load", "template"])
def test_a_database_whose_removal_was_killed_is_made_anew(sandbox18: Sandbox, which: str) -> None:
    """A kill amid DROP DATABASE leaves one that takes no session: it must not stand in the way for ever."""
    target = sandbox18.target()
    workload = make_workload("custom", {"scripts": "select-only", "scale": 1})
    workload.prepare(target, progress=lambda _: None)
    load = workload.reset(target)
    name = load if which == "load" else load.replace("_load", "_template")
    target.postgres.execute("UPDATE pg_database SET datconnlimit = -2 WHERE datname = %s", [name])
    workload.prepare(target, progress=lambda _: None)
    workload.reset(target)
    assert target.postgres.for_load(load).fetch("SELECT count(*) AS rows FROM pgbench_branches") == [{"rows": 1}]
    workload.drop(target, template=True)
