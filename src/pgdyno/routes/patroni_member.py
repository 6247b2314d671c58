"""One member of a Patroni cluster, asked by SQL whether it has taken the configuration over (Patroni 2.1 to 4)."""

from __future__ import annotations

from collections.abc import Mapping, Set

from psycopg.conninfo import make_conninfo

from pgdyno.errors import ConnectError, EnvironmentUnsuitable
from pgdyno.server.patroni_api import Member
from pgdyno.server.postgres import Postgres

_LOADED_AT = "SELECT extract(epoch FROM pg_conf_load_time())::float8 AS at"
_LINES = """
SELECT lower(name) AS name, setting FROM pg_catalog.pg_file_settings
WHERE sourcefile = current_setting('config_file') AND applied ORDER BY seqno
"""
# The settings that Patroni writes with its own default where nothing is asked for (its `CMDLINE_OPTIONS`).
_ALWAYS_WRITTEN = frozenset({
    "max_connections", "max_locks_per_transaction", "max_prepared_transactions", "max_replication_slots",
    "max_wal_senders", "max_worker_processes", "track_commit_timestamp", "wal_keep_segments", "wal_keep_size",
    "wal_level", "wal_log_hints",
})  # fmt: skip


def loaded_at(member: Member, postgres: Postgres) -> float:
    """Return when a member last read its files, in seconds since 1970 by its clock.

    Raises EnvironmentUnsuitable when it takes no session. `postgres` names role and database.
    """
    try:
        return float(str(_own(member, postgres).fetch(_LOADED_AT)[0]["at"]))
    except ConnectError as error:
        raise EnvironmentUnsuitable(
            f'member "{member.name}" of the Patroni cluster takes no session',
            detail=error.detail,
            hint="pgdyno asks each member whether it has loaded its configuration; let this role log in there too.",
        ) from error


def missed(
    member: Member, postgres: Postgres, wanted: Mapping[str, object], ours: Mapping[str, Set[str]]
) -> dict[str, str]:
    """Return what a member's file still holds of `ours`, the values we ever staged, though `wanted` has another.

    `wanted` are the parameters of Patroni's dynamic configuration. They, `ours` and the result are keyed by parameter;
    `postgres` names the role and database for the session on `member`.

    Patroni 3.0 compares only while its PostgreSQL is "running": a change that comes while a member starts or is
    demoted is read and then never written, until the member is told to reload (`Postgresql.config.reload_config`).
    What waits for a restart is not in force, and Patroni writes the file again at every start.
    Empty where the member takes no session, as it may be away, and where the role may not see the files.
    """
    try:
        rows = _own(member, postgres).fetch(_LINES)
    except (ConnectError, EnvironmentUnsuitable):
        return {}
    lines = {str(row["name"]): str(row["setting"]) for row in rows}
    return {
        name: lines[name]
        for name, values in ours.items()
        if lines.get(name) in values and str(wanted.get(name)) != lines[name]
        if name in wanted or name not in _ALWAYS_WRITTEN
    }


def _own(member: Member, postgres: Postgres) -> Postgres:
    return Postgres(make_conninfo(postgres.conninfo, host=member.host, port=member.port, target_session_attrs="any"))
