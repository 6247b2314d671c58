"""Which tables and sequences a database has, and by which columns their rows are known. Reads only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import LiteralString, Protocol, TypeAlias

from psycopg import sql

Params: TypeAlias = Sequence[object] | None


class AskRows(Protocol):
    """What asks one side: returns the rows of a query as tuples."""

    def __call__(self, query: LiteralString | sql.Composed, params: Params = None, /) -> list[tuple[object, ...]]:
        """Run it and return all rows."""


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
    found = dict[str, StoredTable]()
    for schema, name, oid, count, columns, types in rows(_TABLES):
        pairs = tuple(zip(_texts(columns), _texts(types), strict=True))
        table = StoredTable(str(schema), str(name), pairs, tuple(keys.get(oid, ())), int(str(count)))
        found[table.text] = table
    return found


def _texts(values: object) -> list[str]:
    """Return an array of texts; a table without columns has none."""
    return [str(one) for one in values] if isinstance(values, list) else []


def sequences_of(rows: AskRows) -> dict[str, object]:
    """Return the last value that each sequence gave out; None where it gave none."""
    return {str(name): value for name, value in rows(_SEQUENCES)}
