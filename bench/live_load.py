"""A load of others for live studies, whose response to a setting is planted: it sleeps, and hardly uses a CPU.

Open loop: each class of statements has its own session and a fixed rate. How long one sleeps depends on work_mem, which
is without any effect on it otherwise.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from pgdyno.server.postgres import Postgres

ROLE = "live_app"
RATE = 30.0
MS = (4.0, 8.0, 12.0)
"""How long a call of each class sleeps under any other value; the server rounds it up to whole milliseconds."""


@contextmanager
def planted_load(
    admin: Postgres,
    factors: Mapping[str, float],
    *,
    classes: int = len(MS),
    other: float = 1.0,
    ms: Sequence[float] = MS,
    rate: float = RATE,
) -> Iterator[None]:
    """Run the load until the block ends; `factors` say by work_mem how much longer a call sleeps; else `other`."""
    with admin.connect("postgres") as session:
        session.execute("CREATE EXTENSION IF NOT EXISTS pg_stat_statements SCHEMA public")
        session.execute(f"CREATE ROLE {ROLE} LOGIN")
    stop = threading.Event()
    conninfo = make_conninfo(admin.conninfo, user=ROLE, dbname="postgres", application_name="app")
    threads = [
        threading.Thread(
            target=_class_of_statements, args=(conninfo, number, factors, other, stop, ms[number], rate), daemon=True
        )
        for number in range(classes)
    ]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join(30)
        with admin.connect("postgres") as session:
            session.execute(f"DROP ROLE {ROLE}")


def _class_of_statements(
    conninfo: str,
    number: int,
    factors: Mapping[str, float],
    other: float,
    stop: threading.Event,
    ms: float,
    rate: float,
) -> None:
    """Run one class at its rate; its shape, a number of columns, makes it a statement of its own."""
    cases = sql.SQL(" ").join(
        sql.SQL("WHEN {} THEN {}").format(sql.Literal(value), sql.Literal(factor)) for value, factor in factors.items()
    )
    query = sql.SQL("SELECT pg_sleep({} * CASE current_setting('work_mem') {} ELSE {} END){}").format(
        sql.Literal(ms / 1000), cases, sql.Literal(other), sql.SQL(", 1" * number)
    )
    with psycopg.connect(conninfo, autocommit=True, prepare_threshold=None) as session:
        due = time.monotonic()
        while not stop.is_set():
            session.execute(query)
            due = max(due + 1 / rate, time.monotonic() - 1.0)
            stop.wait(max(0.0, due - time.monotonic()))
