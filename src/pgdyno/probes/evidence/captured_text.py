"""Read one file of a capture that somebody else filled: never a device, never more than memory holds."""

from __future__ import annotations

from pathlib import Path

from pgdyno.model.facts import Unknown
from pgdyno.outside.files import decode, read_bytes

LARGEST = 256 << 20
"""A snapshot of a server with many tables has some MB; a sadf file of a month has tens."""


def captured_text(path: Path) -> str | Unknown:
    """Return a file's text, or why there is none. Undecodable bytes are replaced."""
    try:
        return decode(read_bytes(path, at_most=LARGEST), lenient=True)
    except ValueError as error:
        return Unknown(f'"{path}" is {error}')
    except OSError as error:
        return Unknown(f'"{path}": {error.strerror}')
