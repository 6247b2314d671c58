"""Which tables and sequences a database has, and by which columns their rows are known. Reads only."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import LiteralString, Protocol, TypeAlias

from psycopg import sql

Params: TypeAlias = Sequence[object] | None


class AskRows(Protocol):
    """What asks one side: returns the rows of a query as tuples."""

    def __call__(self, query: LiteralString | sql.Composed, params: Params = None, /) -> list[tuple[object, ...]]:
        """Run it and return all rows."""


class ReadsSnapshot(AskRows, Protocol):
    """What also gives what COPY sends of a table."""

    def copied(self, query: sql.Composed) -> Iterator[bytes]:
        """Yield each row of a COPY TO STDOUT, as the server writes it."""

    def end(self) -> None:
        """Cancel what the session runs; another thread may call it, and the one that waits for rows gets an error."""


_TABLES = """
SELECT n.nspname, c.relname, c.oid::bigint, c.reltuples::bigint,
       array_agg(a.attname::text ORDER BY a.attnum) FILTER (WHERE a.attname IS NOT NULL),
       array_agg(format_type(a.atttypid, a.atttypmod) ORDER BY a.attnum) FILTER (WHERE a.attname IS NOT NULL)
FROM pg_class AS c
JOIN pg_namespace AS n ON n.oid = c.relnamespace
LEFT JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
WHERE c.relkind = 'r' AND c.relpersistence <> 't' AND n.nspname NOT IN ('pg_catalog', 'information_schema')
  AND n.nspname NOT LIKE 'pg\\_toast%'
  OR c.oid = 'pg_largeobject'::regclass AND EXISTS (SELECT FROM pg_largeobject_metadata)
     AND has_table_privilege(c.oid, 'SELECT')
GROUP BY 1, 2, 3, 4 ORDER BY 1, 2
"""
_KEYS = """
SELECT i.indrelid::bigint, array_agg(a.attname::text ORDER BY a.attname)
FROM pg_index AS i
JOIN pg_attribute AS a ON a.attrelid = i.indrelid AND a.attnum = ANY (i.indkey[0:i.indnkeyatts - 1])
WHERE i.indisunique AND i.indisvalid AND i.indpred IS NULL AND i.indexprs IS NULL
  AND (i.indisprimary OR i.indisreplident OR i.indrelid = 'pg_largeobject'::regclass)
GROUP BY i.indexrelid, i.indrelid, i.indisprimary ORDER BY i.indisprimary
"""
OTHERS_CODE = """
WITH parts AS (
    SELECT oid AS relation, 'pg_class'::regclass AS classid, oid AS objid FROM pg_class WHERE relkind IN ('r', 'p', 'm')
    UNION ALL SELECT indrelid, 'pg_class'::regclass, indexrelid FROM pg_index
    UNION ALL SELECT stxrelid, 'pg_statistic_ext'::regclass, oid FROM pg_statistic_ext
), functions AS (
    SELECT relation, refobjid AS oid FROM parts JOIN pg_depend USING (classid, objid)
    WHERE refclassid = 'pg_proc'::regclass
    UNION
    SELECT relation, oprcode::oid FROM parts JOIN pg_depend USING (classid, objid)
    JOIN pg_operator AS o ON o.oid = refobjid WHERE refclassid = 'pg_operator'::regclass
)
SELECT relation::bigint, min(nspname || '.' || proname || ' of role ' || rolname)
FROM functions JOIN pg_proc AS p USING (oid) JOIN pg_namespace AS n ON n.oid = pronamespace
JOIN pg_roles AS r ON r.oid = proowner
WHERE NOT rolsuper AND rolname <> current_user GROUP BY 1
"""
"""Relations, and a function of somebody else's that planning a statement on them would run with our rights: an
immutable one in an index, in extended statistics or in a key of partitions. A superuser's is no more than ours."""
_SEQUENCES = "SELECT schemaname || '.' || sequencename, last_value FROM pg_sequences ORDER BY 1"


@dataclass(frozen=True, slots=True)
class StoredTable:
    """A table: the names and types of its columns, and the key by which a row is known, empty where it has none."""

    schema: str
    name: str
    columns: tuple[tuple[str, str], ...]
    key: tuple[str, ...]
    rows: int
    """As the server estimates it; -1 where it was never counted."""
    code: str = ""
    """The function that planning a statement on it would run, as `OTHERS_CODE` has it."""

    @property
    def text(self) -> str:
        """Return the name for people."""
        return f"{self.schema}.{self.name}"

    @property
    def names(self) -> tuple[str, ...]:
        """Return the columns' names, in the order of the alphabet: two databases may have made them in another one."""
        return tuple(sorted(name for name, _ in self.columns))


def tables_of(rows: AskRows) -> dict[str, StoredTable]:
    """Return the tables by name, partitions each for itself; those of the system and temporary ones are left out.

    Large objects are one of them, pg_catalog.pg_largeobject, where there are any and this role may read them.
    """
    keys = {oid: names for oid, names in rows(_KEYS) if isinstance(names, list)}
    code = {oid: str(function) for oid, function in rows(OTHERS_CODE)}
    found = dict[str, StoredTable]()
    for schema, name, oid, count, columns, types in rows(_TABLES):
        pairs = tuple(zip(_texts(columns), _texts(types), strict=True))
        key = tuple(keys.get(oid, ()))
        table = StoredTable(str(schema), str(name), pairs, key, int(str(count)), code.get(oid, ""))
        found[table.text] = table
    return found


def _texts(values: object) -> list[str]:
    """Return an array of texts; a table without columns has none."""
    return [str(one) for one in values] if isinstance(values, list) else []


def sequences_of(rows: AskRows) -> dict[str, object]:
    """Return the last value that each sequence gave out; None where it gave none."""
    return {str(name): value for name, value in rows(_SEQUENCES)}
