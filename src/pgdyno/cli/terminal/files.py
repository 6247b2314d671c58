"""Files that a user names: read and written in one way, with one error that names the file and what to do."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import click

from pgdyno.errors import UsageError
from pgdyno.outputs import PRIVATE, PUBLIC, make_folders, write_output
from pgdyno.outside.files import read_text

__all__ = ["make_folder", "read_outputs", "read_text", "unwritable", "write_text"]


def read_outputs(paths: Iterable[Path], hint: str) -> list[tuple[Path, str]]:
    """Return files that other tools wrote, each with its text. Raises UsageError that names the one it cannot read."""
    return [(path, read_text(path, hint=hint, lenient=True)) for path in paths]


def write_text(path: Path, text: str, noun: str = "file", *, option: str = "", mode: int = PRIVATE) -> None:
    """Write a file that the user named. Raises UsageError that names it; an old file is then as it was.

    `text` is written to `path` as UTF-8. `noun` is what the error calls the file, `option` the flag that its hint
    names, empty for none, and `mode` the permissions of a new file.
    """
    try:
        write_output(path, text, mode=mode)
    except OSError as error:
        raise unwritable(path, noun, error, option) from error


def make_folder(path: Path, *, option: str = "") -> None:
    """Make a folder that the user named, and what is missing above it. Raises UsageError that names it."""
    try:
        make_folders(path)
    except OSError as error:
        raise unwritable(path, "folder", error, option) from error


def unwritable(path: Path, noun: str, error: OSError, option: str = "") -> UsageError:
    """Return the error for a place that cannot be written.

    `noun` is what it calls `path`, such as `file`, and `error` has the reason. `option` is the flag that the hint
    names, empty for none.
    """
    where = f" with {option}" if option else ""
    return UsageError(
        f'{noun} "{path}" cannot be written',
        detail=error.strerror,
        hint=f"Name a place where you may write and that has room{where}.",
    )


def check_format(name: str) -> None:
    """Raise UsageError for a name that is no format, before a server is asked."""
    from pgdyno.export import maker

    maker(name)


def emit(files: Mapping[str, str], form: str, folder: Path | None) -> None:
    """Print files one after the other, or write them into a folder."""
    if not files:
        click.echo(f"nothing of these changes is for {form}", err=True)
    if folder is None:
        for name, text in files.items():
            click.echo(f"# --- {name}\n{text.rstrip()}")
        return
    for name, text in files.items():
        path = folder / name
        make_folder(path.parent, option="--output")  # a profile of tuned is a folder of its own
        write_text(path, text, mode=PUBLIC)  # the server, or whoever reads it where it goes, is another account
        click.echo(f"written: {path}", err=True)
