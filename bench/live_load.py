"""A load of others for live studies, whose response to a setting is planted: it sleeps, and hardly uses a CPU.

Open loop: each class of statements has its own session and a fixed rate. How long one sleeps depends on work_mem, or
another setting, which is without any effect on it otherwise.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from pgdyno.server.postgres import Postgres

ROLE = "live_app"
RATE, RETRY_S, BEGIN_S = 15.0, 0.2, 30.0
MS = (8.0, 16.0, 24.0)
"""How long a call of each class sleeps under any other value, in whole milliseconds: see `ROUNDED_S`. Long beside what
it waits for a CPU when it wakes up, and short beside a call's turn at `RATE`, even where it sleeps a third longer."""
ROUNDED_S = 0.0005
"""What is taken off each sleep. pg_sleep waits for whole milliseconds, rounded up: of 18 ms it makes 18 or 19, as the
clock's last digit falls, so that 18 of 20 ms were 0.93 on a server of 18 and not 0.9. Of 17.5 it always makes 18."""


@contextmanager
def planted_load(
    admin: Postgres,
    factors: Mapping[str, float],
    *,
    classes: int = len(MS),
    other: float = 1.0,
    ms: Sequence[float] = MS,
    rate: float = RATE,
    each: Sequence[float] | None = None,
    timeout_ms: int = 0,
    prepared: bool = False,
    knob: str = "work_mem",
    through: Callable[[str], AbstractContextManager[str]] | None = None,
) -> Iterator[None]:
    """Run the load until the block ends; `factors` say by `knob` how much longer a call sleeps; else `other`.

    All sessions are at work when the block begins. `each` multiplies a class's sleep under the values of `factors`. A
    call of more than `timeout_ms` is cancelled by the server; where it is `prepared`, each session plans its statement
    once. `through` makes a pooler whose sessions begin with what it is given, which prepares every class, and gives
    the way to it: classes only EXECUTE then, in whichever session is free.
    """
    with admin.connect("postgres") as session:
        session.execute("CREATE EXTENSION IF NOT EXISTS pg_stat_statements SCHEMA public")
        session.execute(f"CREATE ROLE {ROLE} LOGIN")
    queries = [_query(number, knob, _times(factors, each, number), other, ms[number]) for number in range(classes)]
    stop, begun = threading.Event(), threading.Semaphore(0)
    with ExitStack() as stack:
        stack.callback(_drop_role, admin)
        way = admin.conninfo
        if through is not None:
            names = [sql.Identifier(f"class_{number}") for number in range(classes)]
            prepare = [sql.SQL("PREPARE {} AS {}").format(*one) for one in zip(names, queries, strict=True)]
            way = stack.enter_context(through(sql.SQL("; ").join(prepare).as_string()))
            queries = [sql.SQL("EXECUTE {}").format(name) for name in names]
        conninfo = make_conninfo(way, user=ROLE, dbname="postgres", application_name="app")
        if timeout_ms:
            conninfo = make_conninfo(conninfo, options=f"-c statement_timeout={timeout_ms}")
        threads = [
            threading.Thread(
                target=_class_of_statements, args=(conninfo, query, stop, rate, prepared, begun), daemon=True
            )
            for query in queries
        ]
        for thread in threads:
            thread.start()
        try:
            for _ in threads:  # a busy machine may take seconds for them, and a study counts sessions as it begins
                begun.acquire(timeout=BEGIN_S)
            yield
        finally:
            stop.set()
            for thread in threads:
                thread.join(30)


def _drop_role(admin: Postgres) -> None:
    with admin.connect("postgres") as session:
        session.execute(f"DROP ROLE {ROLE}")


def _times(factors: Mapping[str, float], each: Sequence[float] | None, number: int) -> Mapping[str, float]:
    return factors if each is None else {value: factor * each[number] for value, factor in factors.items()}


def _query(number: int, knob: str, factors: Mapping[str, float], other: float, ms: float) -> sql.Composed:
    """Return one class; its shape, a number of columns, makes it a statement of its own."""
    cases = sql.SQL(" ").join(
        sql.SQL("WHEN {} THEN {}").format(sql.Literal(value), sql.Literal(factor)) for value, factor in factors.items()
    )
    return sql.SQL("SELECT pg_sleep({} * CASE current_setting({}) {} ELSE {} END - {}){}").format(
        sql.Literal(ms / 1000), sql.Literal(knob), cases, sql.Literal(other), sql.Literal(ROUNDED_S),
        sql.SQL(", 1" * number),
    )  # fmt: skip


def _class_of_statements(
    conninfo: str,
    query: sql.Composed,
    stop: threading.Event,
    rate: float,
    prepared: bool,
    begun: threading.Semaphore,
) -> None:
    """Run one class at its rate; where the server goes away, connect again, as applications do."""
    due = time.monotonic()
    while not stop.is_set():
        with (
            suppress(psycopg.OperationalError),
            psycopg.connect(conninfo, autocommit=True, prepare_threshold=0 if prepared else None) as session,
            session.cursor() as cursor,
        ):
            text = query.as_bytes(session)  # once: to compose it and to make a cursor took as long as to run it
            while not stop.is_set():
                with suppress(psycopg.errors.QueryCanceled):
                    cursor.execute(text)
                begun.release()
                due = max(due + 1 / rate, time.monotonic() - 1.0)
                stop.wait(max(0.0, due - time.monotonic()))
        stop.wait(RETRY_S)
