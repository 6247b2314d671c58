"""`pgdyno live --watch-only` on real servers: it sees the load, and leaves no trace of itself."""

from __future__ import annotations

import json
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from fix_postgres import BUILDS, find_build, one_build
from pgdyno.probes.statements import StatementReader
from pgdyno.sandbox.sandbox import Sandbox
from pgdyno.server.postgres import Postgres
from pgdyno.server.privileges import missing, privileges, read_role
from pgdyno.stats.statement_deltas import StatementDeltas, VoidCause, deltas
from server_image import eventually, files_of, settings_of
from warm_program import RunningPgdyno, run_pgdyno

pytestmark = pytest.mark.pg
APP, WATCHER = "watched_app", "watching_role"
"""Names of this file alone: other tests make roles on the shared server too."""
CATALOGUES = (
    "SELECT (SELECT count(*) FROM pg_class) AS relations, (SELECT count(*) FROM pg_roles) AS roles, "
    "(SELECT count(*) FROM pg_database) AS databases, (SELECT count(*) FROM pg_extension) AS extensions, "
    "(SELECT count(*) FROM pg_db_role_setting) AS role_settings"
)
RESETS = "SELECT datid::text AS datid, stats_reset FROM pg_stat_database WHERE stats_reset IS NOT NULL"
"""Before 15 a database has none until somebody connects to it: what appears is no reset, what changes is one."""


def conninfo(postgres: Postgres, role: str, dbname: str = "postgres") -> str:
    return make_conninfo(postgres.conninfo, user=role, dbname=dbname)


@pytest.fixture
def owner(any_postgres: Sandbox) -> Iterator[Postgres]:
    """The shared server with a role whose load is watched, and one with the rights that are asked for."""
    postgres = any_postgres.target().postgres
    with postgres.connect("postgres") as session:
        session.execute("CREATE EXTENSION IF NOT EXISTS pg_stat_statements SCHEMA public")
        session.execute(f"CREATE ROLE {APP} LOGIN")
        session.execute(f"CREATE ROLE {WATCHER} LOGIN IN ROLE pg_monitor")
    yield postgres
    with postgres.connect("postgres") as session:
        session.execute(f"DROP ROLE {APP}, {WATCHER}")


@contextmanager
def app_session(owner: Postgres) -> Iterator[psycopg.Connection[tuple[object, ...]]]:
    with psycopg.connect(conninfo(owner, APP), autocommit=True) as session:
        yield session


@contextmanager
def opened(owner: Postgres) -> Iterator[StatementReader]:
    reader = StatementReader(Postgres(conninfo(owner, WATCHER)))
    try:
        assert reader.open() == "postgres"
        yield reader
    finally:
        reader.close()


def between(reader: StatementReader, work: Callable[[], object]) -> StatementDeltas | VoidCause:
    before = reader.statements()
    work()
    return deltas(before, reader.statements())


def test_a_role_that_only_watches_sees_checkpoints_begin(owner: Postgres) -> None:
    with opened(owner) as reader, owner.connect("postgres") as session:
        before = reader.housework()
        session.execute("CHECKPOINT")
        eventually(lambda: reader.housework().checkpoints > before.checkpoints, "the checkpoint is counted")
        assert before.vacuums >= 0


def test_calls_and_times_are_those_that_the_clients_made(owner: Postgres) -> None:
    with app_session(owner) as app, opened(owner) as reader:
        app.execute("SELECT pg_sleep(0.001)", prepare=False)
        began = time.monotonic()
        found = between(reader, lambda: [app.execute("SELECT pg_sleep(0.02)", prepare=False) for _ in range(10)])
        passed_ms = 1000 * (time.monotonic() - began)
        assert isinstance(found, StatementDeltas)
        place = int(found.calls.argmax())
        assert found.calls[place] == 10
        assert 200 <= found.time_ms[place] <= passed_ms
        assert reader.sees_all
        assert reader.names()[1][reader.keys[int(found.ids[place])].role] == APP


def test_sessions_tell_who_waits_for_a_lock_and_when_statements_began(owner: Postgres) -> None:
    with opened(owner) as reader, app_session(owner) as holder, app_session(owner) as waiter:
        before = reader.sessions(0.0, 0.0)
        holder.execute("SELECT pg_advisory_lock(77)")
        with ThreadPoolExecutor(1) as pool:
            counted = pool.submit(waiter.execute, "DO $$ BEGIN LOOP END LOOP; END $$")
            try:
                eventually(lambda: counted.done() or reader.sessions(0.0).computing > 0, "a session that computes")
                assert not counted.done(), "it computes until it is cancelled, however long a look takes"
            finally:
                waiter.cancel_safe()
            with pytest.raises(psycopg.errors.QueryCanceled):
                counted.result(60)
        thread = threading.Thread(target=lambda: waiter.execute("SELECT pg_advisory_lock(77)"))
        thread.start()
        try:
            eventually(lambda: reader.sessions(0.0).blocked > before.blocked, "a session that waits for a second")
            found = reader.sessions(0.0, before.at)
            assert found.computing < found.active, "who waits for a lock needs no CPU"
            assert [one for one in found.begun if before.at <= one < found.at - 1.0]
            assert reader.sessions(0.0, found.at + 60.0).begun == ()
        finally:
            holder.execute("SELECT pg_advisory_unlock(77)")
            thread.join(30)


def test_our_own_readings_are_no_part_of_the_load(owner: Postgres) -> None:
    with opened(owner) as reader:
        found = between(reader, lambda: [reader.sessions(0.0) for _ in range(20)])
        assert isinstance(found, StatementDeltas)
        assert found.own_ms > 0
        roles = reader.names()[1]
        assert WATCHER not in {roles.get(reader.keys[int(number)].role) for number in found.ids}


