"""Why a script fails: which command of it, on which line, and what the server says of it, with its SQLSTATE.

pgbench names a command by its number and gives no SQLSTATE. The server is asked for that by preparing the statement,
and by EXPLAIN, which both run nothing of it; an error that only shows when it runs has the SQLSTATE of its message,
where that is one of the server's: it writes each of these messages with one code, a function of a user's may raise the
same words with another. Of such a one the message tells whether a server, its host or a person is the cause, where the
server writes English.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import psycopg
from psycopg import pq
from psycopg.rows import DictRow

from pgdyno.errors import ConnectError, ScriptError
from pgdyno.server.postgres import Postgres
from pgdyno.workloads.script import Script
from pgdyno.workloads.script_statements import commands_of, numbered, with_values

_STATES = {
    "21000": r"more than one row returned by a subquery used as an expression"
    r"|ON CONFLICT DO UPDATE command cannot affect row a second time",
    "22001": r"value too long for type ",
    "22003": r"(?:smallint|integer|bigint|money) out of range|value \".*\" is out of range for type |"
    r"value (?:out of range: .*|overflows numeric format)|numeric field overflow",
    "22004": r"null value cannot be assigned to variable \"",
    "22008": r"(?:timestamp|date|interval) out of range|date/time field value out of range: ",
    "22007": r"invalid input syntax for type (?:timestamp|date|time|interval)",
    "2201E": r"cannot take logarithm of ",
    "2201F": r"cannot take square root of a negative number",
    "22012": r"division by zero",
    "22P02": r"invalid input syntax for type |invalid input value for enum ",
    "23502": r"null value in column \".*\" .*violates not-null constraint",
    "23503": r"(?:insert or update|update or delete) on table \".*\" violates foreign key constraint \"",
    "23505": r"duplicate key value violates unique constraint \"",
    "23514": r"new row for relation \".*\" violates check constraint \"|no partition of relation \".*\" found for row",
    "23P01": r"conflicting key value violates exclusion constraint \"",
    "25006": r"cannot execute .* in a read-only transaction",
    "25P02": r"current transaction is aborted, commands ignored until end of transaction block",
    "40001": r"could not serialize access due to ",
    "40P01": r"deadlock detected",
    "42501": r"permission denied for ",
    "55P03": r"could not obtain lock on ",
    "P0002": r"query returned no rows",
    "P0003": r"query returned more than one row",
    "55000": r"(?:currval of sequence \".*\"|lastval) is not yet defined in this session",
}
"""The first that matches counts: that of dates comes before that of other types."""


def state_of(message: str) -> str | None:
    """Return the SQLSTATE that the server writes with this message; None for any other."""
    return next((state for state, pattern in _STATES.items() if re.match(pattern, message)), None)


_ABORTED = re.compile(r"client \d+ script (\d+) aborted in command (\d+) query \d+: ERROR:\s+(.*)")
_META = re.compile(r"client \d+ aborted in command (\d+) \((?!SQL\))\w+\) of script (\d+); (.*)")
_ROWS = re.compile(r"client \d+ script (\d+) command (\d+) query \d+: (expected one row, got \d+)")
_SAID = re.compile(r"pgbench: error: (.*)\n(?=pgbench: error: client \d+ aborted)")
_NOT_ITS_OWN = re.compile(
    r"canceling statement due to|terminating connection|out of (?:shared )?memory|No space left|"
    r"could not (?:create|extend|fsync|open|read|resize|write) |temporary file size exceeds|invalid page"
)
_REFUSED = re.compile(r"pgbench: error: ERROR:\s+(.*)")
_SYNTAX = re.compile(r"pgbench: (?:error|fatal): (\S+)\.sql:(\d+): (.*)")
_UNPREPARED = re.compile(r'prepared statement "[^"]*" does not exist')
_SEVERAL = "cannot insert multiple commands into a prepared statement"
_LONGEST = 200
_FIX = "Fix the script, or the --init script that makes its data."


@dataclass(frozen=True, slots=True)
class Failure:
    """What pgbench says: the script and the command by their numbers from 0, and the server's first message."""

    script: int
    command: int
    message: str


def read_failure(stderr: str) -> Failure | None:
    """Return the first error of a command in what pgbench wrote; None where something else went wrong."""
    aborted = _ABORTED.search(stderr)
    if aborted is None:
        return _meta_failure(stderr)
    message = aborted[3].strip()
    if _UNPREPARED.search(message) and (refused := _REFUSED.search(stderr)):
        message = refused[1].strip()  # pgbench goes on to execute what it could not prepare
    return Failure(int(aborted[1]), int(aborted[2]), message)


