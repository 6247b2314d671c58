"""Which of a server's settings somebody changed between two readings: the server's own, of roles and of databases.

Values are told of numbers, booleans and enumerations only: a text may hold a password.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

import psycopg
from psycopg.rows import DictRow

from pgdyno.errors import ConnectError
from pgdyno.probes.observer import FALLBACK_DATABASE, quieten
from pgdyno.server.postgres import Postgres

_SETTINGS = """
SELECT name::text AS name, reset_val::text AS value, unit::text AS unit, vartype = 'string' AS hidden
  FROM pg_catalog.pg_settings
 WHERE context <> 'internal' AND source NOT IN ('client', 'session', 'user', 'database', 'database user', 'override')
"""
_OVERRIDES = """
SELECT coalesce('role ' || pg_catalog.pg_get_userbyid(nullif(setrole, 0)), 'all roles')
       || coalesce(' in database ' || (SELECT datname FROM pg_catalog.pg_database WHERE oid = setdatabase), '')
       AS whose,
       split_part(setting, '=', 1) AS name, setting AS value
  FROM pg_catalog.pg_db_role_setting, unnest(setconfig) AS setting
"""


@dataclass(frozen=True, slots=True)
class SettingSeen:
    """A value as the server has it: `unit` as pg_settings has it, and whether it may not be told."""

    value: str
    unit: str = ""
    hidden: bool = False

    def __str__(self) -> str:
        """Return the value for people."""
        if self.value == "-1":  # no size and no time: off, no limit, or as another setting says
            return self.value
        return f"{self.value} x {self.unit}" if self.unit[:1].isdigit() else f"{self.value}{self.unit}"


SettingsSeen = Mapping[str, SettingSeen]
"""By name; those of roles and databases with whose they are before it."""


class SettingsReader:
    """One session that reads the settings of all; opened again where it was lost. Only reads."""

    def __init__(self, postgres: Postgres) -> None:
        self._postgres = postgres
        self._connection: psycopg.Connection[DictRow] | None = None

    def read(self) -> SettingsSeen | None:
        """Return all settings, None where the server did not answer."""
        try:
            if self._connection is None:
                self._connection = self._postgres.connect(FALLBACK_DATABASE)
                quieten(self._connection)
            settings = self._connection.execute(_SETTINGS).fetchall()
            overrides = self._connection.execute(_OVERRIDES).fetchall()
        except (ConnectError, psycopg.Error):
            self.close()
            return None
        found = {row["name"]: SettingSeen(row["value"] or "", row["unit"] or "", row["hidden"]) for row in settings}
        return found | {f"{row['name']} of {row['whose']}": SettingSeen(row["value"], hidden=True) for row in overrides}

    def close(self) -> None:
        """End the session."""
        if self._connection is not None:
            with suppress(psycopg.Error):
                self._connection.close()
            self._connection = None


def changed(before: SettingsSeen, after: SettingsSeen, first: SettingsSeen | None = None) -> list[str]:
    """Return the settings that differ, each with what it was and is.

    Of one whose values are not told, that it is as it was in `first` again.
    """
    return [
        _words(name, before.get(name), after.get(name), (first or {}).get(name))
        for name in sorted({*before, *after})
        if before.get(name) != after.get(name)
    ]


def _words(name: str, before: SettingSeen | None, after: SettingSeen | None, first: SettingSeen | None) -> str:
    if before is None or after is None:
        return f"{name} was {'set' if before is None else 'taken away'}"
    if before.hidden or after.hidden:
        return f"{name} was changed{' back' if after == first else ''}"
    return f"{name} was changed from {before} to {after}"
