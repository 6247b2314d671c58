"""Ways in by TCP: whether one leads anywhere, and a sandbox's own on 127.0.0.1, by a password of our own.

A sandbox trusts its socket because nobody else may enter its folder. The loopback is open to every user of the host:
there, a password that is made for the occasion is asked for, by SCRAM.
"""

from __future__ import annotations

import secrets
import socket
from collections.abc import Callable
from pathlib import Path

from psycopg import pq, sql
from psycopg.conninfo import make_conninfo

from pgdyno.owner import durable
from pgdyno.owner.hands import hands_of
from pgdyno.sandbox import cluster
from pgdyno.server.postgres import Postgres

PASSFILE = "loopback.pgpass"
REACH_S = 3
_MARK = "# pgdyno: loopback for a load"
_LINE = f"host all {cluster.SUPERUSER} 127.0.0.1/32 scram-sha-256 {_MARK}\n"


def free_port() -> int:
    """Return a port of 127.0.0.1 that nobody listens on at this moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def obstacle_to(host: str, port: int) -> str | None:
    """Return why no session can be had at an address from here, None when a PostgreSQL answers there.

    Asks as pg_isready does: without a role, and without a password.
    """
    conninfo = make_conninfo("", host=host, port=port, connect_timeout=REACH_S)
    if pq.PGconn.ping(conninfo.encode()) == pq.Ping.OK:
        return None
    return f"no PostgreSQL answers on {host}, port {port}, from here"


def set_password(postgres: Postgres, port: int, passfile: Path) -> None:
    """Give the superuser a new password; it is in the passfile (mode 0600) alone, and the server gets its hash only."""
    password = secrets.token_urlsafe(32)
    with postgres.connect() as connection:
        hashed = connection.pgconn.encrypt_password(password.encode(), cluster.SUPERUSER.encode(), b"scram-sha-256")
        statement = sql.SQL("ALTER ROLE {} PASSWORD {}").format(
            sql.Identifier(cluster.SUPERUSER), sql.Literal(hashed.decode())
        )
        connection.execute(statement)
    passfile.unlink(missing_ok=True)
    durable.write_new(passfile, f"127.0.0.1:{port}:*:{cluster.SUPERUSER}:{password}\n".encode())


def admit(data: Path) -> None:
    """Put the line that lets the superuser in by password in front of pg_hba.conf; it counts from the next start."""
    _rewrite(data, lambda text: text if _LINE in text else _LINE + text)


def dismiss(data: Path) -> None:
    """Take that line out again."""
    _rewrite(data, lambda text: text.replace(_LINE, ""))


def _rewrite(data: Path, change: Callable[[str], str]) -> None:
    hands, hba = hands_of(data), data / "pg_hba.conf"
    before = hands.read(hba).decode()
    if (after := change(before)) != before:
        hands.replace(hba, after.encode())
