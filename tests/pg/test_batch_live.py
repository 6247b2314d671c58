"""A chain of twelve jobs in three processes on a real server: each end is told as it was, and compared as it was."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from pgdyno.cli.batch import command
from pgdyno.errors import EnvironmentUnsuitable
from pgdyno.model.record import PlanRecord
from pgdyno.model.results.batch import BatchResult, JobEnd, JobRun
from pgdyno.sandbox.sandbox import Sandbox
from pgdyno.server.binaries import embedded_bin_dir
from pgdyno.store.catalogue import Store
from server_image import eventually

pytestmark = pytest.mark.pg
NAME = "batch_live"
RESTORE = """
DROP TABLE IF EXISTS public.items, public.named;
CREATE TABLE public.items (id int, word text);
CREATE TABLE public.named (name text);
"""
NAMED = "INSERT INTO public.named SELECT current_setting('application_name')"
PSQL = ["the psql of the embedded build", "-X", "-c"]
"""A program that is told the server by its environment: Python with a driver takes ten times as long to start."""
CANCEL = """
DO $$ BEGIN
  FOR n IN 1 .. 600 LOOP
    PERFORM pg_stat_clear_snapshot();
    EXIT WHEN EXISTS (SELECT FROM pg_stat_activity WHERE application_name LIKE '% report/long'
                      AND wait_event = 'PgSleep' AND pg_cancel_backend(pid));
    PERFORM pg_sleep(0.1);
  END LOOP;
END $$
"""
CHAIN = f"""
version = 1
[chain]
name = "month-end"
database = "{NAME}"
parallel = 3
executions = 2
restore = {json.dumps([*PSQL, RESTORE])}

[[process]]
name = "load"
[[process.job]]
name = "copy"
sql = "INSERT INTO public.items SELECT n, 'w' || n FROM generate_series(1, 500) AS n"
[[process.job.check]]
table = "public.items"
rows = 500
[[process.job.check]]
true = "SELECT count(DISTINCT word) = 500 FROM items"
[[process.job]]
name = "index"
sql = "CREATE INDEX ON public.items (id)"
after = ["copy"]
[[process.job]]
name = "broken"
sql = "SELECT 1 / 0"
after = ["copy"]
retries = 1
[[process.job]]
name = "beyond"
sql = "SELECT 1"
after = ["broken"]

[[process]]
name = "close"
threshold = "5s"
[[process.job]]
name = "sum"
sql = "SELECT pg_sleep(0.1)"
after = ["load/index"]
[[process.job]]
name = "quick"
sql = "SELECT 1"
after = ["load/index"]
[[process.job]]
name = "count"
sql = "DELETE FROM public.items WHERE id = 7"
after = ["sum", "quick"]
[[process.job.check]]
table = "public.items"
rows = 500
[[process.job]]
name = "tape"
skip = "there is no tape"

