"""`pgdyno report`: what a study found, as text, Markdown, one HTML file, PDF, JSON, or its tables as CSV."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pgdyno.cli.arguments.options import open_store, store_option
from pgdyno.cli.terminal.files import write_text

if TYPE_CHECKING:
    from pgdyno.model.study import Study
    from pgdyno.model.trial import Trial
    from pgdyno.report.sections import Report
    from pgdyno.store.catalogue import Store

FORMATS = {
    ".html": "html",
    ".htm": "html",
    ".md": "md",
    ".json": "json",
    ".txt": "text",
    ".pdf": "pdf",
    ".csv": "csv",
}
WORDS = ("text", "md", "html", "pdf", "json", "csv")


@click.command("report")
@click.argument("study", default="last", metavar="[STUDY|RUN]")
@click.option("--format", "wanted", type=click.Choice(WORDS),
              help="Format of the output.  [default: by the ending of --output, else text]")  # fmt: skip
@click.option(
    "--output", "-o", type=click.Path(path_type=Path, dir_okay=False),
    help="Write here instead of to the terminal; a new folder for CSV.",
)  # fmt: skip
@store_option
def command(study: str, wanted: str | None, output: Path | None, store_url: str | None) -> int:
    """Write the report of STUDY: its id, a prefix of it, or `last`; or of one RUN, by its number.

    The HTML report is one file that opens without a network and can be sent by mail; PDF is that page printed by a
    Chromium or Chrome on the PATH. JSON holds every drawn number and all tables; CSV is a folder with a file for each.
    """
    from pgdyno.model.trial import Trial
    from pgdyno.studies.bench.run import run_record
    from pgdyno.studies.reports import build_report, build_run_report

    chosen = wanted or FORMATS.get(output.suffix.lower() if output else "", "text")
    with open_store(store_url) as store:
        found = find(store, study)
        if isinstance(found, Trial):
            report = build_run_report(store, run_record(store, store.study(found.study_id), found))
        else:
            report = build_report(store, found.id)
    emit(report, chosen, output)
    return 0


def find(store: Store, name: str) -> Study | Trial:
    """Return the trial of that number, else the study: a beginning of an id may be all digits too."""
    from pgdyno.errors import UsageError

    if not re.fullmatch("[0-9]{1,18}", name):
        return store.study(name)
    try:
        return store.trial(int(name))
    except UsageError as error:
        try:
            return store.study(name)
        except UsageError:
            raise error from None


def emit(report: Report, chosen: str, output: Path | None) -> None:
    """Write a report in the form that was chosen, to a file or to the terminal."""
    from pgdyno.errors import UsageError

    if output is None and chosen in ("pdf", "csv"):
        raise UsageError(f"{chosen} is not for the terminal", hint=f"Name a place with --output report.{chosen}.")
    if output is not None:
        _write(report, chosen, output)
        click.echo(f"report: {output}", err=True)
    elif chosen == "text":
        from pgdyno.report.drawing.text import print_report

        print_report(report, sys.stdout)
    else:
        click.echo(_content(report, chosen), nl=False)


def _content(report: Report, chosen: str) -> str:
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
    write_text(output, _content(report, chosen), "report", option="--output")
