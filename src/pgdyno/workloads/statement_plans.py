"""Ask a server for the plans of a load's statements, with the settings of the run still in force.

Of its scripts after the run; of a probe as the load's sessions get it. What others run: `others_plans`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import psycopg
from psycopg import sql
from psycopg.pq import TransactionStatus
from psycopg.rows import DictRow

from pgdyno.errors import PgdynoError
from pgdyno.model.record import PlanRecord
from pgdyno.server.planning_role import Asking, directly
from pgdyno.server.postgres import Postgres, query_errors
from pgdyno.workloads.plan_shape import UNKNOWN_SHAPE, shape_of
from pgdyno.workloads.script_statements import label, parameters_of

GENERIC_FROM = 160000
"""EXPLAIN (GENERIC_PLAN) came with 16."""
_UNTYPED = (
    psycopg.errors.AmbiguousFunction,
    psycopg.errors.UndefinedFunction,
    psycopg.errors.IndeterminateDatatype,
)
"""What a server says of parameters whose types nothing around them tells, or tells wrongly."""
PATIENCE = "5s"
"""A statement that takes longer to be planned stays without a plan."""
_EXECUTIONS_TO_SETTLE = 6
"""The server decides between a custom and a generic plan after five executions of a prepared statement."""


def plan_records(postgres: Postgres, dbname: str, statements: Iterable[str]) -> list[PlanRecord]:
    """Return the generic plan of each statement; one that cannot be had has the shape `unknown` and says why.

    A generic plan is that for any value of the parameters: what a prepared statement settles on, and the same on every
    run, so that a difference between two runs is the server's. 16 and newer plan it by EXPLAIN (GENERIC_PLAN), 13 to 15
    by EXPLAIN EXECUTE of a prepared statement under plan_cache_mode = force_generic_plan. Nothing is executed; the
    session is ended. Never raises for what the server does.
    """
    wanted = list(dict.fromkeys(statements))
    if not wanted:
        return []
    try:
        with postgres.for_load(dbname).connect() as connection:
            connection.execute(sql.SQL("SET statement_timeout = {}").format(sql.Literal(PATIENCE)))
            connection.execute("SET plan_cache_mode = force_generic_plan")
            found = [planned(connection, number, statement) for number, statement in enumerate(wanted, 1)]
    except (PgdynoError, psycopg.Error) as error:
        found = [unknown(label(statement), error) for statement in wanted]
    return list({record.statement: record for record in found}.values())


def planned(
    connection: psycopg.Connection[DictRow],
    number: int,
    statement: str,
    *,
    name: str | None = None,
    ask: Asking = directly,
) -> PlanRecord:
    """Return the plan of one statement, recorded by its text or this name; `number` is its own in the session.

    `connection` is that session, with plan_cache_mode = force_generic_plan, which servers before 16 need. `statement`
    has $1, $2 ... for its parameters, and with `name` None it is recorded by its text. `ask` sends what asks for the
    plan. Raises psycopg.Error only where the session is lost.
    """
    count, name = parameters_of(statement), label(statement) if name is None else name

    def asked(*queries: sql.Composed) -> list[str]:
        with _attempt(connection):
            return ask(connection, queries)

    try:
        if connection.info.server_version >= GENERIC_FROM:
            lines = asked(sql.SQL("EXPLAIN (GENERIC_PLAN, COSTS OFF) {}").format(sql.SQL(statement)))
        else:
            lines = asked(*_prepared(f"pgdyno_plan_{number}", statement, [""] * count))
    except _UNTYPED as error:
        try:  # `$1 + $2` says nothing of its types, `least($1, $2)` is taken for text; most of them are numbers
            lines = asked(*_prepared(f"pgdyno_plan_{number}_typed", statement, ["bigint"] * count))
        except psycopg.Error:
            return unknown(name, error)
    except psycopg.Error as error:
        if connection.closed or connection.broken:
            raise
        return unknown(name, error)
    plan = "\n".join(lines)
    return PlanRecord(name, shape_of(plan), plan)


def _attempt(connection: psycopg.Connection[DictRow]) -> AbstractContextManager[object]:
    """Return what keeps a transaction alive whose statement fails; nothing where there is none."""
    return nullcontext() if connection.info.transaction_status is TransactionStatus.IDLE else connection.transaction()


def _prepared(name: str, statement: str, types: Sequence[str]) -> tuple[sql.Composed, sql.Composed]:
    """Return what prepares a statement of the user's own, as it stands, and what asks for its plan."""
    declared = sql.SQL("({})").format(sql.SQL(", ").join(map(sql.SQL, types))) if any(types) else sql.SQL("")
    prepare = sql.SQL("PREPARE {}{} AS {}").format(sql.Identifier(name), declared, sql.SQL(statement))
    nulls = sql.SQL(", ").join([sql.SQL("NULL")] * len(types))
    arguments = sql.SQL("({})").format(nulls) if types else sql.SQL("")
    return prepare, sql.SQL("EXPLAIN (COSTS OFF) EXECUTE {}{}").format(sql.Identifier(name), arguments)


def unknown(name: str, error: Exception) -> PlanRecord:
    """Return the record of a plan that could not be had."""
    said = error.message if isinstance(error, PgdynoError) else str(error).strip().splitlines()[0]
    return PlanRecord(name, UNKNOWN_SHAPE, f"unknown: {said}")


@dataclass(frozen=True, slots=True)
class PlanProbe:
    """A statement with the bigint parameters $1, $2 ..., and typical arguments.

    `protocol` says how it is planned where that does not follow from the load's own.
    """

    name: str
    statement: sql.Composed
    arguments: tuple[int, ...]
    protocol: str | None = None


def capture_plan(postgres: Postgres, dbname: str, probe: PlanProbe, *, protocol: str) -> str:
    """Return the plan as text, its first line the probe's name and a colon. Nothing is executed, only planned.

    The statement of `probe` is planned in the database `dbname` of `postgres`, as by the `protocol` of the load,
    simple, extended or prepared, unless the probe names one. Under the prepared protocol it is the plan of the sixth
    execution, which the load's sessions settle on; else that of a single one. Raises as `Postgres.fetch`.
    """
    types = sql.SQL(", ").join([sql.SQL("bigint")] * len(probe.arguments))
    prepare = sql.SQL("PREPARE pgdyno_plan ({}) AS {}").format(types, probe.statement)
    arguments = sql.SQL(", ").join(sql.Literal(value) for value in probe.arguments)
    explain = sql.SQL("EXPLAIN (COSTS OFF) EXECUTE pgdyno_plan ({})").format(arguments)
    protocol, lines = probe.protocol or protocol, list[str]()
    with postgres.for_load(dbname).connect() as connection, query_errors(postgres.label):
        connection.execute(prepare)
        for _ in range(_EXECUTIONS_TO_SETTLE if protocol == "prepared" else 1):
            lines = [str(row["QUERY PLAN"]) for row in connection.execute(explain)]
    return "\n".join([f"{probe.name}:", *lines])
