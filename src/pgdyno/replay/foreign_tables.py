"""Foreign tables of a target: what the load sends to them would reach the servers behind them.

No text says that a table is a foreign one, so that the refusals of a trace do not know it; a restored copy has those of
its source, and the servers behind them are real.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

from pgdyno.errors import EnvironmentUnsuitable
from pgdyno.server.postgres import Postgres
from pgdyno.trace.parquet import connection, trace_source
from pgdyno.units import plural

_REACHING = """
WITH RECURSIVE reaching AS (
    SELECT ftrelid AS oid, ftserver FROM pg_catalog.pg_foreign_table
    UNION
    SELECT above.oid, reaching.ftserver FROM reaching CROSS JOIN LATERAL (
        SELECT r.ev_class AS oid FROM pg_catalog.pg_depend AS d JOIN pg_catalog.pg_rewrite AS r ON r.oid = d.objid
         WHERE d.classid = 'pg_catalog.pg_rewrite'::regclass AND d.refclassid = 'pg_catalog.pg_class'::regclass
           AND d.refobjid = reaching.oid AND r.ev_class <> reaching.oid
        UNION ALL
        SELECT inhparent FROM pg_catalog.pg_inherits WHERE inhrelid = reaching.oid) AS above
)
SELECT c.relname::text AS name, min(s.srvname)::text AS server
  FROM reaching JOIN pg_catalog.pg_class AS c USING (oid)
  JOIN pg_catalog.pg_foreign_server AS s ON s.oid = reaching.ftserver GROUP BY 1 ORDER BY 1
"""
"""Names of foreign tables, of views on them, and of tables that they are a part of; with a server behind each."""
_ESCAPED_NAME = re.compile(r"""u&"((?:[^"]|"")*)"(?:\s*uescape\s*'(.)')?""", re.IGNORECASE)
_NO_LETTER = r"[^\pL\pM\pN_]"
_SPECIAL = re.compile(r"[!-/:-@\[-^`{-~]")
"""What RE2 might take for more than itself; it refuses a backslash before anything else."""


def require_no_foreign_tables(trace: Path, target: Postgres, name: str, databases: Mapping[str, str]) -> None:
    """Raise EnvironmentUnsuitable where a statement of the load names a table of the target that is on another server.

    `trace` is the file with the load, `target` the server that is asked, and `name` what errors call it. `databases`
    maps captured databases to those of the target. Functions are not looked into.
    """
    for captured, own in databases.items():
        servers = {str(row["name"]): str(row["server"]) for row in target.in_database(own).fetch(_REACHING)}
        if not servers:
            continue
        found = _named(trace, captured, servers)
        if found is not None:
            table, count = found
            raise EnvironmentUnsuitable(
                f'"{name}" is not replayed to: {plural(count, "statement")} of the load in database "{own}" would '
                f'reach the server "{servers[table]}", by the foreign table "{table}" or what stands on it',
                hint="Drop that foreign server on the target, with CASCADE, or cut the trace: pgdyno trace cut.",
            )


def _unescaped(sql: str) -> Iterator[str]:
    """Give the names of a text that are written as U&"...", as PostgreSQL reads them."""
    for name, mark in _ESCAPED_NAME.findall(sql):
        escape = re.escape(mark or "\\")
        letter = re.compile(rf"{escape}(?:({escape})|([0-9a-f]{{4}})|\+([0-9a-f]{{6}}))", re.IGNORECASE)
        found = letter.sub(_letter, name.replace('""', '"'))
        yield found.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _letter(found: re.Match[str]) -> str:
    code = int(found[2] or found[3] or "0", 16)
    return found[1] or (chr(code) if code <= sys.maxunicode else found[0])


def _named(trace: Path, database: str, tables: Mapping[str, str]) -> tuple[str, int] | None:
    """Return the table that most statements name as a word, and how many do; None where none is named.

    Words may have letters of any language; a quote within a name is doubled in a text.
    """
    written = {one.replace('"', '""').lower(): one for one in tables}
    names = "|".join(_SPECIAL.sub(r"\\\g<0>", one) for one in sorted(written, key=len, reverse=True))
    pattern = rf"(?i)(?:^|{_NO_LETTER})({names})(?:{_NO_LETTER}|$)"
    with connection() as db, trace_source(trace, db) as source:
        row = db.execute(
            f"SELECT regexp_extract(sql, ?, 1) AS named, count(*) FROM {source}"
            ' WHERE "database" = ? AND refused IS NULL AND regexp_matches(sql, ?)'
            " GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT 1",
            [pattern, database, pattern],
        ).fetchone()
        escaped = db.execute(
            f"""SELECT sql, count(*) FROM {source} WHERE "database" = ? AND refused IS NULL
                AND regexp_matches(sql, '(?i)u&"') GROUP BY 1""",
            [database],
        ).fetchall()
    if row is None:
        known = {one.lower(): one for one in tables}
        counts = Counter[str]()
        for sql, count in escaped:
            counts.update({known[name]: int(count) for one in _unescaped(str(sql)) if (name := one.lower()) in known})
        return next(iter(counts.most_common(1)), None)
    return written.get(str(row[0]).lower(), str(row[0])), int(row[1])
