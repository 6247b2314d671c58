"""`pgdyno advise` on real servers: a role with pg_monitor alone gets advice, and looking leaves no trace."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from psycopg.conninfo import make_conninfo

from json_schema import errors
from pgdyno.model.configuration import Configuration
from pgdyno.sandbox.sandbox import Sandbox
from pgdyno.server.postgres import Postgres
from pgdyno.undo.apply import Session
from warm_program import run_pgdyno

pytestmark = pytest.mark.pg
PROJECT = Path(__file__).parents[2]
SCHEMA = json.loads((PROJECT / "docs" / "reference" / "advice.schema.json").read_text("utf-8"))
TRACES = {
    "settings": "SELECT name, setting, source, sourcefile, pending_restart FROM pg_settings "
    "WHERE name <> 'application_name' AND source NOT IN ('client', 'session') ORDER BY name",
    "relations": "SELECT oid::text, relname, xmin::text, relfilenode::text FROM pg_class ORDER BY oid",
    "roles": "SELECT rolname, rolconfig::text FROM pg_roles ORDER BY rolname",
    "extensions": "SELECT extname FROM pg_extension ORDER BY extname",
    "databases": "SELECT datname, datconnlimit::text FROM pg_database ORDER BY datname",
}


def advise(home: Path, *flags: str) -> tuple[int, str]:
    done = run_pgdyno("advise", *flags, XDG_DATA_HOME=str(home), NO_COLOR="1")
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode, done.stdout


def traces(postgres: Postgres) -> dict[str, list[dict[str, object]]]:
    return {name: postgres.fetch(query) for name, query in TRACES.items()}


def sysctls() -> dict[str, str]:
    """Return what of /proc/sys is a setting: counters move by themselves."""
    found = {}
    for folder in ("vm", "kernel/sched", "kernel/sem", "kernel/shmmax", "kernel/shmall", "kernel/shmmni"):
        place = Path("/proc/sys") / folder
        for path in [place] if place.is_file() else sorted(place.glob("*")):
            if path.is_file() and os.access(path, os.R_OK):
                try:
                    found[str(path)] = path.read_text()
                except OSError:
                    continue
    return found


def monitor(sandbox: Sandbox) -> str:
    owner = sandbox.target().postgres
    if not owner.fetch("SELECT 1 FROM pg_roles WHERE rolname = 'watcher'"):
        owner.execute("CREATE ROLE watcher LOGIN IN ROLE pg_monitor")
    return make_conninfo(owner.conninfo, user="watcher")


@pytest.mark.requirement("R-ADV-07", "R-ADV-15", "R-SAF-11")
def test_advice_needs_pg_monitor_alone_and_leaves_no_trace(any_postgres: Sandbox, tmp_path: Path) -> None:
    dsn, owner = monitor(any_postgres), any_postgres.target().postgres
    before = traces(owner)
    assert len(before["settings"]) > 300
    found, changed = [], []
    for _ in range(2):
        kernel = sysctls()
        code, text = advise(tmp_path, "--target", dsn, "--depth", "deep", "--json")
        assert code in (0, 1)
        found.append(json.loads(text))
        changed.append(sysctls() != kernel)
        assert kernel
    assert traces(owner) == before
    assert not all(changed)  # another program of this machine may change one once; advice would each time
    assert list(errors(found[0], SCHEMA)) == []
    rules = [{one["rule"] for one in document["findings"]} for document in found]
    assert rules[0] == rules[1]  # answers may differ: statistics since the reset have gone on
    assert not (tmp_path / "pgdyno").exists()


@pytest.mark.requirement("R-ADV-15")
def test_advice_says_whose_settings_it_sees_while_a_session_is_open(sandbox18: Sandbox, tmp_path: Path) -> None:
    target = sandbox18.target()
    words = ("--target", target.postgres.conninfo)

    def told() -> str:
        done = run_pgdyno("advise", *words, PGDYNO_HOME=str(tmp_path), COLUMNS="300", NO_COLOR="1")
        assert done.returncode in (0, 1), done.stderr
        return " ".join(done.stdout.split())

    with Session.begin(target, study="test", undo_root=tmp_path / "state" / "undo") as session:
        session.apply(Configuration.of({"work_mem": "77MB"}))
        assert f"note: session {session.bundle.directory.name} runs here" in told()
    assert "runs here" not in told()


@pytest.mark.requirement("R-INV-21")
def test_basic_is_a_subset_of_deep_on_a_real_server(sandbox18: Sandbox, tmp_path: Path) -> None:
    dsn = monitor(sandbox18)
    shown = {}
    for depth in ("leave-alone", "basic", "deep"):
        _, text = advise(tmp_path, "--target", dsn, "--depth", depth, "--json")
        shown[depth] = {one["rule"] for one in json.loads(text)["findings"]}
    assert shown["leave-alone"] <= shown["basic"] <= shown["deep"]
