"""Rows of a trace as a test looks at them, by one DuckDB for all: to begin one for each takes 20 ms of CPU."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import duckdb

from pgdyno.trace.schema import TRACE

ALL = tuple(one.name for one in TRACE)


@cache
def _reader() -> duckdb.DuckDBPyConnection:
    # A test writes a file of one name again and again: nothing of it may be remembered.
    return duckdb.connect(":memory:", config={"threads": 1, "enable_external_file_cache": False})


def rows_of(trace: Path, columns: Sequence[str] = ALL) -> list[tuple[Any, ...]]:
    """Return the rows in the order of the file; `read_rows`, which the program reads them by, has tests of its own."""
    asked = ", ".join(f'"{name}"' for name in columns)
    return _reader().execute(f"SELECT {asked} FROM read_parquet(?)", [str(trace)]).fetchall()
