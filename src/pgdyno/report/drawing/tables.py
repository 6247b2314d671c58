"""All tables of a report as data: the CSV files and the JSON that other programs read back. Pure but for the writers.

A table is what stands in the report as one: tables, the numbers of every figure, lists of facts, and the tiles. Cells
are the report's own text, so that an export never says another figure than the page.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from io import StringIO
from pathlib import Path

from pgdyno.errors import UsageError
from pgdyno.model.figure import Figure, Table
from pgdyno.outputs import new_folder, write_output, write_whole
from pgdyno.report.drawing.frames import FRAMED, drawn_table
from pgdyno.report.sections import Block, Cards, Charts, FactList, Report, Strips, TableBlock

INDEX = "tables.json"
"""Names the files of a CSV folder, with section, caption and numeric columns of each."""
FORMAT = 1
MOST_ROWS = 500
"""A page that people read holds so many rows of a table; JSON and CSV have them all."""
MOST_TEXT_ROWS = 200
"""And a terminal so many."""
MOST_PRINTED = 40
"""A table that a reader has to open is printed up to so many rows: about a sheet."""


@dataclass(frozen=True, slots=True)
class NamedTable:
    """A table with where it stands. `name` is unique in its report and safe as the name of a file."""

    name: str
    section: str
    caption: str
    table: Table


def report_tables(report: Report) -> tuple[NamedTable, ...]:
    """Return every table of a report in the order of the page."""
    found: list[NamedTable] = []

    def add(section: str, name: str, caption: str, table: Table) -> None:
        word = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:40] or "table"
        found.append(NamedTable(f"{len(found) + 1:02d}-{word}", section, caption, table))

    if report.tiles:
        rows = tuple((t.label, t.value, t.interval, t.detail, t.word) for t in report.tiles)
        add(
            "headline",
            "tiles",
            report.title,
            Table(("metric", "change", "interval", "before and after", "verdict"), rows),
        )
    for section in report.sections:
        for block in section.blocks:
            for name, caption, table in _of(block):
                add(section.id, name or section.id, caption or section.title, table)
    return tuple(found)


def _of(block: Block) -> Iterator[tuple[str, str, Table]]:
    match block:
        case TableBlock():
            yield "", block.caption, block.table
        case FactList():
            yield "", "", Table(("fact", "value"), block.rows)
        case Charts():
            yield from (_of_figure(figure) for figure in block.figures)
        case Strips():
            shown = (figure for row in block.rows for figure in row if figure is not None and figure.table is not None)
            yield from (_of_figure(figure) for figure in shown)
        case Cards():
            for card in block.cards:
                for part in card.blocks:
                    for _, caption, table in _of(part):
                        yield card.id, caption or card.title, table
        case _:
            return


def _of_figure(figure: Figure) -> tuple[str, str, Table]:
    table = drawn_table(figure) if figure.kind in FRAMED or figure.table is None else figure.table
    return figure.id, figure.title, table


def tables_json(report: Report) -> list[dict[str, object]]:
    """Return the tables as JSON values: name, section, caption, columns, numeric columns, rows."""
    return [
        {"name": one.name, "section": one.section, "caption": one.caption, **asdict(one.table)}
        for one in report_tables(report)
    ]


def cut_text(table: Table, most: int = MOST_ROWS) -> str:
    """Say how many rows a page leaves out of a table, and where they are; empty when it shows them all."""
    rows = len(table.rows)
    return f"The first {most:,} of {rows:,} rows; --format csv and json have them all." if rows > most else ""


def csv_text(table: Table) -> str:
    """Return a table as CSV with its column names in the first line."""
    buffer = StringIO(newline="")
    writer = csv.writer(buffer)
    writer.writerow(table.columns)
    writer.writerows(table.rows)
    return buffer.getvalue()


def write_csv(report: Report, folder: Path) -> tuple[Path, ...]:
    """Write a new folder with one CSV file a table and an index. Raises UsageError when that is not possible."""
    tables = report_tables(report)
    index = {
        "format": FORMAT,
        "report": report.title,
        "study": report.study,
        "tables": [
            {"file": f"{one.name}.csv", "section": one.section, "caption": one.caption, "numeric": one.table.numeric}
            for one in tables
        ],
    }
    names = [f"{one.name}.csv" for one in tables]

    def write(part: Path) -> None:
        new_folder(part)
        for name, one in zip(names, tables, strict=True):
            write_output(part / name, csv_text(one.table))
        write_output(part / INDEX, json.dumps(index, indent=1, ensure_ascii=False) + "\n")

    try:
        write_whole(folder, write)
    except OSError as error:
        raise UsageError(
            f'folder "{folder}" cannot be written',
            detail=error.strerror,
            hint="Name a new folder with --output.",
        ) from error
    return tuple(folder / name for name in names)
