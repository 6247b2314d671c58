"""`pgdyno watch` on real servers: what takes twice as long, a plan that flips and a changed setting are named."""

from __future__ import annotations

import json
import signal
import threading
import time
from collections.abc import Iterator

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from fix_postgres import one_build
from pgdyno.sandbox.sandbox import Sandbox
from pgdyno.server.postgres import Postgres
from warm_program import RunningPgdyno, run_pgdyno

pytestmark = pytest.mark.pg
LOAD, WATCHER, TABLE = "watch_load", "watch_reader", "watch_rows"
"""Names of this file alone: other tests make their own on the shared server."""


@pytest.fixture
def owner(any_postgres: Sandbox) -> Iterator[Postgres]:
    """The shared server with a role whose load is watched, one that reads only, and a table with an index."""
    postgres = any_postgres.target().postgres
    with postgres.connect("postgres") as session:
        session.execute("CREATE EXTENSION IF NOT EXISTS pg_stat_statements SCHEMA public")
        session.execute(f"CREATE ROLE {LOAD} LOGIN")
        session.execute(f"CREATE ROLE {WATCHER} LOGIN IN ROLE pg_monitor")
        session.execute(
            f"CREATE TABLE public.{TABLE} WITH (autovacuum_enabled = off) AS "
            "SELECT g % 2000 AS k, repeat('x', 100) AS t FROM generate_series(1, 40000) g"
        )
        session.execute(f"CREATE INDEX {TABLE}_k ON public.{TABLE} (k)")
        session.execute(f"VACUUM ANALYZE public.{TABLE}")
        session.execute(f"GRANT SELECT ON public.{TABLE} TO {LOAD}")
    yield postgres
    with postgres.connect("postgres") as session:
        session.execute("ALTER SYSTEM RESET random_page_cost")
        session.execute("SELECT pg_reload_conf()")
        session.execute(f"DROP TABLE public.{TABLE}")
        session.execute(f"DROP ROLE {LOAD}, {WATCHER}")


def load(postgres: Postgres, stop: threading.Event, is_slow: threading.Event) -> None:
    """Run a statement that reads by the index, one that takes twice as long once it is slow, and some that stay.

    Those that stay are most of them, by their time too where reading without the index takes long: what slows down is
    not the server.
    """
    with psycopg.connect(make_conninfo(postgres.conninfo, user=LOAD, dbname="postgres"), autocommit=True) as session:
        query = sql.SQL("SELECT count(t) FROM public.{} WHERE k = %s").format(sql.Identifier(TABLE))
        number = 0
        while not stop.wait(0.02):
            session.execute(query, (number % 2000,), prepare=False)
            session.execute("SELECT pg_sleep(%s)", (0.04 if is_slow.is_set() else 0.02,), prepare=False)
            for steady in range(8):
                session.execute("SELECT pg_sleep(0.004)" + ", 1" * (steady + 1), prepare=False)
            number += 1


@pytest.mark.slow
@pytest.mark.parametrize("any_postgres", one_build("npm-13"), indirect=True)
def test_a_slow_statement_a_plan_that_flips_and_a_setting_are_named(owner: Postgres, pgdyno_home: object) -> None:
    target = make_conninfo(owner.conninfo, user=WATCHER, dbname="postgres")
    stop, is_slow = threading.Event(), threading.Event()
    # Three sessions: on a busy machine one alone has less than the five calls in a second that a reading needs.
    threads = [threading.Thread(target=load, args=(owner, stop, is_slow)) for _ in range(3)]
    for thread in threads:
        thread.start()
    words = ["watch", "--every", "1s", "--for", "170s", "--json", "--target", target]
    process = RunningPgdyno(*words, PGDYNO_HOME=str(pgdyno_home))
    lines = []
    try:
        said_first = next(line for line in process.stderr if "watching " in line)
        assert "slower is reported after the first 20 s" in said_first
        time.sleep(32)  # readings that are learnt from, and some that a busy machine makes too late
        owner.execute("ALTER SYSTEM SET random_page_cost = 2.5", None, "postgres")
        owner.execute("SELECT pg_reload_conf()", None, "postgres")
        is_slow.set()
        owner.execute(f"DROP INDEX public.{TABLE}_k", None, "postgres")
        for line in process.stderr:
            lines.append(line)
            of_load = [one for one in lines if "] slower: statement " in one and f" of {LOAD} " in one]
            if {"another plan" in one for one in of_load} == {True, False}:
                process.send_signal(signal.SIGINT)  # what this test looks for has been told
                break
        told, rest = process.communicate(timeout=120)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
        process.kill()
    said = "".join([*lines, rest])
    assert process.returncode == 1, said
    found = json.loads(told)
    events = found["events"]
    (setting,) = [event for event in events if event["what"] == "setting changed"]
    assert "random_page_cost was changed from 4 to 2.5" in setting["text"]
    # On a busy machine the server as a whole may become slower, too.
    slower = [event for event in events if event["what"] == "slower" and event["role"] == LOAD]
    flipped = next((event for event in slower if event["blocks"] is not None), None)
    assert flipped is not None, events
    assert flipped["factor"] > 1.3
    assert "most likely another plan" in flipped["text"]
    doubled = next((event for event in slower if event["blocks"] is None), None)
    assert doubled is not None, found
    assert 1.5 < doubled["factor"] < 2.5
    assert "plan" not in doubled["text"]
    assert "slower: statement" in said
    assert found["own_cpu_pct"] < 20
    assert "complete" in run_pgdyno("store", "list", "--json", PGDYNO_HOME=str(pgdyno_home)).stdout
