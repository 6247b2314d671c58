"""Read the facts of a target: the server by SQL, the host by /proc and /sys when it is this machine. Read-only."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import cast

import psycopg
from psycopg.rows import DictRow

from pgdyno.model.facts import Facts, ServerFacts, SettingFact, Unknown
from pgdyno.server.postgres import Query, query_errors, row_as
from pgdyno.targets.overrides import read_reach
from pgdyno.targets.surroundings import checksums_of, host_facts, kernel_facts_of
from pgdyno.targets.target import Target

_SETTINGS = """
    SELECT name, setting, unit, vartype, context, source, min_val, max_val, enumvals, boot_val, reset_val,
           sourcefile, sourceline, pending_restart
      FROM pg_catalog.pg_settings ORDER BY name"""
_IDENTIFIER = "SELECT system_identifier::text FROM pg_catalog.pg_control_system()"
_SERVER = """
    SELECT pg_catalog.pg_is_in_recovery() AS in_recovery,
           ARRAY(SELECT extname::text FROM pg_catalog.pg_extension ORDER BY 1) AS extensions,
           greatest((SELECT count(*) FROM pg_catalog.pg_stat_get_wal_senders() WHERE state IS DISTINCT FROM 'backup'),
                    (SELECT count(*) FROM pg_catalog.pg_replication_slots WHERE slot_type = 'physical')) AS standbys"""


def read_facts(target: Target) -> Facts:
    """Return host, server and every setting; what this role may not see is `Unknown`.

    The rights of `pg_monitor` are enough for all of it. A standby counts when it is connected (base backups do not,
    logical subscribers do) or when a physical slot waits for it. Raises ConnectError when there is no session.
    """
    if target.remote is not None:
        return target.remote.facts()
    with target.postgres.connect() as connection:
        rows = _rows(connection, _SETTINGS, target.postgres.label)
        settings = {fact.name: fact for fact in (_setting_fact(row, target.postgres.label) for row in rows)}
        server = _server_facts(connection, settings, target.postgres.label)
    folder = _data_directory(target, server)
    reach = read_reach(target, settings)
    return Facts(
        host=host_facts(target, folder),
        server=server,
        settings=settings,
        kernel=kernel_facts_of(target, folder),
        obstacles=reach.obstacles,
        by_alter_system=reach.by_alter_system,
    )


def _rows(connection: psycopg.Connection[DictRow], query: Query, label: str) -> list[dict[str, object]]:
    with query_errors(label):
        return list(connection.execute(query).fetchall())


def _setting_fact(row: dict[str, object], label: str) -> SettingFact:
    return row_as(SettingFact, {**row, "enumvals": row["enumvals"] or ()}, label)


def _server_facts(connection: psycopg.Connection[DictRow], settings: dict[str, SettingFact], label: str) -> ServerFacts:
    row = _rows(connection, _SERVER, label)[0]
    checksums = settings.get("data_checksums")
    return ServerFacts(
        version=settings["server_version"].setting,
        version_num=int(settings["server_version_num"].setting),
        block_size=int(settings["block_size"].setting),
        max_connections=int(settings["max_connections"].setting),
        in_recovery=bool(row["in_recovery"]),
        standbys=int(str(row["standbys"])),
        data_directory=_visible(settings, "data_directory"),
        config_file=_visible(settings, "config_file"),
        data_checksums=checksums_of(None if checksums is None else checksums.setting),
        extensions=tuple(cast(Sequence[str], row["extensions"])),
        system_identifier=_system_identifier(connection),
    )


def _system_identifier(connection: psycopg.Connection[DictRow]) -> str | Unknown:
    try:
        row = connection.execute(_IDENTIFIER).fetchone()
    except psycopg.Error as error:  # a service may keep its control file to itself
        return Unknown(str(error).strip().splitlines()[0])
    return Unknown("the control file names none") if row is None else str(row["system_identifier"])


def _visible(settings: dict[str, SettingFact], name: str) -> str | Unknown:
    """Return a path of the server; rows that need `pg_read_all_settings` are left out of the view without it."""
    fact = settings.get(name)
    return fact.setting if fact is not None else Unknown(f"{name} is shown to members of pg_read_all_settings only")


def _data_directory(target: Target, server: ServerFacts) -> Path | None:
    shown = server.data_directory
    return target.directory or (Path(shown) if isinstance(shown, str) else None)
