"""What pgdyno leaves on a server: nothing of its own, unless it was told to, and never a stranger's database."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from psycopg.conninfo import make_conninfo

from foreign_server import foreign_debian
from pgdyno.model.configuration import Configuration
from pgdyno.owner.hands import hands_of
from pgdyno.routes.dropin import DropIn, render
from pgdyno.server.own_databases import NAME, DatabaseState, look_into
from pgdyno.server.postgres import Postgres
from pgdyno.targets.target import Target
from pgdyno.undo import server_lock
from server_image import eventually
from warm_program import RunningPgdyno, run_pgdyno

pytestmark = [pytest.mark.pg, pytest.mark.xdist_group("litter")]

# Twenty transactions a second: what is looked at is what stays behind, and other tests need the CPUs.
WINDOW = ["-c", "1", "-R", "20", "--warmup", "1", "--measure", "2", "--foreign-cpu", "1000", "--steal", "100"]
LOAD = ["-w", "select-only", "-D", "scale=1", *WINDOW]
COMPLETE = (
    "CREATE SCHEMA pgdyno_workload; CREATE TABLE pgdyno_workload.origin AS SELECT 'x' AS workload, now() AS complete_at"
)


@pytest.fixture(scope="module")
def server() -> Iterator[Target]:
    yield from foreign_debian()


@pytest.fixture
def postgres(server: Target) -> Iterator[Postgres]:
    yield server.postgres
    for name in own(server.postgres):
        server.postgres.execute(f'DROP DATABASE "{name}" WITH (FORCE)')


def own(postgres: Postgres) -> list[str]:
    rows = postgres.fetch("SELECT datname::text AS name FROM pg_database WHERE datname ~ %s ORDER BY 1", [NAME])
    return [str(row["name"]) for row in rows]


def begin(home: Path, target: Target, *words: str) -> RunningPgdyno:
    return RunningPgdyno(words[0], "--target", target.postgres.conninfo, *words[1:], PGDYNO_HOME=str(home))


def pgdyno(home: Path, target: Target, *words: str) -> subprocess.CompletedProcess[str]:
    return run_pgdyno(words[0], "--target", target.postgres.conninfo, *words[1:], PGDYNO_HOME=str(home))


def made_by_hand(postgres: Postgres, kind: str, script: str = COMPLETE) -> str:
    """Make a database of one of our names, as an earlier version marked it."""
    name = f"pgdyno_{'ab' * 8}_{kind}"
    postgres.execute(f"CREATE DATABASE {name}")
    if script:
        postgres.execute(script, dbname=name)
    return name


def test_a_study_drops_its_databases_and_says_so(pgdyno_home, server, postgres):
    done = pgdyno(pgdyno_home, server, "bench", *LOAD)
    assert "dropped at the end" in done.stderr
    assert "dropped the databases of the load" in done.stderr, done.stderr
    assert own(postgres) == []


def test_a_study_that_fails_on_its_first_arm_drops_them_too(pgdyno_home, server, postgres, tmp_path):
    script = tmp_path / "wrong.sql"
    script.write_text("SELECT 1/0;\n")
    done = pgdyno(pgdyno_home, server, "bench", "-w", "custom", "--script", str(script), *WINDOW)
    assert done.returncode != 0
    assert own(postgres) == []


def test_an_interrupted_study_drops_them_and_a_killed_one_leaves_them_to_the_next(pgdyno_home, server, postgres):
    for number in (signal.SIGINT, signal.SIGKILL):
        process = begin(pgdyno_home, server, "bench", "-w", "tpcb-like", "-D", "scale=1", *WINDOW, "--measure", "8")
        wait_until(postgres, "EXISTS (SELECT {})", process)
        process.send_signal(number)
        process.communicate(timeout=120)
        assert bool(own(postgres)) is (number == signal.SIGKILL)
    left = sorted(own(postgres), key=lambda name: name.endswith("_load"))
    wait_until(postgres, "NOT EXISTS (SELECT {})")  # the pgbench of the killed one ends by itself
    done = pgdyno(pgdyno_home, server, "bench", *LOAD)
    assert own(postgres) == [], done.stderr
    assert f'dropped database "{left[-1]}"' in done.stderr
    assert "which a study left that was killed" in done.stderr


def wait_until(postgres: Postgres, what: str, process: RunningPgdyno | None = None) -> None:
    """Wait until the load's sessions are there, or are not."""
    sessions = "FROM pg_stat_activity WHERE application_name = 'pgdyno load'"
    with postgres.connect() as session:
        for _ in range(600):
            assert process is None or process.poll() is None, process.communicate()
            if session.execute(f"SELECT 1 AS one WHERE {what.format(sessions)}").fetchall():
                return
            time.sleep(0.1)
    pytest.fail(f"it never came: {what}")


