"""Changes as files that other tools read: the flag --output and the printing that `advise` and `apply` share."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import click

from pgdyno.cli.terminal.files import make_folder, write_text
from pgdyno.outputs import PUBLIC


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
