"""Whose code would planning a statement run? Only statements that run nobody's are planned for others than their role.

To plan is to run code: constant folding calls immutable functions, those inside of views, defaults, CHECK constraints,
index expressions and statistics too; estimates call stable ones. Whoever plans a statement of somebody else runs that
with rights of his own. So of others' statements only those are planned whose functions, operators, types, casts and
tables have nothing in them that a user made, and which call none of PostgreSQL's own functions that reach such things
by a number. The answer errs on the side of refusing: every word of the text, in literals and comments too, counts as a
name, and so does the beginning of a long one.

What it cannot see is a change that is committed between its answer and the plan: whoever renames a function to and fro
is planned once in four times. So a superuser plans as the statement's role, too (`planning_role`).
"""

from __future__ import annotations

import re

import psycopg
from psycopg.rows import DictRow

from pgdyno.outside.quoting import identifier
from pgdyno.units import plural

LONGEST_NAME = 63
"""In bytes: of a longer name the server drops the rest."""
_LEAST_CUT = LONGEST_NAME // 4
"""A name of characters of four bytes is cut after so many."""
_FIRST = "A-Za-z_\x80-\U0010ffff"
"""To the server every character beyond ASCII is a letter: signs, emoji, foreign digits and blanks too."""
_WORDS = (re.compile(f"[{_FIRST}][{_FIRST}0-9$]*"), re.compile(f"[{_FIRST}][{_FIRST}0-9]*"))
"""A dollar is part of a name, or ends a literal."""
_BY_TEXT = re.compile(r"(?:table|schema|database|query|cursor)_to_xml\w*|ts_rewrite|ts_stat|pg_input_\w+")
"""PostgreSQL's own functions that run a query, read a view or check a domain which a text names."""
_IMPLIED = frozenset({"=", "<>", "<", ">", "<=", ">=", "~~", "~~*", "!~~", "!~~*", "~", "~*"})
"""Operators that words such as IN, BETWEEN, LIKE, JOIN and ORDER BY stand for."""

_OPERATORS = """
SELECT DISTINCT oprname::text AS name FROM pg_catalog.pg_operator
WHERE oid >= 16384 AND oprleft < 16384 AND oprright < 16384
"""
_USES = """
WITH RECURSIVE tables AS (
    (SELECT oid, relname FROM pg_catalog.pg_class WHERE oid >= 16384 AND relname = ANY (%(names)s)
     UNION
     SELECT c.oid, relname FROM pg_catalog.pg_type many JOIN pg_catalog.pg_type one ON one.oid = many.typelem
     JOIN pg_catalog.pg_class c ON c.oid = one.typrelid WHERE c.oid >= 16384 AND many.typname = ANY (%(names)s))
    UNION
    SELECT kin.oid, kin.relname FROM tables
    JOIN pg_catalog.pg_inherits ON tables.oid IN (inhparent, inhrelid)
    JOIN pg_catalog.pg_class kin ON kin.oid IN (inhparent, inhrelid)
), parts AS (
    SELECT 'pg_class'::regclass AS classid, oid AS objid, relname FROM tables
    UNION ALL SELECT 'pg_class'::regclass, indexrelid, relname FROM pg_catalog.pg_index
              JOIN tables ON indrelid = tables.oid
    UNION ALL SELECT 'pg_attrdef'::regclass, d.oid, relname FROM pg_catalog.pg_attrdef d
              JOIN tables ON adrelid = tables.oid
    UNION ALL SELECT 'pg_constraint'::regclass, c.oid, relname FROM pg_catalog.pg_constraint c
              JOIN tables ON conrelid = tables.oid
    UNION ALL SELECT 'pg_statistic_ext'::regclass, s.oid, relname FROM pg_catalog.pg_statistic_ext s
              JOIN tables ON stxrelid = tables.oid
), armed AS (
    SELECT oprleft AS oid FROM pg_catalog.pg_operator WHERE oid >= 16384
    UNION SELECT oprright FROM pg_catalog.pg_operator WHERE oid >= 16384
    UNION SELECT castsource FROM pg_catalog.pg_cast WHERE oid >= 16384
    UNION SELECT casttarget FROM pg_catalog.pg_cast WHERE oid >= 16384
    UNION SELECT opcintype FROM pg_catalog.pg_opclass WHERE oid >= 16384
), types AS (
    SELECT oid, typname FROM pg_catalog.pg_type
    WHERE oid >= 16384 AND (typtype <> 'e' OR oid IN (SELECT oid FROM armed) OR typarray IN (SELECT oid FROM armed))
)
SELECT 'function "' || proname || '"' AS what FROM pg_catalog.pg_proc WHERE oid >= 16384 AND proname = ANY (%(names)s)
UNION ALL
SELECT 'function "' || proname || '", which runs what a number may name' FROM pg_catalog.pg_proc f
WHERE oid < 16384 AND proname = ANY (%(names)s) AND prokind = 'f' AND provolatile <> 'v'
AND proargtypes::oid[] && ARRAY['oid', 'cstring', 'regclass', 'regtype', 'regproc', 'regprocedure']::regtype[]::oid[]
AND NOT EXISTS (SELECT FROM pg_catalog.pg_cast WHERE castfunc = f.oid)
UNION ALL
SELECT 'type "' || types.typname || '"' FROM types JOIN pg_catalog.pg_type t USING (oid)
LEFT JOIN pg_catalog.pg_type element ON element.oid = t.typelem AND t.typcategory = 'A'
WHERE t.typname = ANY (%(names)s) AND coalesce(element.typtype, t.typtype) <> 'c'
UNION ALL
SELECT 'table "' || relname || '", whose rows have operators or casts' FROM tables
JOIN pg_catalog.pg_type ON typrelid = tables.oid
WHERE pg_type.oid IN (SELECT oid FROM armed) OR typarray IN (SELECT oid FROM armed)
UNION ALL
SELECT 'relation "' || relname || '" that is no plain table' FROM tables JOIN pg_catalog.pg_class USING (oid, relname)
WHERE relkind NOT IN ('r', 'p', 'm', 'i', 'I', 'S', 't') OR relhasrules AND relkind <> 'm' OR relrowsecurity
UNION ALL
SELECT DISTINCT 'table "' || relname || '", which uses ' || pg_catalog.pg_describe_object(refclassid, refobjid, 0)
FROM parts JOIN pg_catalog.pg_depend USING (classid, objid)
WHERE refobjid >= 16384 AND (
    refclassid IN ('pg_proc'::regclass, 'pg_operator'::regclass, 'pg_opclass'::regclass, 'pg_opfamily'::regclass)
    OR refclassid = 'pg_type'::regclass AND refobjid IN (SELECT oid FROM types))
UNION ALL
SELECT 'cast from ' || castsource::regtype || ' to ' || casttarget::regtype FROM pg_catalog.pg_cast
WHERE oid >= 16384 AND castsource < 16384 AND (castcontext = 'i' OR casttarget < 16384)
LIMIT 1
"""
_SCHEMAS = """
SELECT nspname::text AS name, count(*) FILTER (WHERE relkind IN ('r', 'p', 'm')) AS tables,
       count(*) OVER () AS schemas
FROM pg_catalog.pg_class JOIN pg_catalog.pg_namespace n ON n.oid = relnamespace
WHERE pg_class.oid >= 16384 AND relname = ANY (%(names)s) AND relkind IN ('r', 'p', 'm')
GROUP BY nspname ORDER BY nspname
"""