def _meta_failure(stderr: str) -> Failure | None:
    """Return the error of a command of pgbench's own, as \\set or \\gset."""
    if rows := _ROWS.search(stderr):
        return Failure(int(rows[1]), int(rows[2]), rows[3])
    meta = _META.search(stderr)
    if meta is None:
        return None
    said = _SAID.search(stderr, 0, meta.end())
    return Failure(int(meta[2]), int(meta[1]), (said or meta)[1 if said else 3].strip())


def script_error(
    stderr: str, scripts: Sequence[Script], protocol: str, postgres: Postgres, dbname: str
) -> ScriptError | None:
    """Return the error of a script that pgbench gave up on; None where it was not the script's own.

    `stderr` is what pgbench wrote, and `scripts` are those that it ran, in the order of its command line. `protocol` is
    that of the plan: a statement may fail under it that the simple one would take.

    Opens a session of `postgres` in `dbname` and prepares the statement there; nothing of it is run.
    """
    if syntax := _SYNTAX.search(stderr):
        return ScriptError(f'script "{syntax[1]}", line {syntax[2]}: {syntax[3].strip()}', hint="Fix the script.")
    failure = read_failure(stderr)
    if failure is None or failure.script >= len(scripts) or _NOT_ITS_OWN.match(failure.message):
        return None
    script = scripts[failure.script]
    commands = [] if script.text is None else commands_of(script.text)
    command = commands[failure.command] if failure.command < len(commands) else None
    if command is None or command.is_meta:
        where = f"command {failure.command + 1}" if command is None else f"line {command.line}"
        return ScriptError(
            f'script "{script.name}", {where}: {failure.message}',
            detail=None if command is None else f"the command is: {_shortened(command.text)}",
            hint=None if script.text is None else _FIX,
            is_certain=False,
        )
    sqlstate, protocol_is_cause = None, False
    try:
        with postgres.for_load(dbname).connect() as session:
            sqlstate = _sqlstate(session, command.text, failure.message)
            protocol_is_cause = protocol != "simple" and _simple_would_do(session, command.text, failure.message)
    except (ConnectError, psycopg.Error):
        pass  # what pgbench said is told without it
    state = f"SQLSTATE {sqlstate}" if sqlstate else _state_in_words(failure.message)
    return ScriptError(
        f'script "{script.name}", line {command.line}: {failure.message}',
        detail=f"{state}; the statement is: {_shortened(command.text)}",
        hint=f"Use -M simple: the protocol {protocol} cannot take this statement."
        if protocol_is_cause
        else f"{_FIX[:-1]}; every run would fail at this statement."
        if sqlstate
        else _FIX,
        is_certain=sqlstate is not None,
    )


def _state_in_words(message: str) -> str:
    """Return the SQLSTATE of an error that only shows when the statement runs, which is not done here."""
    state = state_of(message)
    if state is not None:
        return f"SQLSTATE {state}, by its message"
    return "SQLSTATE unknown: the error appears only when the statement runs, and pgbench prints none"


def _shortened(text: str) -> str:
    return " ".join(text.split())[:_LONGEST]


def _sqlstate(session: psycopg.Connection[DictRow], statement: str, message: str) -> str | None:
    """Return the code of this very error where the server gives it without running the statement.

    A statement that ends too early is an error at its semicolon, which pgbench sends.
    """
    asked = numbered(statement), statement, f"{numbered(statement)};", f"EXPLAIN {with_values(statement)}"
    for text in asked:
        answer = session.pgconn.prepare(b"", text.encode())
        if answer.status == pq.ExecStatus.COMMAND_OK and text.startswith("EXPLAIN "):
            answer = session.pgconn.exec_prepared(b"", None)
        if _field(answer, pq.DiagnosticField.MESSAGE_PRIMARY) == message:
            return _field(answer, pq.DiagnosticField.SQLSTATE)
    return None


def _simple_would_do(session: psycopg.Connection[DictRow], statement: str, message: str) -> bool:
    if message == _SEVERAL:
        return True
    literal = with_values(statement)
    return (
        literal != statement
        and session.pgconn.prepare(b"", numbered(statement).encode()).status != pq.ExecStatus.COMMAND_OK
        and session.pgconn.prepare(b"", literal.encode()).status == pq.ExecStatus.COMMAND_OK
    )


def _field(answer: pq.abc.PGresult, field: pq.DiagnosticField) -> str | None:
    value = answer.error_field(field)
    return None if value is None else value.decode(errors="replace")
