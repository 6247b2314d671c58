"""What has to be known of source and target before anything is moved. Reads only.

A catalog that cannot be read is told as such and is no reassurance.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from pgdyno.errors import PgdynoError
from pgdyno.migration.mover import MigrationSide
from pgdyno.model.results.migrate import AssessFinding, FindingWeight
from pgdyno.server.postgres import Postgres
from pgdyno.units import bytes_text, plural, some_text

W = FindingWeight
Rows = list[dict[str, object]]
_EXTENSIONS = "SELECT extname AS name, extversion AS version FROM pg_catalog.pg_extension ORDER BY 1"
_AVAILABLE = "SELECT name, default_version AS version FROM pg_catalog.pg_available_extensions"
_DATABASE = (
    "SELECT pg_catalog.pg_encoding_to_char(encoding) AS encoding, datcollate AS collation, datctype AS type"
    " FROM pg_catalog.pg_database WHERE datname = pg_catalog.current_database()"
)
_LOCALES = "SELECT DISTINCT datcollate AS name FROM pg_catalog.pg_database"
_COLLATIONS = (
    "SELECT collname AS name, collprovider::text AS provider, collversion AS version,"
    " pg_catalog.pg_collation_actual_version(oid) AS actual FROM pg_catalog.pg_collation"
)
_UNLOGGED = (
    "SELECT n.nspname || '.' || c.relname AS name FROM pg_catalog.pg_class AS c"
    " JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace WHERE c.relpersistence = 'u'"
    " AND n.nspname !~ '^pg_' AND c.relkind = 'r' ORDER BY 1"
)
_KEYLESS = (
    "SELECT n.nspname || '.' || c.relname AS name FROM pg_catalog.pg_class AS c"
    " JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace WHERE c.relkind IN ('r', 'p')"
    " AND n.nspname !~ '^pg_' AND n.nspname <> 'information_schema' AND c.relpersistence = 'p'"
    " AND NOT c.relispartition AND NOT EXISTS (SELECT FROM pg_catalog.pg_index AS i"
    " WHERE i.indrelid = c.oid AND i.indisprimary) ORDER BY 1"
)
_INVALID = (
    "SELECT n.nspname || '.' || c.relname AS name, 'index' AS kind FROM pg_catalog.pg_index AS i"
    " JOIN pg_catalog.pg_class AS c ON c.oid = i.indexrelid JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace"
    " WHERE NOT i.indisvalid UNION ALL SELECT n.nspname || '.' || c.relname || '.' || k.conname, 'constraint'"
    " FROM pg_catalog.pg_constraint AS k JOIN pg_catalog.pg_class AS c ON c.oid = k.conrelid"
    " JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace WHERE NOT k.convalidated ORDER BY 1"
)
_LARGE = "SELECT pg_catalog.count(*) AS n FROM pg_catalog.pg_largeobject_metadata"
_TABLESPACES = "SELECT spcname AS name FROM pg_catalog.pg_tablespace WHERE spcname !~ '^pg_' ORDER BY 1"
_SUBSCRIBED = "SELECT pubname AS name FROM pg_catalog.pg_publication ORDER BY 1"
_MOST_NAMED = 10


def assess(source: MigrationSide, target: MigrationSide) -> tuple[AssessFinding, ...]:
    """Return what stops the migration, what the target will have otherwise, and what is good to know."""
    return tuple(_findings(source, target))


def _findings(source: MigrationSide, target: MigrationSide) -> Iterator[AssessFinding]:
    yield from _versions(source, target)
    for topic, look in _LOOKS.items():
        try:
            yield from look(source.postgres, target.server)
        except PgdynoError as error:
            yield AssessFinding(W.KNOW, topic, "catalog", f"could not be read: {error.one_line}")


def _versions(source: MigrationSide, target: MigrationSide) -> Iterator[AssessFinding]:
    text = f"PostgreSQL {source.major} to PostgreSQL {target.major}"
    older = target.major < source.major
    hint = "Dumps are for the same version or a newer one." if older else ""
    yield AssessFinding(W.STOPS if older else W.KNOW, "version", "server", text, hint)


def _extensions(source: Postgres, target: Postgres) -> Iterator[AssessFinding]:
    there = {str(row["name"]): str(row["version"]) for row in target.fetch(_AVAILABLE)}
    for row in source.fetch(_EXTENSIONS):
        name, version = str(row["name"]), str(row["version"])
        if name not in there:
            text = f"version {version} is not available on the target"
            yield AssessFinding(W.STOPS, "extension", name, text, f"Install {name} for the target's PostgreSQL.")
        elif there[name] != version:
            text = f"version {version} on the source, {there[name]} on the target"
            yield AssessFinding(W.DIFFERS, "extension", name, text)


def _encoding(source: Postgres, target: Postgres) -> Iterator[AssessFinding]:
    (row,) = source.fetch(_DATABASE)
    text = f"{row['encoding']}, collation {row['collation']}, character type {row['type']}"
    yield AssessFinding(W.KNOW, "encoding", "database", text)
    known = {_plain(str(one["name"])) for one in target.fetch("SELECT collname AS name FROM pg_catalog.pg_collation")}
    known |= {_plain(str(one["name"])) for one in target.fetch(_LOCALES)} | {"c", "posix"}
    for key in ("collation", "type"):
        if _plain(str(row[key])) not in known:
            hint = "Install the locale on the target's host, and import it with pg_import_system_collations()."
            yield AssessFinding(W.STOPS, "collation", str(row[key]), "the target does not have this locale", hint)


def _plain(name: str) -> str:
    return name.lower().replace("-", "")


def _collations(source: Postgres, target: Postgres) -> Iterator[AssessFinding]:
    ours, theirs = (
        {(str(row["name"]), str(row["provider"])): row["actual"] for row in server.fetch(_COLLATIONS)}
        for server in (source, target)
    )
    other = sorted(
        f"{name} {version} / {theirs[name, provider]}"
        for (name, provider), version in ours.items()
        if version is not None and theirs.get((name, provider), version) not in (None, version)
    )
    if other:
        text = f"{plural(len(other), 'collation')} with another version on the target: {_some(other)}"
        hint = "The order and uniqueness of text may differ: build indexes on the target, never copy their files."
        yield AssessFinding(W.DIFFERS, "collation", "versions", text, hint)


def _unlogged(source: Postgres, _: Postgres) -> Iterator[AssessFinding]:
    if names := _names(source.fetch(_UNLOGGED)):
        text = f"{plural(len(names), 'unlogged table')}: moved by a dump, not by logical replication"
        yield AssessFinding(W.KNOW, "unlogged", _some(names), text)


def _keyless(source: Postgres, _: Postgres) -> Iterator[AssessFinding]:
    if names := _names(source.fetch(_KEYLESS)):
        text = f"{plural(len(names), 'table')} without a primary key: rows that differ cannot be identified"
        hint = "Logical replication needs a REPLICA IDENTITY for updates and deletes there."
        yield AssessFinding(W.KNOW, "no key", _some(names), text, hint)


def _invalid(source: Postgres, _: Postgres) -> Iterator[AssessFinding]:
    for row in source.fetch(_INVALID):
        kind = str(row["kind"])
        text = "is invalid: it is rebuilt and valid on the target" if kind == "index" else "was never validated"
        yield AssessFinding(W.DIFFERS, f"invalid {kind}", str(row["name"]), text)


def _large_objects(source: Postgres, _: Postgres) -> Iterator[AssessFinding]:
    (row,) = source.fetch(_LARGE)
    if row["n"]:
        text = f"{plural(int(str(row['n'])), 'large object')}: one item of the import, whatever the parallelism"
        yield AssessFinding(W.KNOW, "large objects", "database", text)


def _tablespaces(source: Postgres, target: Postgres) -> Iterator[AssessFinding]:
    for name in sorted({*_names(source.fetch(_TABLESPACES))} - {*_names(target.fetch(_TABLESPACES))}):
        hint = f"CREATE TABLESPACE {name} there, with a folder of its own."
        yield AssessFinding(W.STOPS, "tablespace", name, "does not exist on the target", hint)


def _checksums(source: Postgres, target: Postgres) -> Iterator[AssessFinding]:
    ours, theirs = (str(server.fetch("SHOW data_checksums")[0]["data_checksums"]) for server in (source, target))
    if ours != theirs:
        text = f"{ours} on the source, {theirs} on the target (on is what initdb of 18 makes)"
        hint = "pg_upgrade refuses that: initdb --no-data-checksums, or pg_checksums --enable on the source."
        yield AssessFinding(W.DIFFERS, "data checksums", "cluster", text, hint)


def _publications(source: Postgres, _: Postgres) -> Iterator[AssessFinding]:
    if names := _names(source.fetch(_SUBSCRIBED)):
        text = "publications are not moved: a rehearsal must not feed others' subscriptions"
        yield AssessFinding(W.DIFFERS, "publication", _some(names), text)


def _size(source: Postgres, _: Postgres) -> Iterator[AssessFinding]:
    (row,) = source.fetch("SELECT pg_catalog.pg_database_size(pg_catalog.current_database()) AS bytes")
    yield AssessFinding(W.KNOW, "size", "database", bytes_text(int(str(row["bytes"]))))


_LOOKS: Mapping[str, Callable[[Postgres, Postgres], Iterator[AssessFinding]]] = {
    "size": _size,
    "extension": _extensions,
    "encoding": _encoding,
    "collation": _collations,
    "unlogged": _unlogged,
    "no key": _keyless,
    "invalid": _invalid,
    "large objects": _large_objects,
    "tablespace": _tablespaces,
    "data checksums": _checksums,
    "publication": _publications,
}


def _names(rows: Rows) -> list[str]:
    return [str(row["name"]) for row in rows]


def _some(names: list[str]) -> str:
    return some_text(names, _MOST_NAMED, ", ")
