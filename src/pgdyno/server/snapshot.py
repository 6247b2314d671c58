"""The settings of a server at one moment, how two moments differ, and the fingerprint of what is in force."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import psycopg
from psycopg.rows import DictRow

from pgdyno.model.shapes import shaped
from pgdyno.server.postgres import Postgres, query_errors, row_as
from pgdyno.units import format_quantity

_QUERY = """
SELECT name, setting, boot_val, unit, vartype, context, category, source, sourcefile, sourceline, pending_restart
FROM pg_catalog.pg_settings ORDER BY name
"""
# What tells one server from another, or one session from another, but not how fast it is.
_IDENTITY = frozenset({
    "cluster_name", "external_pid_file", "listen_addresses", "log_timezone", "port", "TimeZone",
    "unix_socket_directories",
})  # fmt: skip
_IDENTITY_CATEGORIES = frozenset({"File Locations", "Preset Options"})
_SESSION_SOURCES = frozenset({"client", "session", "interactive"})
_OVERRIDES = {
    "user": "of our role, by ALTER ROLE",
    "database": "of our database, by ALTER DATABASE",
    "database user": "of our role in our database, by ALTER ROLE",
}
"""What a session of ours has and the server may not have, in words."""


@dataclass(frozen=True, slots=True)
class SettingState:
    """One row of `pg_settings` as a new session of ours sees it. `setting` counts base units (`unit`)."""

    name: str
    setting: str | None
    boot_val: str | None
    unit: str | None
    vartype: str
    context: str
    category: str
    source: str
    sourcefile: str | None
    sourceline: int | None
    pending_restart: bool

    def identity(self) -> tuple[object, ...]:
        """Return what must be the same again after a rollback."""
        if self.source in _SESSION_SOURCES:
            return ("of our session",)
        return (self.setting, self.source, self.sourcefile, self.sourceline, self.pending_restart)

    def place(self) -> str:
        """Return where the value comes from, for people."""
        return (
            f"{self.sourcefile} line {self.sourceline}" if self.sourcefile else _OVERRIDES.get(self.source, self.source)
        )

    def shown(self) -> str | None:
        """Return the value as `SHOW` does, with its unit."""
        if self.setting is None or self.unit is None or self.vartype not in ("integer", "real"):
            return self.setting
        try:
            return format_quantity(float(self.setting), self.unit)
        except ValueError:  # from the file of a bundle, which anybody may have written
            return self.setting


@dataclass(frozen=True, slots=True)
class SettingDifference:
    """A setting that is not what it was; None on a side where it does not exist."""

    name: str
    before: SettingState | None
    after: SettingState | None

    def __str__(self) -> str:
        return f"{self.name}: was {_state_text(self.before)}, is {_state_text(self.after)}"


def _state_text(state: SettingState | None) -> str:
    if state is None:
        return "absent"
    waiting = ", waits for a restart" if state.pending_restart else ""
    return f"{state.shown()} ({state.place()}{waiting})"


def state_of(row: Mapping[str, object]) -> SettingState:
    """Rebuild one from `to_json`. Raises ValueError that names what does not fit."""
    return shaped(SettingState, row, "a setting", strict=False)


def read_settings(connection: psycopg.Connection[DictRow], *, label: str) -> dict[str, SettingState]:
    """Read every setting in a session that was opened for it, so that it sees what a new session gets."""
    with query_errors(label):
        rows = connection.execute(_QUERY).fetchall()
    return {str(row["name"]): _state_as(row, label) for row in rows}


def _state_as(row: DictRow, label: str) -> SettingState:
    try:
        return _known_state(tuple(row.items()))
    except (TypeError, ValueError):  # of a server that answers as none does
        return row_as(SettingState, row, label)


@lru_cache(maxsize=4096)
def _known_state(row: tuple[tuple[str, object], ...]) -> SettingState:
    """Return a row as a setting: nearly all of the next reading are those of the one before, and checked already."""
    return shaped(SettingState, dict(row), "a row", strict=False)


def differences(before: Mapping[str, SettingState], after: Mapping[str, SettingState]) -> tuple[SettingDifference, ...]:
    """Return the settings whose value, source, file, line or wait for a restart is not the same, by name.

    Leaves out what our own session's environment set (PGTZ, PGOPTIONS ...): it says nothing about the server.
    """
    pairs = ((name, before.get(name), after.get(name)) for name in sorted(before.keys() | after.keys()))
    moved = (pair for pair in pairs if pair[1] is not pair[2])
    return tuple(SettingDifference(*pair) for pair in moved if _identity(pair[1]) != _identity(pair[2]))


def _identity(state: SettingState | None) -> tuple[object, ...] | None:
    return None if state is None else state.identity()


def fingerprint(settings: Iterable[SettingState], linux: Mapping[str, str] | None = None) -> str:
    """Return 12 hex digits that name the settings in force, alike for servers that are set alike.

    Covers every setting that differs from its built-in value, whatever set it; leaves out names, ports, folders,
    presets of the build, time zones and what only our own session set. `linux` are the Linux knobs that were set.
    """
    lines: Sequence[str] = sorted(f"{state.name} = {state.setting}" for state in settings if _counts(state))
    lines = [*lines, *(f"{name} = {value}" for name, value in sorted((linux or {}).items()))]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:12]


def fingerprint_of(postgres: Postgres) -> str:
    """Return the fingerprint of a server as it is, of which nothing was changed. Errors as `Postgres.fetch`."""
    with postgres.connect() as connection:
        return fingerprint(read_settings(connection, label=postgres.label).values())


def _counts(state: SettingState) -> bool:
    if state.name in _IDENTITY or state.category in _IDENTITY_CATEGORIES or state.source in _SESSION_SOURCES:
        return False
    return state.setting != state.boot_val


_ROLE_CATEGORIES = ("Standby Servers", "Recovery Target", "Archive Recovery", "File Locations", "Connection Settings")
_ROLE_STATES = ("in_hot_standby", "transaction_read_only")


def is_role_bound(state: SettingState) -> bool:
    """Return True for a setting that Patroni gives a node by its role or by its place: a failover changes it."""
    return state.category.endswith(_ROLE_CATEGORIES) or state.name in _ROLE_STATES


def cluster_differences(
    before: Mapping[str, SettingState], after: Mapping[str, SettingState]
) -> tuple[SettingDifference, ...]:
    """Return what differs between two leaders of one cluster, or one leader at two times; see `differences`.

    Files and lines do not count, because each node has its own, nor does what `is_role_bound`.
    """
    found = differences(_comparable(before), _comparable(after))
    return tuple(SettingDifference(each.name, before.get(each.name), after.get(each.name)) for each in found)


def _comparable(settings: Mapping[str, SettingState]) -> dict[str, SettingState]:
    return {
        name: replace(state, sourcefile=None, sourceline=None)
        for name, state in settings.items()
        if not is_role_bound(state)
    }
