"""Make text of others fit to be printed: what a terminal would obey becomes a visible replacement character.

Escape sequences can rewrite what was printed before, set a window's title and answer as if they were typed; marks of
writing direction make a text look like another one (UAX #9, "Trojan Source").
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TextIO

_REPLACED = "\ufffd"
_OBEYED = dict.fromkeys(
    (
        *(code for code in range(0x20) if chr(code) not in "\t\n"),
        *range(0x7F, 0xA0),  # DEL, and C1: a terminal may take U+009B for ESC [
        0x061C,
        *(0x200E, 0x200F, 0x2028, 0x2029),
        *range(0x202A, 0x202F),
        *range(0x2066, 0x206A),
        *range(0xD800, 0xE000),  # halves of pairs, which no stream can encode
        *range(0xE0000, 0xE0080),  # tags: text that nobody sees
    ),
    _REPLACED,
)


def printable(text: str) -> str:
    """Return a text with a visible U+FFFD for everything in it that a terminal would obey. Lines and tabs stay."""
    if text.isascii() and text.isprintable():
        return text
    return text.replace("\r\n", "\n").translate(_OBEYED)


def one_line(text: str) -> str:
    """Return a text as `printable` does, and on one line: a name with a line break cannot add a line of its own."""
    return printable(text).replace("\n", _REPLACED)


def printable_value(value: object) -> object:
    """Return what a template writes, made printable where it is a text; markup that is ours stays."""
    return printable(value) if type(value) is str else value


class PlainStream:
    """A text stream whose every word is made printable; `styled` is the stream itself, for what draws by escapes."""

    buffer = None
    """Hidden: click writes its bytes there by itself where a stream is ASCII."""

    def __init__(self, styled: TextIO) -> None:
        self.styled = styled

    def write(self, text: str) -> int:
        """Write a text without what a terminal would obey; return the length that was asked for."""
        self.styled.write(printable(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write several texts."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> object:
        return getattr(self.styled, name)


def styled(stream: TextIO) -> TextIO:
    """Return the stream below a PlainStream: for a writer that makes the words of others printable by itself."""
    return stream.styled if isinstance(stream, PlainStream) else stream
