"""Whether a configuration is really in force: pure judgement of what a new session reads from `pg_settings`.

A trial whose configuration is not in force would be measured under a false name; it is void.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from pgdyno.errors import UsageError
from pgdyno.model.configuration import Configuration
from pgdyno.target.snapshot import SettingState
from pgdyno.units import BYTES, MICROSECONDS, parse_quantity, split_unit

_TRUE = ("on", "true", "yes", "1")
_FALSE = ("off", "false", "no", "0")
_FRACTION = re.compile(r"\.\d|[eE]-")
_WHO = {
    "command line": "the command line of the server",
    "environment variable": "an environment variable of the server",
    "global": "a setting for all databases",
    "database": "ALTER DATABASE SET",
    "user": "ALTER ROLE SET",
    "database user": "ALTER ROLE IN DATABASE SET",
    "client": "the connection's own options",
}


def shortfalls(configuration: Configuration, settings: Mapping[str, SettingState], dropin: Path | None) -> list[str]:
    """Return a sentence for each knob that is not in force as asked, empty when all are.

    In force means: the value, in base units, is what was asked after the server's own rounding; it comes from our
    file; it does not wait for a restart; and huge pages that were asked for were got (`huge_pages_status`, 17).
    """
    found = [_shortfall(name, value, settings.get(name), dropin) for name, value in configuration.items()]
    return [sentence for sentence in [*found, _huge_pages(configuration, settings)] if sentence is not None]


def needs_restart(before: Configuration, after: Configuration, settings: Mapping[str, SettingState]) -> list[str]:
    """Return the knobs that differ between two configurations and that only a restart changes."""
    changed = {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}
    return sorted(name for name in changed if name in settings and settings[name].context == "postmaster")


def same_value(asked: str, state: SettingState) -> bool:
    """Return True when the setting in force is what the text asks for, in the server's own reading of it."""
    in_force = state.setting or ""
    match state.vartype:
        case "bool":
            return _truth(asked) is not None and _truth(asked) == _truth(in_force)
        case "integer" | "real":
            return _same_number(asked, in_force, state)
        case "enum":
            return asked.lower() == in_force.lower() or _same_switch(asked, in_force)
        case _:
            return _squeezed(asked) == _squeezed(in_force)


def _shortfall(name: str, value: str, state: SettingState | None, dropin: Path | None) -> str | None:
    if state is None:
        return f"{name} is not a setting of this server"
    if state.pending_restart:
        return f"{name} = {value} waits for a restart"
    if _is_computed(value, state):
        return None
    if None not in (state.sourcefile, dropin) and Path(str(state.sourcefile)) != dropin:
        return f"{name} = {value} is overridden by {state.place()}, which sets {state.setting}"
    if state.source != "configuration file":
        return f"{name} = {value} is overridden by {_WHO.get(state.source, state.source)}, which sets {state.setting}"
    if not same_value(value, state):
        return f"{name} = {value} was read, but {state.setting} is in force"
    return None


def _is_computed(value: str, state: SettingState) -> bool:
    """Tell whether the value asks the server to compute one (-1 or 0), and it did so: source `override`."""
    return value.strip() in ("-1", "0") and state.source == "override"


def _huge_pages(configuration: Configuration, settings: Mapping[str, SettingState]) -> str | None:
    status = settings.get("huge_pages_status")
    if configuration.get("huge_pages", "").lower() not in _TRUE or status is None or status.setting == "on":
        return None
    return f"huge_pages = on was read, but huge_pages_status is {status.setting}"


def _same_number(asked: str, in_force: str, state: SettingState) -> bool:
    if asked.strip() == in_force:
        return True
    try:
        wanted, found = parse_quantity(asked, state.unit), float(in_force)
    except (UsageError, ValueError):
        return False
    tolerance = abs(wanted) * 1e-6 if state.vartype == "real" else 0.5 + _rounding(asked, state.unit)
    return abs(wanted - found) <= tolerance


def _rounding(asked: str, unit: str | None) -> float:
    """Return how far the server may round a fraction such as 30.1GB: to the next smaller unit (guc.c, 12 and later)."""
    suffix = asked.strip().lstrip("+-.0123456789eE ")
    if unit is None or not suffix or not _FRACTION.search(asked):
        return 0.0
    multiplier, base = split_unit(unit)
    table = BYTES if base in BYTES else MICROSECONDS
    smaller = [size for size in table.values() if size < table.get(suffix, 0)]
    return max(smaller, default=0) / 2 / (multiplier * table[base])


def _truth(text: str) -> bool | None:
    """Return what PostgreSQL reads as a boolean: on, off, true, false, yes, no, 1, 0 and unique beginnings."""
    word = text.strip().lower()
    for value, spellings in ((True, _TRUE), (False, _FALSE)):
        if word in spellings or (word and word != "o" and any(full.startswith(word) for full in spellings)):
            return value
    return None


def _same_switch(asked: str, in_force: str) -> bool:
    """Tell whether an enum was asked for by a boolean word that the server shows by name (wal_compression = on)."""
    wanted = asked.strip().lower()
    if wanted in _TRUE:
        return in_force.lower() not in _FALSE
    return wanted in _FALSE and in_force.lower() in _FALSE


def _squeezed(text: str) -> str:
    return re.sub(r"\s+", "", text).casefold()
