"""The database on the target, made by a rehearsal and replaced by none but one: with roles and settings of the source.

A comment marks a database that a rehearsal made. Any other of that name is refused, whatever is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import LiteralString

from psycopg import sql

from pgdyno.errors import EnvironmentUnsuitable, PgdynoError
from pgdyno.migration.mover import MigrationSide, MovePlace
from pgdyno.routes.auto_conf import list_words
from pgdyno.server.databases import drop_database
from pgdyno.server.new_database import passing_name
from pgdyno.server.postgres import Postgres, query_errors

MADE = "made by a rehearsal of pgdyno"
_COMMENT = (
    "SELECT pg_catalog.shobj_description(oid, 'pg_database') AS said FROM pg_catalog.pg_database WHERE datname = %s"
)
_SHAPE = (
    "SELECT pg_catalog.pg_encoding_to_char(encoding) AS encoding, datcollate AS collation, datctype AS type,"
    " pg_catalog.pg_get_userbyid(datdba) AS owner, pg_catalog.to_jsonb(d) ->> 'datlocprovider' AS provider,"
    " coalesce(pg_catalog.to_jsonb(d) ->> 'datlocale', pg_catalog.to_jsonb(d) ->> 'daticulocale') AS locale"
    " FROM pg_catalog.pg_database AS d WHERE datname = %s"
)
_PROVIDERS: Mapping[str, tuple[int, LiteralString]] = {
    "i": (150_000, " LOCALE_PROVIDER icu ICU_LOCALE {}"),
    "b": (170_000, " LOCALE_PROVIDER builtin BUILTIN_LOCALE {}"),
}
"""By pg_database.datlocprovider: since when a target has it, and how it is asked for; libc is what CREATE takes."""
_ROLES = (
    "SELECT oid, rolname AS name, rolsuper, rolinherit, rolcreaterole, rolcreatedb, rolcanlogin, rolreplication,"
    " rolbypassrls, rolconnlimit,"
    " rolvaliduntil::text AS until FROM pg_catalog.pg_roles WHERE rolname !~ '^pg_' ORDER BY rolname"
)
_PASSWORDS = "SELECT rolname AS name, rolpassword AS secret FROM pg_catalog.pg_authid WHERE rolpassword IS NOT NULL"
_MEMBERS = (
    "SELECT DISTINCT r.rolname AS role, m.rolname AS member, a.admin_option AS admin"
    " FROM pg_catalog.pg_auth_members AS a JOIN pg_catalog.pg_roles AS r ON r.oid = a.roleid"
    " JOIN pg_catalog.pg_roles AS m ON m.oid = a.member WHERE m.rolname !~ '^pg_' ORDER BY 1, 2"
)
_SETTINGS = (
    "SELECT r.rolname AS role, c AS setting FROM pg_catalog.pg_db_role_setting AS s"
    " JOIN pg_catalog.pg_database AS d ON d.oid = s.setdatabase"
    " LEFT JOIN pg_catalog.pg_roles AS r ON r.oid = s.setrole CROSS JOIN pg_catalog.unnest(s.setconfig) AS c"
    " WHERE d.datname = %s AND (s.setrole = 0 OR r.rolname IS NOT NULL)"
)
_OF_ROLES = (
    "SELECT r.rolname AS role, c AS setting FROM pg_catalog.pg_db_role_setting AS s"
    " JOIN pg_catalog.pg_roles AS r ON r.oid = s.setrole CROSS JOIN pg_catalog.unnest(s.setconfig) AS c"
    " WHERE s.setdatabase = 0"
)
_RIGHTS = (
    "SELECT CASE WHEN a.grantee = 0 THEN NULL ELSE pg_catalog.pg_get_userbyid(a.grantee) END AS role,"
    " a.privilege_type AS what, a.is_grantable AS grantable FROM pg_catalog.pg_database AS d"
    " CROSS JOIN pg_catalog.aclexplode(d.datacl) AS a WHERE d.datname = %s"
)
_GRANTABLE = ("CONNECT", "CREATE", "TEMPORARY")
_WORDS = {
    "rolsuper": "SUPERUSER",
    "rolinherit": "INHERIT",
    "rolcreaterole": "CREATEROLE",
    "rolcreatedb": "CREATEDB",
    "rolcanlogin": "LOGIN",
    "rolreplication": "REPLICATION",
    "rolbypassrls": "BYPASSRLS",
}


def mark_of(place: MovePlace) -> str:
    """Return the comment of the database that this rehearsal makes."""
    return f"{MADE}: {place.tag}"


def comment_of(side: MigrationSide) -> str | None:
    """Return the comment of the database, empty for none; None where there is no such database."""
    rows = side.server.fetch(_COMMENT, [side.database])
    return str(rows[0]["said"] or "") if rows else None


def require_replaceable(side: MigrationSide) -> None:
    """Raise EnvironmentUnsuitable where the target has a database of that name that no rehearsal made."""
    said = comment_of(side)
    if said is not None and not said.startswith(MADE):
        raise EnvironmentUnsuitable(
            f'"{side.target.name}" has a database "{side.database}" already, which was not made by a rehearsal',
            hint="Name another one by target_database in the plan, or drop it yourself.",
        )


def is_made(place: MovePlace) -> bool:
    """Tell whether this rehearsal has made the database."""
    return comment_of(place.target) == mark_of(place)


def make_database(place: MovePlace) -> None:
    """Make the database as the source's is, in place of what an earlier rehearsal made."""
    source, target = place.source, place.target
    require_replaceable(target)
    (shape,) = source.server.fetch(_SHAPE, [source.database])
    owners = target.server.fetch("SELECT 1 AS one FROM pg_catalog.pg_roles WHERE rolname = %s", [shape["owner"]])
    drop_database(target.server, target.database)
    query = sql.SQL(" TEMPLATE template0 ENCODING {} LC_COLLATE {} LC_CTYPE {}").format(
        *(sql.Literal(str(shape[key])) for key in ("encoding", "collation", "type"))
    )
    provider = _PROVIDERS.get(str(shape["provider"]))
    if provider is not None and shape["locale"] is not None and target.version >= provider[0]:
        query += sql.SQL(provider[1]).format(sql.Literal(str(shape["locale"])))
    if owners:
        query += sql.SQL(" OWNER {}").format(sql.Identifier(str(shape["owner"])))
    with passing_name(target.server, target.database) as passing:
        made = sql.Identifier(passing)
        target.server.execute(sql.SQL("CREATE DATABASE {}").format(made) + query)
        target.server.execute(sql.SQL("COMMENT ON DATABASE {} IS {}").format(made, sql.Literal(mark_of(place))))


