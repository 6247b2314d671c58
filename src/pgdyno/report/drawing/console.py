"""A console of rich whose words are all made printable, and none of which is markup: they are often others' words.

It is the one that breaks lines for a terminal, and keeps numbers and their units on one.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TextIO, cast

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.segment import Segment
from rich.text import Text

from pgdyno.outside.words import printable, styled
from pgdyno.report.drawing.line_breaks import HELD, asked_width, held, let_go

PIPE_WIDTH = 120
"""The width of a report that goes to a file or a pipe, where nobody asks for another."""
ROOM_FOR_ARROW = 2
"""In ASCII an arrow takes two columns and not one, which no table knows of."""


def pipe_width() -> int:
    """Return the width of a report that goes to a file or a pipe: that of COLUMNS where it is exported, else 120."""
    return asked_width() or PIPE_WIDTH


@dataclass(frozen=True, slots=True)
class Plain:
    """What another renderable draws, without what a terminal would obey; rich adds the colours afterwards."""

    drawn: RenderableType

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the segments of the other one."""
        for segment in console.render(self.drawn, options):
            yield segment if segment.control else Segment(printable(segment.text), segment.style)


class PlainConsole(Console):
    """A console for text that may be of anybody."""

    def __init__(self, stream: TextIO | None = None, width: int | None = None) -> None:
        super().__init__(file=styled(stream or sys.stdout), width=width, highlight=False, markup=False, emoji=False)
        if width is None and self.options.ascii_only:
            self.width -= ROOM_FOR_ARROW

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Render as rich does, without a break between a number and its unit."""
        room = options or self.options
        if isinstance(renderable, str):
            renderable = self.render_str(renderable, highlight=room.highlight, markup=room.markup)
        if isinstance(renderable, Text) and (kept := held(renderable.plain, room.max_width)) != renderable.plain:
            renderable = renderable.copy()
            renderable.plain = kept
        for segment in super().render(renderable, options):
            yield segment._replace(text=let_go(segment.text)) if HELD in segment.text else segment

    def print(self, *objects: object, **options: object) -> None:
        """Print as rich does; words without what a terminal would obey."""
        shown = (printable(one) if isinstance(one, str) else Plain(cast(RenderableType, one)) for one in objects)
        super().print(*shown, **options)  # type: ignore[arg-type]  # unchanged to rich, whose signature is not copied
