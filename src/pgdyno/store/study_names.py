"""Which studies a SQLite store has, without SQLAlchemy: for a shell that waits at a prompt, or to find none."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

MOST = 50
WAIT_S = 0.2
"""So long a store that is locked is waited for; after it there is nothing to complete."""


def newest_studies(path: Path) -> tuple[tuple[str, str], ...]:
    """Return id and name of at most MOST studies, the newest first; none of a store that cannot be read. Reads only."""
    if not path.is_file():
        return ()
    try:
        rows = _read(path, "SELECT id, name FROM study ORDER BY created_at DESC LIMIT ?", MOST)
    except sqlite3.Error:
        return ()
    return tuple((str(study), str(name)) for study, name in rows)


def has_no_study_on(path: Path, data_directory: str) -> bool:
    """Tell whether there is no store, or none of its studies was on a server with this data directory.

    False where it cannot be read.
    """
    query = "SELECT 1 FROM study WHERE json_extract(facts, '$.server.data_directory') = ? LIMIT 1"
    try:
        return not path.exists() or not _read(path, query, data_directory)
    except sqlite3.Error:
        return False


def _read(path: Path, query: str, *values: object) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True, timeout=WAIT_S)) as store:
        return store.execute(query, values).fetchall()