def names_in(statement: str) -> frozenset[str] | None:
    """Return every word that the statement might use as a name, None where names may be written in other ways. Pure."""
    if re.search(r"u&['\"]", statement, re.IGNORECASE) or '""' in statement:
        return None
    words = {word for form in _WORDS for word in form.findall(statement)}
    words |= set(statement.split('"'))
    if any(len(one) != len(one.lower()) for one in words):
        return None  # a dotted capital I, of which the server may make another letter than Python
    words = {cut for word in words for cut in _cuts(word)}
    return frozenset(words | {one.lower() for one in words} | {_ascii_lower(one) for one in words})


def _cuts(word: str) -> set[str]:
    """Return what the server may make of a word: where it cuts a long one is up to its encoding."""
    if sum(1 if one.isascii() else 4 for one in word) <= LONGEST_NAME:
        return {word}
    return {word[:size] for size in range(_LEAST_CUT, LONGEST_NAME + 1)}


def foreign_code(connection: psycopg.Connection[DictRow], statement: str) -> str:
    """Return what of a statement might run somebody's code when it is planned, in words; empty where nothing does.

    Reads catalogs alone. Raises psycopg.Error.
    """
    names = names_in(statement)
    if ";" in statement:
        return "a semicolon, behind which another statement may stand"
    if names is None:
        return "names that cannot be read off its text"
    if own := next((one for one in names if _BY_TEXT.fullmatch(one)), None):
        return f'function "{own}", which runs what a text names'
    operators = {str(row["name"]) for row in connection.execute(_OPERATORS)}
    if used := next((one for one in operators if one in _IMPLIED or one in statement), None):
        return f'operator "{used}"'
    row = connection.execute(_USES, {"names": sorted(names)}).fetchone()
    return "" if row is None else str(row["what"])


def use_schemas(connection: psycopg.Connection[DictRow], statement: str) -> str:
    """Let the session find the tables that the statement names; return why it cannot, empty where it can.

    The search_path is of this transaction. Raises psycopg.Error.
    """
    names = names_in(statement) or frozenset[str]()
    found = [str(row["name"]) for row in connection.execute(_SCHEMAS, {"names": sorted(names)})]
    if len(found) > 1 and not names.issuperset(found):
        return f"its tables are in {plural(len(found), 'schema')}, and its search_path is not known"
    path = ", ".join(["pg_catalog", *map(identifier, found), "pg_temp"])
    connection.execute("SELECT pg_catalog.set_config('search_path', %s, true)", [path])
    return ""


def _ascii_lower(word: str) -> str:
    return "".join(one.lower() if one.isascii() else one for one in word)
