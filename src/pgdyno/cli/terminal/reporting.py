"""Reports as files or on the terminal: the formats and the printing that `report`, `compare` and `project` share."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pgdyno.cli.arguments.flags import NEW_FILE, Flags, flag
from pgdyno.cli.terminal.files import write_text

if TYPE_CHECKING:
    from pgdyno.report.sections import Report

_ENDINGS = {
    ".html": "html",
    ".htm": "html",
    ".md": "md",
    ".json": "json",
    ".txt": "text",
    ".pdf": "pdf",
    ".csv": "csv",
}
FORMATS = ("text", "md", "html", "pdf", "json", "csv")


class ReportFlags(Flags):
    """In which form a report is written, and where."""

    wanted: str | None = flag(
        "Format of the output.  [default: by the ending of --output, else text]",
        "--format",
        type=click.Choice(FORMATS),
    )
    output: Path | None = flag("Write here instead of to the terminal; a new folder for CSV.", "-o", type=NEW_FILE)


def format_of(wanted: str | None, output: Path | None) -> str:
    """Return the format that was asked for, else that of the file's ending, else text."""
    return wanted or _ENDINGS.get(output.suffix.lower() if output else "", "text")


def emit(report: Report, wanted: str | None, output: Path | None) -> None:
    """Write a report in the form of `format_of`, to a file or to the terminal."""
    from pgdyno.errors import UsageError

    chosen = format_of(wanted, output)
    if output is None and chosen in ("pdf", "csv"):
        raise UsageError(f"{chosen} is not for the terminal", hint=f"Name a place with --output report.{chosen}.")
    if output is not None:
        _write(report, chosen, output)
        click.echo(f"report: {output}", err=True)
    elif chosen == "text":
        from pgdyno.report.drawing.text import print_report

        print_report(report, sys.stdout)
    else:
        click.echo(content(report, chosen), nl=False)


def content(report: Report, chosen: str) -> str:
    """Return a report as one text: html, md, json or text."""
    if chosen == "html":
        from pgdyno.report.drawing import html

        return html.render(report)
    if chosen == "md":
        from pgdyno.report.drawing import markdown

        return markdown.render(report)
    if chosen == "json":
        from pgdyno.report.drawing.payload import report_json

        return report_json(report)
    from io import StringIO

    from pgdyno.report.drawing.text import print_report

    buffer = StringIO()
    print_report(report, buffer)
    return buffer.getvalue()


def _write(report: Report, chosen: str, output: Path) -> None:
    if chosen == "pdf":
        from pgdyno.report.drawing.pdf import write_pdf

        write_pdf(report, output)
        return
    if chosen == "csv":
        from pgdyno.report.drawing.tables import write_csv

        write_csv(report, output)
        return
    write_text(output, content(report, chosen), "report", option="--output")


def print_found(found: object, lines: Iterable[str], *, as_json: bool) -> None:
    """Print a result of a verb that keeps none: its `lines` for people, or all of it as JSON."""
    from pgdyno.model.shapes import plain
    from pgdyno.outside.words import one_line

    if as_json:
        click.echo(json.dumps(plain(found)))
    else:
        for line in lines:
            click.echo(one_line(line))
