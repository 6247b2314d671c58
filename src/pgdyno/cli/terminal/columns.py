"""Rows in aligned columns, for lists that may have ten thousand of them: no more is computed than their widths."""

from __future__ import annotations

import re
import shutil
import sys
import textwrap
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import zip_longest

import click

from pgdyno.report.drawing.line_breaks import asked_width, held, let_go, wrapped

GAP = "  "
_LABEL = re.compile(r"[a-z]+(?:: +| {2,})")
"""What stands before the words of a plan's line, such as `undo:   ` or `outage   `."""
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


def print_script(lines: Iterable[str]) -> None:
    """Print the lines of a script: in a terminal its comments are wrapped, each line of them behind a `#`.

    Commands stay whole, to be copied, and so does what a comment quotes, behind three blanks.
    """
    click.echo("\n".join(script_lines(lines, terminal_width())))


def script_lines(lines: Iterable[str], width: int | None) -> Iterator[str]:
    """Yield what `print_script` prints; `width` None breaks no line."""
    for line in lines:
        if width is None or len(line) <= width or not line.startswith("# ") or line.startswith("#   "):
            yield line
        else:
            yield from ("# " + part for part in wrapped(line[2:], width - 2, indent="  "))


def print_plan(lines: Iterable[str], *, err: bool = True) -> None:
    """Print the lines of a plan: in a terminal each is wrapped under itself, or behind its label."""
    stream = sys.stderr if err else sys.stdout
    width = shutil.get_terminal_size().columns if stream.isatty() else asked_width()
    click.echo("\n".join(plan_lines(lines, width)), err=err)


def plan_lines(lines: Iterable[str], width: int | None) -> Iterator[str]:
    """Yield what `print_plan` prints; `width` None breaks no line."""
    for line in lines:
        if width is None or len(line) <= width:
            yield line
        else:
            yield from wrapped(line, width, indent=" " * _indent(line))


def _indent(line: str) -> int:
    """Return where the words of a line begin behind its label; two more than its own indent without one."""
    label = _LABEL.match(line)
    return len(line) - len(line.lstrip()) + 2 if label is None else label.end()


def terminal_width() -> int | None:
    """Return the columns of the terminal; of a pipe those of an exported COLUMNS, None where no line is broken."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else asked_width()


def column_lines(
    columns: Sequence[str], rows: Sequence[Sequence[str]], right: Collection[str] = (), width: int | None = None
) -> Iterator[str]:
    """Yield the lines of the list, not longer than `width`: the widest column gives way, or each row is a paragraph.

    `columns` are their names, each of the `rows` has a cell for every one of them, and `right` are the names of those
    that are aligned to the right. `width` is in characters; None breaks no line.
    """
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
