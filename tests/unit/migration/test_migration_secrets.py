"""Secrets of a migration: which statements hold one, and where their text must not end."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import psycopg
import pytest
from psycopg import sql

from pgdyno.errors import PgdynoError
from pgdyno.migration.mover import MigrationSide, MovePlace
from pgdyno.migration.movers.client_program import _Tail
from pgdyno.migration.movers.logical_link import ReplicationLink
from pgdyno.migration.movers.presence import StoredName
from pgdyno.migration.movers.target_database import make_roles
from pgdyno.server.postgres import Postgres

HASH = "SCRAM-SHA-256$4096:c2FsdA==$a2V5:a2V5"
ROLE: dict[str, object] = {
    "name": "clerk",
    "rolconnlimit": -1,
    "until": None,
    **dict.fromkeys(
        ("rolsuper", "rolinherit", "rolcreaterole", "rolcreatedb", "rolcanlogin", "rolreplication", "rolbypassrls")
    ),
}


@dataclass
class Server:
    """Takes down what each session runs, as one text after another."""

    answers: dict[str, list[dict[str, object]]] = field(default_factory=dict)
    refuses: str = "nothing"
    sessions: list[list[str]] = field(default_factory=list)
    label: str = "new"

    def execute(self, query: object, params: object = None) -> None:
        with self.connect() as session:
            session.execute(query, params)

    def fetch(self, query: object, params: object = None) -> list[dict[str, object]]:
        return next((rows for words, rows in self.answers.items() if words in str(query)), [])

    @contextmanager
    def connect(self) -> Iterator[Session]:
        self.sessions.append([])
        yield Session(self)


@dataclass
class Session:
    server: Server

    def execute(self, query: object, params: object = None) -> None:
        text = query.as_string(None) if isinstance(query, sql.Composable) else f"{query} {params}"
        if self.server.refuses in text:
            raise psycopg.errors.InsufficientPrivilege("refused")
        self.server.sessions[-1].append(text)


def quiet_before(server: Server, secret: str) -> set[str]:
    """Return what was set in the one session that ran a statement with the secret, before it."""
    (session,) = [one for one in server.sessions if any(secret in text for text in one)]
    assert secret in session[-1], "nothing comes after it"
    return {str(text).split("'")[1] for text in session[:-1] if "set_config" in text}


QUIET = {
    "log_statement",
    "log_min_error_statement",
    "log_min_duration_statement",
    "log_min_duration_sample",
    "log_transaction_sample_rate",
    "pg_stat_statements.track",
    "pgaudit.log",
    "session_replication_role",
}


def test_a_subscription_with_a_password_is_written_down_nowhere() -> None:
    source, target = Server(), Server()
    link = ReplicationLink("x", cast(Postgres, source), cast(Postgres, target))
    link.make([StoredName("public", "t", 1)], "host=old password=hunter2")
    assert quiet_before(target, "hunter2") == QUIET
    assert not any("hunter2" in text for session in source.sessions for text in session)


def test_a_subscription_that_is_refused_is_an_error_of_ours() -> None:
    target = Server(refuses="CREATE SUBSCRIPTION")
    with pytest.raises(PgdynoError):
        ReplicationLink("x", cast(Postgres, Server()), cast(Postgres, target)).make(
            [StoredName("public", "t", 1)], "host=old password=hunter2"
        )


def roles_made(target: Server, told: list[str]) -> None:
    source = Server({"pg_authid": [{"name": "clerk", "secret": HASH}], "pg_roles WHERE": [ROLE]})
    sides = [MigrationSide(Holder(one), "shop", 180_000) for one in (source, target)]  # type: ignore[arg-type]
    make_roles(cast(MovePlace, Place(*sides, told.append)))


@dataclass
class Holder:
    postgres: Server


@dataclass
class Place:
    source: MigrationSide
    target: MigrationSide
    tell: object


def test_the_hash_of_a_password_is_written_down_nowhere() -> None:
    target = Server()
    roles_made(target, [])
    assert quiet_before(target, HASH) == QUIET


def test_a_role_that_may_not_stop_the_log_makes_roles_without_their_passwords() -> None:
    target, told = Server(refuses="log_statement"), list[str]()
    roles_made(target, told)
    texts = [text for session in target.sessions for text in session]
    assert not any(HASH in text for text in texts)
    assert any(text.startswith('CREATE ROLE "clerk"') for text in texts)
    assert "without its password" in told[0]


def test_the_words_of_a_program_that_failed_are_kept_without_the_password_of_a_command(tmp_path: Path) -> None:
    log = tmp_path / "log.err"
    options = "user 'x', password 'geheim" + "x" * 500 + "'"
    log.write_text(f"pg_restore: error: could not execute: CREATE USER MAPPING FOR a SERVER b OPTIONS ({options})\n")
    tail = _Tail(log)
    tail.hand(lambda _: None)
    tail.close()
    assert tail.last.endswith("OPTIONS (user 'x', password ***)")
