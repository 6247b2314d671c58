"""A capture as a folder of plain files, made by `inspect --capture` or by hand, and read again."""

from __future__ import annotations

import json
from pathlib import Path

from pgdyno.errors import EnvironmentUnsuitable, UsageError
from pgdyno.target.capture.loose import key_of_loose_file
from pgdyno.target.capture.texts import Capture

MANIFEST = "capture.json"
_TREES = ("proc", "sys", "etc", "usr", "run", "commands", "postgres")
_OF_LINES = ("/cpuinfo", "/meminfo", "/sysinfo", "/mountinfo", "/cgroup", "/status", ".txt", ".conf")
_COUNTED = ("proc/swaps", "commands/lscpu_extended.txt")
"""Tables whose rows are counted: their parsers see a cut row and then say that the whole is unknown."""
_LARGEST = 8 << 20
"""No text that we read is larger; a log that was put beside is not ours."""

_CONTROLS = {code: "\ufffd" for code in (*range(1, 32), 127) if chr(code) not in "\t\n\r"}
"""What a terminal would obey; no file that we read has a use for it."""


def write_folder(capture: Capture, folder: Path) -> None:
    """Write a capture: one file for each text, `capture.json` with where it is from and what is missing, and why.

    A file that is there is replaced. Raises EnvironmentUnsuitable when the folder cannot be written.
    """
    manifest = {
        "format": 1,
        "origin": capture.origin,
        "taken_at": capture.taken_at,
        "made_by": capture.made_by,
        "missing": dict(sorted(capture.missing.items())),
    }
    try:
        for key, text in capture.texts.items():
            path = folder / key
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")
        folder.mkdir(parents=True, exist_ok=True)
        (folder / MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n", "utf-8")
    except OSError as error:
        raise EnvironmentUnsuitable(
            f'capture "{folder}" cannot be written: {error.strerror or error}',
            detail=None if error.filename is None else str(error.filename),
            hint="Name a folder that you may write to: --capture DIR.",
        ) from error


def load_folder(folder: Path) -> Capture:
    """Read a capture, or a folder of loose outputs. What cannot be read is missing, with the reason.

    Raises UsageError when there is no such folder.
    """
    if not folder.is_dir():
        raise UsageError(
            f'capture "{folder}" is not there, or is not a folder',
            hint="Make one on the database host: pgdyno inspect --capture DIR.",
        )
    texts: dict[str, str] = {}
    missing: dict[str, str] = {}
    for path in sorted(folder.rglob("*")):
        key = _key(path.relative_to(folder))
        if key is None or not path.is_file():
            continue
        try:
            if leads_out(path, folder):
                missing[key] = f"{path.name} is a symbolic link out of the folder, and is not followed"
                continue
            if path.stat().st_size > _LARGEST:
                missing[key] = f"{path.name} is larger than {_LARGEST >> 20} MiB"
                continue
            text = path.read_bytes().decode(errors="replace").translate(_CONTROLS)
            texts.setdefault(key, without_cut_line(key, text))
            if texts[key] != text:
                missing[f"{key} (end)"] = "the text ends in the middle of a line, which is left out"
        except OSError as error:
            missing[key] = f"{path.name}: {(error.strerror or str(error)).lower()}"
    manifest, problem = _manifest(folder)
    if problem is not None:
        missing[MANIFEST] = problem
    told = manifest.get("missing")
    missing = ({str(key): str(why) for key, why in told.items()} if isinstance(told, dict) else {}) | missing
    return Capture(
        texts,
        {key: why for key, why in missing.items() if key not in texts},
        str(folder),
        str(manifest.get("taken_at", "")),
        str(manifest.get("made_by", "")),
    )


def leads_out(path: Path, folder: Path) -> bool:
    """Tell whether a file of a capture is one of this machine: what others made must not show what is ours."""
    return not path.resolve().is_relative_to(folder.resolve())


def without_cut_line(key: str, text: str) -> str:
    """Return a text of several lines without a last one that has no end: half of a number is another number."""
    lines = text.splitlines(keepends=True)
    if len(lines) < 2 or text.endswith("\n") or not key.endswith(_OF_LINES) or key in _COUNTED:
        return text
    return "".join(lines[:-1])


def _key(relative: Path) -> str | None:
    if relative.parts[0] in _TREES and len(relative.parts) > 1:
        return relative.as_posix()
    if relative.name == MANIFEST:
        return None
    return key_of_loose_file(relative.name) if len(relative.parts) == 1 else None


def _manifest(folder: Path) -> tuple[dict[str, object], str | None]:
    path = folder / MANIFEST
    try:
        if path.exists() and leads_out(path, folder):
            return {}, f"{MANIFEST} is a symbolic link out of the folder, and is not followed"
        if path.stat().st_size > _LARGEST or not path.is_file():
            return {}, f"{MANIFEST} is no regular file, or larger than {_LARGEST >> 20} MiB"
        found = json.loads(path.read_bytes())
    except FileNotFoundError:
        return {}, None
    except (OSError, ValueError, RecursionError) as error:
        return {}, f"{MANIFEST} cannot be read: {error}"
    return (found, None) if isinstance(found, dict) else ({}, f"{MANIFEST} is not a JSON object")
