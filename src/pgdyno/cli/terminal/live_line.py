"""The live line of a terminal, which `Progress` draws over and over, and what others do before they write there."""

from __future__ import annotations

import sys

from pgdyno.outside.words import styled

CLEAR = "\r\x1b[2K"
"""Goes to the begin of the line and empties it (ECMA-48 EL)."""


def begin_line() -> None:
    """Take away the live line that a `Progress` has left on stderr, where that is a terminal."""
    stream = styled(sys.stderr)  # what is made printable for all others would show the escape
    if stream.isatty():
        stream.write(CLEAR)
        stream.flush()
