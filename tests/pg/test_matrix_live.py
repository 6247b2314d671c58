"""Matrices as a user runs them, on a real sandbox. Relations and counts, never a machine's speed."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from pgdyno.linux import processes
from pgdyno.sandbox.sandbox import Sandbox
from pgdyno.workloads.dataset import PgbenchTables
from server_image import write_as_owner
from warm_program import RunningPgdyno, run_pgdyno

pytestmark = [pytest.mark.pg, pytest.mark.xdist_group("matrix-live")]

QUICK = ["--warmup", "1", "--measure", "2", "--foreign-cpu", "1000", "--steal", "100", "--repetitions", "1"]
WAITING = """\\set bid random(1, :scale)
INSERT INTO pgbench_history (tid, bid, aid, delta, mtime) VALUES (1, :bid, 1, 0, now());
SELECT pg_sleep(0.01);
"""
"""For what does not depend on how much work there is: its clients are as busy as any, and the CPUs are not."""
UNUSABLE = {"unsteady", "disturbed"}
"""What a shared machine may make of a run, whatever the code does."""


@dataclass(frozen=True)
class Place:
    """Where a test runs pgdyno, and the store that it fills."""

    home: Path
    store: Path

    @property
    def environment(self) -> dict[str, str]:
        return {"PGDYNO_HOME": str(self.home), "PGDYNO_STORE": str(self.store)}


@pytest.fixture(scope="module")
def waiting_home(shared_home: Path) -> Path:
    """A PGDYNO_HOME whose sandbox waits for 5 ms in each commit: clients are as busy, and the CPUs are not."""
    with Sandbox.open_or_create(root=shared_home / "cache") as sandbox:
        main = sandbox.data_directory / "postgresql.conf"
        write_as_owner(main, main.read_text() + "commit_delay = 5000\ncommit_siblings = 0\n")
    return shared_home


@pytest.fixture
def place(waiting_home: Path, tmp_path: Path) -> Place:
    return Place(waiting_home, tmp_path / "store.db")


def words(*more: str) -> list[str]:
    return ["matrix", *QUICK, *more, "--json"]


def matrix(place: Place, *more: str) -> tuple[int, dict[str, Any]]:
    done = run_pgdyno(*words(*more), timeout_s=400, **place.environment)
    assert done.stdout, done.stderr
    result = json.loads(done.stdout.splitlines()[-1])
    assert isinstance(result, dict)
    return done.returncode, result


@contextmanager
def running(place: Place, *more: str) -> Iterator[RunningPgdyno]:
    with RunningPgdyno(*words(*more), **place.environment) as popen:
        try:
            yield popen
        finally:
            popen.send_signal(signal.SIGINT)


def script(folder: Path) -> str:
    (folder / "waiting.sql").write_text(WAITING)
    return str(folder / "waiting.sql")


def check_rows(rows: list[dict[str, Any]]) -> None:
    for row in rows:
        if row["state"] in UNUSABLE:
            continue
        assert row["state"] == "complete", row
        check = row["little"]
        assert check["demand"] == pytest.approx(row["tps"] * row["latency_ms"] / 1000)
        busy = check["demand"] - row["edges"]
        # What a generator waits for a CPU between two transactions is in no latency: of short ones a visible part.
        least = 0.95 if row["cell"]["mode"] == "tpcb-like" and row["connections"] > 1 else 0.7
        assert least * row["connections"] < busy <= 1.001 * row["connections"], row
        assert check["flagged"] == (abs(busy / row["connections"] - 1) > 0.01)
        assert row["checks"] == []
        if row["cell"]["mode"] in ("tpcb-like", "simple-update"):
            assert row["history_rows"] == row["transactions"] > 0


@pytest.mark.requirement("R-BEN-01", "R-BEN-08", "R-BEN-09", "R-BEN-12", "R-BEN-16", "R-BEN-19", "R-BEN-20", "R-BEN-21")
def test_a_matrix_of_two_loads_and_two_configurations(place: Place, tmp_path: Path) -> None:
    conf, report = tmp_path / "fast.conf", tmp_path / "matrix.html"
    conf.write_text("fsync = off\nmax_wal_size = 2GB\n")
    load = ["--mode", "custom", "--script", script(tmp_path), "--instances", "2", "--clients", "1,2", "--jobs", "1"]
    load += ["--scale", "2", "--conf", f"fast={conf}", "--report", str(report)]
    _, result = matrix(place, *load)
    rows = result["rows"]
    assert [(row["cell"]["configuration"], row["connections"]) for row in rows] == [
        ("default", 2), ("default", 4), ("fast", 2), ("fast", 4)
    ]  # fmt: skip
    check_rows(rows)
    assert [row["durability"] for row in rows] == ["", "", "X", "X"], "fsync is off in them"
    assert "server's host" in result["driver"]
    usable = [row for row in rows if row["state"] == "complete"]
    before = {json.dumps(row["bytes_before"], sort_keys=True) for row in usable}
    assert len(before) <= 1, "every cell begins with the same data"
    for row in usable:
        tables = sum(size for name, size in row["bytes_before"].items() if name != "database")
        assert tables == pytest.approx(PgbenchTables(2).estimated_bytes, rel=0.05)
        assert row["bytes_after"]["pgbench_history"] > row["bytes_before"]["pgbench_history"]
        assert row["locks"].keys() == {"row_exclusive", "access_share", "exclusive"}
        assert row["driver_cpu_pct"] <= row["cpu_pct"] <= 100
    with closing(sqlite3.connect(place.store)) as store:
        found = store.execute("SELECT role, count(*) FROM trial WHERE repeats IS NULL GROUP BY role").fetchall()
        assert dict(found) == {"baseline": 1, "cell": 4}
        first = store.execute("SELECT role FROM trial ORDER BY id").fetchone()
        assert first == ("baseline",), "the defaults are measured before all else"
        instances = store.execute("SELECT count(DISTINCT instance) FROM instance GROUP BY run_id").fetchall()
        assert set(instances) == {(2,)}
    assert report.read_text().startswith("<!DOCTYPE html>")


@pytest.mark.requirement("R-BEN-06")
def test_four_modes_live_and_what_does_not_fit_is_skipped(place: Place, tmp_path: Path) -> None:
    (tmp_path / "look.sql").write_text("SELECT count(*) FROM pgbench_branches;\n")
    modes = ["--mode", "tpcb-like,simple-update,select-only,custom", "--script", f"{tmp_path / 'look.sql'}@2"]
    modes += ["--script", "select-only@8", "--clients", "1,2000", "--scale", "1"]
    _, result = matrix(place, *modes)
    check_rows(result["rows"])
    assert [row["cell"]["mode"] for row in result["rows"]] == ["tpcb-like", "simple-update", "select-only", "custom"]
    assert {one["reason"] for one in result["skipped"]} == {"2000 connections do not fit into max_connections = 100"}
    assert {one["axis"] for one in result["contrasts"]} <= {"mode"}
    assert all(one["verdict"] is None for one in result["contrasts"]), "one run each claims nothing"


@pytest.mark.night("pg/test_tprocc_cli.py::test_bench_tells_orders_checks_and_that_it_is_not_tpc_c")
@pytest.mark.requirement("R-BEN-02")
def test_any_workload_with_its_parameters_by_two_load_generators(place: Place) -> None:
    load = ["--instances", "2", "--clients", "1", "--workload", "tprocc,ybio", "-D", "max_tries=3"]
    _, result = matrix(place, *load)
    rows = result["rows"]
    assert [(row["cell"]["mode"], row["cell"]["scale"]) for row in rows] == [("tprocc", "0"), ("ybio", "0")]
    for row in rows:
        assert row["checks"] == []
        assert row["transactions"] > 0 or row["state"] in UNUSABLE, row


def test_a_load_generator_that_is_killed_makes_its_row_partial(place: Place, tmp_path: Path) -> None:
    load = ["--mode", "custom", "--script", script(tmp_path), "--instances", "3", "--scale", "1", "--measure", "6"]
    with running(place, *load) as popen:
        seen: tuple[int, ...] = ()
        for _ in ("baseline", "cell"):  # a partial run is not repeated, so that the second three are the cell's
            generators = wait_for_generators(popen, 3, other_than=seen)
            seen += generators
            time.sleep(0.5)
            os.kill(generators[1], signal.SIGKILL)  # long before its own time is over
        out, _ = popen.communicate(timeout=120)
    assert popen.returncode == 3
    (row,) = json.loads(out.splitlines()[-1])["rows"]
    assert row["state"] == "partial"
    assert row["reason"] == "1 of 3 load generators ended early: number 1, pgbench was ended by SIGKILL"
    assert row["little"] is None, "clients that were lost are no contradiction"
    assert row["runs"] == {}, "no figure of it takes part in a comparison"
    with closing(sqlite3.connect(place.store)) as store:
        kept = store.execute(
            "SELECT transactions > 0, reason IS NULL FROM instance WHERE run_id = ? ORDER BY instance", row["trials"]
        ).fetchall()
    assert kept[0] == kept[2] == (1, 1)
    assert kept[1][1] == 0


def wait_for_generators(popen: RunningPgdyno, count: int, other_than: tuple[int, ...] = ()) -> tuple[int, ...]:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and popen.poll() is None:
        children = processes.children_of(popen.pid)
        found = tuple(child.pid for child in children if is_pgbench(child.pid) and child.pid not in other_than)
        if len(found) == count:
            return found
        time.sleep(0.05)
    raise AssertionError("the load generators never ran")


def is_pgbench(pid: int) -> bool:
    try:
        argv = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    return argv[0].endswith(b"pgbench") and b"-T" in argv


@pytest.mark.requirement("R-BEN-01", "R-BEN-17")
def test_a_killed_matrix_goes_on_where_it_was_by_socket_and_loopback(place: Place, tmp_path: Path) -> None:
    load = ["--mode", "custom", "--script", script(tmp_path), "--placement", "socket,loopback", "--scale", "1"]
    with running(place, *load) as popen:
        first = wait_for_generators(popen, 1)
        wait_for_generators(popen, 1, other_than=first)
        popen.kill()
        popen.communicate(timeout=30)
    _, result = matrix(place, "--resume", "last")
    assert [row["cell"]["placement"] for row in result["rows"]] == ["socket", "loopback"]
    check_rows(result["rows"])
    with closing(sqlite3.connect(place.store)) as store:
        states = [state for (state,) in store.execute("SELECT state FROM trial ORDER BY id")]
        assert store.execute("SELECT count(*) FROM study").fetchone() == (1,)
    assert states[0] in ("complete", "unsteady")
    assert states.count("abandoned") == 1
