"""Opening: the URL, the connection settings that make a kill harmless, and read and write transactions."""

from __future__ import annotations

import json
import logging
import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from sqlalchemy import create_engine, event
from sqlalchemy.engine import URL, Connection, Engine, RootTransaction, make_url
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.exc import ArgumentError, OperationalError
from sqlalchemy.pool import ConnectionPoolEntry

from pgdyno.errors import StoreError, UsageError
from pgdyno.model.live import JsonText
from pgdyno.outputs import check_folder, make_folders, open_new

BUSY_TIMEOUT_S = 10.0
"""How long a transaction waits for another process that writes to the same SQLite file, unless told otherwise."""
HURRY_S = 2.0
"""How long it waits when a server that was changed waits with us to be put back."""
TELL_AFTER_S = 2.0
_SLICE_S = 0.5
"""SQLite itself waits so long at a time: while it does, no signal reaches Python."""

_Given = TypeVar("_Given")
# It logs a traceback of its own when Ctrl-C comes while a session is closed, and raises what came all the same.
logging.getLogger("sqlalchemy").addHandler(logging.NullHandler())
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


def identity(where: str) -> str:
    """Return what names one store however its URL is spelt: its file, or its database. Raises as `parse_url`."""
    url = parse_url(where)
    if url.get_backend_name() == "sqlite":
        return f"sqlite:{os.path.realpath(url.database or '')}"
    return f"{url.get_backend_name()}:{url.database or ''}"


@dataclass(slots=True)
class Patience:
    """How long a transaction waits for a lock, in seconds; `tell` is called once in a wait that is longer than others.

    `is_in_hurry` cuts every wait to `HURRY_S`, also one that has begun.
    """

    within_s: float = BUSY_TIMEOUT_S
    tell: Callable[[], None] | None = None
    is_in_hurry: bool = False

    def left(self, waited_s: float) -> float:
        """Return how much longer a wait may be."""
        return (min(HURRY_S, self.within_s) if self.is_in_hurry else self.within_s) - waited_s


def make_engine(url: URL, *, busy_timeout_s: float = BUSY_TIMEOUT_S) -> Engine:
    """Return an engine. No connection is made yet, but the folder of a SQLite file is created when it is missing."""
    if url.get_backend_name() == "postgresql":
        arguments = {"application_name": "pgdyno", "connect_timeout": 10}
        return create_engine(url, connect_args=arguments, json_serializer=_json_text)
    _make_folder(url)
    arguments = {"timeout": min(_SLICE_S, busy_timeout_s)}
    engine = create_engine(url, connect_args=arguments, json_serializer=_json_text)
    event.listen(engine, "connect", _configure_sqlite)
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def _json_text(value: object) -> str:
    return value if isinstance(value, JsonText) else json.dumps(value)


def _make_folder(url: URL) -> None:
    if not url.database or url.database.startswith((":memory:", "file:")):
        return
    folder = Path(url.database).parent
    try:
        check_folder(folder, is_held=False)  # SQLite makes more files beside it, and follows links at their names
        make_folders(folder)
        with suppress(FileExistsError):  # the files beside it get the mode that it has
            open_new(Path(url.database)).close()
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
        wanted = "NORMAL" if options.get("pgdyno_fleeting") else "FULL"
        if connection.info.get("synchronous") != wanted:
            connection.exec_driver_sql(f"PRAGMA synchronous = {wanted}")
            connection.info["synchronous"] = wanted
        connection.exec_driver_sql("BEGIN IMMEDIATE")
    else:
        connection.exec_driver_sql("BEGIN")


@contextmanager
def reading(engine: Engine, patience: Patience | None = None) -> Iterator[Connection]:
    """Give a connection inside a transaction that only reads."""
    with _begun(engine, {}, patience) as connection:
        yield connection


@contextmanager
def writing(engine: Engine, *, fleeting: bool = False, patience: Patience | None = None) -> Iterator[Connection]:
    """Give a connection inside a transaction that writes; it commits at the end and rolls back on an error.

    On SQLite it takes the write lock at once, so that two processes wait for each other instead of failing. The commit
    of what is `fleeting` waits for no disk: a power cut may lose it, and a disk under measurement is left alone.
    """
    with _begun(engine, {"pgdyno_writes": True, "pgdyno_fleeting": fleeting}, patience) as connection:
        if fleeting and connection.dialect.name == "postgresql":
            connection.exec_driver_sql("SET LOCAL synchronous_commit = off")
        yield connection


@contextmanager
def _begun(engine: Engine, options: dict[str, bool], patience: Patience | None) -> Iterator[Connection]:
    """Give a connection whose transaction has the lock that it needs, and waited for it here and nowhere later."""
    connection, transaction = _when_free(lambda: _begin(engine, options), patience or Patience())
    with connection, transaction:
        yield connection


def _begin(engine: Engine, options: dict[str, bool]) -> tuple[Connection, RootTransaction]:
    connection = engine.connect()
    try:
        connection = connection.execution_options(**options)
        transaction = connection.begin()
        if connection.dialect.name == "sqlite" and not options:
            connection.exec_driver_sql("SELECT 1 FROM sqlite_schema LIMIT 1").close()  # BEGIN alone takes no lock
    except BaseException:
        connection.close()
        raise
    return connection, transaction


def _when_free(attempt: Callable[[], _Given], patience: Patience) -> _Given:
    """Try until no other process is in the way. Raises the driver's error when that takes too long."""
    began, told = time.monotonic(), False
    while True:
        try:
            return attempt()
        except OperationalError as error:
            waited_s = time.monotonic() - began
            if not _is_locked(error) or patience.left(waited_s) <= 0:
                raise
        if patience.tell is not None and waited_s >= TELL_AFTER_S and not told:
            patience.tell()
            told = True
        time.sleep(0.05)


def _is_locked(error: OperationalError) -> bool:
    code = getattr(error.orig, "sqlite_errorcode", 0)  # the low byte is the kind, the rest says more about it
    return code & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
