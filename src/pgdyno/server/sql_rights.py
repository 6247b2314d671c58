"""Whether a role may change a server by SQL alone, and the statement that helps where it may not. Read-only."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from pgdyno.errors import EnvironmentUnsuitable
from pgdyno.model.facts import Obstacle
from pgdyno.outside.quoting import identifier
from pgdyno.server.postgres import Postgres

_HAS_PARAMETER_GRANTS = 150_000
_SETS_UNKNOWN_NAMES = 170_000
_SUPERUSER = "Connect as a superuser."
_ABOUT = """
SELECT current_setting('server_version_num')::int AS version, current_user::text AS role,
       (SELECT rolsuper FROM pg_catalog.pg_roles WHERE rolname = current_user) AS is_superuser,
       (SELECT setting FROM pg_catalog.pg_settings WHERE name = 'data_directory') AS data_directory,
       (SELECT setting FROM pg_catalog.pg_settings WHERE name = 'allow_alter_system') AS allowed,
       has_function_privilege('pg_catalog.pg_reload_conf()', 'EXECUTE') AS may_reload
"""
_UNKNOWN = """
SELECT name FROM unnest(%s::text[]) AS line(name)
WHERE lower(name) NOT IN (SELECT lower(s.name) FROM pg_catalog.pg_settings AS s) ORDER BY 1
"""
_UNGRANTED = """
SELECT name FROM unnest(%s::text[]) AS asked(name) WHERE NOT has_parameter_privilege(name, 'ALTER SYSTEM') ORDER BY 1
"""


def check(postgres: Postgres) -> Path:
    """Return the data directory of a server that this role may change by ALTER SYSTEM, by what can be told so far.

    Raises EnvironmentUnsuitable when ALTER SYSTEM is switched off (17 and later), when the role may not see the data
    directory or reload, and before 15, where the right cannot be granted, when it is no superuser.
    """
    about = postgres.fetch(_ABOUT)[0]
    if about["allowed"] == "off":
        raise EnvironmentUnsuitable(
            f'ALTER SYSTEM is switched off on "{postgres.label}"',
            detail="allow_alter_system = off: something else keeps this server's configuration.",
            hint="Change settings where they are kept, or run pgdyno on the server's own host without --sql-only.",
        )
    if not about["is_superuser"] and int(str(about["version"])) < _HAS_PARAMETER_GRANTS:
        raise EnvironmentUnsuitable(
            f'ALTER SYSTEM on "{postgres.label}" needs a superuser',
            detail="Before PostgreSQL 15 the right to it cannot be granted.",
            hint=_SUPERUSER,
        )
    if not about["data_directory"]:
        raise EnvironmentUnsuitable(
            f'the role on "{postgres.label}" may not see where the data directory is',
            hint=f"GRANT pg_read_all_settings TO {identifier(str(about['role']))};",
        )
    if not about["may_reload"]:
        raise EnvironmentUnsuitable(
            f'the role on "{postgres.label}" may not reload the configuration',
            hint=f"GRANT EXECUTE ON FUNCTION pg_reload_conf() TO {identifier(str(about['role']))};",
        )
    return Path(str(about["data_directory"]))


def unalterable(postgres: Postgres, names: Iterable[str]) -> dict[str, Obstacle]:
    """Return the parameters that this role may not change by ALTER SYSTEM, each with the reason and what helps.

    Needs no right but to connect; no effect on the server.
    """
    asked = sorted(names)
    about = postgres.fetch(_ABOUT)[0]
    if about["allowed"] == "off":
        return dict.fromkeys(asked, Obstacle("allow_alter_system is off", "Change it where its configuration is kept."))
    if about["is_superuser"]:
        return {}
    role = identifier(str(about["role"]))
    if int(str(about["version"])) < _HAS_PARAMETER_GRANTS:
        obstacle = Obstacle(f"ALTER SYSTEM needs a superuser before PostgreSQL 15, and {role} is none", _SUPERUSER)
        return dict.fromkeys(asked, obstacle)
    missing = [str(row["name"]) for row in postgres.fetch(_UNGRANTED, [asked])]
    return {
        name: Obstacle(
            f"role {role} may not change it by ALTER SYSTEM", f"GRANT ALTER SYSTEM ON PARAMETER {name} TO {role};"
        )
        for name in missing
    }


def refuse_unknown(postgres: Postgres, auto_conf: Path, names: Sequence[str]) -> None:
    """Raise EnvironmentUnsuitable for lines of a name that the server does not know and so could not set again."""
    if int(str(postgres.fetch(_ABOUT)[0]["version"])) >= _SETS_UNKNOWN_NAMES:
        return
    unknown = [str(row["name"]) for row in postgres.fetch(_UNKNOWN, [list(names)])]
    if unknown:
        raise EnvironmentUnsuitable(
            f'"{auto_conf}" sets {", ".join(unknown)}, which the server does not know',
            detail="Before PostgreSQL 17 ALTER SYSTEM cannot set such a line again, and so could not keep its place.",
            hint="Load the extension that knows it, or move the line to postgresql.conf.",
        )


def refuse_ungranted(postgres: Postgres, names: Iterable[str]) -> None:
    """Raise EnvironmentUnsuitable, with the GRANT, for parameters that the role may not change by ALTER SYSTEM.

    Before 15 only a superuser may, which `check` has seen.
    """
    about = postgres.fetch(_ABOUT)[0]
    if about["is_superuser"]:
        return
    missing = [str(row["name"]) for row in postgres.fetch(_UNGRANTED, [sorted(names)])]
    if missing:
        raise EnvironmentUnsuitable(
            f'the role on "{postgres.label}" may not change {", ".join(missing)} by ALTER SYSTEM',
            detail="What postgresql.auto.conf holds counts too: its lines are set again to keep their order.",
            hint=f"GRANT ALTER SYSTEM ON PARAMETER {', '.join(missing)} TO {identifier(str(about['role']))};",
        )
