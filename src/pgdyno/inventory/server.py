"""The server from the rows that it gave, or from its configuration file. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import TypeVar

from pgdyno.capture.texts import Capture
from pgdyno.errors import UsageError
from pgdyno.inventory.server_values import server_values
from pgdyno.inventory.settings_file import parse_conf, parse_settings, version_number
from pgdyno.model.facts import SettingFact, Unknown
from pgdyno.model.inventory import Database, ServerInventory
from pgdyno.server.own_databases import ANY_NAME

_CONF = "postgres/postgresql.conf"
_SETTINGS = "postgres/settings.json"
_MB = 1 << 20
T = TypeVar("T", bool, int, float)


def read_server(capture: Capture) -> ServerInventory | Unknown:
    """Return the server; unknown when the capture holds neither its settings nor a configuration file."""
    of_session = _settings(capture)
    if isinstance(of_session, Unknown):
        return of_session
    own = server_values(of_session, capture.rows("file_settings"))
    settings = own.settings
    row = _first(capture, "server")
    told = str(row.get("version", "")) if isinstance(row, dict) else ""
    version, number = _version(capture, settings, told)
    if number == 0:
        return Unknown("the capture does not say which version of PostgreSQL it is; --pg-version names it")
    return ServerInventory(
        version=version,
        version_num=number,
        flavour=_flavour(told, settings),
        settings=settings,
        hidden=own.hidden,
        overrides=_overrides(capture),
        extensions=_pairs(capture, "extensions"),
        available_extensions=_names(capture, "available_extensions"),
        databases=_databases(capture),
        in_recovery=_field(row, "in_recovery", bool),
        standbys=_field(row, "standbys", int),
        slots=_field(row, "slots", int),
        data_checksums=_checksums(settings),
        uptime_s=_field(row, "uptime_s", float),
        shared_memory_bytes=_shared_memory(capture, settings),
        huge_pages_needed=_huge_pages_needed(settings, number),
        huge_pages_in_use=_huge_pages_in_use(capture, settings),
        peak_memory_bytes=_kb_of_status(capture, "VmPeak"),
        peak_memory_file=_status_file(capture),
        semaphores=_whole_setting(settings, "num_os_semaphores", "since 18"),
        connections=_field(row, "connections", int),
        relations=_field(_first(capture, "relations"), "tables", int),
        log_files=_log_files(capture, settings),
        same_host=_field(_first(capture, "target"), "same_host", bool),
        disposable=_field(_first(capture, "target"), "disposable", bool) is True,
    )


def _settings(capture: Capture) -> Mapping[str, SettingFact] | Unknown:
    text = capture.text(_SETTINGS)
    if isinstance(text, str):
        try:
            return parse_settings(text)
        except UsageError as error:
            return Unknown(f"{_SETTINGS}: {error.one_line}")
    conf = capture.maybe(_CONF)
    if conf is None:
        return text
    about = _first(capture, "version")
    given = str(about.get("version", "")) if isinstance(about, dict) else ""
    return parse_conf(conf, version_number(given)) if given else Unknown("postgresql.conf needs --pg-version")


def _version(capture: Capture, settings: Mapping[str, SettingFact], told: str) -> tuple[str, int]:
    number = settings.get("server_version_num")
    text = settings["server_version"].setting if "server_version" in settings else ""
    about = _first(capture, "version")
    if not text and isinstance(about, dict):
        text = str(about.get("version", ""))
    if not text:
        match = re.search(r"(?:PostgreSQL|EnterpriseDB)\s+(\d+(?:\.\d+)*)", told)
        text = match[1] if match else ""
    if number is not None and number.setting.isdecimal():
        return text or number.setting, int(number.setting)
    match = re.match(r"\d+(?:\.\d+)*", text)
    return text, version_number(match[0]) if match else 0


def _flavour(told: str, settings: Mapping[str, SettingFact]) -> str:
    shown = settings["server_version"].setting if "server_version" in settings else ""
    is_edb = "EnterpriseDB" in told + shown or any(name.startswith("edb_") for name in settings)
    return "EPAS" if is_edb else "PostgreSQL"


def _first(capture: Capture, query: str) -> dict[str, object] | Unknown:
    rows = capture.rows(query)
    if isinstance(rows, Unknown):
        return rows
    return rows[0] if rows else Unknown(f"postgres/{query}.json has no row")


def _field(row: dict[str, object] | Unknown, name: str, kind: type[T]) -> T | Unknown:
    if isinstance(row, Unknown):
        return row
    value = row.get(name)
    if kind is float and isinstance(value, int | float) and not isinstance(value, bool):
        return kind(value)
    if isinstance(value, kind) and (kind is bool or not isinstance(value, bool)):
        return value
    return Unknown(f"the server did not tell {name}" if value is None else f"{name} is {value!r}")


def _overrides(capture: Capture) -> Mapping[str, Mapping[str, str]] | Unknown:
    rows = capture.rows("overrides")
    if isinstance(rows, Unknown):
        return rows
    found: dict[str, dict[str, str]] = {}
    for row in rows:
        role, database = row.get("role"), row.get("database")
        who = " in ".join(
            f"{kind} {name}" for kind, name in (("role", role), ("database", database)) if name is not None
        )
        listed = row.get("settings")
        pairs = [str(pair).partition("=") for pair in listed] if isinstance(listed, list) else []
        found.setdefault(who or "all roles", {}).update({name: value for name, _, value in pairs})
    return found


def _pairs(capture: Capture, query: str) -> Mapping[str, str] | Unknown:
    rows = capture.rows(query)
    return rows if isinstance(rows, Unknown) else {str(row.get("name")): str(row.get("version")) for row in rows}


def _names(capture: Capture, query: str) -> frozenset[str] | Unknown:
    rows = capture.rows(query)
    return rows if isinstance(rows, Unknown) else frozenset(str(row.get("name")) for row in rows)


def _databases(capture: Capture) -> tuple[Database, ...] | Unknown:
    rows, sized = capture.rows("databases"), capture.rows("database_sizes")
    if isinstance(rows, Unknown):
        return rows
    sizes = {} if isinstance(sized, Unknown) else {str(row.get("name")): row.get("bytes") for row in sized}
    hidden = (
        sized if isinstance(sized, Unknown) else Unknown("its size is shown with CONNECT or pg_read_all_stats only")
    )
    found = []
    for row in rows:
        name, size = str(row.get("name")), sizes.get(str(row.get("name")))
        if re.match(ANY_NAME, name):
            continue  # ours: of a load, and gone when its study ends
        age = _field(row, "statistics_age_s", float)
        found.append(
            Database(
                name,
                size if isinstance(size, int) else hidden,
                Unknown("never reset") if isinstance(age, Unknown) else age,
                _field(row, "frozen_xid_age", int),
            )
        )
    return tuple(found)


def _checksums(settings: Mapping[str, SettingFact]) -> bool | Unknown:
    fact = settings.get("data_checksums")
    if fact is None:
        return Unknown("data_checksums is not shown")
    return fact.setting == "on"


def _whole_setting(settings: Mapping[str, SettingFact], name: str, since: str) -> int | Unknown:
    fact = settings.get(name)
    if fact is None or not re.fullmatch(r"\d+", fact.setting):
        return Unknown(f"the server tells it {since}, by {name}")
    return int(fact.setting)


def _shared_memory(capture: Capture, settings: Mapping[str, SettingFact]) -> int | Unknown:
    size = _whole_setting(settings, "shared_memory_size", "since 15")
    if isinstance(size, int) and size > 0:
        return size * _MB
    row = _first(capture, "shared_memory")
    return row if isinstance(row, Unknown) else _field(row, "bytes", int)


def _huge_pages_needed(settings: Mapping[str, SettingFact], number: int) -> int | Unknown:
    if number < 150_000:
        return Unknown("the server tells it since 15; before, VmPeak of the postmaster is the bound")
    fact = settings.get("shared_memory_size_in_huge_pages")
    if fact is None or not fact.setting.isdecimal() or fact.setting == "0":
        return Unknown("the server does not know a huge page size here, or was not asked")
    return int(fact.setting)


def _huge_pages_in_use(capture: Capture, settings: Mapping[str, SettingFact]) -> bool | Unknown:
    status = settings.get("huge_pages_status")
    if status is not None and status.setting in ("on", "off"):
        return status.setting == "on"
    used = _kb_of_status(capture, "HugetlbPages")
    return used if isinstance(used, Unknown) else used > 0


def _kb_of_status(capture: Capture, name: str) -> int | Unknown:
    text = capture.text("proc/postmaster/status")
    if isinstance(text, Unknown):
        return text
    match = re.search(rf"^{name}:\s+(\d+) kB", text, re.MULTILINE)
    return int(match[1]) * 1024 if match else Unknown(f"/proc/PID/status shows no {name}")


def _status_file(capture: Capture) -> str:
    about = capture.document("commands/postmaster.json")
    pid = about.get("pid") if isinstance(about, dict) else None
    return f"/proc/{pid}/status" if isinstance(pid, int) and "proc/postmaster/status" in capture.texts else ""


def _log_files(capture: Capture, settings: Mapping[str, SettingFact]) -> tuple[str, ...] | Unknown:
    row = _first(capture, "log")
    files = [] if isinstance(row, Unknown) else [str(path) for path in row.values() if path]
    data = settings["data_directory"].setting if "data_directory" in settings else ""
    newest = _first(capture, "newest_log")
    if not files and isinstance(newest, dict) and newest.get("name"):
        folder = settings["log_directory"].setting if "log_directory" in settings else "log"
        files = [f"{folder}/{newest['name']}"]
    if files:
        return tuple(path if path.startswith("/") or not data else f"{data}/{path}" for path in dict.fromkeys(files))
    about = capture.document("commands/postmaster.json")
    log = about.get("log") if isinstance(about, dict) else None
    if log:
        return (str(log),)
    return (
        row if isinstance(row, Unknown) else Unknown("the server logs to its standard error, which is not a file here")
    )


def version_text(version: str) -> str:
    """Return the text of `postgres/version.json`, which names the version of a server that was not asked."""
    return json.dumps([{"version": version}]) + "\n"
