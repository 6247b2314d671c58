"""The names of all knobs in the catalogue, read in milliseconds: a shell asks for them at every press of a key."""

from __future__ import annotations

import tomllib
from pathlib import Path

_PACKAGE = Path(__file__).parents[1]
_FILES = ("knobs/data/postgresql.toml", "model/linux.toml")


def knob_names() -> tuple[str, ...]:
    """Return every name, those of PostgreSQL first; the files are those of the package and not checked again."""
    return tuple(name for file in _FILES for name in _names(tomllib.loads((_PACKAGE / file).read_text("utf-8"))))


def _names(document: dict[str, object]) -> list[str]:
    return [name for name, value in document.items() if isinstance(value, dict)]
