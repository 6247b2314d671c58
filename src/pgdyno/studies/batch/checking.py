"""Functional checks of what a job left in the database. Each reads only, in a transaction that cannot write.

What a table has is asked in a session that runs nothing of a user's: whoever owns the database could put a view,
a function or an operator in the way, to be run with the rights of ours. A query of the author's own is what it is.
"""

from __future__ import annotations

import psycopg
from psycopg import sql
from psycopg.rows import DictRow

from pgdyno.contents.row_hash import RowHash, row_text
from pgdyno.contents.snapshot import EVERY_ROW, must_sample, snapshot
from pgdyno.contents.tables import OTHERS_CODE, AskRows
from pgdyno.errors import PgdynoError
from pgdyno.model.results.batch import CheckedResult
from pgdyno.server.postgres import Postgres, redact
from pgdyno.studies.batch.chain import Expects, JobCheck
from pgdyno.units import plural

_KIND = "SELECT relkind::text FROM pg_class WHERE oid = to_regclass(%s)"
_STORED = "rpm"
"""Kinds of relations that have their rows themselves: tables, partitioned ones, materialized views."""
_PARTS = """
WITH RECURSIVE parts AS (
    SELECT to_regclass(%s)::oid AS oid UNION SELECT inhrelid FROM parts JOIN pg_inherits ON inhparent = parts.oid
)
SELECT oid::bigint, relkind::text FROM parts JOIN pg_class USING (oid)
"""
_FOREIGN = "f"
_COLUMNS = (
    "SELECT attname FROM pg_attribute WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped"
    " ORDER BY attname"
)
Session = psycopg.Connection[DictRow]


def make_check(server: Postgres, database: str, tag: str, check: JobCheck) -> CheckedResult:
    """Make one check in a session that is called `tag`. What cannot be made has not passed, with the reason.

    `check` is made in `database` of `server`, and `tag` is the application_name of the session. `passed` of the result
    is None where it could not be made.
    """
    text = redact(check.text)  # it is kept, and a query of the author's may name a password
    try:
        if check.expects is Expects.TRUE:
            with server.for_load(database).connect() as session:
                session.execute("SELECT pg_catalog.set_config('application_name', %s, false)", [tag])
                session.execute("BEGIN READ ONLY")
                found, passed = _asked(session, check.subject)
        else:
            with snapshot(server.in_database(database)) as rows:
                rows("SELECT set_config('application_name', %s, false)", [tag])
                found, passed = _counted(rows, check)
    except PgdynoError as error:
        return CheckedResult(check=text, found=error.one_line, passed=None)
    except psycopg.Error as error:
        return CheckedResult(check=text, found=redact(str(error).strip().partition("\n")[0]), passed=None)
    return CheckedResult(check=text, found=found, passed=passed)


def _asked(session: Session, query: str) -> tuple[str, bool | None]:
    rows = session.execute(query.encode()).fetchmany(2)
    values = [*rows[0].values()] if len(rows) == 1 else []
    if len(values) != 1:
        return "not a single row with one value", False
    return "null" if values[0] is None else str(values[0]).lower(), values[0] is True


def _counted(rows: AskRows, check: JobCheck) -> tuple[str, bool | None]:
    table = sql.Identifier(*check.subject.split("."))
    name = table.as_string()
    kinds = [str(kind) for (kind,) in rows(_KIND, [name])]
    if not kinds:  # or it was made after the snapshot, which does not show what it is
        return f"there is no table {check.subject}", None
    if not set(kinds) <= set(_STORED):
        return (
            f"{check.subject} is not a table: its owner decides what it returns; write the check as a query with true",
            None,
        )
    if refused := _refused(rows, name):
        return f"{check.subject} is not read, because {refused}; write the check as a query with true", None
    source = sql.SQL("{} AS t").format(table)
    if must_sample(rows):
        source += EVERY_ROW
    if check.expects is Expects.ROWS:
        ((count,),) = rows(sql.SQL("SELECT count(*) FROM {}").format(source))
        return plural(int(str(count)), "row"), str(count) == check.wanted
    columns = [str(column) for (column,) in rows(_COLUMNS, [name])]
    query = sql.SQL("SELECT coalesce(sum({}), 0)::text FROM {}")
    ((total,),) = rows(query.format(RowHash.PORTABLE.of(row_text(columns)), source))
    return str(total), str(total) == check.wanted


def _refused(rows: AskRows, name: str) -> str:
    """Return why reading a table would run what its owner has put there, empty where it would not."""
    parts = {oid: str(kind) for oid, kind in rows(_PARTS, [name])}
    if _FOREIGN in parts.values():
        return "a part of it is a foreign table"
    return next((f"that would run function {code}" for oid, code in rows(OTHERS_CODE) if oid in parts), "")
