"""What a database has, asked by name: what is restored in one transaction is there as a whole or not at all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from psycopg import sql

from pgdyno.errors import EnvironmentUnsuitable
from pgdyno.server.postgres import Postgres, query_errors

FIRST_OID = 16_384
"""Below it are the server's own objects."""
_CLASSES = " FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace"
_NAMES = "SELECT n.nspname AS schema, c.relname AS name"
_TABLES = (
    f"{_NAMES}, pg_catalog.pg_table_size(c.oid) AS bytes{_CLASSES}"
    " WHERE c.relkind = 'r' AND c.relpersistence <> 't' AND n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'"
    " AND NOT EXISTS (SELECT FROM pg_catalog.pg_depend AS d WHERE d.classid = 'pg_catalog.pg_class'::regclass"
    " AND d.objid = c.oid AND d.deptype = 'e') ORDER BY 1, 2"
)
_NAMED = f"{_NAMES}{_CLASSES} WHERE n.nspname = %s AND c.relname = %s"
_FIRED = (
    f"{_NAMES}{_CLASSES} JOIN pg_catalog.pg_trigger AS t ON t.tgrelid = c.oid"
    " WHERE NOT t.tgisinternal AND t.tgenabled IN ('A', 'R') AND t.tgtype::int & 32 <> 0"
)
"""Tables with a trigger for TRUNCATE (the bit 32, TRIGGER_TYPE_TRUNCATE) that fires in replicas' sessions, too."""
_CONSTRAINTS = f"{_NAMES}, k.conname AS constraint{_CLASSES} JOIN pg_catalog.pg_constraint AS k ON k.conrelid = c.oid"
_OWN = {"pg_trigger": "NOT tgisinternal", "pg_rewrite": "rulename <> '_RETURN'"}
_OF_VIEWS = (
    "SELECT i.indexrelid AS oid FROM pg_catalog.pg_index AS i"
    " JOIN pg_catalog.pg_class AS c ON c.oid = i.indrelid WHERE c.relkind = 'm'"
)
_STATISTICS = (
    "SELECT n.nspname AS schema, s.stxname AS name FROM pg_catalog.pg_statistic_ext AS s"
    " JOIN pg_catalog.pg_namespace AS n ON n.oid = s.stxnamespace"
)
_EXTENDED = f"{_NAMES}{_CLASSES} JOIN pg_catalog.pg_statistic_ext AS s ON s.stxrelid = c.oid"


@dataclass(frozen=True, slots=True)
class StoredName:
    """A table with its size in bytes, its TOAST included and its indexes not."""

    schema: str
    name: str
    bytes: int


def with_extended_statistics(server: Postgres) -> frozenset[tuple[str, str]]:
    """Return schema and name of the tables with statistics of several columns."""
    return frozenset((str(row["schema"]), str(row["name"])) for row in server.fetch(_EXTENDED))


def stored_tables(server: Postgres) -> dict[str, StoredName]:
    """Return the tables that hold rows, as `schema.table`; none of an extension's.

    Of two that are spelled alike, as `c` in schema `a.b` and `b.c` in `a`, neither is left out.
    """
    found = dict[str, StoredName]()
    for row in server.fetch(_TABLES):
        one = StoredName(str(row["schema"]), str(row["name"]), int(str(row["bytes"])))
        key = f"{one.schema}.{one.name}"
        while key in found:
            key += " (another)"
        found[key] = one
    return found


def indexes_of_views(source: Postgres) -> frozenset[int]:
    """Return the indexes of materialized views, by their oid."""
    return frozenset(int(str(row["oid"])) for row in source.fetch(_OF_VIEWS))


def relation_name(source: Postgres, oid: int) -> tuple[str, str]:
    """Return schema and name of a table or index of the source."""
    row = _the_one(source.fetch(f"{_NAMES}{_CLASSES} WHERE c.oid = %s", [oid]), oid)
    return str(row["schema"]), str(row["name"])


def constraint_name(source: Postgres, oid: int) -> tuple[str, str, str]:
    """Return schema, table and name of a constraint of the source."""
    row = _the_one(source.fetch(f"{_CONSTRAINTS} WHERE k.oid = %s", [oid]), oid)
    return str(row["schema"]), str(row["name"]), str(row["constraint"])


