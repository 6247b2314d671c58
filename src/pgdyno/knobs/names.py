"""The names of all knobs in the catalogue, read in milliseconds: a shell asks for them at every press of a key."""

from __future__ import annotations

import tomllib
from pathlib import Path

from pgdyno.model.linux import LINUX_KNOBS

_FILE = Path(__file__).parent / "data" / "postgresql.toml"


def knob_names() -> tuple[str, ...]:
    """Return every name, those of PostgreSQL first; the file is that of the package and not checked again."""
    entries = tomllib.loads(_FILE.read_text("utf-8")).items()
    return (*(name for name, entry in entries if isinstance(entry, dict)), *LINUX_KNOBS)
