"""Files that a user names: read and written in one way, with one error that names the file and what to do."""

from __future__ import annotations

import contextlib
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Iterable
from pathlib import Path

from pgdyno.errors import UsageError

MOST_BYTES = 16 << 20
"""No plan, project or configuration that people write is larger: it is the wrong file, and would fill the memory."""


def read_text(path: Path, noun: str = "file", *, hint: str, lenient: bool = False) -> str:
    """Return the text of a file that people write. Raises UsageError that names it, also when it is no text.

    `lenient` is for outputs of other tools: of any size, in UTF-8 or, by its first bytes, in UTF-16, as shells of
    Windows write; what is neither becomes replacement characters.
    """
    try:
        if not lenient and path.stat().st_size > MOST_BYTES:
            raise UsageError(f'{noun} "{path}" is larger than {MOST_BYTES >> 20} MB', hint=hint)
        content = path.read_bytes()
        is_wide = lenient and content.startswith((BOM_UTF16_LE, BOM_UTF16_BE))
        return content.decode("utf-16" if is_wide else "utf-8-sig", errors="replace" if lenient else "strict")
    except OSError as error:
        raise UsageError(f'{noun} "{path}" cannot be read', detail=error.strerror, hint=hint) from error
    except UnicodeDecodeError as error:
        detail = f"It is not text in UTF-8: {error.reason}."
        raise UsageError(f'{noun} "{path}" cannot be read', detail=detail, hint=hint) from error


def read_outputs(paths: Iterable[Path], hint: str) -> list[tuple[Path, str]]:
    """Return files that other tools wrote, each with its text. Raises UsageError that names the one it cannot read."""
    return [(path, read_text(path, hint=hint, lenient=True)) for path in paths]


def write_text(path: Path, text: str, noun: str = "file", *, option: str = "") -> None:
    """Write a file that the user named. Raises UsageError that names it; an old file is then as it was."""
    try:
        if path.exists() and not path.is_file():
            path.write_text(text, encoding="utf-8")  # a terminal, a pipe
        else:
            _replace(path.resolve(), text)
    except OSError as error:
        raise unwritable(path, noun, error, option) from error


def _replace(path: Path, text: str) -> None:
    part = path.with_name(f".{path.name}.part")
    try:
        part.write_text(text, encoding="utf-8")
        part.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)
        raise


def make_folder(path: Path, *, option: str = "") -> None:
    """Make a folder that the user named, and what is missing above it. Raises UsageError that names it."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise unwritable(path, "folder", error, option) from error


def unwritable(path: Path, noun: str, error: OSError, option: str = "") -> UsageError:
    """Return the error for a place that cannot be written."""
    where = f" with {option}" if option else ""
    return UsageError(
        f'{noun} "{path}" cannot be written',
        detail=error.strerror,
        hint=f"Name a place where you may write and that has room{where}.",
    )
