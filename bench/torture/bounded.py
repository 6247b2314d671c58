"""The beginning of a file that the owner may have replaced by one that never ends, or by a pipe that nobody writes."""

from __future__ import annotations

import os
from pathlib import Path

MOST_BYTES = 1 << 20


def head(path: Path) -> bytes:
    """Return at most `MOST_BYTES` of a file without waiting for a writer. Raises OSError."""
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        return file.read(MOST_BYTES) or b""
