"""What is known of a target, live, over ssh or from a captured folder: one way, raw texts first, then parsed."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from pgdyno.capture.folder import load_folder, write_folder
from pgdyno.capture.take import take_capture
from pgdyno.capture.texts import ENVIRONMENT, Capture
from pgdyno.errors import EnvironmentUnsuitable, UsageError
from pgdyno.inventory.reading import read_inventory
from pgdyno.inventory.server import version_text
from pgdyno.inventory.settings_file import first_strange, parse_conf, parse_settings, version_number
from pgdyno.model.facts import Unknown
from pgdyno.model.inventory import Inventory
from pgdyno.outside.files import MOST_BYTES, read_text
from pgdyno.targets.target import Target


def inspect(target: Target) -> Inventory:
    """Return the inventory of a target. Reads only; the rights of pg_monitor are enough.

    Raises ConnectError when there is no session.
    """
    return read_inventory(take_capture(target))


def write_capture(target: Target, folder: Path) -> Inventory:
    """Capture a target into a folder and return what the capture tells. Errors as `inspect` and `write_folder`."""
    capture = take_capture(target)
    write_folder(capture, folder)
    return read_inventory(capture)


def inspect_capture(
    folder: Path | None, *, settings: Path | None = None, conf: Path | None = None, version: str | None = None
) -> Inventory:
    """Return the inventory of a captured folder or of loose outputs; see docs/reference/inspect.md.

    `settings` (pg_settings) or `conf` (postgresql.conf of `version`) stand in for the server's part, and without a
    folder for all of it. Raises UsageError on files that cannot be read, EnvironmentUnsuitable when the folder holds
    nothing that we know.
    """
    found = Capture({}, origin=str(settings or conf)) if folder is None else load_folder(folder)
    inventory = read_inventory(with_settings(found, settings=settings, conf=conf, version=version))
    if folder is not None and is_empty(inventory):
        raise EnvironmentUnsuitable(
            f'folder "{folder}" holds nothing that can be read as a capture',
            detail="; ".join(f"{key}: {why}" for key, why in list(inventory.missing.items())[:3]) or None,
            hint="Make one there: pgdyno inspect --capture DIR; docs/reference/inspect.md has the names.",
        )
    return inventory


def with_settings(
    capture: Capture, *, settings: Path | None = None, conf: Path | None = None, version: str | None = None
) -> Capture:
    """Return the capture with settings from a file in place of its own. Raises UsageError.

    `settings` is a file of pg_settings. `conf`, a postgresql.conf, is read only without `settings` and needs `version`,
    such as 16 or 14.4; a `version` alone replaces that of the `capture`. Nothing changes where all three are None.
    """
    texts, missing = dict(capture.texts), dict(capture.missing)
    if (settings, conf, version) != (None, None, None):
        texts.pop(ENVIRONMENT, None)
        missing[ENVIRONMENT] = "settings or a version from elsewhere stand in for the server's own"
    number = None if version is None else version_number(version)
    if version is not None:
        texts["postgres/version.json"] = version_text(version)
    if settings is not None:
        rows = parse_settings(_read(settings))
        told = rows.get("server_version_num")
        if version is not None and number is not None and told is not None and _is_another(number, told.setting):
            raise UsageError(
                f'--pg-version "{version}" is not the version of "{settings}"',
                detail=f"The list itself has server_version_num = {told.setting}.",
                hint="Leave --pg-version out: it is for a list that does not say.",
            )
        texts["postgres/settings.json"] = json.dumps(
            [{name: getattr(row, name) for name in row.__slots__} for row in rows.values()]
        )
    elif conf is not None:
        if number is None:
            raise UsageError("--pg-conf needs --pg-version", hint="Add the server's version, such as --pg-version 16.")
        texts["postgres/postgresql.conf"] = _read(conf)
        if (line := first_strange(texts["postgres/postgresql.conf"])) is not None:
            raise UsageError(
                f'"{conf}", line {line}: this is no setting',
                detail="A server does not start with such a line, so that nothing is known of the one that is meant.",
                hint="Name its postgresql.conf, as the server reads it.",
            )
        texts.pop("postgres/settings.json", None)
        parse_conf(texts["postgres/postgresql.conf"], number)
    return replace(capture, texts=texts, missing=missing)


def _is_another(number: int, told: str) -> bool:
    """Tell whether a server_version_num is not of the version asked for, which may be a major one, as 150000."""
    major = 10_000 if number >= 100_000 else 100
    unit = major if number % major == 0 else 1
    return told.isdecimal() and int(told) // unit != number // unit


def is_empty(inventory: Inventory) -> bool:
    """Tell whether nothing of host and server is known."""
    host = inventory.host
    facts = (host.processor.architecture, host.processor.cpus, host.memory.ram_bytes, host.kernel.release, host.devices)
    return (
        isinstance(inventory.server, Unknown)
        and all(isinstance(fact, Unknown) for fact in facts)
        and (isinstance(host.kernel.sysctls, Unknown) and isinstance(host.volumes, Unknown))
    )


def _read(path: Path) -> str:
    """Return the text of a file of settings, written by a console of Windows or by another."""
    hint = "Name a file of text: pg_settings as psql prints it, or a postgresql.conf."
    text = read_text(path, hint=hint, lenient=True, at_most=MOST_BYTES)
    if "\0" in text:
        raise UsageError(f'file "{path}" is not text', hint=hint)
    return text
