"""Rows in aligned columns, for lists that may have ten thousand of them: no more is computed than their widths."""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Collection, Iterator, Sequence
from itertools import zip_longest

import click

from pgdyno.report.drawing.line_breaks import asked_width, held, let_go, wrapped

GAP = "  "
LEAST_WIDTH = 20
"""The widest column gives way to a narrow terminal, but keeps so many characters."""


def print_columns(columns: Sequence[str], rows: Sequence[Sequence[str]], right: Collection[str] = ()) -> None:
    """Print rows under their column names; a terminal wraps the widest column, and a pipe gets every row on one line.

    A pipe with an exported COLUMNS is as wide as that says, as it is for a report.
    `right` names the columns of numbers.
    """
    click.echo("\n".join(column_lines(columns, rows, right, terminal_width())))


def print_told(label: str, text: str) -> None:
    """Print a sentence behind its label, in a terminal wrapped under itself."""
    click.echo("\n".join(told_lines(label, text)))


def told_lines(label: str, text: str) -> list[str]:
    """Return what `print_told` prints."""
    room = terminal_width()
    return [label + text] if room is None else wrapped(label + text, room, indent=" " * len(label))


def terminal_width() -> int | None:
    """Return the columns of the terminal; of a pipe those of an exported COLUMNS, None where no line is broken."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else asked_width()


def column_lines(
    columns: Sequence[str], rows: Sequence[Sequence[str]], right: Collection[str] = (), width: int | None = None
) -> Iterator[str]:
    """Yield the lines of the list, not longer than `width`: the widest column gives way, or each row is a paragraph."""
    table = [columns, *rows]
    widths = [max(len(row[at]) for row in table) for at in range(len(columns))]
    if width is not None and (excess := sum(widths) + len(GAP) * (len(widths) - 1) - width) > 0:
        widest = widths.index(max(widths))
        least = max((len(word) for row in table for word in held(row[widest], widths[widest]).split()), default=0)
        widths[widest] = min(widths[widest], max(LEAST_WIDTH, least, widths[widest] - excess))
        if sum(widths) + len(GAP) * (len(widths) - 1) > width:
            yield from (line for row in rows for line in _paragraph(columns, row, width))
            return
    for row in table:
        for cells in _wrapped(row, widths):
            placed = (
                cell.rjust(room) if name in right else cell.ljust(room)
                for cell, room, name in zip(cells, widths, columns, strict=True)
            )
            yield GAP.join(placed).rstrip()


def _paragraph(columns: Sequence[str], row: Sequence[str], width: int) -> list[str]:
    """Return a row as its first cell, and the others with their columns' names under it."""
    told = ", ".join(f"{name}: {cell}" for name, cell in zip(columns[1:], row[1:], strict=True) if cell)
    first = f"{columns[0]} {row[0]}" if row[0].isdigit() else row[0]
    return [first, *wrapped(f"  {told}", width, indent="  ")] if told else [first]


def _wrapped(row: Sequence[str], widths: Sequence[int]) -> list[Sequence[str]]:
    if all(len(cell) <= room for cell, room in zip(row, widths, strict=True)):
        return [row]
    lines = (
        [let_go(one) for one in textwrap.wrap(held(cell, room), room)] for cell, room in zip(row, widths, strict=True)
    )
    return [*zip_longest(*lines, fillvalue="")]
