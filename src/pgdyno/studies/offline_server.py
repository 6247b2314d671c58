"""Know a server from a file: rows of pg_settings that somebody exported, or a postgresql.conf and its version."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from io import StringIO
from pathlib import Path

from pgdyno.errors import PgdynoError, UsageError
from pgdyno.knobs.parameters import NEWEST, OLDEST, parameter_shape, parameters_of
from pgdyno.knobs.values import canonical_text
from pgdyno.model.facts import SettingFact, Unknown
from pgdyno.model.inventory import HostInventory, Inventory, ServerInventory
from pgdyno.units import parse_quantity

_COLUMNS = ("name", "setting")
_LINE = re.compile(r"^\s*([A-Za-z_][\w.]*)\s*(?:=|\s)\s*(?:'((?:[^']|'')*)'|([^\s#]+))\s*(?:#.*)?$")
_HINT = "In psql: \\copy (SELECT * FROM pg_settings) TO 'settings.csv' CSV HEADER"


def server_of_settings(path: Path) -> Inventory:
    """Return what rows of pg_settings say, from CSV with a header or from JSON. Raises UsageError on other files."""
    text = _text(path)
    settings = {str(row["name"]): _row(row) for row in _rows(text, path)}
    number = settings.get("server_version_num")
    if number is None or not number.setting.isdigit():
        raise UsageError(
            f'file "{path}" does not say which version it is from', detail="It lacks server_version_num.", hint=_HINT
        )
    version = settings.get("server_version")
    return _inventory(path, settings, version.setting if version else number.setting, int(number.setting))


def server_of_conf(path: Path, version: str) -> Inventory:
    """Return what a postgresql.conf says, other parameters at the built-in values of that version (13 to 18).

    Of other versions only what the file sets is known. Lines that PostgreSQL would not read are left out and named
    in the inventory's `missing`; nothing of them is made up.
    """
    major, number = _version(version)
    settings = dict(parameters_of(major)) if OLDEST <= major <= NEWEST else {}
    missing = {} if settings else {"built-in values": f"pgdyno knows those of PostgreSQL {OLDEST} to {NEWEST}"}
    for place, line in enumerate(_text(path).splitlines(), 1):
        content = line.strip()
        if not content or content.startswith("#"):
            continue
        match = _LINE.match(line)
        if match is None or match[1].lower().startswith("include"):
            missing[f"{path.name}:{place}"] = "the line is not a plain setting"
            continue
        name, value = match[1].lower(), match[3] if match[2] is None else match[2].replace("''", "'")
        try:
            settings[name] = _set(settings.get(name) or parameter_shape(name), name, value, path, place)
        except PgdynoError as error:
            settings.pop(name, None)
            missing[name] = error.message
    return _inventory(path, settings, version, number, missing)


def _set(fact: SettingFact | None, name: str, value: str, path: Path, place: int) -> SettingFact:
    if fact is None:
        fact = SettingFact(name, value, None, "string", "unknown", "configuration file")
    elif fact.vartype in ("integer", "real"):
        number = parse_quantity(value, fact.unit)
        value = f"{number:g}" if fact.vartype == "real" else str(round(number))
    elif fact.vartype == "bool":
        value = canonical_text(fact, value)
    return replace(fact, setting=value, source="configuration file", sourcefile=str(path), sourceline=place)


def _rows(text: str, path: Path) -> Iterable[Mapping[str, object]]:
    try:
        rows: object = json.loads(text) if text.lstrip()[:1] in "[{" else list(csv.DictReader(StringIO(text)))
    except (json.JSONDecodeError, csv.Error) as error:
        raise UsageError(f'file "{path}" cannot be read as JSON or CSV', detail=str(error), hint=_HINT) from error
    found = rows if isinstance(rows, list) else []
    if not found or not all(isinstance(row, dict) and {*_COLUMNS} <= row.keys() for row in found):
        raise UsageError(f'file "{path}" does not hold rows of pg_settings', hint=_HINT)
    return found


def _row(row: Mapping[str, object]) -> SettingFact:
    def text(name: str) -> str | None:
        value = row.get(name)
        return None if value in (None, "") else str(value)

    words = row.get("enumvals")
    split = words.strip("{}").split(",") if isinstance(words, str) and words else words
    line = text("sourceline")
    return SettingFact(
        name=str(row["name"]),
        setting="" if row["setting"] is None else str(row["setting"]),
        unit=text("unit"),
        vartype=text("vartype") or "string",
        context=text("context") or "unknown",
        source=text("source") or "unknown",
        min_val=text("min_val"),
        max_val=text("max_val"),
        enumvals=tuple(str(one).strip('"') for one in split) if isinstance(split, list) else (),
        boot_val=text("boot_val"),
        reset_val=text("reset_val"),
        sourcefile=text("sourcefile"),
        sourceline=int(line) if line and line.isdigit() else None,
        pending_restart=str(row.get("pending_restart", "")).lower() in ("t", "true", "on"),
    )


def _inventory(
    path: Path,
    settings: Mapping[str, SettingFact],
    version: str,
    number: int,
    missing: Mapping[str, str] | None = None,
) -> Inventory:
    is_epas = any(name.startswith("edb_") for name in settings)
    reason = Unknown("only settings were given")
    server = ServerInventory(
        version=version,
        version_num=number,
        flavour="EPAS" if is_epas else "PostgreSQL",
        settings=settings,
        overrides=reason,
        extensions=reason,
        databases=reason,
        in_recovery=reason,
        standbys=reason,
    )
    return Inventory(host=HostInventory(), server=server, origin=str(path), missing=dict(missing or {}))


def _version(text: str) -> tuple[int, int]:
    parts = text.split(".")
    if not all(part.isdigit() for part in parts) or len(parts) > 3:
        raise UsageError(f'version "{text}" is not a version of PostgreSQL', hint="Write --pg-version 16 or 9.5.")
    numbers = [int(part) for part in parts]
    if numbers[0] >= 10:
        return numbers[0], numbers[0] * 10_000 + (numbers[1] if len(numbers) > 1 else 0)
    minor = (*numbers[1:], 0, 0)
    return numbers[0], numbers[0] * 10_000 + minor[0] * 100 + minor[1]


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f'file "{path}" cannot be read', detail=str(error)) from error
