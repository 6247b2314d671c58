"""Rows in aligned columns, for lists that may have ten thousand of them: no more is computed than their widths."""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Collection, Iterator, Sequence
from itertools import zip_longest

import click

GAP = "  "
LEAST_WIDTH = 20
"""The widest column gives way to a narrow terminal, but keeps so many characters."""


def print_columns(columns: Sequence[str], rows: Sequence[Sequence[str]], right: Collection[str] = ()) -> None:
    """Print rows under their column names; a terminal wraps the widest column, and a pipe gets every row on one line.

    `right` names the columns of numbers.
    """
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    click.echo("\n".join(column_lines(columns, rows, right, width)))


def column_lines(
    columns: Sequence[str], rows: Sequence[Sequence[str]], right: Collection[str] = (), width: int | None = None
) -> Iterator[str]:
    """Yield the lines of the list, not longer than `width` where the widest column can give way."""
    table = [columns, *rows]
    widths = [max(len(row[at]) for row in table) for at in range(len(columns))]
    if width is not None and (excess := sum(widths) + len(GAP) * (len(widths) - 1) - width) > 0:
        widest = widths.index(max(widths))
        widths[widest] = min(widths[widest], max(LEAST_WIDTH, widths[widest] - excess))
    for row in table:
        for cells in _wrapped(row, widths):
            placed = (
                cell.rjust(room) if name in right else cell.ljust(room)
                for cell, room, name in zip(cells, widths, columns, strict=True)
            )
            yield GAP.join(placed).rstrip()


def _wrapped(row: Sequence[str], widths: Sequence[int]) -> list[Sequence[str]]:
    if all(len(cell) <= room for cell, room in zip(row, widths, strict=True)):
        return [row]
    lines = (textwrap.wrap(cell, room) for cell, room in zip(row, widths, strict=True))
    return [*zip_longest(*lines, fillvalue="")]
