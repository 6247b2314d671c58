"""`pgdyno watch` on real servers: what takes twice as long, a plan that flips and a changed setting are named."""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from fix_postgres import one_build
from pgdyno.sandbox.sandbox import Sandbox
from pgdyno.server.postgres import Postgres
from server_image import eventually
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


def again_and_again(
    postgres: Postgres, stop: threading.Event, *, pause_s: float, words: Callable[[int], Sequence[tuple[str, object]]]
) -> None:
    """Run, in a session of its own, what `words` says for each number, until it is to stop."""
    with psycopg.connect(make_conninfo(postgres.conninfo, user=LOAD, dbname="postgres"), autocommit=True) as session:
        number = 0
        while not stop.wait(pause_s):
            for text, value in words(number):
                session.execute(text, (value,), prepare=False)
            number += 1


@contextmanager
def loaded(postgres: Postgres, is_slow: threading.Event) -> Iterator[None]:
    """Run a statement that reads by the index, one that takes twice as long once it is slow, and eight that stay.

    All but the first sleep, and for so long that waking up late, on a machine that has no time, is a small part of it;
    and each runs ten times a second, so that half of that is enough for a reading to count. Those that stay are most
    of them: what slows down is not the server.
    """
    stop = threading.Event()
    by_index = f"SELECT count(t) FROM public.{TABLE} WHERE k = %s"
    loads: list[tuple[float, Callable[[int], Sequence[tuple[str, object]]]]] = [
        (0.1, lambda number: [(by_index, number % 2000)]),
        (0.0, lambda _: [("SELECT pg_sleep(%s)", 0.1 if is_slow.is_set() else 0.05)]),
    ]
    for first in (1, 5):
        steady = [("SELECT pg_sleep(%s)" + ", 1" * columns, 0.025) for columns in range(first, first + 4)]
        loads.append((0.0, lambda _, steady=steady: steady))
    with ThreadPoolExecutor(len(loads)) as pool:
        running = [
            pool.submit(again_and_again, postgres, stop, pause_s=pause_s, words=words) for pause_s, words in loads
        ]
        try:
            yield
        finally:
            stop.set()
        for each in running:
            each.result()


def readings(owner: Postgres) -> int:
    """Return how often the watch has read the statements."""
    (row,) = owner.fetch(
        "SELECT coalesce(max(calls), 0)::int AS n FROM public.pg_stat_statements s JOIN pg_roles r ON r.oid = s.userid "
        f"WHERE rolname = '{WATCHER}' AND query LIKE '%pg_stat_statements(%'"
    )
    return int(str(row["n"]))


@pytest.mark.slow
@pytest.mark.parametrize("any_postgres", one_build("npm-13"), indirect=True)
def test_a_slow_statement_a_plan_that_flips_and_a_setting_are_named(owner: Postgres, pgdyno_home: object) -> None:
    target = make_conninfo(owner.conninfo, user=WATCHER, dbname="postgres")
    is_slow, said = threading.Event(), ""
    words = ["watch", "--every", "1s", "--for", "3min", "--json", "--target", target]
    with loaded(owner, is_slow), RunningPgdyno(*words, PGDYNO_HOME=str(pgdyno_home)) as process:
        said_first = next(line for line in process.stderr if "watching " in line)
        assert "slower is reported after the first 20 s" in said_first
        eventually(lambda: readings(owner) > 15, "readings that are learnt from")
        owner.execute("ALTER SYSTEM SET random_page_cost = 2.5", None, "postgres")
        owner.execute("SELECT pg_reload_conf()", None, "postgres")
        is_slow.set()
        owner.execute(f"DROP INDEX public.{TABLE}_k", None, "postgres")
        awaited = {True, False}  # with blocks, and without
        for line in process.stderr:
            said += line
            if f" of {LOAD} in postgres takes" in line and "slower: " in line:
                awaited.discard(" a call" in line)
            if not awaited:
                break
        process.send_signal(signal.SIGINT)  # the usual end of a watch, which says what was found as any other does
        told, said_last = process.communicate(timeout=60)
        said += said_last
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
    assert doubled is not None, events
    assert 1.5 < doubled["factor"] < 2.5
    assert "plan" not in doubled["text"]
    assert "slower: statement" in said
    assert found["own_cpu_pct"] < 20
    assert "complete" in run_pgdyno("store", "list", "--json", PGDYNO_HOME=str(pgdyno_home)).stdout
