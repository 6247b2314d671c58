"""Copies of a SQLite store that was filled once: the example study costs half a CPU second to write."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from pgdyno.store.catalogue import Store


def content_of(path: Path) -> bytes:
    """Return the content of a closed store."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode = DELETE")  # a copy in memory has no write-ahead log
        return connection.serialize()


def is_empty_sqlite(store: Store) -> bool:
    """Tell whether this is a SQLite store in which nothing was ever written but its schema."""
    if store._engine.dialect.name != "sqlite":
        return False
    with closing(store._engine.raw_connection()) as pooled:
        names = pooled.cursor().execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        tables = [name for (name,) in names if name != "alembic_version" and not name.startswith("sqlite_")]
        return not any(
            pooled.cursor().execute(f'SELECT EXISTS (SELECT 1 FROM "{name}")').fetchone()[0] for name in tables
        )


def fill(store: Store, content: bytes) -> None:
    """Make an empty SQLite store a copy of this content."""
    with closing(sqlite3.connect(":memory:")) as source, closing(store._engine.raw_connection()) as pooled:
        source.deserialize(content)
        assert isinstance(pooled.driver_connection, sqlite3.Connection)
        source.backup(pooled.driver_connection)
