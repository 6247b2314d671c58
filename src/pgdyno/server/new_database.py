"""Databases under a passing name while they are made: a kill leaves none of which nobody can tell whose it is.

The server goes on with a CREATE DATABASE whose client was killed, and there is no mark in it yet. So a database gets a
name that nobody can guess and that is on disk before it, then its mark, and then its own name.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from psycopg import sql

from pgdyno.errors import PgdynoError
from pgdyno.linux.identity import ProcessIdentity
from pgdyno.model.shapes import shaped
from pgdyno.outside.documents import load_json
from pgdyno.outside.files import read_bytes
from pgdyno.owner import durable
from pgdyno.owner.durable import Attributes
from pgdyno.server import places
from pgdyno.server.databases import drop_database
from pgdyno.server.postgres import Postgres

_THERE = "SELECT datname::text AS name FROM pg_catalog.pg_database WHERE datname = ANY (%s) ORDER BY 1"
_LONGEST = 1 << 12


@dataclass(frozen=True, slots=True)
class UnfinishedDatabase:
    """A database that was to get another name; `maker` is the process that makes it, or made it until it was killed."""

    name: str
    maker: ProcessIdentity
    note: Path

    def drop(self, postgres: Postgres) -> None:
        """Drop it, and forget it."""
        drop_database(postgres, self.name)
        self.note.unlink(missing_ok=True)


@contextmanager
def passing_name(postgres: Postgres, name: str) -> Iterator[str]:
    """Give a name to make and mark a database under; afterwards it is called `name`, which has to be free by then.

    What fails leaves none. Side effects: ALTER DATABASE RENAME; what killed processes left unfinished is dropped.
    """
    for one in unfinished_databases(postgres):
        if not one.maker.is_alive():
            with suppress(PgdynoError):
                one.drop(postgres)
    passing = f"pgdyno_{secrets.token_hex(16)}_new"
    note = places.ensure(places.ensure(places.state_dir()) / "databases") / passing
    owned = json.dumps(asdict(ProcessIdentity.own())) + "\n"
    durable.replace(note, owned.encode(), Attributes(os.geteuid(), os.getegid(), 0o600))
    try:
        yield passing
        rename = sql.SQL("ALTER DATABASE {} RENAME TO {}")  # the server waits for sessions that end
        postgres.execute(rename.format(sql.Identifier(passing), sql.Identifier(name)))
    except BaseException:
        with suppress(PgdynoError):  # the note stays with what stays
            drop_database(postgres, passing)
            note.unlink(missing_ok=True)
        raise
    note.unlink(missing_ok=True)


def unfinished_databases(postgres: Postgres) -> list[UnfinishedDatabase]:
    """Return those of this account on a server, by name: of each there is a note on this host. Changes nothing."""
    makers = dict[str, tuple[ProcessIdentity, Path]]()
    for note in (places.state_dir() / "databases").glob("pgdyno_*_new"):
        with suppress(OSError, ValueError):
            told = load_json(read_bytes(note, at_most=_LONGEST, follow=False))
            makers[note.name] = shaped(ProcessIdentity, told, "its maker"), note
    rows = postgres.fetch(_THERE, [sorted(makers)]) if makers else []
    return [UnfinishedDatabase(name, *makers[name]) for name in (str(row["name"]) for row in rows)]