def test_data_that_are_kept_are_used_again_and_the_last_study_decides(pgdyno_home, server, postgres):
    first = pgdyno(pgdyno_home, server, "bench", *LOAD, "--keep-data")
    kept = own(postgres)
    assert len(kept) == 2, first.stderr
    assert "pgdyno cleanup" in first.stderr
    other = pgdyno(pgdyno_home, server, "bench", "-w", "select-only", "-D", "scale=2", *WINDOW)
    assert own(postgres) == kept, other.stderr  # of another study's data only those that nobody wants are dropped
    again = pgdyno(pgdyno_home, server, "bench", *LOAD)
    assert "data are there" in again.stderr
    assert own(postgres) == []


def test_a_study_leaves_what_strangers_made_under_one_of_our_names(pgdyno_home, server, postgres):
    mine = made_by_hand(postgres, "load", "CREATE TABLE public.precious AS SELECT 1 AS one")
    done = pgdyno(pgdyno_home, server, "bench", *LOAD)
    assert own(postgres) == [mine], done.stderr


def test_two_studies_of_one_load_do_not_drop_each_others_data(pgdyno_home, server, postgres):
    first = begin(pgdyno_home, server, "bench", "-w", "tpcb-like", "-D", "scale=1", *WINDOW, "--measure", "240")
    wait_until(postgres, "EXISTS (SELECT {})", first)
    second = pgdyno(pgdyno_home, server, "bench", "-w", "tpcb-like", "-D", "scale=1", *WINDOW)
    assert second.returncode == 6
    assert "another study uses database" in second.stderr
    shared = pgdyno(pgdyno_home, server, "bench", *LOAD, "--json")  # the same template, a load of its own
    assert shared.returncode == 0 or json.loads(shared.stdout)["state"] in ("unsteady", "disturbed"), shared.stderr
    first.send_signal(signal.SIGINT)
    out, err = first.communicate(timeout=120)
    assert first.returncode == 130, err
    assert "does not exist" not in err, (out, err)
    assert own(postgres) == []


def test_cleanup_lists_and_drops_what_is_ours_and_nothing_else(pgdyno_home, server, postgres):
    ours, theirs = (
        made_by_hand(postgres, "template"),
        made_by_hand(postgres, "load", "CREATE TABLE public.precious (i int)"),
    )
    postgres.execute("CREATE DATABASE pgdyno_shop")
    try:
        listed = pgdyno(pgdyno_home, server, "cleanup", "--dry-run")
        assert listed.returncode == 0, listed.stderr
        assert ours in listed.stdout
        assert theirs not in listed.stdout
        assert "pgdyno_shop" not in listed.stdout
        assert own(postgres) == sorted([ours, theirs])
        asked = pgdyno(pgdyno_home, server, "cleanup")  # no terminal: nothing is dropped unasked
        assert (asked.returncode, own(postgres)) == (2, sorted([ours, theirs]))
        with postgres.connect(ours):
            busy = pgdyno(pgdyno_home, server, "cleanup", "--yes", "--json")
        sessions = "SELECT pid FROM pg_stat_activity WHERE datname = %s"
        eventually(lambda: postgres.fetch(sessions, [ours]) == [], "the session has ended")
        assert (busy.returncode, own(postgres)) == (0, sorted([ours, theirs]))
        assert "session is open in it" in json.loads(busy.stdout)["left"][0]["why"]
        done = pgdyno(pgdyno_home, server, "cleanup", "--yes", "--json")
        assert json.loads(done.stdout)["dropped"] == [ours]
        assert own(postgres) == [theirs]
        assert postgres.fetch("SELECT 1 AS one FROM pg_database WHERE datname = 'pgdyno_shop'")
    finally:
        postgres.execute("DROP DATABASE pgdyno_shop")


def test_cleanup_works_over_sql_alone_for_the_owner_and_not_for_a_stranger(pgdyno_home, server, postgres):
    roles = ("litter_owner", "litter_other")
    for role in roles:
        postgres.execute(f"CREATE ROLE {role} LOGIN CREATEDB")  # type: ignore[arg-type]  # a test's own words
    try:
        as_role = [replace(server, postgres=Postgres(make_conninfo(postgres.conninfo, user=role))) for role in roles]
        name = made_by_hand(as_role[0].postgres, "load")
        stranger = pgdyno(pgdyno_home, as_role[1], "cleanup", "--sql-only", "--yes", "--json")
        assert stranger.returncode == 0, stranger.stderr
        assert "permission denied" in json.loads(stranger.stdout)["left"][0]["why"]
        assert own(postgres) == [name]
        owner = pgdyno(pgdyno_home, as_role[0], "cleanup", "--sql-only", "--yes", "--json")
        assert json.loads(owner.stdout) == {"left": [], "dropped": [name]}
    finally:
        for name in own(postgres):
            postgres.execute(f'DROP DATABASE "{name}" WITH (FORCE)')  # type: ignore[arg-type]  # a test's own words
        for role in roles:
            postgres.execute(f"DROP ROLE {role}")  # type: ignore[arg-type]  # a test's own words


