"""`pgdyno sandbox` as a user types it."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from pgdyno.server.postgres import Postgres
from warm_program import run_pgdyno

pytestmark = pytest.mark.pg


def pgdyno(*words: str) -> subprocess.CompletedProcess[str]:
    return run_pgdyno("sandbox", *words)


def test_a_sandbox_from_start_to_remove(pgdyno_home: Path) -> None:
    started = pgdyno("start", "mine", "--json")
    assert started.returncode == 0, started.stderr
    facts = json.loads(started.stdout)
    assert facts["running"]
    assert Path(facts["data_directory"]).is_relative_to(pgdyno_home)
    assert Postgres(facts["connect"]).fetch("SELECT 1 AS one") == [{"one": 1}]

    assert pgdyno("start", "mine").returncode == 0
    status = pgdyno("status", "mine").stdout
    assert f"runs, process {facts['pid']}" in status
    assert facts["connect"] in status
    assert [fact["name"] for fact in json.loads(pgdyno("list", "--json").stdout)] == ["mine"]

    assert pgdyno("stop", "mine").returncode == 0
    assert "mine  PostgreSQL 18" in pgdyno("list").stdout
    assert "is stopped" in pgdyno("list").stdout
    assert pgdyno("recreate", "mine").returncode == 0
    assert pgdyno("remove", "mine").returncode == 0
    assert pgdyno("list", "--json").stdout == "[]\n"
    assert list((pgdyno_home / "cache" / "sandboxes").iterdir()) == []


@pytest.mark.parametrize("verb", ["status", "stop", "remove", "recreate"])
def test_a_sandbox_that_is_not_there_is_a_usage_error(pgdyno_home: Path, verb: str) -> None:
    done = pgdyno(verb, "nonesuch")
    assert done.returncode == 2
    assert done.stdout == ""
    assert 'error: sandbox "nonesuch" does not exist' in done.stderr
    assert "hint: " in done.stderr
    assert "Traceback" not in done.stderr
    assert list(pgdyno_home.iterdir()) == []


def test_bad_words_have_their_exit_codes(pgdyno_home: Path) -> None:
    wrong_bin = pgdyno("start", "--sandbox-bin", str(pgdyno_home))
    assert (wrong_bin.returncode, "has no initdb" in wrong_bin.stderr) == (2, True)
    wrong_name = pgdyno("start", "../../etc")
    assert (wrong_name.returncode, "is not allowed" in wrong_name.stderr) == (2, True)
    shutil.rmtree(pgdyno_home / "cache")
    (pgdyno_home / "cache").write_text("in the way")
    blocked = pgdyno("start")
    assert (blocked.returncode, "cannot be written" in blocked.stderr) == (6, True)
    (pgdyno_home / "cache").unlink()
    for done in (wrong_bin, wrong_name, blocked):
        assert "hint: " in done.stderr
        assert "Traceback" not in done.stderr