def make_roles(place: MovePlace) -> int:
    """Make the roles that the target lacks, and return how many; those it has stay as they are.

    Passwords come as the hashes that they are kept as, where the source's role may read them and the target's may keep
    them out of its log.
    """
    source, target = place.source.server, place.target.server
    known = {str(row["name"]) for row in target.fetch(_ROLES)}
    made, secrets = set[str](), dict[str, str]()
    with suppress(PgdynoError):
        secrets = {str(row["name"]): str(row["secret"]) for row in source.fetch(_PASSWORDS)}
    for row in source.fetch(_ROLES):
        if str(row["name"]) in known:
            continue
        words = [word if row[key] else f"NO{word}" for key, word in _WORDS.items()]
        query = sql.SQL("CREATE ROLE {} {} CONNECTION LIMIT {}").format(
            sql.Identifier(str(row["name"])), sql.SQL(" ".join(words)), sql.Literal(int(str(row["rolconnlimit"])))
        )
        if row["until"] is not None:
            query += sql.SQL(" VALID UNTIL {}").format(sql.Literal(str(row["until"])))
        if str(row["name"]) in secrets:
            whole = query + sql.SQL(" PASSWORD {}").format(sql.Literal(secrets[str(row["name"])]))
            try:
                execute_unlogged(target, whole)
            except EnvironmentUnsuitable as error:
                place.tell(f'role "{row["name"]}" was created without its password: {error.one_line}')
                target.execute(query)
        else:
            target.execute(query)
        made.add(str(row["name"]))
    for row in source.fetch(_MEMBERS):
        if str(row["member"]) in made:
            query = sql.SQL("GRANT {} TO {}").format(*(sql.Identifier(str(row[key])) for key in ("role", "member")))
            target.execute(query + sql.SQL(" WITH ADMIN OPTION") if row["admin"] else query)
    for row in source.fetch(_OF_ROLES):
        if str(row["role"]) in made:
            start = sql.SQL("ALTER ROLE {}").format(sql.Identifier(str(row["role"])))
            target.execute(start + _set(str(row["setting"])))
    return len(made)


