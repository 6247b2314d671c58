"""Functional checks of what a job left in the database. Each reads only, in a transaction that cannot write."""

from __future__ import annotations

import psycopg
from psycopg import sql
from psycopg.rows import DictRow

from pgdyno.contents.row_hash import SETTINGS, RowHash, row_text
from pgdyno.errors import PgdynoError
from pgdyno.model.results.batch import CheckedResult
from pgdyno.server.postgres import Postgres
from pgdyno.studies.batch.chain import Expects, JobCheck

_COLUMNS = (
    "SELECT attname FROM pg_catalog.pg_attribute WHERE attrelid = pg_catalog.to_regclass(%s)"
    " AND attnum > 0 AND NOT attisdropped ORDER BY attname"
)
Session = psycopg.Connection[DictRow]


def make_check(server: Postgres, database: str, tag: str, check: JobCheck) -> CheckedResult:
    """Make one check in a session that is called `tag`. What cannot be made has not passed, with the reason."""
    try:
        with server.for_load(database).connect() as session:
            session.execute("SELECT pg_catalog.set_config('application_name', %s, false)", [tag])
            session.execute("BEGIN READ ONLY")
            found, passed = _asked(session, check)
    except PgdynoError as error:
        return CheckedResult(check=check.text, found=error.one_line, passed=None)
    except psycopg.Error as error:
        return CheckedResult(check=check.text, found=str(error).strip().partition("\n")[0], passed=None)
    return CheckedResult(check=check.text, found=found, passed=passed)


def _asked(session: Session, check: JobCheck) -> tuple[str, bool]:
    if check.expects is Expects.TRUE:
        rows = session.execute(check.subject.encode()).fetchmany(2)
        values = [*rows[0].values()] if len(rows) == 1 else []
        return (
            (str(values[0]).lower(), values[0] is True)
            if len(values) == 1
            else ("not a single row with one value", False)
        )
    table = sql.Identifier(*check.subject.split("."))
    if check.expects is Expects.ROWS:
        (row,) = session.execute(sql.SQL("SELECT pg_catalog.count(*) AS n FROM {}").format(table)).fetchall()
        return f"{row['n']} rows", str(row["n"]) == check.wanted
    for name, value in SETTINGS.items():
        session.execute("SELECT pg_catalog.set_config(%s, %s, true)", [name, value])
    columns = [str(row["attname"]) for row in session.execute(_COLUMNS, [table.as_string(session)])]
    query = sql.SQL("SELECT coalesce(pg_catalog.sum({}), 0)::text AS n FROM {} AS t")
    (row,) = session.execute(query.format(RowHash.PORTABLE.of(row_text(columns)), table)).fetchall()
    return str(row["n"]), str(row["n"]) == check.wanted
