"""The tables that the sources print, as rows; `line` is where the source has the row, null what it does not state."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any, cast

FOLDER = Path(__file__).parent / "data" / "seed_tables"

Row = dict[str, Any]


@cache
def _tables() -> dict[str, dict[str, Any]]:
    files = sorted(FOLDER.glob("*.json"))
    return {name: table for file in files for name, table in json.loads(file.read_text(encoding="utf-8")).items()}


def seed_rows(table: str) -> list[Row]:
    """Return copies of the rows of one table, so that a test may change one."""
    return [dict(row) for row in cast("list[Row]", _tables()[table]["rows"])]


def seed_row(table: str, **wanted: object) -> Row:
    """Return the only row of a table whose columns have these values."""
    (found,) = [row for row in seed_rows(table) if all(row[name] == value for name, value in wanted.items())]
    return found


def seed_fact(table: str, name: str) -> Any:
    """Return what a table says beside its rows, such as `cores`."""
    return _tables()[table][name]
