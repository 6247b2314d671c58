"""Whether a configuration is really in force: pure judgement of what a new session and the kernel say.

`in_force.py` reads what is judged here. A trial whose configuration is not in force would be measured under a false
name; it is void.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pgdyno.errors import UsageError
from pgdyno.model.configuration import Configuration
from pgdyno.model.linux import NR_HUGEPAGES, SEEN_AT_START
from pgdyno.outside.quoting import identifier
from pgdyno.server.snapshot import SettingDifference, SettingState
from pgdyno.units import BYTES, MICROSECONDS, parse_quantity, split_unit

_TRUE = ("on", "true", "yes", "1")
_FALSE = ("off", "false", "no", "0")
_PLAIN = re.compile(r"[a-z_][a-z0-9_$]*")
_FRACTION = re.compile(r"\.\d|[eE]-")
_LETTERS = {"-B": "shared_buffers", "-N": "max_connections", "-S": "work_mem"}
"""Options of the postmaster that set a knob of ours and take a value (PostgreSQL documentation, `postgres`)."""


@dataclass(frozen=True, slots=True)
class Observed:
    """What is known beside `pg_settings`; None where it is not known or was not asked for.

    `role` and `database` are the session's, `arguments` the postmaster's command line. `huge_pages` tells whether
    the postmaster has any mapped. `io_workers` and `io_rings` count its I/O worker processes and open io_urings (18).
    `accepted` are the sources in `pg_settings` that our values may come from.
    """

    role: str | None = None
    database: str | None = None
    arguments: tuple[str, ...] = ()
    huge_pages: bool | None = None
    io_workers: int | None = None
    io_rings: int | None = None
    accepted: frozenset[str] = frozenset({"configuration file"})


def shortfalls(
    configuration: Configuration,
    settings: Mapping[str, SettingState],
    dropin: Path | None,
    observed: Observed = Observed(),
) -> list[str]:
    """Return a sentence for each knob that is not in force as asked, empty when all are.

    In force means: the value, in base units, is what was asked after the server's own rounding; it comes from our
    file; it does not wait for a restart; huge pages that were asked for were got (`huge_pages_status` from 17 on,
    what the postmaster has mapped before); and the I/O method is at work. What overrides is named with its place.
    `configuration` has knobs of PostgreSQL alone; `settings` are those of a session opened after the change, by name,
    and `observed` is what else was seen. `dropin` is our file, None where it cannot be known: then any file will do.
    """
    found = [_shortfall(name, value, settings.get(name), dropin, observed) for name, value in configuration.items()]
    found += [_huge_pages(configuration, settings, observed), _io_method(configuration, observed)]
    return [sentence for sentence in found if sentence is not None]


def needs_restart(before: Configuration, after: Configuration, settings: Mapping[str, SettingState]) -> list[str]:
    """Return the knobs that differ between two configurations and that PostgreSQL sees only when it starts."""
    changed = {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}
    return sorted(name for name in changed if _waits(settings.get(name)) or name in SEEN_AT_START)


def unexpected(found: Sequence[SettingDifference], configuration: Configuration) -> list[str]:
    """Return what differs from the server as it was found where no setting of it was changed.

    A pool of huge pages is there to be used: `huge_pages_status` (17 and newer) follows from it.
    """
    follows = {"huge_pages_status"} if NR_HUGEPAGES in configuration else set()
    return [str(difference) for difference in found if difference.name not in follows]


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


def _waits(state: SettingState | None) -> bool:
    return state is not None and state.context == "postmaster"


def _shortfall(
    name: str, value: str, state: SettingState | None, dropin: Path | None, observed: Observed
) -> str | None:
    if state is None:
        return f"{name} is not a setting of this server"
    if state.pending_restart:
        return f"{name} = {value} waits for a restart"
    if _is_computed(value, state):
        return None
    if None not in (state.sourcefile, dropin) and Path(str(state.sourcefile)) != dropin:
        return f"{name} = {value} is overridden by {state.place()}, which sets {state.shown()}"
    if state.source not in observed.accepted:
        return f"{name} = {value} is overridden by {origin(name, state.source, observed)}, which sets {state.shown()}"
    if not same_value(value, state):
        return f"{name} = {value} was read, but {state.shown()} is in force"
    return None


def _is_computed(value: str, state: SettingState) -> bool:
    """Tell whether the value asks the server to compute one (-1 or 0), and it did so: source `override`."""
    return value.strip() in ("-1", "0") and state.source == "override"


def origin(name: str, source: str, observed: Observed) -> str:
    """Return the very place that a value comes from, for a source of `pg_settings` that is no file.

    For role and database settings it is the statement that made it, names quoted as SQL needs them.
    """
    role, database = quoted(observed.role), quoted(observed.database)
    match source:
        case "command line":
            argument = argument_for(name, observed.arguments)
            return f"the argument {argument} of the server" if argument else "the command line of the server"
        case "global":
            return "ALTER ROLE ALL SET"
        case "database":
            return f"ALTER DATABASE {database} SET"
        case "user":
            return f"ALTER ROLE {role} SET"
        case "database user":
            return f"ALTER ROLE {role} IN DATABASE {database} SET"
        case "client":
            return "the connection's own options (PGOPTIONS, or options in --target)"
        case "environment variable":
            return "an environment variable of the server"
        case _:
            return source


def quoted(name: str | None) -> str:
    """Return an SQL identifier, quoted only where it must be; of an unknown one, what it stands for."""
    if name is None:
        return "..."
    return name if _PLAIN.fullmatch(name) else identifier(name)


def argument_for(name: str, arguments: Sequence[str]) -> str | None:
    """Return the last argument that sets a knob: `-c name=value`, `--name=value`, or a letter such as `-B 16384`."""
    found = None
    for word, following in zip(arguments, (*arguments[1:], ""), strict=False):
        letter = _LETTERS.get(word[:2])
        if word == "-c":
            text, shown = following, f"-c {following}"
        elif word.startswith(("-c", "--")):
            text, shown = word[2:], word
        elif letter is not None:
            text, shown = f"{letter}=", word if word[2:] else f"{word} {following}"
        else:
            continue
        if text.partition("=")[0].replace("-", "_").lower() == name.lower():
            found = shown
    return found


def _huge_pages(configuration: Configuration, settings: Mapping[str, SettingState], observed: Observed) -> str | None:
    if configuration.get("huge_pages", "").lower() not in _TRUE:
        return None
    status = settings.get("huge_pages_status")
    if status is not None and status.setting != "on":
        return f"huge_pages = on was read, but huge_pages_status is {status.setting}"
    if observed.huge_pages is False:
        return "huge_pages = on was read, but the server's shared memory lies in ordinary pages"
    return None


def _io_method(configuration: Configuration, observed: Observed) -> str | None:
    match configuration.get("io_method", "").lower():
        case "worker" if observed.io_workers == 0:
            return "io_method = worker was read, but no I/O worker runs"
        case "io_uring" if observed.io_rings == 0:
            return "io_method = io_uring was read, but the server has no io_uring open"
        case "sync" if observed.io_workers or observed.io_rings:
            return "io_method = sync was read, but I/O workers or io_urings are in use"
        case _:
            return None


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
