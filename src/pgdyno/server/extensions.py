"""Where a view or a function of an extension lies: whoever may create in a schema can make one of the same name.

Only what belongs to the extension itself is asked, by its full name.
"""

from __future__ import annotations

from typing import Any, LiteralString

import psycopg

_PLACE: LiteralString = """
SELECT n.nspname::text AS schema
  FROM pg_catalog.pg_extension AS e JOIN pg_catalog.pg_namespace AS n ON n.oid = e.extnamespace
  JOIN pg_catalog.pg_depend AS d ON d.refclassid = 'pg_catalog.pg_extension'::pg_catalog.regclass
       AND d.refobjid = e.oid AND d.deptype = 'e'
  LEFT JOIN pg_catalog.pg_class AS c ON d.classid = 'pg_catalog.pg_class'::pg_catalog.regclass AND c.oid = d.objid
  LEFT JOIN pg_catalog.pg_proc AS p ON d.classid = 'pg_catalog.pg_proc'::pg_catalog.regclass AND p.oid = d.objid
 WHERE e.extname = %(extension)s AND n.oid = coalesce(c.relnamespace, p.pronamespace)
   AND coalesce(c.relname, p.proname) = %(name)s
 LIMIT 1"""


def schema_of(session: psycopg.Connection[Any], extension: str, name: str | None = None) -> str | None:
    """Return the schema of a view or function of an extension, of its own name by default.

    None where this database has no such extension, or one without that. Raises psycopg.Error.
    """
    row = session.execute(_PLACE, {"extension": extension, "name": name or extension}).fetchone()
    return None if row is None else str(row["schema"])
