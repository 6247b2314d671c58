"""Settings from files: pg_settings as CSV, JSON or psql prints it, and postgresql.conf with the defaults of a version.

Pure but for the shipped table of parameters.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from importlib.resources import files
from typing import Any

from pgdyno.capture.secrets import public_setting
from pgdyno.errors import UsageError
from pgdyno.model.facts import SUPPORTED_MAJORS, SettingFact
from pgdyno.outside.documents import load_csv, load_json
from pgdyno.outside.numbers import is_without_measure
from pgdyno.units import parse_quantity

_OF_ONE_CLUSTER = frozenset(
    {
        *("config_file", "data_directory", "hba_file", "ident_file", "data_checksums", "data_directory_mode"),
        *("huge_pages_status", "in_hot_standby", "lc_collate", "lc_ctype", "num_os_semaphores", "server_encoding"),
        *("server_version", "server_version_num", "shared_memory_size", "shared_memory_size_in_huge_pages"),
        *("ssl_library", "wal_segment_size"),
    }
)
"""What initdb, the build or the running server decides: the table's values of these are another server's."""
_FORMS = "Write it with: psql --csv -c 'SELECT * FROM pg_settings' > pg_settings.csv"
_NUMBERS = ("integer", "real")
_TRUE, _FALSE = ("on", "true", "yes", "1", "t", "y"), ("off", "false", "no", "0", "f", "n")
_EMPTY = re.compile(r"\s*(?:#|$)")
_LINE = re.compile(r"^\s*([A-Za-z_][\w.]*)(?:\s*=\s*|\s+|(?='))('(?:[^'\\]|''|\\.)*'|(?!')[^#\s]+)\s*(?:#.*)?$")


def parse_settings(text: str) -> dict[str, SettingFact]:
    """Read rows of pg_settings: JSON, CSV with a heading, or what psql prints, aligned or not.

    Passwords and the arguments of commands are left out. Raises UsageError when there is no column of names.
    """
    rows = _rows(text)
    found = {
        str(row["name"]): setting_of_row(row) for row in rows if row.get("name") and row.get("setting") is not None
    }
    if not found:
        raise UsageError(
            "the file holds no settings",
            detail="Columns name and setting are needed; unit, vartype, context, source and boot_val help.",
            hint=_FORMS,
        )
    return found


def setting_of_row(row: Mapping[str, object]) -> SettingFact:
    """Return a row of pg_settings. A column that is not there is empty: its source is then `unknown`."""
    name = str(row["name"])

    def text(column: str) -> str | None:
        value = row.get(column)
        return None if value is None or value == "" else str(value)

    line = text("sourceline")
    _check(None, str(row["setting"]), f"setting {name}")
    return SettingFact(
        name=name,
        setting=public_setting(name, str(row["setting"])) or "",
        unit=text("unit"),
        vartype=text("vartype") or _vartype(str(row["setting"])),
        context=text("context") or "unknown",
        source=text("source") or "unknown",
        min_val=text("min_val"),
        max_val=text("max_val"),
        enumvals=_words(row.get("enumvals")),
        boot_val=public_setting(name, None if row.get("boot_val") is None else str(row["boot_val"])),
        reset_val=public_setting(name, None if row.get("reset_val") is None else str(row["reset_val"])),
        sourcefile=text("sourcefile"),
        sourceline=int(line) if line is not None and re.fullmatch("[0-9]{1,9}", line) else None,
        pending_restart=str(row.get("pending_restart", "")).lower() in ("true", "t"),
    )


def parse_conf(text: str, version_num: int, file: str = "postgresql.conf") -> dict[str, SettingFact]:
    """Return the settings of a postgresql.conf on top of the defaults of a version, in base units.

    No defaults of unsupported older versions are shipped: only what the file says is known. The last of two lines
    counts. Files that it includes are not read. A value that cannot be read keeps its text.
    """
    found = dict(defaults_of(version_num))
    for number, (name, value) in _conf_lines(text):
        known = found.get(name) or _kindred(name)
        row = known or SettingFact(name, value, None, _vartype(value), "unknown", "configuration file")
        if row.vartype == "string" and known is None and value.lower() in (*_TRUE[:3], *_FALSE[:3]):
            row = replace(row, vartype="bool")
        _check(row, value, f"{file}:{number}")
        found[name] = replace(
            row,
            setting=public_setting(name, base_value(row, value)) or "",
            boot_val=row.boot_val if name in defaults_of(version_num) else None,
            reset_val=None,
            source="configuration file",
            sourcefile=file,
            sourceline=number,
            pending_restart=False,
        )
    return found


def first_strange(text: str) -> int | None:
    """Return the number of the first line that no server would take: no setting, no comment, not empty."""
    lines = enumerate(text.splitlines(), 1)
    return next((number for number, line in lines if not (_LINE.match(line) or _EMPTY.match(line))), None)


@cache
def defaults_of(version_num: int) -> Mapping[str, SettingFact]:
    """Return every parameter of a version at its built-in default: none of an old one, and the newest's of a newer."""
    major = min(version_num // 10_000, SUPPORTED_MAJORS[-1])
    return _parameters(major) if major in SUPPORTED_MAJORS else {}


def version_number(text: str) -> int:
    """Return `9.5.7`, `14.4` or `16` as server_version_num has it. Raises UsageError on anything else."""
    match = re.fullmatch(r"(\d{1,2})(?:\.(\d{1,2}))?(?:\.(\d{1,2}))?(?:\.\d+)*", text.strip())
    if match is None:
        raise UsageError(f'"{text}" is not a version of PostgreSQL', hint="Write it as 16, 14.4 or 9.5.7.")
    first, second, third = (int(part or 0) for part in match.groups())
    return first * 10_000 + second * 100 + third if first < 10 else first * 10_000 + second


def base_value(row: SettingFact, value: str) -> str:
    """Return a value of a file as pg_settings shows it: numbers in the base unit, on or off; else as it is."""
    if row.vartype == "bool":
        word = value.lower()
        return "on" if word in _TRUE else "off" if word in _FALSE else value
    if row.vartype not in _NUMBERS or re.fullmatch(r"-?\d+(\.\d+)?", value):
        return value
    try:
        number = parse_quantity(value, row.unit)
    except (UsageError, ValueError):
        return value
    return f"{round(number)}" if row.vartype == "integer" else f"{number:g}"


def _check(row: SettingFact | None, value: str, where: str) -> None:
    if is_without_measure(value) and (row is None or row.vartype != "string"):
        raise UsageError(f'{where}: "{value[:40]}" is too large for a number', hint="No server takes it: correct it.")


def _conf_lines(text: str) -> Iterator[tuple[int, tuple[str, str]]]:
    for number, line in enumerate(text.splitlines(), 1):
        match = _LINE.match(line)
        if match is None or match[1].lower() in ("include", "include_if_exists", "include_dir"):
            continue
        value = match[2]
        if value.startswith("'"):
            value = value[1:-1].replace("''", "'").replace("\\'", "'")
        yield number, (match[1] if "." in match[1] else match[1].lower(), value)


def _kindred(name: str) -> SettingFact | None:
    """Return the parameter of the oldest version that has it: units did not change since 9.5."""
    return next((fact for major in SUPPORTED_MAJORS if (fact := _parameter(name, major)) is not None), None)


@cache
def _parameters(major: int) -> Mapping[str, SettingFact]:
    known = ((name, _parameter(name, major)) for name in _table())
    return {name: fact for name, fact in known if fact is not None}


def _parameter(name: str, major: int) -> SettingFact | None:
    """Return a parameter at the built-in default of a version, None where that version does not have it."""
    row = next((one for one in _table().get(name, ()) if major in one["versions"]), None)
    if row is None or name in _OF_ONE_CLUSTER:
        return None
    values = {key: value for key, value in row.items() if key not in ("versions", "setting", "source")}
    values["setting"] = row.get("boot_val") or ""
    return replace(setting_of_row({"name": name, **values}), source="default")


@cache
def _table() -> Mapping[str, Sequence[Mapping[str, Any]]]:
    """Return the shipped table: the rows of each parameter, one or more with the versions that they hold for."""
    document = json.loads(files("pgdyno.inventory").joinpath("data/parameters.json").read_text("utf-8"))
    rows: Mapping[str, Sequence[Mapping[str, Any]]] = document["params"]
    return rows


def _rows(text: str) -> list[dict[str, object]]:
    start = text.lstrip()[:1]
    if start in ("[", "{"):
        return _json_rows(text)
    lines = [line for line in text.splitlines() if line.strip()]
    aligned = [
        line for line in lines if not re.fullmatch(r"[-+\s]+", line) and not re.fullmatch(r"\(\d+ rows?\)", line)
    ]
    if aligned and "|" in aligned[0] and "," not in aligned[0]:
        heading = [word.strip() for word in aligned[0].split("|")]
        return [_row(heading, [part.strip() for part in line.split("|")]) for line in aligned[1:]]
    try:
        rows = list(load_csv(text))
    except ValueError as error:
        raise UsageError("the file of settings is not CSV", detail=str(error), hint=_FORMS) from error
    heading = [word.strip() for word in (rows[0] if rows else [])]
    return [_row(heading, row) for row in rows[1:] if row]


def _row(heading: Sequence[str], values: Sequence[str]) -> dict[str, object]:
    return dict(zip(heading, values, strict=False))


def _json_rows(text: str) -> list[dict[str, object]]:
    try:
        found = load_json(text)
    except ValueError as error:
        raise UsageError("the file of settings is not JSON", detail=str(error), hint=_FORMS) from error
    if isinstance(found, dict) and all(isinstance(value, str) for value in found.values()):
        return [{"name": name, "setting": value} for name, value in found.items()]
    return [row for row in found if isinstance(row, dict)] if isinstance(found, list) else []


def _words(value: object) -> tuple[str, ...]:
    if isinstance(value, list):
        return tuple(str(word) for word in value)
    text = str(value or "").strip("{}")
    try:
        return tuple(next(load_csv(text), ()))
    except ValueError:
        return ()


def _vartype(value: str) -> str:
    if value in ("on", "off"):
        return "bool"
    return "integer" if re.fullmatch(r"-?\d+", value) else "real" if re.fullmatch(r"-?\d+\.\d+", value) else "string"
