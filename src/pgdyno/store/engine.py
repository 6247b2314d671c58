"""Opening: the URL, the connection settings that make a kill harmless, and read and write transactions."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import create_engine, event
from sqlalchemy.engine import URL, Connection, Engine, make_url
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.exc import ArgumentError
from sqlalchemy.pool import ConnectionPoolEntry

from pgdyno.errors import StoreError, UsageError

BUSY_TIMEOUT_S = 10.0
"""How long a statement waits for another process that writes to the same SQLite file."""

_KINDS = "Write it as a path, as sqlite:///PATH, or as postgresql+psycopg://USER@HOST/DBNAME."


def parse_url(where: str | Path) -> URL:
    """Return the URL of a store that is named by a path or a URL. Raises UsageError on any other kind."""
    text = str(where)
    if "://" not in text:
        return URL.create("sqlite", database=str(Path(text).expanduser().absolute()))
    try:
        url = make_url(text)
    except (ArgumentError, ValueError):
        # without its cause, which repeats the URL and the password in it
        raise UsageError("the store's URL cannot be read", hint=_KINDS) from None
    if url.get_backend_name() == "postgresql":
        return url.set(drivername="postgresql+psycopg")
    if url.get_backend_name() != "sqlite":
        raise UsageError(f'a store cannot be kept in "{url.drivername}"', hint=_KINDS)
    return url.set(drivername="sqlite")


def absolute(where: str) -> str:
    """Return the store's name as it holds from every folder. Raises UsageError as `parse_url`."""
    url = parse_url(where)
    is_file = url.get_backend_name() == "sqlite" and url.database and not url.database.startswith((":memory:", "file:"))
    return str(Path(url.database).absolute()) if is_file and url.database else where


def make_engine(url: URL, *, busy_timeout_s: float = BUSY_TIMEOUT_S) -> Engine:
    """Return an engine. No connection is made yet, but the folder of a SQLite file is created when it is missing."""
    if url.get_backend_name() == "postgresql":
        return create_engine(url, connect_args={"application_name": "pgdyno", "connect_timeout": 10})
    _make_folder(url)
    engine = create_engine(url, connect_args={"timeout": busy_timeout_s})
    event.listen(engine, "connect", _configure_sqlite)
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def _make_folder(url: URL) -> None:
    if not url.database or url.database.startswith((":memory:", "file:")):
        return
    folder = Path(url.database).parent
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(
            f'folder "{folder}" of the store cannot be made',
            detail=str(error),
            hint="Name another store with --store URL or PGDYNO_STORE.",
        ) from error


def _configure_sqlite(connection: DBAPIConnection, _entry: ConnectionPoolEntry) -> None:
    """Set what makes a kill harmless: a write-ahead log, an fsync at each commit, references that are checked."""
    assert isinstance(connection, sqlite3.Connection)
    connection.isolation_level = None  # we begin transactions ourselves, so that DDL is inside them too
    connection.execute("PRAGMA foreign_keys = ON")
    if connection.execute("PRAGMA journal_mode").fetchone() != ("wal",):
        _switch_to_wal(connection)
    connection.execute("PRAGMA synchronous = FULL")


def _switch_to_wal(connection: sqlite3.Connection) -> None:
    # SQLite does not wait here for others that open the same new file, as it does for a lock elsewhere.
    deadline = time.monotonic() + BUSY_TIMEOUT_S
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
        time.sleep(0.01)


def _begin_sqlite(connection: Connection) -> None:
    options = connection.get_execution_options()
    if options.get("pgdyno_writes", False):
        # NORMAL waits for no disk at a commit; the write-ahead log stays whole, and the next FULL commit syncs it all
        connection.exec_driver_sql(f"PRAGMA synchronous = {'NORMAL' if options.get('pgdyno_fleeting') else 'FULL'}")
        connection.exec_driver_sql("BEGIN IMMEDIATE")
    else:
        connection.exec_driver_sql("BEGIN")


@contextmanager
def reading(engine: Engine) -> Iterator[Connection]:
    """Give a connection inside a transaction that only reads."""
    with engine.connect() as connection, connection.begin():
        yield connection


@contextmanager
def writing(engine: Engine, *, fleeting: bool = False) -> Iterator[Connection]:
    """Give a connection inside a transaction that writes; it commits at the end and rolls back on an error.

    On SQLite it takes the write lock at once, so that two processes wait for each other instead of failing. The commit
    of what is `fleeting` waits for no disk: a power cut may lose it, and a disk under measurement is left alone.
    """
    with engine.connect() as connection:
        connection = connection.execution_options(pgdyno_writes=True, pgdyno_fleeting=fleeting)
        with connection.begin():
            if fleeting and connection.dialect.name == "postgresql":
                connection.exec_driver_sql("SET LOCAL synchronous_commit = off")
            yield connection
