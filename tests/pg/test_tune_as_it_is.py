"""Short tunes as a user calls them: of a server with settings by ALTER SYSTEM, and within a budget of time."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from psycopg.conninfo import make_conninfo

from calm_load import calm
from fix_postgres import ONE_BUILD, find_build
from pgdyno.routes.auto_conf import Line
from pgdyno.routes.sql_route import alter_system
from pgdyno.sandbox.sandbox import Sandbox
from warm_program import run_pgdyno

pytestmark = [pytest.mark.pg, pytest.mark.slow]
LATE = 1.2
"""A budget is kept to this factor: what follows the way back is the end of a process on a machine of any load."""


def tune(home: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return run_pgdyno("tune", *calm(), *words, "--json", timeout_s=280, PGDYNO_HOME=str(home))


@pytest.mark.night("pg/test_alter_system_before.py::test_they_come_into_force_and_the_file_ends_byte_by_byte")
@pytest.mark.parametrize("build", ONE_BUILD)
def test_a_tune_of_altered_settings_has_no_void_trial(
    pgdyno_home: Path, make_sandbox: Callable[..., Sandbox], build: str
) -> None:
    sandbox = make_sandbox(f"tuned-{build}", bin_dir=find_build(build))
    sandbox.start()
    target = sandbox.target()
    for name, value in {"shared_buffers": "48MB", "work_mem": "5MB", "random_page_cost": "3"}.items():
        target.postgres.execute(alter_system(Line(name, value)))
    assert target.control is not None
    target.control.restart()
    auto = sandbox.data_directory / "postgresql.auto.conf"
    before = auto.read_bytes()
    only = ["--only", "work_mem", "--only", "random_page_cost", "--only", "shared_buffers"]
    few = ["--trials", "3", "--noise-runs", "3", "--pairs", "2", "2"]
    done = tune(pgdyno_home, "--target", target.postgres.conninfo, "--yes", *only, *few)
    assert done.returncode in (0, 3), done.stderr
    assert "by ALTER SYSTEM, because postgresql.auto.conf sets them" in done.stderr
    assert json.loads(done.stdout.splitlines()[-1])["trials"].get("void", 0) == 0
    assert auto.read_bytes() == before


def test_what_no_session_could_begin_on_is_refused_before_data_are_loaded(
    pgdyno_home: Path, make_sandbox: Callable[..., Sandbox]
) -> None:
    """Loading may take hours, and what was loaded would be dropped."""
    sandbox = make_sandbox("unfit")
    sandbox.start()
    target = sandbox.target()
    target.postgres.execute("CREATE ROLE reader LOGIN IN ROLE pg_monitor")
    reader = make_conninfo(target.postgres.conninfo, user="reader")
    done = tune(pgdyno_home, "--target", reader, "--yes")
    assert done.returncode == 6, done.stderr
    assert 'role "reader" may not create databases' in done.stderr
    assert "\nundo  " not in done.stderr, "nobody is asked about what is refused"
    with (sandbox.data_directory / "postgresql.conf").open("a") as file:
        file.write("max_connections = 37\n")
    done = tune(pgdyno_home, "--target", target.postgres.conninfo, "--yes")
    assert done.returncode == 6, done.stderr
    assert "has changes in its files that are not in force" in done.stderr
    assert ": loaded (" not in done.stderr
    assert "\nundo  " not in done.stderr, "nobody is asked about what is refused"


def test_a_budget_is_the_time_from_enter_to_the_prompt(pgdyno_home: Path) -> None:
    began = time.monotonic()
    done = tune(pgdyno_home, "--budget", "75s")
    assert time.monotonic() - began <= 75 * LATE
    assert done.returncode in (0, 3), done.stderr


def test_a_budget_that_has_room_for_nothing_begins_nothing(pgdyno_home: Path) -> None:
    done = tune(pgdyno_home, "--budget", "5s")
    assert done.returncode == 3, done.stderr
    assert "the budget of 5.0 s ran out before it began" in done.stderr
    assert not list((pgdyno_home / "state").rglob("journal*")), "no session was begun"
