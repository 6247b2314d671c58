"""What logical replication needs on both servers, made and removed: publication, slot, subscription.

All three have one name. What is left on the source keeps its WAL from being removed, so it is taken away at every end:
by the rehearsal, and where that was killed by the process that `guard_link` starts, which waits for nothing else.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psycopg
from psycopg import sql

import pgdyno
from pgdyno.errors import ConnectError, EnvironmentUnsuitable, PgdynoError
from pgdyno.migration.movers.presence import StoredName
from pgdyno.migration.movers.target_database import execute_unlogged
from pgdyno.owner.inherited import ProgramKind, inherited
from pgdyno.server.postgres import Postgres, secret_variables

_PATIENCE_S = 20.0
READY = "ready\n"
"""What the guard says when it can do its work; nothing is made on the source before."""
_LEFT = (
    "SELECT slot_name AS name, active_pid AS pid FROM pg_catalog.pg_replication_slots"
    " WHERE slot_name = %s OR %s <> '' AND slot_name ~ ('^pg_' || %s || '_sync_[0-9]+_[0-9]+$')"
)
_THERE = (
    "SELECT 'slot' AS what FROM pg_catalog.pg_replication_slots WHERE slot_name = %s"
    " UNION ALL SELECT 'publication' FROM pg_catalog.pg_publication WHERE pubname = %s"
)
_SUBSCRIPTION = "SELECT oid FROM pg_catalog.pg_subscription WHERE subname = %s"
_RETAINED = (
    "SELECT pg_catalog.pg_wal_lsn_diff(pg_catalog.pg_current_wal_lsn(), restart_lsn)::int8 AS bytes"
    " FROM pg_catalog.pg_replication_slots WHERE slot_name = %s"
)


@dataclass(frozen=True, slots=True)
class ReplicationLink:
    """The replication of a rehearsal, between two databases."""

    name: str
    source: Postgres
    target: Postgres

    def make(self, tables: Sequence[StoredName], reach: str) -> None:
        """Make publication and slot on the source, and the subscription that copies the tables. Errors as `fetch`.

        `reach` is how the target's server connects to the source's database.
        """
        name = sql.Identifier(self.name)
        listed = sql.SQL(", ").join(sql.Identifier(one.schema, one.name) for one in tables)
        self.source.execute(sql.SQL("CREATE PUBLICATION {} FOR TABLE {}").format(name, listed))
        self.source.fetch("SELECT pg_catalog.pg_create_logical_replication_slot(%s, 'pgoutput')", [self.name])
        query = sql.SQL(
            "CREATE SUBSCRIPTION {} CONNECTION {} PUBLICATION {} WITH (create_slot = false, slot_name = {})"
        ).format(name, sql.Literal(reach), name, sql.Literal(self.name))
        execute_unlogged(self.target, query)

    def is_there(self) -> bool:
        """Tell whether the target has the subscription."""
        return bool(self.target.fetch(_SUBSCRIPTION, [self.name]))

    def retained(self) -> int | None:
        """Return how many bytes of WAL the slot keeps on the source; None where there is no slot."""
        rows = self.source.fetch(_RETAINED, [self.name])
        return None if not rows or rows[0]["bytes"] is None else int(str(rows[0]["bytes"]))

    def left(self) -> list[str]:
        """Return what there is of it, in words. Raises ConnectError where the source cannot be asked."""
        rows = self.source.fetch(_THERE, [self.name, self.name])
        told = [f"{row['what']} {self.name} on the source" for row in rows]
        with suppress(PgdynoError):  # its database may be gone, and it is of no harm
            told += [f"subscription {self.name} on the target"] if self.is_there() else []
        return told

    def take_away(self) -> None:
        """Take away all three, whatever is there of them. Raises ConnectError where a server cannot be asked."""
        number, unreachable = "", None
        try:
            number = self._drop_subscription()
        except ConnectError as error:  # what the source has must go all the same
            unreachable = error
        deadline = time.monotonic() + _PATIENCE_S
        while rows := self.source.fetch(_LEFT, [self.name, number, number]):
            for row in rows:
                if row["pid"] is not None:
                    self.source.fetch("SELECT pg_catalog.pg_terminate_backend(%s)", [row["pid"]])
                with suppress(PgdynoError):  # still in use: looked at again
                    self.source.fetch("SELECT pg_catalog.pg_drop_replication_slot(%s)", [row["name"]])
            if time.monotonic() > deadline:
                raise ConnectError(f'replication slot "{rows[0]["name"]}" of the source stays in use')
            time.sleep(0.1)
        self.source.execute(sql.SQL("DROP PUBLICATION IF EXISTS {}").format(sql.Identifier(self.name)))
        if unreachable is not None:
            raise unreachable

    def _drop_subscription(self) -> str:
        """Drop it without asking the source, and return its number, by which its further slots are called."""
        try:
            rows = self.target.fetch(_SUBSCRIPTION, [self.name])
        except ConnectError as error:
            if isinstance(error.__cause__, psycopg.OperationalError) and "does not exist" in (error.detail or ""):
                return ""  # no database, no subscription
            raise
        if not rows:
            return ""
        name = sql.Identifier(self.name)
        for words in ("ALTER SUBSCRIPTION {} DISABLE", "ALTER SUBSCRIPTION {} SET (slot_name = NONE)",
                      "DROP SUBSCRIPTION IF EXISTS {}"):  # fmt: skip
            self.target.execute(sql.SQL(words).format(name))
        return str(rows[0]["oid"])


class LinkGuard:
    """A process of its own that takes a link away when we are gone, SIGKILL included; `release` lets it end."""

    def __init__(self, link: ReplicationLink) -> None:
        environment = inherited(ProgramKind.OURSELVES)
        others = environment.get("PYTHONPATH")
        root = str(Path(pgdyno.__file__).parent.parent)
        for name in secret_variables():
            environment.pop(name, None)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "pgdyno.migration.movers.logical_guard"],
            env={
                **environment,
                "PYTHONPATH": os.pathsep.join([root, others] if others else [root]),
                "PYTHONSAFEPATH": "1",
            },
            cwd="/",
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        sides = {
            side: server.with_secrets(server.secrets()[0]).conninfo
            for side, server in (("source", link.source), ("target", link.target))
        }
        with suppress(BrokenPipeError):
            self._say({"name": link.name, **sides})
        assert self._process.stdout is not None, "it was started with a pipe"
        with self._process.stdout as said:
            if said.readline() != READY.encode():
                self._end()
                raise EnvironmentUnsuitable("the process that removes the replication does not start")

    @property
    def lives(self) -> bool:
        """Tell whether the process is there."""
        return self._process.poll() is None

    def release(self) -> None:
        """Let it end: nothing is left to take away."""
        with suppress(BrokenPipeError):  # it was killed
            self._say("done")
        self._end()

    def _end(self) -> None:
        assert self._process.stdin is not None, "it was started with a pipe"
        with suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.wait()

    def _say(self, what: object) -> None:
        assert self._process.stdin is not None, "it was started with a pipe"
        self._process.stdin.write(json.dumps(what).encode() + b"\n")
        self._process.stdin.flush()


def link_name(tag: str) -> str:
    """Return what publication, slot and subscription of a rehearsal are called, by the tag of its sessions."""
    return ("pgdyno_migrate_" + re.sub(r"[^a-z0-9]+", "_", tag.removeprefix("pgdyno migrate").lower()).strip("_"))[:60]


def undo_lines(name: str) -> tuple[str, str, str]:
    """Return the statements that take a link away by hand: one on the target, two on the source."""
    return (
        f"DROP SUBSCRIPTION {name} (target)",
        f"SELECT pg_drop_replication_slot('{name}') (source)",
        f"DROP PUBLICATION {name} (source)",
    )


def wait_for(ready: Callable[[], bool], halt: Callable[[], str], look_s: float = 0.1) -> bool:
    """Wait until it is; False where `halt` said so first."""
    while not ready():
        if halt():
            return False
        time.sleep(look_s)
    return True
