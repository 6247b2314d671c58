"""A number and its unit are on one line, whoever breaks the lines."""

from __future__ import annotations

import re
from collections.abc import Callable
from io import StringIO

import pytest
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from pgdyno.cli.terminal.columns import column_lines
from pgdyno.report.drawing.console import PlainConsole
from pgdyno.report.drawing.line_breaks import HELD, held, wrapped

SAID = (
    "of the busy time the server had 32 %, others 56 %; max 5.08 ms, 1,234 tps, 7.46 MB/s of 23.5 GB within 12:05 min, "
    "foreign CPU 113 % of a core, steal −0.5 %, winner 6.39x [5.78, 7.06], −84.1 % [−85.7, −82.3] %, shared_buffers = "
    "1152MB"
)
BROKEN = re.compile(r"\d[\])]?\s*\n\s*(?:%|ms|tps|MB/s|GB|min)|\[[^\]]*\n")


def grid(text: RenderableType) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    table.add_row("name", text)
    return table


@pytest.mark.parametrize("width", range(24, 121))
@pytest.mark.parametrize("make", [str, Text, grid, lambda text: grid(Text(text))])
def test_a_console_keeps_a_number_with_its_unit(make: Callable[[str], RenderableType], width: int) -> None:
    stream = StringIO()
    PlainConsole(stream, width).print(make(SAID))
    drawn = stream.getvalue()
    assert not BROKEN.search(drawn), drawn
    assert max(map(len, drawn.splitlines())) <= width
    assert drawn.removeprefix("name").split() == SAID.split()


@pytest.mark.parametrize("width", range(24, 121))
def test_lines_and_lists_keep_a_number_with_its_unit(width: int) -> None:
    lines = wrapped(SAID, width, indent="  ")
    listed = list(column_lines(("n", "what"), [("1", SAID)], width=width))
    for drawn in ("\n".join(lines), "\n".join(listed)):
        assert not BROKEN.search(drawn), drawn
        assert max(map(len, drawn.splitlines())) <= width


def test_what_is_wider_than_the_line_is_broken_all_the_same() -> None:
    assert held("7 ms and 12,345,678 tps", 8) == f"7{HELD}ms and 12,345,678 tps"


@pytest.mark.parametrize("text", ["PostgreSQL 18 beta", "run 3 made 4 blocks", "io1 % 5", "a 2 step plan"])
def test_words_that_are_no_units_are_not_held(text: str) -> None:
    assert held(text, 80) == text
