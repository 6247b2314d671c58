"""What a session holds so that it is the only one on its server: the file in the data directory, and a lock in SQL.

Where settings go through files, the lock is `server_lock`'s. Where they go by SQL or Patroni the data directory may be
out of reach, and the session holds an advisory lock in a session of its own for as long as it lasts. Advisory locks
belong to a database, but `pg_locks` shows those of all: everyone takes the lock where they are connected and then
looks at the whole cluster, so that of two at least one sees the other. Both kinds see each other: whoever takes the one
looks for the other.

An advisory lock ends with its session, when the server has ended that: some milliseconds after the session was closed.
Who finds the server in use looks again for a while, so that one session can follow another at once.

Whoever puts a dead session back takes the lock again, or waits for the end of a session that began in between: two
undos at once would each take the other's values for a person's, and leave them.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import psycopg
from psycopg.rows import DictRow

from pgdyno.errors import ConnectError, PgdynoError
from pgdyno.linux.identity import ProcessIdentity
from pgdyno.server.postgres import Postgres, query_errors
from pgdyno.targets.target import Target
from pgdyno.undo import server_lock
from pgdyno.undo.baseline import Baseline
from pgdyno.undo.bundle import UndoBundle
from pgdyno.undo.server_lock import Holder, ServerInUse, ServerLock

KEYS = 0x70676479, 0x6E6F
"""The two keys of the advisory lock: "pgdyno" in ASCII."""
_TAKE = "SELECT pg_catalog.pg_try_advisory_lock(%s, %s) AS taken"
# A role that may not see the others' activity gets no name of theirs, but their lock it sees. Anybody can take it: a
# role without the right that every session of ours begins with (`baseline`) holds it, and has no session.
_OTHERS = """
SELECT l.pid, a.usename AS "user", a.application_name AS name,
       coalesce(pg_has_role(a.usesysid, 'pg_read_all_settings', 'USAGE'), true) AS may_have_session
  FROM pg_catalog.pg_locks l LEFT JOIN pg_catalog.pg_stat_activity a USING (pid)
 WHERE l.locktype = 'advisory' AND l.classid = %s AND l.objid = %s AND l.objsubid = 2 AND l.granted
   AND l.pid <> pg_catalog.pg_backend_pid()
 ORDER BY l.pid
"""
LEAVING_S = 1.0
"""How long a session that was closed may still be listed with its lock before it counts as one that is open."""
_LOOK_S = 0.05
_FILE = "SELECT pg_catalog.pg_read_file(%s, 0, 4096, true) AS text"
_NO_TIMEOUT = "SELECT set_config(name, '0', false) FROM pg_catalog.pg_settings WHERE name = 'idle_session_timeout'"
_NAME = "SELECT set_config('application_name', %s, false)"


@dataclass
class OneSession:
    """The locks of one session; `file` and `advisory` where its route has them."""

    file: ServerLock | None
    advisory: AdvisoryLock | None

    @classmethod
    def take(cls, target: Target, found: Baseline, undo_root: Path) -> OneSession:
        """Take what the route needs. Raises ServerInUse that names the session which is open."""
        directory: Path | None = found.data_directory
        if found.dropin is None:  # by SQL alone: a directory that is at hand is locked too, one that is not need not be
            at_hand = target.directory is not None and os.access(target.directory, os.W_OK | os.X_OK)
            directory = target.directory if at_hand else None
        is_over = server_lock.is_over_for(undo_root)
        held = cls(None, None)
        try:
            if directory is not None:
                held.file = ServerLock.take(directory, is_over=is_over)
            if found.dropin is None:
                held.advisory = AdvisoryLock.take(target.postgres)
            else:
                refuse_advisory(target.postgres)
            if directory is None:
                _refuse_file_through_sql(target.postgres)
        except BaseException:
            held.release()
            raise
        return held

    def sign(self, bundle: UndoBundle) -> None:
        """Name the session, durably where that is possible. Raises EnvironmentUnsuitable when the file cannot be."""
        if self.file is not None:
            self.file.sign(bundle)
        if self.advisory is not None:
            self.advisory.sign(bundle.id)

    def renew(self) -> None:
        """Take the advisory lock again where a restart ended its session. Errors as `take`."""
        if self.advisory is not None:
            self.advisory.renew()

    def let_go(self) -> None:
        """Give back what a dead process would: the file goes on naming the session. Idempotent."""
        if self.advisory is not None:
            self.advisory.release()
        if self.file is not None:
            self.file.let_go()

    def release(self) -> None:
        """Give all of it back: the session is over. Idempotent."""
        if self.advisory is not None:
            self.advisory.release()
        if self.file is not None:
            self.file.release()


class AdvisoryLock:
    """The advisory lock, with the session that holds it."""

    def __init__(self, postgres: Postgres, connection: psycopg.Connection[DictRow]) -> None:
        self._postgres = postgres
        self._connection = connection
        self._name = ""

    @classmethod
    def take(cls, postgres: Postgres) -> AdvisoryLock:
        """Take it. Raises ServerInUse when another session has it, in whichever database."""
        return cls(postgres, _locked(postgres))

    def sign(self, name: str) -> None:
        """Show the session's name in pg_stat_activity."""
        self._name = name
        with query_errors(self._postgres.label):
            self._connection.execute(_NAME, [_shown(name)])

    def renew(self) -> None:
        """Take it again where its session is lost. Errors as `take`, and ConnectError."""
        with contextlib.suppress(psycopg.Error):
            self._connection.execute("SELECT 1")
            return
        self._connection.close()
        self._connection = _locked(self._postgres)
        self.sign(self._name)

    def release(self) -> None:
        """End the session that holds it. Idempotent."""
        self._connection.close()


