"""Before a run: open a session of each role, prepare each distinct statement on the target, execute none.

Preparing parses a statement and looks up what it names; it runs nothing of it. What names a table that statements of
the load make, such as a temporary one, cannot be judged by that.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from pgdyno.errors import EnvironmentUnsuitable
from pgdyno.trace.engine import wire
from pgdyno.trace.engine.login import Opened, open_session
from pgdyno.trace.engine.plan import EnginePlan
from pgdyno.trace.engine.scram import LoginError
from pgdyno.trace.fingerprints import Message, of_tree
from pgdyno.trace.parquet import connection, trace_source
from pgdyno.trace.summary import UNPREPARED
from pgdyno.units import agreeing, plural

if TYPE_CHECKING:
    from pgdyno.trace.parquet import Connection

SEVERAL = "42601"
"""SQLSTATE of a text with several statements, which cannot be prepared as one, and of what does not parse."""
_SEVERAL_WORDS = "multiple commands"
LOCKED = "55P03"
"""SQLSTATE of a statement that waited for a lock longer than LOCK_TIMEOUT."""
MISSING = "42P01"
UNKNOWN_NAME = "26000"
"""SQLSTATE of EXECUTE for what its session has not prepared; preparing the EXECUTE itself does not look for it."""
_MISSING = re.compile(r'relation "(.+)" does not exist')
_TIMEOUT_S = 30.0
LOCK_TIMEOUT = "5s"
"""Whoever holds a table while statements are prepared is told of, not waited for."""
_LONGEST = 16 << 20
APPLICATION = "pgdyno check"


@dataclass(frozen=True, slots=True)
class WillFail:
    """What will fail: the sessions of a role in a database where `sql` is empty, else executions of a statement.

    One whose `sqlstate` is LOCKED was not judged, and may fail.
    """

    user: str
    database: str
    sql: str
    sqlstate: str
    reason: str
    calls: int


@dataclass(frozen=True, slots=True)
class Checked:
    """What a check has found. `unknown` texts hold several statements, and were not judged.

    Nor were those in `made`: the tables that they lack are made by statements of the load.
    """

    prepared: int
    unknown: int
    failing: tuple[WillFail, ...]
    made: tuple[WillFail, ...] = ()


def check(trace: Path, plan: EnginePlan) -> Checked:
    """Prepare every distinct statement that did not fail in the capture, as its role; side effects: none.

    Raises EnvironmentUnsuitable where a session ends, or is silent, while it prepares.
    """
    plan = replace(plan, settings={**plan.settings, "lock_timeout": LOCK_TIMEOUT})
    prepared = unknown = 0
    failing, made = list[WillFail](), list[WillFail]()
    with connection() as db, trace_source(trace, db) as source:
        makes = _makes(db, source)
        pairs = db.execute(
            f'SELECT "user", "database", count(*) FROM {source} WHERE kind = \'connect\' AND refused IS NULL'
            " GROUP BY ALL ORDER BY ALL"
        ).fetchall()
        for user, database, sessions in pairs:
            try:
                opened = open_session(plan, str(user), str(database), APPLICATION)
            except LoginError as error:
                failing.append(WillFail(str(user), str(database), "", "", str(error), int(sessions)))
                continue
            with opened.socket:
                opened.socket.settimeout(_TIMEOUT_S)
                texts = db.execute(
                    f"""SELECT any_value(sql), count(*) FROM {source}
                        WHERE "user" = ? AND "database" = ? AND sql <> '' AND refused IS NULL AND sqlstate IS NULL
                        GROUP BY coalesce(fingerprint, sql), fingerprint IS NULL ORDER BY 2 DESC""",
                    [user, database],
                ).fetchall()
                for sql, calls in texts:
                    try:
                        fault = _prepare(opened, str(sql))
                    except (OSError, LoginError) as error:
                        raise EnvironmentUnsuitable(
                            f'the session of role "{user}" in "{database}" ended while its statements were prepared',
                            detail=str(error),
                            hint="See the server's log, and check again.",
                        ) from error
                    if fault is None:
                        prepared += 1
                    elif fault.get("C") == SEVERAL and _SEVERAL_WORDS in fault.get("M", ""):
                        unknown += 1
                    else:
                        state, reason = fault.get("C", ""), fault.get("M", "")
                        is_made = state == MISSING and (str(database), _lacks(reason)) in makes
                        found = WillFail(str(user), str(database), str(sql), state, reason, int(calls))
                        (made if is_made else failing).append(found)
        failing += [
            WillFail(str(user), str(database), str(sql), UNKNOWN_NAME, f'"{name}" was prepared before the log', int(n))
            for user, database, sql, name, n in db.execute(
                f'SELECT "user", "database", min(sql), name, count(*) FROM ({UNPREPARED.format(trace=source)})'
                " GROUP BY 1, 2, 4 ORDER BY 5 DESC, 4"
            ).fetchall()
        ]
    return Checked(prepared, unknown, tuple(failing), tuple(made))


def _makes(db: Connection, source: str) -> frozenset[tuple[str, str]]:
    """Return databases and names of the tables and views that statements of the load make."""
    asked = f"FROM {source} WHERE refused IS NULL AND sqlstate IS NULL AND regexp_matches(sql, '(?i)create|into')"
    texts = db.execute(f'SELECT DISTINCT "database", sql {asked}')
    return frozenset(
        (str(database), name)
        for database, sql in iter(texts.fetchone, None)
        for name in of_tree(str(sql), lambda found, walk: [*_made_by(found, walk)]) or ()
    )


def _made_by(found: Message, walk: Callable[[Message], Message]) -> Iterator[str]:
    for _, node in walk(found):
        match type(node).__name__:
            case "CreateStmt":
                yield str(node.relation.relname)
            case "IntoClause":
                yield str(node.rel.relname)
            case "ViewStmt":
                yield str(node.view.relname)


def _lacks(reason: str) -> str:
    """Return the relation of an error that says that it is missing, without its schema."""
    named = _MISSING.fullmatch(reason)
    return "" if named is None else named[1].rpartition(".")[2]


def _prepare(opened: Opened, sql: str) -> Mapping[str, str] | None:
    """Return the fields of the error that preparing ends with; None where it does not."""
    try:
        message = wire.parse("", sql)
    except ValueError as error:  # of a text that no session can have sent
        return {"M": str(error)}
    opened.socket.sendall(message + wire.SYNC)
    fault: Mapping[str, str] | None = None
    for kind, body in _messages(opened):
        if kind == b"E":
            fault = wire.fields_of_error(body)
        elif kind == b"Z":
            break
    return fault


def _messages(opened: Opened) -> Iterator[tuple[bytes, bytes]]:
    buffer = opened.backlog
    while True:
        while len(buffer) >= 5:
            (length,) = struct.unpack_from("!i", buffer, 1)
            if not 4 <= length <= _LONGEST:
                raise LoginError("what answers is not PostgreSQL")
            if len(buffer) <= length:
                break
            message = bytes(buffer[:1]), bytes(buffer[5 : 1 + length])
            del buffer[: 1 + length]
            yield message
        data = opened.socket.recv(65536)
        if not data:
            raise LoginError("the server closed the connection")
        buffer += data


def lines_of(checked: Checked, most: int = 20) -> Iterable[str]:
    """Return what a check has found as lines; statements are cut to a line."""
    yield f"{checked.prepared:,} distinct statements can be prepared on the target"
    if checked.unknown:
        yield f"{agreeing(checked.unknown, 'text', 'holds', 'hold')} several statements and cannot be judged"
    for one in checked.made[:most]:
        yield (
            f"cannot be judged {plural(one.calls, 'time')}, as a statement of the load makes what it needs: "
            f"{one.reason}: {_line_of(one)}"
        )
    if len(checked.made) > most:
        yield f"{len(checked.made) - most:,} more cannot be judged for that reason"
    for one in checked.failing[:most]:
        if not one.sql:
            yield f'role "{one.user}" cannot open its {plural(one.calls, "session")} in "{one.database}": {one.reason}'
        else:
            text, times = _line_of(one), plural(one.calls, "time")
            if one.sqlstate == LOCKED:
                yield f"may fail {times}, as somebody holds what it names and it could not be prepared: {text}"
            else:
                yield f"will fail {times}, {one.sqlstate}: {one.reason}: {text}"
    if len(checked.failing) > most:
        yield f"{len(checked.failing) - most:,} more will fail, or may"


def _line_of(one: WillFail) -> str:
    return " ".join(one.sql.split())[:80]
