"""The least that a role must be allowed for a verb, and the GRANT statements for what it lacks.

No verb needs a superuser. Observation is `pg_monitor`; a load brings databases of its own, so CREATEDB; a session that
changes the server through its files looks into them and reloads it by two functions.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import LiteralString

from psycopg import sql

from pgdyno.errors import UsageError
from pgdyno.server.postgres import Postgres, query_errors, row_as

VERBS = (
    "inspect", "bench", "experiment", "tune",
    "advise", "guards", "noise", "matrix", "selftest", "preflight", "apply", "rollback", "live", "watch",
    "capture",
)  # fmt: skip
"""The first four from the least to the most, each with what those before it need; then those that need a part of it."""
_LOADS = frozenset({"bench", "experiment", "tune", "noise", "matrix", "selftest"})
_CHANGES = frozenset({"experiment", "tune", "matrix", "selftest", "apply", "rollback", "live", "capture"})
_RESTARTS = _CHANGES - {"capture"}
_COUNTING = frozenset({"live", "watch"})
"""Verbs that know the load by its statements alone. Watching it changes nothing, and needs only to observe."""
_CHECKPOINT_ROLE_SINCE = _ALTER_SYSTEM_GRANTS_SINCE = 150_000
_ALTERS = _CHANGES - {"capture"}
_FALLBACK = "postgres"
_STATE = """
SELECT r.rolname::text AS role, r.rolsuper AS superuser, r.rolcreatedb AS createdb,
       pg_catalog.current_database()::text AS database, current_setting('server_version_num')::int AS version,
       pg_catalog.pg_has_role(r.rolname, 'pg_monitor', 'USAGE') AS monitor,
       pg_catalog.has_table_privilege(r.rolname, 'pg_catalog.pg_file_settings', 'SELECT') AS file_view,
       pg_catalog.has_function_privilege(r.rolname, 'pg_catalog.pg_show_all_file_settings()', 'EXECUTE')
         AS file_function,
       pg_catalog.has_function_privilege(r.rolname, 'pg_catalog.pg_reload_conf()', 'EXECUTE') AS reload,
       coalesce((SELECT pg_catalog.pg_has_role(r.rolname, oid, 'USAGE')
                   FROM pg_catalog.pg_roles WHERE rolname = 'pg_checkpoint'), false) AS checkpoint,
       (SELECT datname::text FROM pg_catalog.pg_database WHERE datname IN ('pgdyno_observer', 'postgres')
         ORDER BY datname = 'pgdyno_observer' DESC LIMIT 1) AS observer
  FROM pg_catalog.pg_roles r WHERE r.rolname = current_user
"""
_OBSERVATION = "SELECT pg_catalog.has_database_privilege(current_user, %s::text, 'CONNECT') AS connect"
_UNGRANTED = """
SELECT name::text AS name FROM pg_catalog.pg_settings
 WHERE name = ANY (%s) AND context <> ALL (%s) AND NOT has_parameter_privilege(name, 'ALTER SYSTEM') ORDER BY 1