@contextlib.contextmanager
def restoring(bundle: UndoBundle, postgres: Postgres) -> Iterator[None]:
    """Be the one session on the server while one is put back. Raises ServerInUse while another session is open.

    A server that takes no session is put back all the same, and so is one where our dead session's own has not ended.
    """
    with server_lock.restoring(bundle), contextlib.ExitStack() as held:
        if not bundle.manifest.local and bundle.manifest.owner != ProcessIdentity.own():
            with contextlib.suppress(ConnectError):
                held.callback(_locked_for_restore(postgres, bundle.id).close)
        yield


def refuse_while_open(target: Target, undo_root: Path) -> None:
    """Raise ServerInUse while a session on this server is open, as far as can be seen. Takes no lock."""
    if target.directory is not None:
        server_lock.refuse_open(target.directory, is_over=server_lock.is_over_for(undo_root))
    refuse_advisory(target.postgres)


def refuse_advisory(postgres: Postgres) -> None:
    """Raise ServerInUse while a session of the SQL route is open on this cluster."""
    with postgres.connect() as connection, query_errors(postgres.label):
        _patiently(lambda: _refuse_others(postgres, connection))


def _locked(postgres: Postgres) -> psycopg.Connection[DictRow]:
    connection = postgres.connect()
    try:
        with query_errors(postgres.label):
            connection.execute(_NO_TIMEOUT)
            _patiently(lambda: _take(postgres, connection))
    except BaseException:
        connection.close()
        raise
    return connection


def _take(postgres: Postgres, connection: psycopg.Connection[DictRow]) -> None:
    row = connection.execute(_TAKE, KEYS).fetchone()
    _refuse_others(postgres, connection)
    assert row is not None
    if not row["taken"]:  # it was given back between the two statements
        raise _in_use(postgres, "its holder is just ending")


def _patiently(look: Callable[[], None]) -> None:
    """Look until nobody has the server, for `LEAVING_S` at the most. Raises ServerInUse then."""
    began = time.monotonic()
    while True:
        try:
            return look()
        except ServerInUse:
            if time.monotonic() - began >= LEAVING_S:
                raise
        time.sleep(_LOOK_S)


def _locked_for_restore(postgres: Postgres, session: str) -> psycopg.Connection[DictRow]:
    connection = postgres.connect()
    try:
        with query_errors(postgres.label):
            connection.execute(_NAME, [_shown(session)])
            connection.execute(_NO_TIMEOUT)
            _patiently(lambda: _take_again(postgres, connection, session))
        _refuse_file_through_sql(postgres, but=session)
    except BaseException:
        connection.close()
        raise
    return connection


def _take_again(postgres: Postgres, connection: psycopg.Connection[DictRow], session: str) -> None:
    connection.execute(_TAKE, KEYS)  # which the dead session itself may still have
    _refuse_others(postgres, connection, but=_shown(session))


def _shown(session: str) -> str:
    """Return what pg_stat_activity shows of a session: by "pgdyno" our own are known, and 63 bytes are kept."""
    return f"pgdyno {session}"[:63]


def _refuse_others(postgres: Postgres, connection: psycopg.Connection[DictRow], but: str = "") -> None:
    """Raise ServerInUse where somebody else has the lock; `but` is the session that is put back.

    No database user keeps a server from that by holding the lock. A new session they keep out, by name.
    """
    for row in connection.execute(_OTHERS, KEYS).fetchall():
        if but and (row["name"] == but or not row["may_have_session"]):
            continue
        name = str(row["name"] or "").removeprefix("pgdyno ").strip()
        shown = f"session {name} of" if name and name.isprintable() else "held by"
        raise _in_use(postgres, f"{shown} role {row['user'] or 'unknown'}, server process {row['pid']}")


def _refuse_file_through_sql(postgres: Postgres, but: str = "") -> None:
    """Look at the file of a session whose data directory we cannot reach, where the role may read it by SQL."""
    try:
        rows = postgres.fetch(_FILE, [server_lock.NAME])
    except PgdynoError:
        return
    holder = Holder.from_bytes(str(rows[0]["text"] or "").encode())
    if holder is not None and holder.session != but:
        raise _in_use(postgres, f"session {holder.session} of user {holder.user} on the server's host")


def _in_use(postgres: Postgres, detail: str) -> ServerInUse:
    return ServerInUse(
        f'another session on "{postgres.label}" is open',
        detail=detail[0].upper() + detail[1:] + ".",
        hint="Wait until it ends; pgdyno rollback --list shows its state, for the user who began it.",
    )