def test_a_function_and_what_runs_in_it_are_not_counted_twice(owner: Postgres) -> None:
    name = f"nest_{uuid4().hex[:8]}"
    with owner.connect("postgres") as admin, app_session(owner) as app, opened(owner) as reader:
        if admin.info.server_version < 140_000:
            pytest.skip("13 does not tell nested statements, and is refused with track = all")
        admin.execute(f"ALTER ROLE {APP} SET pg_stat_statements.track = 'all'")
        admin.execute(
            sql.SQL(
                "CREATE FUNCTION public.{}() RETURNS void LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(0.5); END'"
            ).format(sql.Identifier(name))
        )
        with app_session(owner) as nested:
            began = time.monotonic()
            found = between(reader, lambda: nested.execute(sql.SQL("SELECT public.{}()").format(sql.Identifier(name))))
        passed_ms = 1000 * (time.monotonic() - began)
        assert isinstance(found, StatementDeltas)
        assert 500 <= found.time_ms.sum() <= passed_ms
        admin.execute(sql.SQL("DROP FUNCTION public.{}()").format(sql.Identifier(name)))
        assert app.closed is False


def test_a_reset_voids_what_lies_around_it(owner: Postgres) -> None:
    with app_session(owner) as app, opened(owner) as reader:
        app.execute("SELECT 42")
        assert isinstance(between(reader, lambda: app.execute("SELECT 42")), StatementDeltas)

        def reset() -> None:
            owner.execute("SELECT public.pg_stat_statements_reset()", None, "postgres")
            app.execute("SELECT 42")

        found = between(reader, reset)
        assert isinstance(found, VoidCause)


def pgdyno(home: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return run_pgdyno(*words, timeout_s=300, PGDYNO_HOME=str(home))


@pytest.mark.slow
@pytest.mark.parametrize("any_postgres", one_build("embedded-18"), indirect=True)
def test_watching_tells_what_could_be_told_and_changes_nothing(
    any_postgres: Sandbox, owner: Postgres, pgdyno_home: Path
) -> None:
    folder = any_postgres.target().directory
    assert folder is not None
    before = settings_of(any_postgres), files_of(folder), owner.fetch(CATALOGUES, None, "postgres")
    resets = {row["datid"]: row["stats_reset"] for row in owner.fetch(RESETS, None, "postgres")}
    stop = threading.Event()

    def load() -> None:
        with app_session(owner) as app:
            while not stop.wait(0.01):  # what sleeps varies little on a busy machine, too: it can be told
                app.execute("SELECT pg_sleep(0.01)")

    thread = threading.Thread(target=load)
    thread.start()
    try:
        done = pgdyno(
            pgdyno_home, "live", "--watch-only", "--reference", "1min", "--json",
            "--target", conninfo(owner, WATCHER), "--report", str(pgdyno_home / "page.html"),
        )  # fmt: skip
    finally:
        stop.set()
        thread.join()
    assert (settings_of(any_postgres), files_of(folder), owner.fetch(CATALOGUES, None, "postgres")) == before
    after = {row["datid"]: row["stats_reset"] for row in owner.fetch(RESETS, None, "postgres")}
    assert after.items() >= resets.items()
    told = json.loads(done.stdout)
    assert done.returncode in (0, 3), done.stderr
    assert told["reference"]["steps"] == 12
    assert told["reference"]["void"].keys() <= {VoidCause.LATE}, "a machine without time reads late, and loses no other"
    assert told["reference"]["own_share"] < 0.2
    assert told["body"][0]["role"] == APP
    assert told["periods"][0]["covered"] > 0.9
    assert any("too short" in note for note in told["notes"])
    assert "What could be shown" in (pgdyno_home / "page.html").read_text()


def test_a_signal_ends_it_and_the_study_says_so(owner: Postgres, pgdyno_home: Path) -> None:
    words = ("live", "--watch-only", "--reference", "5min", "--target", conninfo(owner, WATCHER))
    process = RunningPgdyno(*words, PGDYNO_HOME=str(pgdyno_home))
    try:
        for line in process.stderr:
            if "watching" in line:
                break
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 130
    listed = json.loads(pgdyno(pgdyno_home, "store", "list", "--json").stdout)
    assert "interrupted" in json.dumps(listed)


@pytest.mark.parametrize("build", BUILDS)
def test_who_may_not_see_is_told_what_to_grant(
    make_sandbox: Callable[..., Sandbox], pgdyno_home: Path, build: str
) -> None:
    sandbox = make_sandbox(f"unwatched-{build}", bin_dir=find_build(build))
    sandbox.start()
    admin = sandbox.target().postgres
    admin.execute("CREATE ROLE blind LOGIN", None, "postgres")
    admin.execute("CREATE EXTENSION IF NOT EXISTS pg_stat_statements SCHEMA public", None, "postgres")
    words = ("live", "--watch-only", "--reference", "1min", "--target", conninfo(admin, "blind"))
    done = pgdyno(pgdyno_home, *words)
    assert done.returncode == 6, done.stderr
    assert 'GRANT pg_monitor TO "blind"' in done.stderr
    assert missing(privileges("live", read_role(Postgres(conninfo(admin, "blind")))))
    admin.execute("GRANT pg_monitor TO blind")
    admin.execute("ALTER SYSTEM SET pg_stat_statements.track = 'none'")
    admin.execute("SELECT pg_reload_conf()")
    off = [{"pg_stat_statements.track": "none"}]
    eventually(lambda: admin.fetch("SHOW pg_stat_statements.track") == off, "the reload is in force")
    done = pgdyno(pgdyno_home, *words)
    assert done.returncode == 6, done.stderr
    assert "ALTER SYSTEM SET pg_stat_statements.track = 'top'" in done.stderr
