"""The newest studies of a SQLite store by id and name, without SQLAlchemy: for a shell that waits at a prompt."""

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
        with closing(sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True, timeout=WAIT_S)) as store:
            rows = store.execute("SELECT id, name FROM study ORDER BY created_at DESC LIMIT ?", (MOST,)).fetchall()
    except sqlite3.Error:
        return ()
    return tuple((str(study), str(name)) for study, name in rows)
