"""`inspect --capture` keeps what happens as well, and `advise --root` judges it elsewhere, on a real server."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from psycopg import sql

from calm_load import SEGMENTS
from pgdyno.inventory.inspection import inspect, inspect_capture
from pgdyno.model.facts import Unknown
from pgdyno.sandbox.sandbox import Sandbox
from warm_program import run_pgdyno

pytestmark = [pytest.mark.pg, pytest.mark.xdist_group("system-v")]  # segments of System V are the whole machine's
SECRET = "four-word-secret-in-a-statement"


def pgdyno(home: Path, *words: str) -> subprocess.CompletedProcess[str]:
    done = run_pgdyno(*words, XDG_DATA_HOME=str(home), NO_COLOR="1")
    assert "Traceback" not in done.stderr, done.stderr
    return done


@pytest.fixture
def server(make_sandbox: Callable[..., Sandbox]) -> Sandbox:
    """A server with a main memory of System V and a statement with a secret in its log."""
    sandbox = make_sandbox("captured")
    sandbox.start()
    postgres = sandbox.target().postgres
    for name, value in (("shared_memory_type", "sysv"), ("log_min_duration_statement", "0"), ("max_wal_size", "64MB")):
        postgres.execute(sql.SQL("ALTER SYSTEM SET {} = {}").format(sql.Identifier(name), sql.Literal(value)))
    sandbox.stop()
    sandbox.start()
    postgres.execute(sql.SQL("SELECT {}").format(sql.Literal(SECRET)))
    with postgres.connect() as session:
        for number in range(18):
            if number % 6 == 0:
                session.execute("CHECKPOINT")
            for statement in SEGMENTS.read_text().splitlines():
                session.execute(statement)  # type: ignore[call-overload]  # a text of ours
    return sandbox


@pytest.mark.requirement("R-INV-18", "R-ADV-05")
def test_a_window_is_kept_and_judged_from_the_folder(server: Sandbox, tmp_path: Path) -> None:
    folder = tmp_path / "db1"
    dsn = server.target().postgres.conninfo
    done = pgdyno(tmp_path, "inspect", "--target", dsn, "--capture", str(folder), "--window", "2")
    assert done.returncode == 0
    assert "evidence/: " in done.stderr
    assert "over 2 s" in done.stderr
    assert "logs/server.log: " in done.stderr
    assert {"snapshot_1.json", "snapshot_2.json"} <= {path.name for path in (folder / "evidence").iterdir()}
    assert SECRET not in "".join(path.read_text() for path in folder.rglob("*") if path.is_file())
    document = json.loads(pgdyno(tmp_path, "advise", "--root", str(folder), "--depth", "deep", "--json").stdout)
    (sized,) = (one for one in document["findings"] if one["rule"] == "max-wal-size")
    assert sized["answer"] != "unknown"
    again = pgdyno(tmp_path, "inspect", "--target", dsn, "--capture", str(folder))
    assert "since the statistics were reset" in again.stderr
    assert not (folder / "evidence" / "snapshot_2.json").exists()


@pytest.mark.requirement("R-IPC-08")
def test_the_server_s_own_segment_is_not_foreign(server: Sandbox, tmp_path: Path) -> None:
    folder = tmp_path / "db1"
    for _ in range(20):  # until no program of this machine has made or left one meanwhile
        large = large_segments()
        foreign = inspect(server.target()).host.foreign_ipc
        pgdyno(tmp_path, "inspect", "--target", server.target().postgres.conninfo, "--capture", str(folder))
        if large_segments() == large:
            break
    assert large, "shared_memory_type = sysv makes one"
    assert not isinstance(foreign, Unknown)
    assert foreign["shm"] == len(large) - 1
    kept = inspect_capture(folder).host.foreign_ipc
    assert not isinstance(kept, Unknown)
    assert kept["shm"] == foreign["shm"]


def large_segments() -> set[str]:
    """Return the numbers of the machine's segments but for the small ones, of which every server has one."""
    rows = [line.split() for line in Path("/proc/sysvipc/shm").read_text().splitlines()[1:]]
    return {row[1] for row in rows if int(row[3]) > 4096}
