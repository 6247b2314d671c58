"""The hardware of a level on the real kernel: the server is bound, its load is not, and whoever ends it undoes it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from click.testing import CliRunner
from state import state_of
from tuner_process import await_line, newest, tuner_of

import fix_postgres
from pgdyno.cli.scale import command
from pgdyno.linux import processes
from pgdyno.linux.cgroups import path_of
from pgdyno.model.configuration import BASELINE, Configuration
from pgdyno.model.linux import SERVER_CPUS, SERVER_MEMORY
from pgdyno.model.results.scale import Constancy, ScaleResult
from pgdyno.sandbox.sandbox import Sandbox
from pgdyno.server import postmaster_lock
from pgdyno.store.catalogue import Store
from pgdyno.undo.apply import Session
from server_image import UNHURRIED, eventually

pytestmark = [
    pytest.mark.host,
    pytest.mark.pg,
    pytest.mark.alone,
    pytest.mark.skipif(os.geteuid() != 0, reason="groups of processes are root's to make"),
    pytest.mark.skipif(not Path("/sys/fs/cgroup/cpu/cpu.stat").exists(), reason="no version 1 tree of cpu is mounted"),
]
CPU = Path("/sys/fs/cgroup/cpu")


@pytest.fixture
def server(server_home: Path) -> Iterator[Sandbox]:
    sandbox = Sandbox.open_or_create("bound", root=server_home)
    sandbox.start()
    yield sandbox
    sandbox.destroy()


def group_of(pid: int | str) -> str:
    found = path_of(Path(f"/proc/{pid}/cgroup").read_text(), "cpu")
    assert found is not None
    return found


def groups_of_children(pid: int) -> set[str]:
    """Return the groups of a server's processes, but for a session or a worker of autovacuum that has just ended."""
    found = set[str]()
    for child in processes.children_of(pid):
        with suppress(FileNotFoundError, ProcessLookupError):
            group = group_of(child.pid)
            if processes.alive(child.pid):
                found.add(group)
    return found


def postmaster(server: Sandbox) -> int:
    pid = postmaster_lock.postmaster_pid(server.data_directory)
    assert pid is not None
    return pid


def throttled(group: str) -> int:
    text = (CPU / group.strip("/") / "cpu.stat").read_text()
    return next(int(line.split()[1]) for line in text.splitlines() if line.startswith("nr_throttled"))


@pytest.mark.requirement("R-SCA-01")
def test_a_level_bounds_every_process_of_the_server_and_goes_with_the_session(server: Sandbox, tmp_path: Path) -> None:
    pid, before, ours = postmaster(server), group_of(postmaster(server)), group_of("self")
    state = state_of(server.data_directory, server.folder)
    target = server.target()
    names = (SERVER_CPUS, SERVER_MEMORY)
    with Session.begin(target, study="level", undo_root=tmp_path / "undo", kernel=names) as session:
        applied = session.apply(Configuration.of({SERVER_CPUS: "0.05", SERVER_MEMORY: str(512 << 20)}))
        assert not applied.restarted
        bound = group_of(pid)
        assert Path(bound).name.startswith("pgdyno-bound-")
        assert groups_of_children(pid) == {bound}
        assert group_of("self") == ours
        target.postgres.fetch("SELECT sum(n) FROM generate_series(1, 3000000) AS n")  # by a session of its own
        assert throttled(bound) > 0
        session.apply(Configuration.of({SERVER_CPUS: "0.5"}))
        assert (CPU / bound.strip("/") / "cpu.cfs_quota_us").read_text().strip() == "50000"
        session.apply(BASELINE)
        assert group_of(pid) == before
        session.apply(Configuration.of({SERVER_CPUS: "0.5"}))
    assert group_of(pid) == before
    assert not (CPU / bound.strip("/")).exists()
    assert state.differences(state_of(server.data_directory, server.folder)) == []


@pytest.mark.requirement("R-SCA-01")
def test_the_watchdog_takes_the_bound_away_after_a_kill(server: Sandbox, tmp_path: Path) -> None:
    pid, before = postmaster(server), group_of(postmaster(server))
    half = [{SERVER_CPUS: "0.5"}]
    with tuner_of(
        server, tmp_path / "undo", watch=UNHURRIED, configurations=half, kernel=(SERVER_CPUS,), hold=True
    ) as tuner:
        await_line(tuner, "applied")
        bound = group_of(pid)
        assert bound != before
        tuner.kill()
        eventually(newest(tmp_path / "undo").is_closed, "closed")
    assert group_of(pid) == before
    assert not (CPU / bound.strip("/")).exists()


HOT = "UPDATE item SET n = n + 1 WHERE id = 1;\nSELECT pg_sleep(0.02);\n"
PLAN = """\
version = 1
[scale]
name = "hot"
repetitions = 4
[load]
workload = "custom"
rate = 24
clients = 12
warmup = "1s"
measure = "4s"
parameters = { scripts = "SCRIPT", init = "INIT" }
[criterion]
success = "5 %"
response = "90 %"
path_length = "90 %"
response_time = "latency_p50"
[[level]]
percent = 100
cpus = 0.5
[[level]]
percent = 400
cpus = 2.0
"""


@pytest.mark.skipif(not fix_postgres.NIGHT, reason="20 runs, three minutes alone on the machine: the night's")
@pytest.mark.requirement("R-SCA-02", "R-SCA-06")
def test_a_hot_row_keeps_a_level_from_scaling_and_is_named(server: Sandbox, tmp_path: Path) -> None:
    (tmp_path / "hot.sql").write_text(f"BEGIN;\n{HOT}COMMIT;\n")
    (tmp_path / "init.sql").write_text("CREATE TABLE item (id int PRIMARY KEY, n int); INSERT INTO item VALUES (1, 0);")
    text = PLAN.replace("SCRIPT", str(tmp_path / "hot.sql")).replace("INIT", str(tmp_path / "init.sql"))
    (tmp_path / "plan.toml").write_text(text + "[clients]\nconnections = [1, 2, 4]\n")
    words = [str(tmp_path / "plan.toml"), "--apply", "--yes", "--json", "--foreign-cpu", "10000"]
    words += ["--target", server.target().postgres.conninfo, "--store", str(tmp_path / "store.db")]
    done = CliRunner().invoke(command, words, standalone_mode=False)
    assert done.exception is None, done.exception
    with Store.open(tmp_path / "store.db") as store:
        result = store.study(json.loads(done.stdout)["study"]).told(ScaleResult)
    assert result is not None
    top = result.levels[-1]
    # One row of 20 ms is at most 50 updates a second: 24 of them are kept up with, and 96 are not.
    assert (done.return_value, top.standing) == (1, Constancy.NOT_CONSTANT)
    assert top.bottleneck == "locks"
    assert dict(top.others)["behind its rate"] >= 4
    assert result.curve is not None
    assert result.curve.amdahl is not None
    assert result.curve.loads[-1].locks["row_exclusive"] >= 1
    assert group_of(postmaster(server)) == group_of("self")
