"""Who uses which of our databases: advisory locks that a study holds for as long as it works with them.

An advisory lock belongs to a database, but `pg_locks` shows those of all, so it is taken wherever the role connects.
Whoever would drop a database says so by a second lock and then looks for users; whoever would use one takes its lock
and then looks whether it is being dropped: of two, at least one sees the other. A restart of the server ends the locks:
a study that restarts it is seen by its session (`one_session`), which lets no other study begin.
"""

from __future__ import annotations

import contextlib
import hashlib
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import LiteralString

import psycopg
from psycopg.rows import DictRow

from pgdyno.errors import EnvironmentUnsuitable
from pgdyno.server.postgres import Postgres, query_errors

USING, DROPPING = 0x70676475, 0x70676464
"""The first keys of the locks: "pgdu" and "pgdd" in ASCII. The second is made of the database's name."""
_TAKE = "SELECT pg_catalog.pg_advisory_lock_shared(%s, %s)"
_GIVE = "SELECT pg_catalog.pg_advisory_unlock_shared(%s, %s)"
_OTHERS = """
SELECT pg_catalog.count(*) AS others FROM pg_catalog.pg_locks
 WHERE locktype = 'advisory' AND classid = %s AND objid = %s::bigint::oid AND objsubid = 2 AND granted
   AND pid <> pg_catalog.pg_backend_pid()
"""
_NO_TIMEOUT = "SELECT set_config(name, '0', false) FROM pg_catalog.pg_settings WHERE name = 'idle_session_timeout'"
_DROP_TAKES_S = 60.0


class DatabaseUse:
    """What one process uses and drops; a context manager, whose session is opened when it is first needed."""

    def __init__(self, postgres: Postgres, *, sleep: Callable[[float], None] = time.sleep) -> None:
        self._postgres = postgres
        self._sleep = sleep
        self._session: psycopg.Connection[DictRow] | None = None

    def __enter__(self) -> DatabaseUse:
        return self

    def __exit__(self, *_: object) -> None:
        self.let_go()

    def let_go(self) -> None:
        """Use nothing any more. Idempotent; asks nothing of the server, which may hang."""
        if self._session is not None:
            self._session.close()
            self._session = None

    def use(self, name: str) -> bool:
        """Use a database from now on; return whether another study uses it, too.

        Raises EnvironmentUnsuitable when somebody has been dropping it for a minute.
        """
        self._do(_TAKE, USING, name)
        waited_s = 0.0
        while self._others(DROPPING, name):
            if waited_s >= _DROP_TAKES_S:
                raise EnvironmentUnsuitable(
                    f'database "{name}" is being dropped by another pgdyno', hint="Try again when that has ended."
                )
            self._sleep(0.2)
            waited_s += 0.2
        return self._others(USING, name)

    def is_used(self, name: str) -> bool:
        """Tell whether another process uses a database just now."""
        return self._others(USING, name)

    @contextmanager
    def dropping(self, name: str) -> Iterator[bool]:
        """Yield True where nobody else uses the database, and keep others from it until the block ends."""
        self._do(_TAKE, DROPPING, name)
        try:
            yield not self._others(USING, name)
        finally:
            with contextlib.suppress(EnvironmentUnsuitable):
                self._do(_GIVE, DROPPING, name)

    def _others(self, first: int, name: str) -> bool:
        row = self._do(_OTHERS, first, name)
        return row is not None and int(row["others"]) > 0

    def _do(self, query: LiteralString, first: int, name: str) -> DictRow | None:
        with query_errors(self._postgres.label):
            return self._open().execute(query, [first, _second(name, signed=query is not _OTHERS)]).fetchone()

    def _open(self) -> psycopg.Connection[DictRow]:
        """Return the session, a new one where a restart of the server has ended it."""
        if self._session is not None:
            with contextlib.suppress(psycopg.Error):
                self._session.execute("SELECT 1")
                return self._session
            self._session.close()
        self._session = self._postgres.connect()
        self._session.execute(_NO_TIMEOUT)
        return self._session


def _second(name: str, *, signed: bool) -> int:
    """Return 32 bits of a database's name: an int4 for the functions, an oid for pg_locks."""
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "big", signed=signed)
