"""Which knobs a session could not set on this server, and which it would set by ALTER SYSTEM: one answer for all.

The search space, the plan that is printed, `preflight`, `apply --dry-run` and what people ask for all go by it, so
that nothing is loaded or restarted for a value that would not come into force. What outranks our file, from the most
to the least (PostgreSQL documentation, "Setting Parameters"; `GucSource` in guc.h):

    options of our own connection, ALTER ROLE and ALTER DATABASE, the server's command line
    postgresql.auto.conf, which is read after every other file
    lines behind the one that names our file, where somebody moved it
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pgdyno.errors import EnvironmentUnsuitable
from pgdyno.knobs.current import OVERRIDING_SOURCES
from pgdyno.model.facts import Obstacle, SettingFact
from pgdyno.owner.hands import hands_of
from pgdyno.routes.auto_conf import Line
from pgdyno.routes.dropin import LONGEST, DropIn
from pgdyno.routes.file_check import FileLine, FileReading, read_files
from pgdyno.routes.route import FILES
from pgdyno.routes.route_names import is_ours, may_hold_secret
from pgdyno.routes.sql_route import AUTO_CONF, SqlRoute, is_as_written
from pgdyno.server import sql_rights
from pgdyno.server.effectiveness import argument_for
from pgdyno.server.role_settings import Override, read_overrides, reset, statement
from pgdyno.server.snapshot import SettingState
from pgdyno.targets import in_force
from pgdyno.targets.target import Target

OWN_DATABASES = "pgdyno_"
"""The databases of our loads begin with it."""
_BY_ROLE = ("global", "database", "user", "database user")
_INCLUDE = re.compile(r"^\s*include(?:_if_exists|_dir)?\s*=?\s*'([^']*)'", re.IGNORECASE)
Row = SettingFact | SettingState


@dataclass(frozen=True, slots=True)
class Reach:
    """What our settings cannot reach, by where it is set: `in_server` the files and the command line, `in_sessions`
    ALTER ROLE and ALTER DATABASE. `by_alter_system` are the knobs of postgresql.auto.conf that we can set there.
    """

    in_server: Mapping[str, Obstacle]
    in_sessions: Mapping[str, Obstacle]
    by_alter_system: frozenset[str]

    @property
    def obstacles(self) -> dict[str, Obstacle]:
        """Return all of them; of two, the one that outranks the other."""
        return {**self.in_server, **self.in_sessions}


@dataclass(frozen=True, slots=True)
class Behind:
    """The line of the main file that names our file, and the files and folders that it includes behind that line."""

    number: int
    included: tuple[Path, ...]


def read_reach(target: Target, settings: Mapping[str, Row]) -> Reach:
    """Read what overrides what we would set; `settings` are the server's rows as our session sees them.

    The rights of `pg_monitor` are enough. No effect on the server.
    """
    postgres = target.postgres
    role, database, found = read_overrides(postgres)
    in_server = _outranked(target, settings)
    by_alter_system: frozenset[str] = frozenset()
    if target.route is None:
        in_server |= _later_lines(target, settings)
        barred = _barred(target, settings)
        by_alter_system = frozenset(_in_auto_conf(settings) - barred.keys() - in_server.keys())
        in_server = {**barred, **in_server}
    elif isinstance(target.route, SqlRoute):
        ungranted = sql_rights.unalterable(postgres, filter(is_ours, settings))
        named = {name: Obstacle(f"cannot be set: {bar.reason}", bar.remedy) for name, bar in ungranted.items()}
        in_server = {**named, **in_server}
    return Reach(in_server, in_sessions(found, role, [database]), by_alter_system)


def in_sessions(found: Iterable[Override], role: str, databases: Collection[str]) -> dict[str, Obstacle]:
    """Return the knobs that sessions of this role have from elsewhere, in these databases or in those of our loads."""
    return {
        override.name: Obstacle(
            f"is set by {statement(override)}, which outranks every file", f"Remove it with {reset(override)}."
        )
        for override in found
        if is_of(override, role, databases)
    }


def is_of(override: Override, role: str, databases: Collection[str]) -> bool:
    """Tell whether a setting of roles and databases holds for sessions of ours."""
    in_ours = override.database is None or override.database in databases
    return override.role in (None, role) and (in_ours or str(override.database).startswith(OWN_DATABASES))


def auto_conf_of(settings: Mapping[str, Row]) -> str | None:
    """Return the path of postgresql.auto.conf as `sourcefile` spells it; None where the role may not see it."""
    row = settings.get("data_directory")
    return None if row is None or not row.setting else str(Path(row.setting) / AUTO_CONF)


def _outranked(target: Target, settings: Mapping[str, Row]) -> dict[str, Obstacle]:
    """Return what is set above the files for every session of ours: by the command line or our connection's options."""
    accepted = FILES if target.route is None else target.route.accepted_sources
    sources = OVERRIDING_SOURCES.keys() - {*_BY_ROLE, *accepted}
    pid = target.cpu.postmaster()
    arguments = in_force.arguments_of(pid) if pid is not None else ()
    found = {}
    for row in settings.values():
        if row.source in sources and is_ours(row.name):
            argument = argument_for(row.name, arguments) if row.source == "command line" else None
            place = f"by the argument {argument} of the server" if argument else OVERRIDING_SOURCES[row.source]
            found[row.name] = Obstacle(f"is set {place}, which outranks every file", "Remove it first.")
    return found


