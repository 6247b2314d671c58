"""The plan that a load's statement has on this server with its present settings, as the load's sessions get it."""

from __future__ import annotations

from dataclasses import dataclass

from psycopg import sql

from pgdyno.server.postgres import Postgres, query_errors

_EXECUTIONS_TO_SETTLE = 6
"""The server decides between a custom and a generic plan after five executions of a prepared statement."""


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

    Under the prepared protocol it is the plan of the sixth execution, which the load's sessions settle on; else that
    of a single one. Raises as `Postgres.fetch`.
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