def carry_settings(place: MovePlace) -> None:
    """Give the database owner, settings and rights of the source's, and the settings of its roles in it."""
    source, target = place.source, place.target.server
    database = sql.Identifier(place.target.database)
    for row in source.server.fetch(_SHAPE, [source.database]):  # when it was made, the role may not have been there
        owner = sql.Identifier(str(row["owner"]))
        target.execute(sql.SQL("ALTER DATABASE {} OWNER TO {}").format(database, owner))
    for row in source.server.fetch(_SETTINGS, [source.database]):
        if row["role"] is None:
            start = sql.SQL("ALTER DATABASE {}").format(database)
        else:
            start = sql.SQL("ALTER ROLE {} IN DATABASE {}").format(sql.Identifier(str(row["role"])), database)
        target.execute(start + _set(str(row["setting"])))
    rights = [row for row in source.server.fetch(_RIGHTS, [source.database]) if row["what"] in _GRANTABLE]
    if rights:
        target.execute(sql.SQL("REVOKE ALL ON DATABASE {} FROM PUBLIC").format(database))
    for row in rights:
        whom = sql.SQL("PUBLIC") if row["role"] is None else sql.Identifier(str(row["role"]))
        query = sql.SQL("GRANT {} ON DATABASE {} TO {}").format(sql.SQL(str(row["what"])), database, whom)
        target.execute(query + sql.SQL(" WITH GRANT OPTION") if row["grantable"] else query)


DATABASE, ROLES, SETTINGS = "database", "roles", "database settings"
MAKERS: Mapping[str, Callable[[MovePlace], object]] = {
    DATABASE: make_database,
    ROLES: make_roles,
    SETTINGS: carry_settings,
}
"""What makes the items of the structures that no program makes, by their keys."""


def _set(setting: str) -> sql.Composed:
    """Return the end of an ALTER that sets `name=value` as a catalog keeps it: a list of names stays one."""
    name, _, value = setting.partition("=")
    words = sql.SQL(", ").join(map(sql.Literal, list_words(name, value)))
    return sql.SQL(" SET {} TO {}").format(sql.Identifier(*name.split(".")), words)


def end_sessions(servers: Mapping[str, MigrationSide], tag: str) -> int:
    """End what sessions of a killed run are left on these servers, and return how many there still were."""
    return sum(
        len(
            side.server.fetch(
                "SELECT pg_catalog.pg_terminate_backend(pid) AS ended FROM pg_catalog.pg_stat_activity"
                " WHERE application_name = %s AND pid <> pg_catalog.pg_backend_pid()",
                [tag],
            )
        )
        for side in servers.values()
    )


_QUIET = {
    "log_statement": "none",
    "log_min_error_statement": "panic",
    "log_min_duration_statement": "-1",
    "log_min_duration_sample": "-1",
    "log_transaction_sample_rate": "0",
    "pg_stat_statements.track": "none",
    "pgaudit.log": "none",
    "session_replication_role": "replica",
}
"""What would write a statement's text down. The last keeps event triggers of users from reading it."""


def execute_unlogged(server: Postgres, query: sql.Composed) -> None:
    """Run a statement whose text goes into no log and no statistics of the server. Errors as `Postgres.fetch`.

    Needs a superuser: where the role may not change what is logged, nothing is run.
    """
    with server.connect() as session, query_errors(server.label):
        for name, value in _QUIET.items():
            session.execute("SELECT pg_catalog.set_config(%s, %s, false)", [name, value])
        session.execute(query)
