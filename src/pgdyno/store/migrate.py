"""Brings a store's schema up to date when it is opened.

The usual case, a store that is up to date, is one SELECT; Alembic is imported only to build or to upgrade.
"""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import inspect, select, text
from sqlalchemy.engine import Connection, Engine

from pgdyno.errors import StoreError
from pgdyno.store.engine import reading, writing
from pgdyno.store.schema import REVISION, STUDY, VERSION

_LOCK = 7_341_220_021
"""Key of the PostgreSQL advisory lock under which one process at a time migrates."""


def ensure_current(engine: Engine, name: str) -> None:
    """Build or upgrade the schema of the store `name` when it is not at `REVISION`.

    The whole upgrade is one transaction, on SQLite and PostgreSQL: a kill leaves the store as it was. Raises
    StoreError for a store that a newer pgdyno made, and for a database that belongs to something else.
    """
    with reading(engine) as connection:
        if _revision(connection, name) == REVISION:
            return
    with writing(engine) as connection:
        if connection.dialect.name == "postgresql":
            connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK})
        if _revision(connection, name) != REVISION:
            _upgrade(connection, name)


def _revision(connection: Connection, name: str) -> str | None:
    """Return the revision of the schema, None for an empty database."""
    tables = inspect(connection)
    if tables.has_table(VERSION.name):
        return connection.execute(select(VERSION.c.version_num)).scalar()
    if tables.has_table(STUDY.name):
        raise StoreError(
            f'"{name}" has a table "{STUDY.name}" that is not ours',
            hint="Give pgdyno a database, a schema or a file of its own with --store URL.",
        )
    return None


def _upgrade(connection: Connection, name: str) -> None:
    from alembic import command
    from alembic.config import Config
    from alembic.script import ScriptDirectory

    config = Config(attributes={"connection": connection})
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    config.set_main_option("path_separator", "os")
    known = {script.revision for script in ScriptDirectory.from_config(config).walk_revisions()}
    found = _revision(connection, name)
    if found is not None and found not in known:
        raise StoreError(
            f'store "{name}" has schema {found}, which this pgdyno does not know: it is at {REVISION}',
            hint="Upgrade pgdyno, or name another store with --store URL.",
        )
    command.upgrade(config, "head")
