"""Who did what goes on record: the user of the operating system, and the host."""

from __future__ import annotations

import getpass
import socket


def who() -> str:
    """Return the user of the operating system and the host that pgdyno runs on."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = "unknown"
    return f"{user}@{socket.gethostname()}"
