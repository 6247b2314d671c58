"""Which settings make a server log its whole load, in files of the capture's own. Pure.

Every statement is written once, when it ends, with its duration, text and values (`log_min_duration_statement = 0`).
`log_destination` is the capture's style alone meanwhile: a server writes each line to every destination, and the load
would go to syslog, or twice to the disk.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

EXTENSIONS = {"csvlog": ".csv", "jsonlog": ".json"}
"""The styles that can be captured, and how the server's files of each end."""
JSONLOG_SINCE = 150_000
LISTS_CONNECTIONS_SINCE = 180_000
_ROTATION_KB = 1 << 20
_LONGEST_ROTATION_KB = 2_000_000
"""A little below what every version takes."""
_FILES = 40
_LATE = frozenset({"log", "fatal", "panic"})
"""Levels behind which errors are not logged."""
_ALL_CONNECTIONS = frozenset({"on", "true", "yes", "1", "all"})


def prefix_of(capture: str) -> str:
    """Return how the names of a capture's log files begin."""
    return f"pgdyno-{capture}-"


def logging_for(
    capture: str, style: str, found: Mapping[str, str], version: int, *, max_bytes: int, sampled: float | None = None
) -> dict[str, str]:
    """Return all that a capture wants set, in spellings of the server.

    `capture` is its id, with which the names of its files begin, `style` csvlog or jsonlog, and `version` the server's
    `server_version_num`. `found` are values of `pg_settings` by name: where one serves, such as a lower level, it is
    kept. A file ends after a fortieth of `max_bytes`, what the capture may log at most, within 1 to 2 GB. `sampled` is
    a share of the transactions, None for all: whole transactions are logged by lot, and the server's own log of slow
    statements would spoil the sample: it rests.
    """
    wanted = {
        "log_destination": style,
        "log_filename": f"{prefix_of(capture)}%Y%m%d-%H%M%S.log",
        "log_file_mode": "0600",
        "log_rotation_age": "0",
        "log_rotation_size": f"{min(_LONGEST_ROTATION_KB, max(_ROTATION_KB, max_bytes // 1024 // _FILES))}kB",
        "log_timezone": "UTC",
        "log_error_verbosity": "default",
        "log_min_error_statement": _level(found, "log_min_error_statement", "error"),
        "log_min_messages": _level(found, "log_min_messages", "warning"),
        "log_connections": _connections(found.get("log_connections", ""), version),
        "log_disconnections": "on",
        "log_parameter_max_length": "-1",
        "log_parameter_max_length_on_error": "-1",
        "log_min_duration_statement": "0",
    }
    if sampled is not None:
        wanted["log_min_duration_statement"] = wanted["log_min_duration_sample"] = "-1"
        wanted["log_transaction_sample_rate"] = f"{sampled:g}"
        wanted["log_duration"] = "off"
    return wanted


def to_change(wanted: Mapping[str, str], found: Mapping[str, str]) -> dict[str, str]:
    """Return what of the wanted settings is not so already."""
    return {name: value for name, value in wanted.items() if not _is_same(name, value, found.get(name))}


def is_hole(name: str, value: str, wanted: Mapping[str, str]) -> bool:
    """Tell whether this value, set for a role or a database, keeps statements or their values out of the log."""
    return name in wanted and not _is_same(name, value, wanted[name])


def style_words(style: str, log_statement: str) -> str:
    """Return the style of a log as traces call it: B has each statement at its end, A at its begin too."""
    return f"{style} {'A' if log_statement == 'all' else 'B'}"


def files_of(capture: str, style: str, names: Iterable[str]) -> list[str]:
    """Return the names of a capture's files, oldest first: each has its moment in its name."""
    return sorted(name for name in names if name.startswith(prefix_of(capture)) and name.endswith(EXTENSIONS[style]))


def _level(found: Mapping[str, str], name: str, otherwise: str) -> str:
    value = found.get(name, otherwise)
    return otherwise if value in _LATE else value


def _connections(found: str, version: int) -> str:
    """Return what logs each session with its role and database; from 18 on a list of the steps of a connection."""
    if version < LISTS_CONNECTIONS_SINCE:
        return "on"
    steps = [step.strip() for step in found.lower().split(",") if step.strip()]
    if set(steps) & _ALL_CONNECTIONS:
        return found
    return ",".join(dict.fromkeys([*(step for step in steps if step not in ("off", "false", "no", "0")),
                                   "receipt", "authentication", "authorization"]))  # fmt: skip


def _is_same(name: str, value: str, found: str | None) -> bool:
    if found is None:
        return False
    if name == "log_rotation_size":
        value = value.removesuffix("kB")
    if name == "log_file_mode":
        return value.lstrip("0") == found.lstrip("0")
    if name in ("log_connections", "log_disconnections", "log_duration") and value in ("on", "off"):
        return found.lower() in (("on", "true", "yes", "1") if value == "on" else ("off", "false", "no", "0"))
    return "".join(value.lower().split()) == "".join(found.lower().split())