def test_cleanup_leaves_what_a_running_study_uses(pgdyno_home, server, postgres):
    load = ["-w", "tpcb-like", "-D", "scale=1", *WINDOW, "--measure", "240"]
    process = begin(pgdyno_home, server, "bench", *load)
    wait_until(postgres, "EXISTS (SELECT {})", process)
    before = own(postgres)
    pgdyno(pgdyno_home, server, "cleanup", "--yes")
    assert own(postgres) == before
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=120)
    assert process.returncode == 130
    assert own(postgres) == []


def test_a_look_into_a_database_runs_nothing_that_its_owner_put_there(postgres):
    """A superuser's cleanup looks into databases of anybody: views and functions of theirs must not run as it."""
    name = made_by_hand(
        postgres,
        "load",
        "CREATE TABLE public.ran (who text); CREATE FUNCTION public.trap(regclass) RETURNS boolean LANGUAGE plpgsql AS"
        " $$BEGIN INSERT INTO public.ran VALUES (current_user); RETURN true; END$$;"
        "CREATE SCHEMA pgdyno_workload; CREATE VIEW pgdyno_workload.origin AS SELECT 'x'::text AS workload,"
        " public.trap('public.ran') AS complete_at",
    )
    assert look_into(postgres, name).state is DatabaseState.FOREIGN
    assert postgres.fetch("SELECT * FROM public.ran", dbname=name) == []


def test_cleanup_takes_the_drop_in_of_a_session_that_is_gone_and_leaves_others_lines(pgdyno_home, server, postgres):
    dropin = DropIn(Path(str(postgres.fetch("SHOW config_file")[0]["config_file"])), hands_of(server.directory))
    before = dropin.main_real.read_bytes()
    block = render(Configuration.of({"work_mem": "5MB"}), session="20260101-gone")
    try:
        for more, stays in ((b"work_mem = 7MB\n", True), (b"", False)):
            dropin.write(block + more)
            dropin.include()
            (server.directory / "pgdyno-server.log").write_text("old\n")
            done = pgdyno(pgdyno_home, server, "cleanup", "--yes")
            assert done.returncode == 0, done.stderr
            assert (dropin.read() is not None) is stays, done.stdout
            assert not (server.directory / "pgdyno-server.log").exists()
        assert dropin.main_real.read_bytes().rstrip(b"\n") == before
    finally:
        dropin.put_back(None)
        dropin.main_real.write_bytes(before)


def test_cleanup_takes_the_lock_of_a_session_that_was_killed_before_it_signed_it(pgdyno_home, server):
    """Its making comes first: nobody has changed anything yet, and no watchdog is there to take it away."""
    lock = server.directory / server_lock.NAME
    held = server_lock.ServerLock.take(server.directory, is_over=lambda _holder: True)
    try:
        done = pgdyno(pgdyno_home, server, "cleanup", "--yes")
        assert done.returncode == 1, done.stdout
        assert lock.exists(), "a process holds it"
    finally:
        held.let_go()
    assert lock.read_bytes() == b""
    done = pgdyno(pgdyno_home, server, "cleanup", "--yes")
    assert done.returncode == 0, done.stderr
    assert "before it changed anything" in done.stdout
    assert not lock.exists()


def test_cleanup_removes_a_sandbox_that_nobody_uses(pgdyno_home):
    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return run_pgdyno(*words, PGDYNO_HOME=str(pgdyno_home))

    assert run("sandbox", "start", "used").returncode == 0
    assert "stays: its server runs" in run("cleanup", "--yes").stdout
    assert run("sandbox", "stop", "used").returncode == 0
    assert "dropped used" in run("cleanup", "--yes").stdout
    assert json.loads(run("sandbox", "list", "--json").stdout) == []


def test_what_our_studies_did_is_no_evidence_on_the_server(pgdyno_home, server, postgres):
    done = pgdyno(pgdyno_home, server, "bench", "-w", "tpcb-like", "-D", "scale=1", *WINDOW, "--keep-data")
    assert len(own(postgres)) == 2, done.stderr
    inspected = pgdyno(pgdyno_home, server, "inspect", "--json")
    assert '"postgres"' in inspected.stdout
    advised = pgdyno(pgdyno_home, server, "advise", "--window", "2", "--json")
    for told in (inspected.stdout, advised.stdout):
        assert re.findall(NAME.strip("^$"), told) == []
        assert [told.count(name) for name in ("pgbench_accounts", "pgbench_history")] == [0, 0]
    remarks = json.loads(advised.stdout)["remarks"]
    assert any("of pgdyno ran on this server" in remark for remark in remarks), remarks