def _the_one(rows: list[dict[str, object]], oid: int) -> dict[str, object]:
    if not rows:
        raise EnvironmentUnsuitable(
            f"the source no longer has the object with oid {oid}, which is in the dump",
            hint="The schema was changed since: start a new rehearsal.",
        )
    return rows[0]


def has_any(server: Postgres, catalog: str) -> bool:
    """Tell whether a catalog has an object that somebody made."""
    query = sql.SQL("SELECT EXISTS (SELECT FROM {} WHERE oid >= {} AND {}) AS found").format(
        sql.Identifier("pg_catalog", catalog), sql.Literal(FIRST_OID), sql.SQL(_OWN.get(catalog, "true"))
    )
    return server.fetch(query)[0]["found"] is True


def has_rows(server: Postgres, schema: str, name: str) -> bool:
    """Tell whether a table has a row. A view has none: to read it runs functions of others with our rights."""
    if not server.fetch(f"{_NAMED} AND c.relkind = 'r'", [schema, name]):
        return False
    query = sql.SQL("SELECT EXISTS (SELECT FROM {}) AS found").format(sql.Identifier(schema, name))
    return server.fetch(query)[0]["found"] is True


def has_relation(server: Postgres, schema: str, name: str) -> bool:
    """Tell whether there is a relation of that name."""
    return bool(server.fetch(_NAMED, [schema, name]))


def has_constraint(server: Postgres, schema: str, table: str, constraint: str) -> bool:
    """Tell whether a table has a constraint of that name.

    `schema`, `table` and `constraint` are names as the catalogs of `server` have them, without quotes.
    """
    named = f"{_CONSTRAINTS} WHERE n.nspname = %s AND c.relname = %s AND k.conname = %s"
    return bool(server.fetch(named, [schema, table, constraint]))


def has_statistics(source: Postgres, target: Postgres, oid: int) -> bool:
    """Tell whether the target has the statistics of several columns that have this oid on the source."""
    row = _the_one(source.fetch(_STATISTICS + " WHERE s.oid = %s", [oid]), oid)
    names = [row["schema"], row["name"]]
    return bool(target.fetch(_STATISTICS + " WHERE n.nspname = %s AND s.stxname = %s", names))


def empty_tables(server: Postgres, tables: Sequence[StoredName]) -> None:
    """Truncate tables without the triggers that users made for that, which would be run with our rights.

    Raises EnvironmentUnsuitable where a table with rows has one that is fired whatever a session says.
    """
    loud = {(row["schema"], row["name"]) for row in server.fetch(_FIRED)}
    for schema, name in sorted((one.schema, one.name) for one in tables if (one.schema, one.name) in loud):
        if has_rows(server, schema, name):
            raise EnvironmentUnsuitable(
                f'table "{schema}.{name}" is not emptied: it has a TRUNCATE trigger that always fires',
                hint="Begin a new rehearsal without --resume.",
            )
    listed = [sql.Identifier(one.schema, one.name) for one in tables if (one.schema, one.name) not in loud]
    if not listed:
        return
    with server.connect() as session, query_errors(server.label):
        session.execute("SELECT pg_catalog.set_config('session_replication_role', 'replica', false)")
        session.execute(sql.SQL("TRUNCATE {}").format(sql.SQL(", ").join(listed)))


def analyze(server: Postgres, key: str, tag: str) -> None:
    """Analyze a table that `stored_tables` calls so, in a session that names itself `tag`."""
    table = stored_tables(server)[key]
    with server.connect() as session, query_errors(server.label):
        session.execute("SELECT pg_catalog.set_config('application_name', %s, false)", [tag])
        session.execute(sql.SQL("ANALYZE {}").format(sql.Identifier(table.schema, table.name)))


def loaded_rows(server: Postgres) -> dict[str, int]:
    """Return how many rows each table has, as the server counted them while they came; none are read for it."""
    rows = server.fetch(
        "SELECT schemaname || '.' || relname AS name, n_live_tup AS rows FROM pg_catalog.pg_stat_user_tables"
    )
    return {str(row["name"]): int(str(row["rows"])) for row in rows}