"""
_STATEMENTS = "SELECT 1 AS one FROM pg_catalog.pg_extension WHERE extname = 'pg_stat_statements'"


@dataclass(frozen=True, slots=True)
class Privilege:
    """One right. `statement` grants it, without a semicolon, to be run in `database` (None: any) by a superuser.

    A right that is not `required` only adds to what is seen; `statement` is None where this version cannot grant it.
    """

    name: str
    why: str
    held: bool
    required: bool
    statement: str | None
    database: str | None = None


@dataclass(frozen=True, slots=True)
class RoleState:
    """What a role has. `version` as `server_version_num`; `observer` is the database that we observe from,
    `database` the one that the target names: catalogs, and rights on what is in them, are each database's own.
    `statements` is the extension in the former, `statements_here` in the latter. Where settings go `by_sql` alone,
    `ungranted` are the parameters that it may not set by ALTER SYSTEM.
    """

    role: str
    database: str
    version: int
    superuser: bool
    createdb: bool
    monitor: bool
    file_view: bool
    file_function: bool
    reload: bool
    checkpoint: bool
    observer: str
    connect: bool
    statements: bool
    statements_here: bool = False
    by_sql: bool = False
    ungranted: tuple[str, ...] = ()


def read_role(postgres: Postgres, altered: Collection[str] | None = None, *, reload_only: bool = False) -> RoleState:
    """Read what the role of these sessions may do. Needs no right but to connect; no effect on the server.

    Where settings go by SQL alone, `altered` are the parameters that may be set, `reload_only` those of them that need
    no restart.
    """
    ungranted: tuple[str, ...] = ()
    passed = ["internal", "postmaster"] if reload_only else ["internal"]
    with postgres.connect() as session, query_errors(postgres.label):
        row = session.execute(_STATE).fetchall()[0]
        observer = str(row["observer"] or _FALLBACK)
        allowed = bool(row["observer"]) and bool(session.execute(_OBSERVATION, [observer]).fetchall()[0]["connect"])
        here = bool(session.execute(_STATEMENTS).fetchall())
        if altered is not None and not row["superuser"] and int(str(row["version"])) >= _ALTER_SYSTEM_GRANTS_SINCE:
            rows = session.execute(_UNGRANTED, [sorted(altered), passed]).fetchall()
            ungranted = tuple(str(one["name"]) for one in rows)
    is_same = observer == row["database"]
    counts = allowed and (here if is_same else bool(postgres.fetch(_STATEMENTS, None, observer)))
    found = {**row, "observer": observer, "connect": allowed, "statements": counts, "statements_here": here,
             "by_sql": altered is not None, "ungranted": ungranted}  # fmt: skip
    return row_as(RoleState, found, postgres.label)


def privileges(verb: str, state: RoleState) -> list[Privilege]:
    """Return every right that matters for the verb, held or not, in the order in which to grant them.

    Pure. Raises UsageError for a verb that it does not know.
    """
    if verb not in VERBS:
        raise UsageError(f'there are no rights known for verb "{verb}"', hint=f"One of {', '.join(VERBS)}.")
    found = _observation(state, counts_statements=verb in _COUNTING)
    if verb in _LOADS:
        found += _load(state)
    if verb in _CHANGES or verb == "preflight":
        found += _file_views(state)
    if verb in _CHANGES:
        found += _reload(state)
    if state.by_sql and verb in _ALTERS:
        found += _alter_system(state)
    return found


def restarting(verb: str, *, is_possible: bool, seen: str | None = None) -> list[Privilege]:
    """Return what the verb needs to restart the server, which no right of a role is; nothing where it never does.

    Pure. `seen` says why it is not possible. Without it the verb works, and leaves out what needs a restart.
    """
    if verb not in _RESTARTS:
        return []
    what = "settings that need a restart" + (" (--allow-restart)" if verb == "live" else "")
    how = "no right of a role: the server's owner or root on its host, --host, --patroni or --restart-command"
    said = f"; {seen}" if seen and not is_possible else ""
    return [Privilege("to restart the server", f"{what}; {how}{said}", is_possible, False, None)]


def missing(found: list[Privilege]) -> list[Privilege]:
    """Return the rights without which the verb does not work."""
    return [privilege for privilege in found if privilege.required and not privilege.held]


def script(found: list[Privilege]) -> str:
    """Return the statements for all that is not held, as psql reads them: `\\connect` where a database matters."""
    lines: list[str] = []
    wanted = [privilege for privilege in found if not privilege.held and privilege.statement is not None]
    entered: str | None = None
    for privilege in sorted(wanted, key=lambda privilege: privilege.database or ""):
        if privilege.database is not None and privilege.database != entered:
            lines.append(f"\\connect {sql.Identifier(privilege.database).as_string(None)}")
            entered = privilege.database
        note = "" if privilege.required else "  -- optional"
        lines.append(f"{privilege.statement};{note}")
    return "\n".join(lines)


def _observation(state: RoleState, *, counts_statements: bool = False) -> list[Privilege]:
    why = "all settings, the sessions and statements of other roles, the size of the WAL"
    return [
        Privilege("pg_monitor", why, state.superuser or state.monitor, True, _to(state, "GRANT pg_monitor TO {role}")),
        Privilege(
            f"CONNECT on {state.observer}",
            "observation happens from a database that the load does not touch",
            state.connect,
            True,
            _to(state, "GRANT CONNECT ON DATABASE {database} TO {role}", database=state.observer),
        ),
        Privilege(
            "pg_stat_statements",
            "which statements took longest; needs shared_preload_libraries = pg_stat_statements to count",
            state.statements or (counts_statements and state.statements_here),
            counts_statements,
            "CREATE EXTENSION pg_stat_statements",
            database=state.observer,
        ),
    ]


def _load(state: RoleState) -> list[Privilege]:
    can_grant = state.version >= _CHECKPOINT_ROLE_SINCE
    return [
        Privilege(
            "CREATEDB",
            "a load runs in databases of its own, pgdyno_*, and touches no other",
            state.superuser or state.createdb,
            True,
            _to(state, "ALTER ROLE {role} CREATEDB"),
        ),
        Privilege(
            "pg_checkpoint" if can_grant else "CHECKPOINT",
            "writes of the data's loading do not fall into a measurement; "
            + ("left out without it" if can_grant else "superusers alone may before 15, so it is left out"),
            state.superuser or state.checkpoint,
            False,
            _to(state, "GRANT pg_checkpoint TO {role}") if can_grant else None,
        ),
    ]


def _file_views(state: RoleState) -> list[Privilege]:
    return _granted(
        state,
        (
            "SELECT on pg_file_settings",
            "whether the server would take a file, before it is told to",
            state.file_view,
            "GRANT SELECT ON pg_catalog.pg_file_settings TO {role}",
        ),
        (
            "EXECUTE on pg_show_all_file_settings()",
            "the view above calls it with the rights of the one who asks",
            state.file_function,
            "GRANT EXECUTE ON FUNCTION pg_catalog.pg_show_all_file_settings() TO {role}",
        ),
    )


def _reload(state: RoleState) -> list[Privilege]:
    return _granted(
        state,
        (
            "EXECUTE on pg_reload_conf()",
            "a reload where nothing else reloads the server",
            state.reload,
            "GRANT EXECUTE ON FUNCTION pg_catalog.pg_reload_conf() TO {role}",
        ),
    )


def _alter_system(state: RoleState) -> list[Privilege]:
    """Return the right to set by SQL alone, which is one of each parameter: what it lacks is not set."""
    if state.version < _ALTER_SYSTEM_GRANTS_SINCE:
        why = "--sql-only sets by ALTER SYSTEM, and before 15 that right cannot be granted"
        return [Privilege("superuser", why, state.superuser, True, None)]
    names = sql.SQL(", ").join(map(sql.Identifier, state.ungranted)).as_string(None)
    why = "--sql-only sets by ALTER SYSTEM: what is to be set, here all that a search may set unasked"
    role = sql.Identifier(state.role).as_string(None)
    grant = f"GRANT ALTER SYSTEM ON PARAMETER {names} TO {role}" if names else None
    return [Privilege("ALTER SYSTEM on each parameter", why, not state.ungranted, False, grant)]


def _granted(state: RoleState, *grants: tuple[str, str, bool, LiteralString]) -> list[Privilege]:
    return [
        Privilege(name, why, state.superuser or held, True, _to(state, grant), database=state.database)
        for name, why, held, grant in grants
    ]


def _to(state: RoleState, statement: LiteralString, database: str | None = None) -> str:
    names: Mapping[str, sql.Composable] = {
        "role": sql.Identifier(state.role),
        **({} if database is None else {"database": sql.Identifier(database)}),
    }
    return sql.SQL(statement).format(**names).as_string(None)
