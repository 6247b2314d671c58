"""Draw a report in the terminal with rich: the same sections and figures as in HTML, in character cells.

Colour only repeats what a word says; NO_COLOR and pipes are honoured by rich.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from io import StringIO
from typing import TextIO, assert_never

from rich.console import Group, JustifyMethod, RenderableType
from rich.padding import Padding
from rich.table import Table as RichTable
from rich.text import Text

from pgdyno.model.figure import Figure, FigureKind, Table
from pgdyno.report.drawing import text_charts, text_tracks
from pgdyno.report.drawing.console import PlainConsole, pipe_width
from pgdyno.report.drawing.line_breaks import held
from pgdyno.report.drawing.tables import MOST_TEXT_ROWS, cut_text
from pgdyno.report.sections import (
    Block,
    Card,
    Cards,
    Charts,
    FactList,
    Notice,
    PageLinks,
    Prose,
    Report,
    Section,
    Snippet,
    Strips,
    TableBlock,
    Tone,
)
from pgdyno.units import plural

STYLES = {Tone.GOOD: "bold green", Tone.BAD: "bold red", Tone.NEUTRAL: "bold", Tone.UNSURE: "bold yellow"}
_DRAW = {
    FigureKind.HISTORY: text_charts.scatter,
    FigureKind.BARS: text_charts.bars,
    FigureKind.STAIRCASE: text_charts.framed_chart,
    FigureKind.LINES: text_charts.framed_chart,
    FigureKind.TIMELINE: text_charts.timeline,
    FigureKind.TRACKS: text_tracks.tracks,
}
LONGEST_WORD = 44
"""A longer word is no number and no name of a setting."""
GAP = 2
"""Blanks between the columns of a table."""


def print_report(report: Report, stream: TextIO) -> None:
    """Print a report to a stream: as wide as the terminal, or COLUMNS, else 120, into a file."""
    _print(lambda width: render(report, width), stream)


def print_summary(report: Report, stream: TextIO) -> None:
    """Print the short form of a report, about 45 lines, with the way to the full one at its end."""

    def draw(width: int) -> RenderableType:
        digest = (part for section in report.digest for part in _section(section, width, spaced=False))
        return Group(*_head(report), *digest)

    _print(draw, stream)


def _print(draw: Callable[[int], RenderableType], stream: TextIO) -> None:
    if stream.isatty():
        console = PlainConsole(stream)
        console.print(draw(console.width))
        return
    buffer = StringIO()  # rich fills lines up with blanks, which a file is better without
    width = pipe_width()
    PlainConsole(buffer, width).print(draw(width))
    stream.write("".join(f"{line.rstrip()}\n" for line in buffer.getvalue().splitlines()))


def render(report: Report, width: int = 100) -> RenderableType:
    """Return the report for rich; `width` is that of the console in columns."""
    return Group(
        *_head(report), *(part for section in report.sections for part in _section(section, width)), _foot(report)
    )


def _head(report: Report) -> list[RenderableType]:
    word = Text(f"{report.word}  " if report.word else "", style=STYLES[report.tone])
    parts: list[RenderableType] = [
        word.append(report.title, style="bold"),
        Text(report.lead),
        Text(report.stamp, style="dim"),
        Text(),
    ]
    if report.tiles:
        grid = RichTable.grid(padding=(0, 3))
        for tile in report.tiles:
            grid.add_row(tile.label, Text(tile.value, style=STYLES[tile.tone]), tile.interval, tile.detail, tile.word)
        parts.append(grid)
    return parts


def _foot(report: Report) -> RenderableType:
    return Text("\n" + " · ".join(f"{name} {value}" for name, value in report.provenance.items()), style="dim")


def _section(section: Section, width: int, *, spaced: bool = True) -> list[RenderableType]:
    parts: list[RenderableType] = []
    for block in section.blocks:
        if spaced and parts and not isinstance(block, Charts | Strips):
            parts.append(Text())
        parts += _block(block, width - 2)
    return [Text(f"\n{section.title}", style="bold cyan"), *(Padding(part, (0, 0, 0, 2)) for part in parts)]


def _block(block: Block, width: int) -> list[RenderableType]:
    match block:
        case Prose():
            return [_bullets(block.sentences)] if block.points else [Text(text) for text in block.sentences]
        case Notice():
            return [Text(f"warning: {sentence}", style="yellow") for sentence in block.sentences]
        case FactList() | PageLinks():
            return [_grid(block.rows)]
        case TableBlock():
            return (
                _folded(block) if block.folded else [Text(block.caption, style="italic"), *_table(block.table, width)]
            )
        case Snippet():
            return [Text(block.label, style="italic"), Padding(Text(block.text.rstrip()), (0, 0, 0, 2))]
        case Charts():
            return [part for figure in block.figures for part in _figure(figure, width)]
        case Strips():
            return _strips(block, width)
        case Cards():
            return [part for card in block.cards for part in _card(card, width)]
        case _:
            assert_never(block)


def _card(card: Card, width: int) -> list[RenderableType]:
    badges = [Text(f"[{word}] ", style=STYLES[tone]) for word, tone in card.badges]
    head = Text().join([*badges, Text(card.title, style="bold")])
    blocks = [part for block in card.blocks for part in _block(block, width - 2)]
    line = [Text(card.line)] if card.line else []
    return [head, *(Padding(part, (0, 0, 0, 2)) for part in (*line, *blocks)), Text()]


def _grid(rows: tuple[tuple[str, str], ...]) -> RenderableType:
    grid = RichTable.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in rows:
        grid.add_row(name, value)
    return grid


def _bullets(sentences: Sequence[str]) -> RenderableType:
    grid = RichTable.grid(padding=(0, 1))
    for sentence in sentences:
        grid.add_row("-", Text(sentence))
    return grid


def _folded(block: TableBlock) -> list[RenderableType]:
    rows = f"[{plural(len(block.table.rows), 'row')} in the HTML and Markdown reports]"
    return [Text(f"{block.caption} ", style="italic").append(rows, style="dim")]


def _table(table: Table, width: int) -> list[RenderableType]:
    """Draw a table: columns side by side where they fit with whole words, else a list of each row's cells.

    A number or a name that is cut is a wrong one.
    """
    rows = table.rows[:MOST_TEXT_ROWS]
    widths = column_widths(table.columns, rows, width)
    drawn: RenderableType
    if widths is None:
        drawn = _listed(table, rows)
    else:
        drawn = RichTable(box=None, header_style="dim", pad_edge=False, padding=(0, GAP, 0, 0))
        for column, wide in zip(table.columns, widths, strict=True):
            justify: JustifyMethod = "right" if column in table.numeric else "left"
            drawn.add_column(column, justify=justify, overflow="fold", width=wide)
        for row in rows:
            drawn.add_row(*(Text(cell) for cell in row))
    cut = cut_text(table, MOST_TEXT_ROWS)
    return [drawn, Text(cut, style="dim")] if cut else [drawn]


def column_widths(columns: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> list[int] | None:
    """Return the width of each column so that no word is broken, None where the words do not fit side by side.

    A word of more than `LONGEST_WORD` letters is a path or a statement, and may be broken.
    """
    every = [[column, *(row[at] for row in rows)] for at, column in enumerate(columns)]
    most = [max(map(len, cells)) for cells in every]
    least = [
        min(LONGEST_WORD, max((len(word) for cell in cells for word in held(cell, LONGEST_WORD).split()), default=1))
        for cells in every
    ]
    room = width - GAP * (len(columns) - 1)
    if sum(least) > room:
        return None
    while sum(most) > room:  # the widest column gives way, down to its longest word
        most[max((at for at in range(len(most)) if most[at] > least[at]), key=most.__getitem__)] -= 1
    return most


def _listed(table: Table, rows: Sequence[Sequence[str]]) -> RenderableType:
    """Draw each row as lines of heading and cell, under the first cell."""
    parts: list[RenderableType] = []
    for row in rows:
        parts.append(Text(row[0], style="bold"))
        told = tuple((column, cell) for column, cell in zip(table.columns[1:], row[1:], strict=True) if cell)
        parts.append(Padding(_grid(told), (0, 0, 0, 2)))
    return Group(*parts)


def _figure(figure: Figure, width: int) -> list[RenderableType]:
    draw = _DRAW.get(figure.kind, text_charts.rows)
    lines = draw(figure, width)
    return [
        Text(f"\n{figure.title}", style="bold"),
        Text("\n".join(lines), no_wrap=True),
        Text(figure.caption, style="dim"),
    ]


def _strips(block: Strips, width: int) -> list[RenderableType]:
    """Draw each strip as its heading and a line a run: a sparkline of the greatest value, and the figures beside it."""
    name_width = max(len(name) for name in block.columns)
    space = max(16, min(60, width - name_width - 48))
    parts: list[RenderableType] = []
    for row in block.rows:
        shown = next(figure for figure in row if figure is not None)
        bounds = f"{shown.y.lo:g} to {shown.y.hi:g} {shown.y.unit}"
        parts.append(Text(f"\n{shown.y.label}  ({bounds})", style="italic"))
        for name, figure in zip(block.columns, row, strict=True):
            drawn = "not recorded" if figure is None else text_charts.sparkline(_summit(figure), figure.y, space)
            title = "" if figure is None else figure.title
            line, below = f"{name:<{name_width}}  {drawn:<{space}}", len(title) > width - name_width - space - 4
            parts.append(Text(line.rstrip() if below else f"{line}  {title}", no_wrap=True))
            parts += [Padding(Text(title), (0, 0, 0, name_width + 2))] if below else []
    return parts


def _summit(figure: Figure) -> tuple[float | None, ...]:
    """Return the upper edge of the stack, or the first line."""
    areas = [series for series in figure.series if series.style == "area"]
    return areas[-1].hi if areas else figure.series[0].y
