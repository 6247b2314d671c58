"""An application-like load for the demo of a live study, whose answer to one setting is planted and so known.

A dozen classes of statements at rates of their own that nobody waits for (open loop): their mix drifts, there are
bursts, and now and then a report. Each sleeps for a while that scatters from call to call; under the planted setting,
which is without effect on such a load, a third less. So it needs hardly any CPU and is the same on every machine.
"""

from __future__ import annotations

import math
import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from pgdyno.server.postgres import Postgres

ROLE = "pgdyno_shop"
KNOB, VALUE, FACTOR = "gin_pending_list_limit", "8MB", 0.70
"""The planted setting: there is no GIN index that it could do something for."""
STARTED_S = 30.0
_BURST_EVERY_S, _BURST_S, _BURST = 90.0, 10.0, 2.0
_BEHIND_S = 1.0
"""A class that is further behind its schedule lets the calls go that it owes."""


@dataclass(frozen=True, slots=True)
class StatementClass:
    """So many calls a second, of so many milliseconds, with a mix that drifts over `drift_s` seconds."""

    rate: float
    ms: float
    drift_s: float


CLASSES = (
    *(StatementClass(rate, ms, drift_s) for rate, ms, drift_s in (
        (20, 2, 300), (16, 3, 190), (12, 4, 410), (10, 3, 260), (8, 6, 150), (6, 8, 330),
        (5, 5, 230), (4, 10, 370), (3, 12, 170), (2, 20, 290), (1, 30, 210),
    )),
    StatementClass(1 / 45, 800, 1000),
)  # fmt: skip


@contextmanager
def shop_load(admin: Postgres, *, seed: int = 1) -> Iterator[None]:
    """Run the load as a role of its own until the block ends; the role is dropped then.

    Makes the extension pg_stat_statements where it is not there. Raises ConnectError when the server does not answer.
    """
    name = sql.Identifier(ROLE)
    with admin.connect("postgres") as session:
        session.execute("CREATE EXTENSION IF NOT EXISTS pg_stat_statements SCHEMA public")
        if session.execute("SELECT FROM pg_catalog.pg_roles WHERE rolname = %s", (ROLE,)).fetchone() is None:
            session.execute(sql.SQL("CREATE ROLE {} LOGIN").format(name))
    conninfo = make_conninfo(admin.conninfo, user=ROLE, dbname="postgres", application_name="shop")
    stop, ready = threading.Event(), threading.Barrier(len(CLASSES) + 1)
    threads = [
        threading.Thread(target=_serve, args=(conninfo, seed, number, stop, ready), daemon=True)
        for number in range(len(CLASSES))
    ]
    for thread in threads:
        thread.start()
    try:
        ready.wait(STARTED_S)
        yield
    finally:
        stop.set()
        ready.abort()
        for thread in threads:
            thread.join(STARTED_S)
        with admin.connect("postgres") as session:
            session.execute(sql.SQL("DROP ROLE IF EXISTS {}").format(name))


def _serve(conninfo: str, seed: int, number: int, stop: threading.Event, ready: threading.Barrier) -> None:
    """Run one class at its rate until the load ends, or the server does."""
    one, query = CLASSES[number], _query(number)
    chance = random.Random(f"{seed}/{number}")  # noqa: S311 - a load that must repeat
    try:
        with psycopg.connect(conninfo, autocommit=True, prepare_threshold=None) as session:
            ready.wait()
            began = due = time.monotonic()
            while not stop.wait(max(0.0, due - time.monotonic())):
                session.execute(query, {"ms": one.ms * chance.lognormvariate(-0.08, 0.4)})
                now = time.monotonic()
                due = max(due + chance.expovariate(_rate(one, now - began)), now - _BEHIND_S)
    except (psycopg.Error, threading.BrokenBarrierError):
        return  # the study sees its load go, and says so


def _rate(one: StatementClass, passed_s: float) -> float:
    drift = math.exp(0.3 * math.sin(2 * math.pi * passed_s / one.drift_s))
    return one.rate * drift * (_BURST if passed_s % _BURST_EVERY_S > _BURST_EVERY_S - _BURST_S else 1.0)


def _query(number: int) -> sql.Composed:
    """Return the statement of a class: its number of columns makes it one of its own for pg_stat_statements."""
    return sql.SQL(
        "SELECT pg_catalog.pg_sleep(%(ms)s::float8 / 1000 "
        "* CASE pg_catalog.current_setting({}) WHEN {} THEN {} ELSE 1 END){}"
    ).format(sql.Literal(KNOB), sql.Literal(VALUE), sql.Literal(FACTOR), sql.SQL(", 1" * number))
