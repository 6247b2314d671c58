"""Read one file of a capture that somebody else filled: never a device, never more than memory holds."""

from __future__ import annotations

from pathlib import Path

from pgdyno.model.facts import Unknown

LARGEST = 256 << 20
"""A snapshot of a server with many tables has some MB; a sadf file of a month has tens."""


def captured_text(path: Path) -> str | Unknown:
    """Return a file's text, or why there is none. Undecodable bytes are replaced."""
    try:
        size = path.stat().st_size
        if not path.is_file():  # a pipe would be waited for without end
            return Unknown(f'"{path}" is no regular file')
        if size > LARGEST:
            return Unknown(f'"{path}" is larger than {LARGEST >> 20} MiB')
        return path.read_text(errors="replace")
    except OSError as error:
        return Unknown(f'"{path}": {error.strerror}')