def _in_auto_conf(settings: Mapping[str, Row]) -> set[str]:
    path = auto_conf_of(settings)
    return {row.name for row in settings.values() if row.sourcefile is not None and row.sourcefile == path}


def _barred(target: Target, settings: Mapping[str, Row]) -> dict[str, Obstacle]:
    """Return the knobs of postgresql.auto.conf that we cannot set there, and why."""
    names = _in_auto_conf(settings)
    path = auto_conf_of(settings)
    if not names or path is None:
        return {}
    bars = {name: Obstacle("pgdyno never sets it", "Leave it out.") for name in names if not may_be_managed(name)}
    bars |= sql_rights.unalterable(target.postgres, names - bars.keys())
    if whole := unkept(target, path):
        bars = dict.fromkeys(names, whole)
    because = f"is set in {AUTO_CONF}, which is read after every other file, and"
    return {
        name: Obstacle(f"{because} {bar.reason}", f"{bar.remedy.rstrip('.;')}, or ALTER SYSTEM RESET {name}.")
        for name, bar in bars.items()
    }


def may_be_managed(name: str) -> bool:
    """Tell whether we may set a knob by ALTER SYSTEM: what the policy allows, and never what may hold a secret."""
    return is_ours(name) and not may_hold_secret(name)


def unkept(target: Target, path: str) -> Obstacle | None:
    """Return why ALTER SYSTEM could not bring this postgresql.auto.conf back as it is; None where it could."""
    try:
        reading = read_files(target.postgres)
    except EnvironmentUnsuitable as error:
        return Obstacle(error.message, error.hint or "Let the role read pg_file_settings.")
    found = [line for line in reading.lines if line.sourcefile == path]
    lines = [Line(line.name or "", line.setting) for line in found]
    if is_as_written([line.sourceline or 0 for line in found], lines):
        return None
    return Obstacle(
        "that file was edited by hand, so that ALTER SYSTEM would drop its comments or double lines",
        "Let the server write it once: set one of its lines by ALTER SYSTEM to the value that it has",
    )


def _later_lines(target: Target, settings: Mapping[str, Row]) -> dict[str, Obstacle]:
    """Return what stands behind the line of the main file that names our file, where that is not the last one."""
    config = settings.get("config_file")
    if config is None or not config.setting:
        return {}
    main = Path(config.setting)
    found = behind_ours(target, main)
    if found is None:
        return {}
    try:
        reading = read_files(target.postgres)
    except EnvironmentUnsuitable:  # a session cannot begin without it, and says so
        return {}
    lines = lines_behind(reading, main, found)
    last = _in_auto_conf(settings)  # read last of all, and set there by us too
    places = {
        line.name: line.place
        for line in lines
        if line.name and line.name not in last and Path(line.sourcefile or "").name != AUTO_CONF
    }
    return {
        name: Obstacle(f"is set by {place}, which is read after our file", "Remove that line.")
        for name, place in places.items()
    }


def lines_behind(reading: FileReading, main: Path, behind: Behind) -> Sequence[FileLine]:
    """Return the lines that are read after our file: from the first on that stands, or is included, behind it."""

    def is_later(line: FileLine) -> bool:
        if line.sourcefile == str(main):
            return (line.sourceline or 0) > behind.number
        file = Path(line.sourcefile or "")
        return any(place in (file, file.parent) for place in behind.included)

    first = next((number for number, line in enumerate(reading.lines) if is_later(line)), len(reading.lines))
    return reading.lines[first:]


def behind_ours(target: Target, main: Path) -> Behind | None:
    """Return where the main file names our file and what it includes after that.

    None where it does not name it, because the line will be its last one then, and where it cannot be read.
    """
    if target.directory is None:
        return None
    try:
        dropin = DropIn(main, hands_of(target.directory))
        if not dropin.is_included():
            return None
        lines = dropin.hands.read_whole(dropin.main_real, LONGEST).decode(errors="replace").splitlines()
    except (OSError, EnvironmentUnsuitable):
        return None
    named = [(number, found[1]) for number, line in enumerate(lines, 1) if (found := _INCLUDE.match(line))]
    ours = max((number for number, name in named if main.parent / name == dropin.path), default=None)
    if ours is None:
        return None
    return Behind(ours, tuple(main.parent / name for number, name in named if number > ours))
