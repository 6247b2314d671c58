"""The report as data: a headline, tiles, and sections of blocks. Renderers draw these and decide nothing.

A block is the smallest thing that terminal, Markdown and HTML each know how to draw; a new kind of block has to be
drawn in `text.py`, `markdown.py` and `html.py`, and mypy says so (`assert_never`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from pgdyno.model.figure import Figure, Table
from pgdyno.report.wording import Tone as Tone


@dataclass(frozen=True, slots=True)
class Tile:
    """One number that a manager remembers: a label, the figure, its interval or before and after, and the word."""

    label: str
    value: str
    interval: str
    detail: str
    word: str
    tone: Tone


@dataclass(frozen=True, slots=True)
class Prose:
    """Sentences: a list of points when `points`, else paragraphs."""

    sentences: tuple[str, ...]
    points: bool = False


@dataclass(frozen=True, slots=True)
class Notice:
    """Something that weakens or qualifies the numbers and has to be seen."""

    sentences: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FactList:
    """Names and values, one pair a line."""

    rows: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class TableBlock:
    """A table with the sentence that says what it shows. `folded` tables are closed in HTML until asked for."""

    table: Table
    caption: str
    folded: bool = False


@dataclass(frozen=True, slots=True)
class Snippet:
    """Text to copy, such as lines of a `postgresql.conf`."""

    label: str
    text: str


@dataclass(frozen=True, slots=True)
class PageLinks:
    """Other pages that belong to this one: what each is, and its path from the folder of this page."""

    rows: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Charts:
    """Figures under each other."""

    figures: tuple[Figure, ...]


@dataclass(frozen=True, slots=True)
class Strips:
    """A flight recorder: one column a run, one row a strip; a run that lacks a strip has None there."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Figure | None, ...], ...]


@dataclass(frozen=True, slots=True)
class Card:
    """Something that is read at a glance and opened for more: a title, a line, badges with their tone, and blocks."""

    id: str
    title: str
    line: str
    badges: tuple[tuple[str, Tone], ...]
    blocks: tuple[Block, ...]
    is_open: bool = False


@dataclass(frozen=True, slots=True)
class Cards:
    """Cards under each other."""

    cards: tuple[Card, ...]


Block: TypeAlias = "Prose | Notice | FactList | PageLinks | TableBlock | Snippet | Charts | Strips | Cards"


@dataclass(frozen=True, slots=True)
class Section:
    """A heading, the question that it answers, and its blocks."""

    id: str
    title: str
    question: str
    blocks: tuple[Block, ...]

    @classmethod
    def of_table(
        cls, name: str, title: str, question: str, table: Table, caption: str, *, folded: bool = False
    ) -> Section | None:
        """Return the section of one table, called `name`; None where the table has no rows.

        `name` becomes its id, `title` is its heading and `question` what it answers. `caption` is the sentence that
        says what `table` shows, and `folded` closes it in HTML until asked for.
        """
        return cls(name, title, question, (TableBlock(table, caption, folded),)) if table.rows else None


@dataclass(frozen=True, slots=True)
class Report:
    """What a study found. `title` is the verdict in one sentence, `word` its word; `stamp` the conditions under
    which the numbers hold; `provenance` where they come from.
    """

    study: str
    kind: str
    title: str
    word: str
    tone: Tone
    lead: str
    stamp: str
    tiles: tuple[Tile, ...] = ()
    sections: tuple[Section, ...] = ()
    digest: tuple[Section, ...] = ()
    """The short form for the end of a run in the terminal: first things first, without figures."""
    provenance: Mapping[str, str] = field(default_factory=dict)
    label: str = ""
    """What stands beside the name pgdyno at the top; empty for "<kind> study <study>"."""

    def figures(self) -> Iterator[Figure]:
        """Yield every figure in the order of the page."""
        for section in self.sections:
            for block in section.blocks:
                if isinstance(block, Charts):
                    yield from block.figures
                elif isinstance(block, Strips):
                    yield from (figure for row in block.rows for figure in row if figure is not None)