[[process]]
name = "report"
[[process.job]]
name = "named"
argv = {json.dumps([*PSQL, NAMED])}
[[process.job.check]]
true = "SELECT bool_and(name LIKE '% report/named') FROM public.named"
[[process.job]]
name = "long"
sql = "SELECT pg_sleep(3600)"
[[process.job]]
name = "cancel"
sql = '''{CANCEL}'''
[[process.job]]
name = "late"
argv = [{json.dumps(sys.executable)}, "-c", "import time; time.sleep(3600)"]
after = ["cancel"]
time_out = "1s"
"""
REFERENCE = """\
process,job,start,end
load,copy,2026-10-30 22:00:00,2026-10-30 22:10:00
load,index,2026-10-30 22:10:00,2026-10-30 22:20:00
load,broken,2026-10-30 22:10:00,2026-10-30 22:20:00
load,beyond,2026-10-30 22:20:00,2026-10-30 22:30:00
close,sum,2026-10-30 22:20:00,2026-10-30 22:30:00
close,quick,2026-10-30 22:20:00,2026-10-30 22:20:01
close,count,2026-10-30 22:30:00,2026-10-30 22:40:00
report,named,2026-10-30 22:00:00,2026-10-30 22:10:00
report,long,2026-10-30 22:00:00,2026-10-30 22:10:00
report,cancel,2026-10-30 22:00:00,2026-10-30 22:10:00
report,late,2026-10-30 22:10:00,2026-10-30 22:20:00
"""


def chain_file() -> str:
    return CHAIN.replace(json.dumps(PSQL[0]), json.dumps(str(embedded_bin_dir() / "psql")))


@pytest.fixture(scope="module")
def target(sandbox18: Sandbox) -> Iterator[str]:
    server = sandbox18.target().postgres
    server.execute(f"DROP DATABASE IF EXISTS {NAME}")  # type: ignore[arg-type]  # a name of ours
    server.execute(f"CREATE DATABASE {NAME}")  # type: ignore[arg-type]
    yield server.conninfo
    server.execute(f"DROP DATABASE {NAME} WITH (FORCE)")  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("batch")
    for name, text in (("chain.toml", chain_file()), ("reference.csv", REFERENCE)):
        (home / name).write_text(text)
        (home / name).chmod(0o644)
    return home


def call(home: Path, *words: str) -> tuple[int, str, str]:
    done = CliRunner().invoke(command, [*words, "--store", str(home / "store.db")], standalone_mode=False)
    if done.exception is not None:
        raise done.exception
    return int(done.return_value or 0), done.stdout, done.stderr


@pytest.fixture(scope="module")
def ran(home: Path, target: str) -> tuple[int, BatchResult]:
    code, out, _ = call(home, "run", str(home / "chain.toml"), "--target", target, "--apply", "--yes", "--json")
    return code, read(home, json.loads(out)["study"])


def read(home: Path, study: str) -> BatchResult:
    with Store.open(home / "store.db") as store:
        found = store.study(study).told(BatchResult)
    assert found is not None
    return found


def jobs_of(ran: tuple[int, BatchResult]) -> dict[str, JobRun]:
    return {one.key: one for one in ran[1].jobs}


@pytest.mark.requirement("R-BAT-01", "R-BAT-07")
def test_each_job_is_told_as_it_ended(ran: tuple[int, BatchResult]) -> None:
    jobs = jobs_of(ran)
    assert {key: one.end.value for key, one in jobs.items()} == {
        "load/copy": "succeeded", "load/index": "succeeded", "load/broken": "failed", "load/beyond": "not run",
        "close/sum": "succeeded", "close/quick": "succeeded", "close/count": "check failed", "close/tape": "skipped",
        "report/named": "succeeded", "report/long": "cancelled", "report/cancel": "succeeded",
        "report/late": "timed out",
    }  # fmt: skip
    assert ran[0] == 1
    assert jobs["load/broken"].attempts == 2
    assert "division by zero" in jobs["load/broken"].reason
    assert jobs["load/beyond"].reason == "load/broken: failed"
    assert jobs["close/count"].code == 0, "it returned well, and is no success"
    assert jobs["close/count"].reason == "public.items has 500 rows: 499 rows"
    assert "cancel" in jobs["report/long"].reason
    assert [check.passed for check in jobs["load/copy"].checks] == [True, True]


@pytest.mark.requirement("R-BAT-08")
def test_the_restore_is_timed_apart(ran: tuple[int, BatchResult]) -> None:
    assert [one.number for one in ran[1].executions] == [1, 2]
    for execution in ran[1].executions:
        assert execution.restore_s is not None
        assert execution.restore_s > 0
    first, second = ([one.checks for one in ran[1].jobs if one.execution == number] for number in (1, 2))
    assert first == second, "each began with the same data"


def test_what_is_known_of_a_job_and_why_the_rest_is_not(ran: tuple[int, BatchResult]) -> None:
    jobs = jobs_of(ran)
    assert all(one.cpu_s is not None for one in jobs.values() if one.end is JobEnd.SUCCEEDED)
    beside = jobs["report/long"]
    assert "other jobs ran beside it" in beside.unknown["wal_bytes"]
    alone = jobs["close/count"]
    assert alone.rows is not None or "wal_bytes" in alone.unknown
    late = jobs["report/late"]
    assert late.busy_s == 0 or "busy_s" in late.unknown, "it had no session"


def test_the_plans_of_statements_that_succeeded_are_kept(ran: tuple[int, BatchResult], home: Path) -> None:
    with Store.open(home / "store.db") as store:
        kept = [store.records(one.run, PlanRecord) for one in ran[1].executions if one.run is not None]
    for records in kept:
        found = {one.statement.partition(":")[0]: one for one in records}
        assert "Function Scan on generate_series" in found["load/copy"].plan
        assert not {"load/broken", "close/count", "report/long", "report/named"} & found.keys()
    assert [[one.shape for one in records] for records in kept[1:]] == [[one.shape for one in kept[0]]]


def test_the_sessions_of_what_was_ended_are_gone(ran: tuple[int, BatchResult], sandbox18: Sandbox) -> None:
    left = "SELECT application_name FROM pg_stat_activity WHERE application_name LIKE '% report/%'"
    eventually(lambda: sandbox18.target().postgres.fetch(left) == [], "no session of a report")


@pytest.mark.requirement("R-BAT-09")
def test_the_peak_of_the_host_is_a_sizing_hint(ran: tuple[int, BatchResult]) -> None:
    (peak,) = ran[1].peaks
    assert peak.memory_bytes


def test_it_is_compared_with_what_another_scheduler_recorded(ran: tuple[int, BatchResult], home: Path) -> None:
    code, out, _ = call(home, "import", str(home / "chain.toml"), str(home / "reference.csv"), "--json")
    assert code == 0
    code, out, _ = call(home, "compare", str(home / "chain.toml"), json.loads(out)["study"], ran[1].study, "--json")
    assert code == 1
    told = {one["process"]: one for one in json.loads(out)["processes"]}
    assert {name: one["verdict"] for name, one in told.items()} == {"load": "fail", "close": "fail", "report": "fail"}
    left = told["close"]["left_out"]
    assert left["close/quick"] == "1.0 s in the reference, less than 5.0 s"
    assert left["close/tape"] == "there is no tape"
    assert left["close/count"] == "check failed in the new executions"
    assert (told["close"]["compared"], told["close"]["shorter"]) == (1, 1)


@pytest.mark.parametrize("way", ["dry", "stop"])
def test_a_dry_run_runs_nothing_and_a_stop_file_ends_a_run(way: str, home: Path, target: str) -> None:
    stop = home / "stop"
    stop.touch()
    words = ["run", str(home / "chain.toml"), "--target", target, "--yes", "--json", "--stop-file", str(stop)]
    if way == "dry":
        code, out, told = call(home, *words)
        assert (code, out) == (0, "")
        assert "close/tape: skipped, there is no tape" in told
        assert {"undo:", "outage:", "room:"} <= {line.split()[0] for line in told.splitlines()}
        with pytest.raises(EnvironmentUnsuitable, match="more than --max-size 1 MB"):
            call(home, *words, "--max-size", "1MB")
        return
    code, out, _ = call(home, *words, "--apply")
    found = read(home, json.loads(out)["study"])
    assert (code, found.executions, found.ended) == (1, (), "the stop file, before execution 1")


@pytest.mark.requirement("R-BAT-08")
def test_nothing_runs_on_data_that_could_not_be_restored(home: Path, target: str) -> None:
    chain = home / "unrestored.toml"
    broken = [sys.executable, "-c", "raise SystemExit('no backup here')"]
    head, _, rest = chain_file().partition("restore = ")
    chain.write_text(f"{head}restore = {json.dumps(broken)}\n{rest.partition(chr(10))[2]}")
    chain.chmod(0o644)
    with pytest.raises(EnvironmentUnsuitable, match="before execution 1: exit code 1") as caught:
        call(home, "run", str(chain), "--target", target, "--apply", "--yes")
    assert caught.value.detail == "no backup here"
    assert read(home, "last").executions == ()
