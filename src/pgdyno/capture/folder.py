"""A capture as a folder of plain files, made by `inspect --capture` or by hand, and read again.

Texts of another host are written by its words, and a folder may come from a stranger: nothing is written outside of
the folder or through a link in it, and nothing is read that is no regular file of a bounded size.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from pgdyno.capture.keys import (
    MOST_CHARACTERS,
    MOST_IN_ALL,
    MOST_TEXTS,
    check_texts,
    is_key,
    why_unreadable,
)
from pgdyno.capture.loose import key_of_loose_file
from pgdyno.capture.texts import Capture
from pgdyno.errors import EnvironmentUnsuitable, UsageError
from pgdyno.outputs import checked_place, make_folders
from pgdyno.outside.documents import load_json
from pgdyno.outside.files import read_bytes

MANIFEST = "capture.json"
_OF_LINES = ("/cpuinfo", "/meminfo", "/sysinfo", "/mountinfo", "/cgroup", "/status", ".txt", ".conf")
_COUNTED = ("proc/swaps", "commands/lscpu_extended.txt")
"""Tables whose rows are counted: their parsers see a cut row and then say that the whole is unknown."""
_MOST_ENTRIES = 4 * MOST_TEXTS
_DEEPEST = 32
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC

_CONTROLS = {code: "\ufffd" for code in (*range(1, 32), 127) if chr(code) not in "\t\n\r"}
"""What a terminal would obey; no file that we read has a use for it."""


def write_folder(capture: Capture, folder: Path) -> None:
    """Write a capture: one file for each text, `capture.json` with where it is from and what is missing, and why.

    A file that is there is replaced, and so is a link. Raises EnvironmentUnsuitable when the folder cannot be written,
    holds a link in place of a folder, or the capture has a text that none can have; then nothing was written.
    """
    manifest = {
        "format": 1,
        "origin": capture.origin,
        "taken_at": capture.taken_at,
        "made_by": capture.made_by,
        "missing": dict(sorted(capture.missing.items())),
    }
    try:
        check_texts(capture.texts)
        make_folders(folder.parent)
        checked_place(folder).mkdir(mode=0o755, exist_ok=True)
        root = os.open(checked_place(folder), _FOLDER)  # the user may name a link
        try:
            for key, text in capture.texts.items():
                _write(root, key, text)
            _write(root, MANIFEST, json.dumps(manifest, indent=1) + "\n")
        finally:
            os.close(root)
    except OSError as error:
        raise EnvironmentUnsuitable(
            f'capture "{folder}" cannot be written: {error.strerror or error}',
            detail=None if error.filename is None else str(error.filename),
            hint="Name a folder that you may write to: --capture DIR.",
        ) from error
    except ValueError as error:
        raise EnvironmentUnsuitable(
            f"the capture of {capture.origin} is not written: {error}", hint="See what runs as the agent there."
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
    room = MOST_IN_ALL
    for path in _files(folder):
        key = _key(path.relative_to(folder))
        if key is None or key in texts:
            continue
        if len(texts) >= MOST_TEXTS or room <= 0:
            missing[key] = "the folder holds more than any capture"
            break
        try:
            text = _text(path, folder, min(MOST_CHARACTERS, room))
        except OSError as error:
            missing[key] = f"{path.name}: {(error.strerror or str(error)).lower()}"
        except ValueError as error:
            missing[key] = f"{path.name} is {error}"
        else:
            room -= len(text)
            texts[key] = without_cut_line(key, text)
            if texts[key] != text:
                missing[f"{key} (end)"] = "the text ends in the middle of a line, which is left out"
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
    try:
        return not path.resolve().is_relative_to(folder.resolve())
    except (OSError, RuntimeError):  # links that go round in a circle
        return True


def without_cut_line(key: str, text: str) -> str:
    """Return a text of several lines without a last one that has no end: half of a number is another number."""
    lines = text.splitlines(keepends=True)
    if len(lines) < 2 or text.endswith("\n") or not key.endswith(_OF_LINES) or key in _COUNTED:
        return text
    return "".join(lines[:-1])


def _write(root: int, key: str, text: str) -> None:
    """Write one text below an open folder, without following a link on the way."""
    *folders, name = key.split("/")
    with _inside(root, folders) as place:
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=place)
        with os.fdopen(os.open(name, _NEW, 0o600, dir_fd=place), "wb") as file:
            file.write(text.encode(errors="replace"))


@contextmanager
def _inside(root: int, folders: list[str]) -> Iterator[int]:
    place = os.dup(root)
    try:
        for name in folders:
            with suppress(FileExistsError):
                os.mkdir(name, 0o700, dir_fd=place)
            below = os.open(name, _FOLDER, dir_fd=place)
            os.close(place)
            place = below
        yield place
    finally:
        os.close(place)


def _files(folder: Path) -> list[Path]:
    """Return what is no folder below a folder, sorted; linked folders are not entered, and not all of a vast tree."""
    found: list[Path] = []
    for place, folders, names in os.walk(folder):
        if len(Path(place).relative_to(folder).parts) >= _DEEPEST:
            folders.clear()
        found += [Path(place, name) for name in names]
        if len(found) > _MOST_ENTRIES:
            break
    return sorted(found)


def _text(path: Path, folder: Path, at_most: int) -> str:
    if path.is_symlink():
        if leads_out(path, folder):
            raise ValueError("a symbolic link out of the folder, and is not followed")
        path = path.resolve()
    text = read_bytes(path, at_most=at_most, follow=False).decode(errors="replace").translate(_CONTROLS)
    why = why_unreadable(text)
    if why is not None:
        raise ValueError(f"left out: {why}")
    return text


def _key(relative: Path) -> str | None:
    name = relative.as_posix()
    if name == MANIFEST:
        return None
    if is_key(name):
        return name
    return key_of_loose_file(name) if len(relative.parts) == 1 else None


def _manifest(folder: Path) -> tuple[dict[str, object], str | None]:
    path = folder / MANIFEST
    try:
        found = load_json(_text(path, folder, MOST_CHARACTERS))
    except FileNotFoundError:
        return {}, None
    except OSError as error:
        return {}, f"{MANIFEST} cannot be read: {error.strerror or error}"
    except ValueError as error:
        return {}, f"{MANIFEST} cannot be read: it is {error}"
    return (found, None) if isinstance(found, dict) else ({}, f"{MANIFEST} is not a JSON object")
