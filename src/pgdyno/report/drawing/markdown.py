"""Write a report as Markdown: the same sections, every figure as its title and its table. Pure."""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from typing import assert_never

from pgdyno.model.figure import Figure, FigureKind, Table
from pgdyno.outside.words import printable
from pgdyno.report.drawing import text_charts, text_tracks
from pgdyno.report.drawing.frames import FRAMED, drawn_table
from pgdyno.report.drawing.tables import MOST_ROWS, cut_text
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
    Snippet,
    Strips,
    TableBlock,
)

CHART_WIDTH = 100
"""Columns of a chart that is drawn in characters."""


def render(report: Report) -> str:
    """Return the report as GitHub-flavoured Markdown."""
    head = [f"# {escape(report.title)}", escape(report.lead), f"*{escape(report.stamp)}*"]
    if report.tiles:
        rows = tuple((t.label, t.value, t.interval, t.detail, t.word) for t in report.tiles)
        head.append(table(Table(("metric", "change", "interval", "before and after", "verdict"), rows)))
    body = [
        part
        for section in report.sections
        for part in (
            f"## {escape(section.title)}",
            f"*{escape(section.question)}*",
            *(_block(block) for block in section.blocks),
        )
    ]
    foot = " · ".join(f"{name} {value}" for name, value in report.provenance.items())
    return printable("\n\n".join([*head, *body, "---", escape(foot)])) + "\n"


def _block(block: Block) -> str:
    match block:
        case Prose():
            lead, joint = ("- ", "\n") if block.points else ("", "\n\n")
            return joint.join(f"{lead}{escape(sentence)}" for sentence in block.sentences)
        case Notice():
            return "\n".join(f"> **Note:** {escape(sentence)}" for sentence in block.sentences)
        case FactList():
            return table(Table(("fact", "value"), block.rows))
        case PageLinks():
            return "\n".join(f"- [{escape(name)}]({path})" for name, path in block.rows)
        case TableBlock():
            return _folded(block) if block.folded else f"{escape(block.caption)}\n\n{table(block.table)}"
        case Snippet():
            return f"**{escape(block.label)}**\n\n{fence(block.text)}"
        case Charts():
            return "\n\n".join(_figure(figure) for figure in block.figures)
        case Strips():
            return "\n\n".join(_strip_row(block.columns, row) for row in block.rows)
        case Cards():
            return "\n\n".join(_card(card) for card in block.cards)
        case _:
            assert_never(block)


def _card(card: Card) -> str:
    badges = ", ".join(word for word, _ in card.badges)
    head = f"### {escape(card.title)}\n\n*{escape(badges)}*"
    line = f"\n\n**{escape(card.line)}**" if card.line else ""
    return head + line + "".join(f"\n\n{_block(block)}" for block in card.blocks)


def _folded(block: TableBlock) -> str:
    return (
        f"<details><summary>{html.escape(block.caption, quote=False)}</summary>\n\n{table(block.table)}\n\n</details>"
    )


def _figure(figure: Figure) -> str:
    runs = figure.provenance.get("runs")
    return _told(figure) + (f"\n\n*from runs {escape(runs)}*" if runs else "")


def _told(figure: Figure) -> str:
    if figure.kind in FRAMED:
        return _drawn(figure, text_charts.framed_chart(figure, CHART_WIDTH))
    if figure.kind is FigureKind.TRACKS:
        return _drawn(figure, text_tracks.tracks(figure, CHART_WIDTH))
    shown = "" if figure.table is None else f"\n\n{table(figure.table)}"
    caption = f"\n\n{escape(figure.caption)}" if figure.caption else ""
    return f"### {escape(figure.title)}\n\n*{escape(figure.question)}*{shown}{caption}"


def _drawn(figure: Figure, chart: Sequence[str]) -> str:
    """Return a figure drawn in characters, and its numbers below."""
    drawn = fence("\n".join(chart))
    parts = (f"### {escape(figure.title)}", f"*{escape(figure.question)}*", drawn, table(drawn_table(figure)))
    return "\n\n".join((*parts, *((escape(figure.caption),) if figure.caption else ())))


def _strip_row(columns: tuple[str, ...], row: tuple[Figure | None, ...]) -> str:
    known = [(name, figure.table) for name, figure in zip(columns, row, strict=True) if figure and figure.table]
    label = next(figure.y.label for figure in row if figure is not None)
    merged = Table(
        ("run", *known[0][1].columns),
        tuple((name, *cells) for name, data in known for cells in data.rows),
        known[0][1].numeric,
    )
    return f"### {escape(label)}\n\n{table(merged)}"


def table(data: Table) -> str:
    """Return a table; numeric columns are aligned to the right."""
    rule = " | ".join("---:" if column in data.numeric else "---" for column in data.columns)
    lines = [_line(data.columns), f"| {rule} |", *(_line(row) for row in data.rows[:MOST_ROWS])]
    cut = cut_text(data)
    return "\n".join([*lines, "", f"*{escape(cut)}*"] if cut else lines)


def _line(cells: tuple[str, ...]) -> str:
    return f"| {' | '.join(escape(cell).replace('|', chr(92) + '|') for cell in cells)} |"


def escape(text: str) -> str:
    """Return text that Markdown shows as it is, on one line."""
    flat = " ".join(text.split())
    for character in "\\`*_<>#[]":
        flat = flat.replace(character, f"\\{character}")
    return flat


def fence(text: str) -> str:
    """Return a code block whose fence is longer than any run of backticks in the text."""
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    ticks = "`" * max(3, longest + 1)
    return f"{ticks}\n{text.rstrip()}\n{ticks}"
